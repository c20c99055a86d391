#include "model/transformer/adapter_start.hpp"

#include "clora/model/transformer/column_scales.hpp"
#include "clora/model/transformer/saved_tensors.hpp"

namespace clora {

void initialise_from_model(LanguageModel& model, Adapter& adapter,
                           std::optional<PrincipalStart> start) {
  initialise_magnitudes(model, adapter);
  initialise_saved_tensors(model, adapter);
  if (start) initialise_principal(model, adapter, *start);
}

}  // namespace clora

// ColumnScales: the factors g = m / |w + scale b a| of the layers of a weight-decomposed adapter
// (DoRA; ops/lora_linear/dora.hpp). They follow from the parameters alone, so they are computed
// once for all passes until the parameters change.
//
// Owns the factors and the norms of the frozen weights. Must not outlive the model or the adapter.
// Threads: one at a time.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "clora/lora/adapter.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

class ColumnScales {
 public:
  // Computes the norms of the weights, which reads each adapted weight once, and the factors; waits.
  // Does nothing if the adapter is null or has no magnitudes. Errors: unsupported if a module is of
  // experts; out_of_memory.
  ColumnScales(LanguageModel& model, const Adapter* adapter);

  // Enqueues the computation from the current parameters: a product of as many rows as the adapter
  // has ranks with each adapted weight.
  void update();
  // [N]; empty if the adapter has no magnitudes, or no module of that path.
  Tensor of(std::string_view path) const;

 private:
  void record(LanguageModel& model, const Adapter& adapter);

  std::map<std::string, Tensor, std::less<>> scales_;
  Batch batch_;
};

// Sets all magnitudes to the norms of the rows of w + scale b a, so that the adapter computes what
// it would without them. Waits. Does nothing without magnitudes. Errors: as above.
void initialise_magnitudes(LanguageModel& model, Adapter& adapter);

}  // namespace clora

// ColumnScales: the factors g = m / |w + scale b a| of the layers of a weight-decomposed adapter
// (DoRA; ops/lora_linear/dora.hpp). They follow from the parameters alone, so they are computed
// once for all passes until the parameters change.
//
// Owns the factors and the norms of the frozen weights. Must not outlive the model or the adapter.
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "clora/lora/adapter.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

class ColumnScales {
 public:
  // Computes the norms of the weights, which reads each adapted weight once, and the factors;
  // waits. Does nothing if the adapter is null or has no magnitudes. Errors: unsupported if a
  // module is of experts; out_of_memory. In a stage of a model that is split by layers, of the
  // modules of its blocks.
  ColumnScales(LanguageModel& model, const Adapter* adapter);

  // Enqueues the computation from the current parameters (record_column_scales()).
  void update();
  // [N]; empty if the adapter has no magnitudes, or no module of that path.
  Tensor of(std::string_view path) const;

 private:
  void place(const LanguageModel& model, const Adapter& adapter);
  void record(LanguageModel& model, const Adapter& adapter);

  // Of each module's columns in the two flat tensors [c].
  struct Columns {
    std::size_t at = 0;
    std::int64_t count = 0;
    Tensor of(const Tensor& flat) const;
  };
  std::map<std::string, Columns, std::less<>> columns_;
  std::size_t end_ = 0;
  Tensor squared_, scales_;
  Batch batch_;
};

// Sets all magnitudes to the norms of the rows of w + scale b a, so that the adapter computes what
// it would without them; in a stage of a model that is split by layers, those of other stages to 0,
// so that the magnitudes of all stages add up. Waits. Does nothing without magnitudes. Errors: as
// above.
void initialise_magnitudes(LanguageModel& model, Adapter& adapter);

}  // namespace clora

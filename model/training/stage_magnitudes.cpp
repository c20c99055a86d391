#include "model/training/stage_magnitudes.hpp"

namespace clora {

void exchange_magnitudes(Adapter& adapter, Communicator& ranks) {
  if (!adapter.config().use_dora) return;
  for (const AdapterModule& module : adapter.modules()) {
    const Tensor magnitude = adapter.magnitude(module.site.path);
    std::vector<float> values = adapter.context().read<float>(magnitude);
    ranks.sum(values);  // those of other stages are 0
    adapter.context().write(magnitude, std::as_bytes(std::span(values)));
  }
}

}  // namespace clora

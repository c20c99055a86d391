#include "model/training/frozen_ranks.hpp"

namespace clora {

void record_frozen_gradients(Batch& batch, const Adapter& adapter, std::int64_t ranks) {
  if (ranks == 0) return;
  for (const AdapterModule& module : adapter.modules()) {
    const LoraGradients gradients = adapter.gradients(module.site.path);
    for (const Tensor& rows : {gradients.da, gradients.dbt}) {
      const std::int64_t columns = rows.shape()[1];
      const std::size_t bytes = bytes_of(DType::f32, (module.rank - ranks) * columns);
      batch.fill_zero(rows.slice(bytes, {ranks, columns}, DType::f32));
    }
  }
}

}  // namespace clora

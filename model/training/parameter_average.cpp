#include "model/training/parameter_average.hpp"

#include "clora/ops/optimizers/average.hpp"
#include "runtime/fail.hpp"

namespace clora {

ParameterAverage::ParameterAverage(Batch& update, const Adapter& adapter, double decay)
    : context_(update.context()) {
  if (decay == 0) return;
  const Tensor& parameters = adapter.parameters();
  values_ = context_.upload<float>(parameters.shape(), DType::f32, context_.read<float>(parameters),
                                   MemoryTag::adapters);
  record_average(update, values_, parameters, decay);
}

std::vector<float> ParameterAverage::read() const {
  require(exists(), "trainer: there is no average; set `average_decay`");
  return context_.read<float>(values_);
}

void ParameterAverage::restore(const std::vector<float>& values) {
  const auto elements = exists() ? static_cast<std::size_t>(values_.elements()) : 0;
  require(values.size() == elements,
          "trainer: the state to restore must have an average of {} parameters, got {}; create the "
          "trainer with the same `average_decay`",
          elements, values.size());
  if (exists()) context_.write(values_, std::as_bytes(std::span(values)));
}

}  // namespace clora

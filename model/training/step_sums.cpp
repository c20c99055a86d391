#include "model/training/step_sums.hpp"

#include <algorithm>
#include <span>

#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr StepSums::Value kExchanged[] = {StepSums::loss, StepSums::balance_loss, StepSums::nll,
                                          StepSums::first_square};

}  // namespace

StepSums::StepSums(Context& context, bool preference)
    : step_(context.device().base_alignment_bytes / sizeof(float)), preference_(preference) {
  const std::size_t values = preference ? round_up(std::size_t{kPreferenceSums}, step_) : 0;
  buffer_ = context.allocate({static_cast<std::int64_t>(index_of(kValues) + values)}, DType::f32,
                             MemoryTag::adapters);
}

Tensor StepSums::at(std::size_t value, std::int64_t count) const {
  return buffer_.slice(sizeof(float) * index_of(value), {count}, DType::f32);
}

std::vector<Tensor> StepSums::exchanged() const {
  std::vector<Tensor> all;
  for (const Value value : kExchanged) all.push_back(of(value));
  if (preference_) all.push_back(of_preference());
  return all;
}

void StepSums::record_zero(Batch& batch) const {
  for (const Tensor& sum : exchanged()) batch.fill_zero(sum);
}

double StepSums::value_of(const Read& read, Value value) const {
  const auto* const found = std::ranges::find(kExchanged, value);
  if (read.over_ranks.empty() || found == std::end(kExchanged)) {
    return static_cast<double>(read.buffer[index_of(value)]);
  }
  return static_cast<double>(read.over_ranks[static_cast<std::size_t>(found - kExchanged)]);
}

PreferenceSums StepSums::preference_of(const Read& read) const {
  const std::span<const float> all =
      read.over_ranks.empty() ? std::span(read.buffer).subspan(index_of(kValues))
                              : std::span(read.over_ranks).subspan(std::size(kExchanged));
  return sums_of(all);
}

}  // namespace clora

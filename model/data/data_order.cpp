#include "clora/model/data/data_order.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "runtime/fail.hpp"

namespace clora {

DataOrder::DataOrder(std::size_t records, std::size_t batch_size, std::size_t accumulation,
                     bool shuffle, std::uint64_t seed)
    : records_(records),
      batch_size_(batch_size),
      accumulation_(accumulation),
      shuffle_(shuffle),
      seed_(seed) {
  require(records > 0 && batch_size > 0 && accumulation > 0,
          "data order: records, batch size and accumulation must be at least 1, got {}, {}, {}",
          records, batch_size, accumulation);
}

std::size_t DataOrder::steps_per_epoch() const noexcept {
  const std::size_t batches = (records_ + batch_size_ - 1) / batch_size_;
  return (batches + accumulation_ - 1) / accumulation_;
}

const std::vector<std::size_t>& DataOrder::epoch_order(std::size_t epoch) {
  if (epoch == epoch_) return order_;
  epoch_ = epoch;
  order_.resize(records_);
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  if (!shuffle_) return order_;
  // Fisher-Yates, using only the generator: std::shuffle differs between libraries.
  std::mt19937_64 generator(seed_ * 0x9e3779b97f4a7c15ULL + epoch + 1);
  for (std::size_t i = records_ - 1; i > 0; --i) {
    std::swap(order_[i], order_[generator() % (i + 1)]);
  }
  return order_;
}

std::vector<std::vector<std::size_t>> DataOrder::micro_batches(std::size_t step) {
  const std::vector<std::size_t>& order = epoch_order(step / steps_per_epoch());
  const std::size_t first = step % steps_per_epoch() * accumulation_ * batch_size_;
  std::vector<std::vector<std::size_t>> batches;
  for (std::size_t begin = first; begin < records_ && batches.size() < accumulation_;
       begin += batch_size_) {
    const std::size_t end = std::min(begin + batch_size_, records_);
    batches.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(begin),
                         order.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return batches;
}

}  // namespace clora

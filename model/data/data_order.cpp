#include "clora/model/data/data_order.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {

namespace {

constexpr double kMaxVisits = std::numeric_limits<std::uint32_t>::max();

// Visits of all records of a share in every epoch, and the number of records with one more.
std::size_t whole_visits(const DataShare& share) {
  return static_cast<std::size_t>(std::floor(share.weight));
}
std::size_t drawn_records(const DataShare& share) {
  const double fraction = share.weight - std::floor(share.weight);
  return static_cast<std::size_t>(std::llround(fraction * static_cast<double>(share.records)));
}

std::size_t visits_of(const std::vector<DataShare>& shares) {
  double visits = 0;
  for (const DataShare& share : shares) {
    require(std::isfinite(share.weight) && share.weight >= 0,
            "data order: the weight of a data set must be finite and not negative, got {}",
            share.weight);
    visits += std::floor(share.weight) * static_cast<double>(share.records) +
              static_cast<double>(drawn_records(share));
  }
  require(visits >= 1 && visits <= kMaxVisits,
          "data order: an epoch must visit from 1 to {} records, got {}", kMaxVisits, visits);
  return static_cast<std::size_t>(visits);
}

// Exchanges each of the first `count` elements with a random one that follows or is itself. Uses
// only the generator: std::shuffle differs between libraries.
template <class T>
void draw(std::vector<T>& elements, std::size_t count, std::mt19937_64& generator) {
  for (std::size_t i = 0; i < count; ++i) {
    std::swap(elements[i], elements[i + generator() % (elements.size() - i)]);
  }
}

}  // namespace

DataOrder::DataOrder(std::vector<DataShare> shares, std::size_t batch_size,
                     std::size_t accumulation, bool shuffle, std::uint64_t seed)
    : shares_(std::move(shares)),
      visits_(visits_of(shares_)),
      batch_size_(batch_size),
      accumulation_(accumulation),
      shuffle_(shuffle),
      seed_(seed) {
  require(batch_size > 0 && accumulation > 0,
          "data order: batch size and accumulation must be at least 1, got {}, {}", batch_size,
          accumulation);
}

std::size_t DataOrder::steps_per_epoch() const noexcept {
  return divide_up(divide_up(visits_, batch_size_), accumulation_);
}

bool DataOrder::repeats() const noexcept {
  return !shuffle_ && std::ranges::all_of(shares_, [](const DataShare& share) {
    return drawn_records(share) == 0;
  });
}

// Appends the drawn records of a share, which begins with record `first`, in the file's order.
void DataOrder::append_drawn(std::size_t first, const DataShare& share, std::uint64_t seed) {
  const std::size_t count = drawn_records(share);
  if (count == 0) return;
  Indices indices(share.records);
  std::iota(indices.begin(), indices.end(), static_cast<std::uint32_t>(first));
  std::mt19937_64 generator(seed + first);
  draw(indices, count, generator);
  indices.resize(count);
  std::ranges::sort(indices);
  order_.insert(order_.end(), indices.begin(), indices.end());
}

const DataOrder::Indices& DataOrder::epoch_order(std::size_t epoch) {
  if (epoch == epoch_) return order_;
  epoch_ = epoch;
  order_.clear();
  const std::uint64_t seed = seed_ * 0x9e3779b97f4a7c15ULL + epoch + 1;
  std::size_t first = 0;
  for (const DataShare& share : shares_) {
    for (std::size_t visit = 0; visit < whole_visits(share); ++visit) {
      for (std::size_t i = 0; i < share.records; ++i) {
        order_.push_back(static_cast<std::uint32_t>(first + i));
      }
    }
    append_drawn(first, share, seed ^ 0x5851f42d4c957f2dULL);
    first += share.records;
  }
  if (!shuffle_) return order_;
  std::mt19937_64 generator(seed);
  for (std::size_t i = order_.size() - 1; i > 0; --i) {  // Fisher-Yates
    std::swap(order_[i], order_[generator() % (i + 1)]);
  }
  return order_;
}

std::vector<std::vector<std::size_t>> DataOrder::micro_batches(std::size_t step) {
  const Indices& order = epoch_order(step / steps_per_epoch());
  const std::size_t first = step % steps_per_epoch() * accumulation_ * batch_size_;
  std::vector<std::vector<std::size_t>> batches;
  for (std::size_t begin = first; begin < visits_ && batches.size() < accumulation_;
       begin += batch_size_) {
    const std::size_t end = std::min(begin + batch_size_, visits_);
    batches.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(begin),
                         order.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return batches;
}

}  // namespace clora

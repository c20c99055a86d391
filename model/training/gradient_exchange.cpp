#include "model/training/gradient_exchange.hpp"

#include <algorithm>
#include <utility>

#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// The padding after a block's gradients, which are aligned for every device, goes with them.
constexpr std::size_t kPadding = 256;

template <class Range>
std::size_t elements_of(const std::vector<Range>& ranges) {
  std::size_t sum = 0;
  for (const Range& range : ranges) sum += range.end - range.begin;
  return sum;
}

bool are_disjoint(std::vector<GradientPart> parts) {
  std::ranges::sort(parts, {}, [](const GradientPart& part) { return part.range.begin; });
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].range.begin < round_up(parts[i - 1].range.end, kPadding)) return false;
  }
  return true;
}

}  // namespace

GradientExchange::GradientExchange(Context& context, Communicator& ranks, Tensor gradients,
                                   std::vector<Tensor> sums, std::size_t least_elements)
    : context_(context),
      ranks_(ranks),
      gradients_(std::move(gradients)),
      sums_(std::move(sums)),
      least_elements_(least_elements),
      queue_(context) {
  for (const Tensor& sum : sums_) sum_elements_ += static_cast<std::size_t>(sum.elements());
}

void GradientExchange::add_piece(std::vector<Range> ranges, std::size_t part) {
  const std::size_t place = pieces_.empty() ? 0 : pieces_.back().place + pieces_.back().elements;
  const std::size_t elements = elements_of(ranges);
  pieces_.push_back({std::move(ranges), part, place, elements});
}

// Adds `ranges` and all that is not in `taken`.
void GradientExchange::add_last_piece(std::vector<Range> ranges, std::vector<Range> taken) {
  std::ranges::sort(taken, {}, &Range::begin);
  std::size_t end = 0;
  for (const Range& range : taken) {
    if (range.begin > end) ranges.push_back({end, range.begin});
    end = range.end;
  }
  const auto all = static_cast<std::size_t>(gradients_.elements());
  if (end < all) ranges.push_back({end, all});
  add_piece(std::move(ranges), kAtTheEnd);
  pieces_.back().elements += sum_elements_;
}

void GradientExchange::set_parts(std::vector<GradientPart> parts) {
  if (!are_disjoint(parts)) parts.clear();  // all are exchanged at the end
  const auto all = static_cast<std::size_t>(gradients_.elements());
  std::vector<Range> taken, waiting;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const GradientRange& range = parts[part].range;
    waiting.push_back({range.begin, std::min(all, round_up(range.end, kPadding))});
    taken.push_back(waiting.back());
    const bool is_last = part + 1 == parts.size();  // it is final at the end
    if (!is_last && elements_of(waiting) >= least_elements_) {
      add_piece(std::exchange(waiting, {}), part);
    }
  }
  add_last_piece(std::move(waiting), std::move(taken));
  memory_.emplace(context_, (pieces_.back().place + pieces_.back().elements) * sizeof(float));
}

void GradientExchange::begin(const RecordedStep* last, Fence end) {
  require(has_parts() && !pending_, "gradient exchange: the one before is not finished");
  part_fences_.clear();
  if (last != nullptr) {
    for (const GradientPart& part : last->gradient_parts()) {
      part_fences_.push_back(part.mark ? last->batch().fence_at(*part.mark) : Fence());
      if (!part.mark) break;  // the later ones are final at the end, too
    }
    if (!part_fences_.empty() && part_fences_.back().event() == nullptr) part_fences_.pop_back();
  }
  end_ = std::move(end);
  pending_ = true;
}

void GradientExchange::wait_for(const Piece& piece) const {
  if (piece.part < part_fences_.size()) {
    part_fences_[piece.part].wait();
  } else {
    end_.wait();
  }
}

Tensor GradientExchange::slice(const Range& range) const {
  return gradients_.slice(bytes_of(DType::f32, range.begin),
                          {static_cast<std::int64_t>(range.end - range.begin)}, DType::f32);
}

std::span<float> GradientExchange::host(std::size_t place, std::size_t elements) const {
  float* const all = reinterpret_cast<float*>(memory_->bytes().data());
  return {all + place, elements};
}

void GradientExchange::read(const Piece& piece) {
  std::vector<Fence> fences;
  std::size_t place = piece.place;
  const auto read_next = [&](const Tensor& tensor) {
    const auto to = host(place, static_cast<std::size_t>(tensor.elements()));
    fences.push_back(queue_.read(tensor, std::as_writable_bytes(to)));
    place += to.size();
  };
  for (const Range& range : piece.ranges) read_next(slice(range));
  if (piece.part == kAtTheEnd) {
    for (const Tensor& sum : sums_) read_next(sum);
  }
  for (const Fence& fence : fences) fence.wait();
}

void GradientExchange::write(const Piece& piece, std::vector<Fence>& fences) {
  std::size_t place = piece.place;
  for (const Range& range : piece.ranges) {
    const auto from = host(place, range.end - range.begin);
    fences.push_back(queue_.write(slice(range), std::as_bytes(from)));
    place += from.size();
  }
}

std::vector<float> GradientExchange::finish() {
  const TraceSpan span(context_.trace(), "exchange gradients");
  pending_ = false;
  std::vector<Fence> writes;
  for (const Piece& piece : pieces_) {
    wait_for(piece);
    read(piece);
    ranks_.sum(host(piece.place, piece.elements));
    write(piece, writes);
  }
  for (const Fence& fence : writes) fence.wait();
  const Piece& last = pieces_.back();
  const auto sums = host(last.place + last.elements - sum_elements_, sum_elements_);
  return {sums.begin(), sums.end()};
}

}  // namespace clora

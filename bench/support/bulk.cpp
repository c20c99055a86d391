#include "bench/support/bulk.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "runtime/memory/half.hpp"

namespace clora::bench {
namespace {

constexpr std::size_t kPeriod = 1048573;  // a prime

}  // namespace

bool wants_large() {
  if (std::getenv("CLORA_BENCH_LARGE") != nullptr) return true;
  const Device device = select_device(config_for(Arithmetic::bf16).device);
  return device.kind == DeviceKind::gpu && device.matrix_unit != MatrixUnit::none;
}

Bulk::Bulk(const Shape& shape, DType type, std::uint32_t seed, float scale)
    : shape_(shape), type_(type) {
  const auto count = std::min(kPeriod, static_cast<std::size_t>(shape.elements()));
  for (const float value : random_values(count, seed)) {
    period_.push_back(float_to_bf16(value * scale));
  }
}

double Bulk::at(std::size_t element) const {
  return static_cast<double>(bf16_to_float(period_[element % period_.size()]));
}

std::vector<double> Bulk::part(std::size_t first, std::size_t count) const {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = at(first + i);
  return values;
}

std::vector<double> Bulk::row(std::int64_t r) const {
  return part(static_cast<std::size_t>(r * shape_.last()), static_cast<std::size_t>(shape_.last()));
}

std::vector<std::uint8_t> Bulk::bytes() const {
  const std::size_t size = facts_of(type_).block_bytes;
  std::vector<std::uint8_t> period(period_.size() * size);
  for (std::size_t i = 0; i < period_.size(); ++i) {
    const std::uint32_t stored =
        type_ == DType::bf16 ? period_[i] : std::uint32_t{period_[i]} << 16;
    std::memcpy(&period[i * size], &stored, size);
  }
  std::vector<std::uint8_t> all(static_cast<std::size_t>(shape_.elements()) * size);
  for (std::size_t at = 0; at < all.size(); at += period.size()) {
    std::memcpy(&all[at], period.data(), std::min(period.size(), all.size() - at));
  }
  return all;
}

Tensor Bulk::upload(BufferSet& set) const {
  const std::vector<std::uint8_t> values = bytes();
  return set.keep(
      set.batch().context().upload<std::uint8_t>(shape_, type_, values, MemoryTag::scratch));
}

Tensor Bulk::upload_weights(BufferSet& set) const {
  Context& context = set.batch().context();
  const test::WeightMatrix matrix{type_, shape_[0], shape_[1], bytes(), {}};
  return set.keep(matrix.upload(context, preferred_form(context, shape_, type_)));
}

Tensor bulk_output(BufferSet& set, const Shape& shape, DType type) {
  Context& context = set.batch().context();
  const Tensor tensor = context.allocate(shape, type, MemoryTag::scratch);
  const std::vector<std::byte> nans(tensor.bytes(), std::byte{0xff});  // a NaN in both types
  context.write(tensor, nans);
  return set.keep(tensor);
}

std::vector<float> last_of(Context& context, const Tensor& tensor, std::size_t count) {
  std::vector<float> values;
  if (tensor.type() == DType::f32) {
    const auto all = context.read<float>(tensor);
    values.assign(all.end() - static_cast<std::ptrdiff_t>(count), all.end());
    return values;
  }
  const auto all = context.read<std::uint16_t>(tensor);
  for (std::size_t i = all.size() - count; i < all.size(); ++i) {
    values.push_back(bf16_to_float(all[i]));
  }
  return values;
}

void expect_last(BufferSet& set, const Tensor& result, std::function<std::vector<double>()> want) {
  set.expect_error([&context = set.batch().context(), result, want = std::move(want)] {
    const std::vector<double> wanted = want();
    return largest_error(last_of(context, result, wanted.size()), wanted);
  });
}

}  // namespace clora::bench

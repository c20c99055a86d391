#include "tests/support/op_test.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "runtime/memory/half.hpp"

namespace clora::test {
namespace {

// A NaN that no computation produces, as bf16 and, repeated, as f32.
constexpr std::uint16_t kCanary = 0x7fa5;

template <class Got>
void expect_all_close(std::span<const Got> got, std::span<const double> want, double tolerance,
                      const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double scale = 0;
  for (const double w : want) scale = std::max(scale, std::abs(w));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - want[i]);
    ASSERT_LE(error, tolerance * (std::abs(want[i]) + scale))
        << what << " at " << i << ": got " << got[i] << ", want " << want[i];
  }
}

std::map<Variant, std::unique_ptr<Context>>& contexts() {
  static std::map<Variant, std::unique_ptr<Context>> all;
  return all;
}

// Releases the Contexts while the driver is intact: some drivers tear down their state before
// static objects are destroyed.
class ReleasesContexts : public testing::Environment {
 public:
  void TearDown() override { contexts().clear(); }
};
[[maybe_unused]] const testing::Environment* const kReleasesContexts =
    testing::AddGlobalTestEnvironment(new ReleasesContexts);

// The vectors that CLORA_TEST_VECTORS names as FLOATSxREGISTERS, in place of the processor's:
// compilers split vectors that are too wide for it, so every CPU runs the kernels of another's
// registers.
void take_test_vectors(Context& context) {
  const char* const text = std::getenv("CLORA_TEST_VECTORS");
  if (text == nullptr) return;
  CpuVectors vectors;
  if (std::sscanf(text, "%ux%u", &vectors.floats, &vectors.registers) != 2) {
    throw std::runtime_error("CLORA_TEST_VECTORS must be FLOATSxREGISTERS, such as 4x32");
  }
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): the Context itself is not constant.
  const_cast<Device&>(context.device()).vectors = vectors;
}

}  // namespace

Context& context_of(Variant variant) {
  auto& context = contexts()[variant];
  if (context == nullptr) {
    ContextConfig config = config_from_environment();
    config.variant = variant;
    config.self_test = false;  // a broken kernel must fail the test, not be replaced
    context = std::make_unique<Context>(config);
    take_test_vectors(*context);
  }
  return *context;
}

bool is_for_this_device(Variant variant) {
  static const Device device = select_device(config_from_environment().device);
  if (is_for_cpus(variant) && device.kind != DeviceKind::cpu) return false;
  return can_take(variant, device);
}

testing::internal::ParamGenerator<Variant> all_variants() {
  std::vector<Variant> variants{Variant::portable};
  for (const Variant variant : {Variant::cpu, Variant::cpu_int8, Variant::avx512_bf16, Variant::amx,
                                Variant::mma, Variant::wgmma, Variant::matrix}) {
    if (is_for_this_device(variant)) variants.push_back(variant);
  }
  return testing::ValuesIn(variants);
}

std::string variant_name(const testing::TestParamInfo<Variant>& info) {
  return std::string(name_of(info.param));
}

bool affords(double work) {
  constexpr double kSmall = 25'000;  // some seconds on a simulator
  static const char* const sizes = std::getenv("CLORA_TEST_SIZES");
  return work <= kSmall || sizes == nullptr || std::string_view(sizes) != "small";
}

std::vector<float> random_values(std::size_t count, std::uint32_t seed, float scale) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = scale * (static_cast<float>(generator() >> 8U) * 0x1p-23F - 1.0F);
  }
  return values;
}

std::vector<double> to_double(std::span<const float> values) {
  return {values.begin(), values.end()};
}

Tensor upload(Context& context, Shape shape, std::span<const float> values) {
  return context.upload(shape, DType::f32, values, MemoryTag::scratch);
}

Tensor upload(Context& context, Shape shape, std::span<const std::int32_t> values) {
  return context.upload(shape, DType::i32, values, MemoryTag::scratch);
}

Tensor upload_bf16(Context& context, Shape shape, std::span<const float> values) {
  std::vector<std::uint16_t> rounded;
  for (const double value : rounded_to_bf16(to_double(values))) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    rounded.push_back(static_cast<std::uint16_t>(bits >> 16U));
  }
  return context.upload<std::uint16_t>(shape, DType::bf16, rounded, MemoryTag::scratch);
}

namespace {

constexpr std::size_t kQ8Block = 32;

// A block of q8_0 in memory.
struct Q8Block {
  std::uint16_t scale;
  std::array<std::int8_t, kQ8Block> codes;
};
static_assert(sizeof(Q8Block) == 34);

Q8Block q8_block_of(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  Q8Block block{.scale = float_to_f16(largest / 127), .codes = {}};
  const float d = f16_to_float(block.scale);
  for (std::size_t i = 0; d > 0 && i < kQ8Block; ++i) {
    block.codes[i] =
        static_cast<std::int8_t>(std::clamp(std::nearbyint(values[i] / d), -127.0F, 127.0F));
  }
  return block;
}

Tensor upload_q8_0(Context& context, Shape shape, std::span<const float> values) {
  std::vector<Q8Block> blocks;
  for (std::size_t at = 0; at < values.size(); at += kQ8Block) {
    blocks.push_back(q8_block_of(values.subspan(at, kQ8Block)));
  }
  const Tensor tensor = context.allocate(shape, DType::q8_0, MemoryTag::scratch);
  context.write(tensor, std::as_bytes(std::span(blocks)));
  return tensor;
}

}  // namespace

std::vector<float> stored_as(DType type, std::span<const float> values) {
  if (type == DType::f32) return {values.begin(), values.end()};
  if (type == DType::bf16) {
    const std::vector<double> rounded = rounded_to_bf16(to_double(values));
    return {rounded.begin(), rounded.end()};
  }
  std::vector<float> stored;
  if (type == DType::q8_0) {
    for (std::size_t at = 0; at < values.size(); at += kQ8Block) {
      const Q8Block block = q8_block_of(values.subspan(at, kQ8Block));
      for (const std::int8_t code : block.codes) {
        stored.push_back(f16_to_float(block.scale) * static_cast<float>(code));
      }
    }
    return stored;
  }
  for (const float value : values) stored.push_back(f16_to_float(float_to_f16(value)));
  return stored;
}

Tensor upload_as(Context& context, DType type, Shape shape, std::vector<float>& values) {
  const std::vector<float> given = std::exchange(values, stored_as(type, values));
  if (type == DType::q8_0) return upload_q8_0(context, shape, given);
  if (type == DType::f32) return upload(context, shape, values);
  if (type == DType::bf16) return upload_bf16(context, shape, values);
  std::vector<std::uint16_t> halves;
  for (const float value : values) halves.push_back(float_to_f16(value));
  return context.upload<std::uint16_t>(shape, type, halves, MemoryTag::scratch);
}

double rounding_of(DType type) {
  if (type == DType::q8_0) return 0.5 / 127;
  return type == DType::bf16 ? 0x1p-9 : type == DType::f16 ? 0x1p-12 : 0;
}

Output::Output(Context& context, Shape shape, DType type) : context_(&context) {
  const std::size_t border = context.device().base_alignment_bytes;
  const std::size_t bytes = bytes_of(type, static_cast<std::size_t>(shape.elements()));
  const std::size_t words = 2 * border + (bytes + 3) / 4;
  const std::vector<std::uint32_t> fill(words, kCanary << 16U | kCanary);
  all_ = context.upload<std::uint32_t>({std::ssize(fill)}, DType::u32, fill, MemoryTag::scratch);
  tensor_ = all_.slice(4 * border, shape, type);
}

std::vector<float> Output::values() const {
  const std::vector<std::uint32_t> words = context_->read<std::uint32_t>(all_);
  std::vector<std::uint16_t> halves(2 * words.size());
  std::memcpy(halves.data(), words.data(), 2 * halves.size());
  const std::span all(halves);
  const std::size_t border = 2 * context_->device().base_alignment_bytes;
  const auto intact = [](std::uint16_t half) { return half == kCanary; };
  EXPECT_TRUE(std::ranges::all_of(all.first(border), intact)) << "written before the output";
  EXPECT_TRUE(std::ranges::all_of(all.subspan(border + tensor_.bytes() / 2), intact))
      << "written after the output";
  const auto count = static_cast<std::size_t>(tensor_.elements());
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (tensor_.type() == DType::f16) {
      values[i] = f16_to_float(all[border + i]);
      continue;
    }
    const bool wide = tensor_.type() == DType::f32;
    const std::size_t at = border + (wide ? 2 * i : i);
    const std::uint32_t low = wide ? all[at] : 0U;
    values[i] = std::bit_cast<float>(low | std::uint32_t{all[wide ? at + 1 : at]} << 16U);
  }
  return values;
}

double tolerance_of(std::size_t terms) {
  constexpr double kUnitRoundoff = 0x1p-24;
  return 8 * kUnitRoundoff * std::sqrt(static_cast<double>(terms) + 1);
}

double product_tolerance_of(Variant variant, std::size_t terms) {
  constexpr double kBf16 = 2e-2;  // a few ulp of bf16, 2^-8
  return has_matrix_unit(variant) ? kBf16 : tolerance_of(terms);
}

std::vector<double> rounded_to_bf16(std::vector<double> values) {
  for (double& value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    const std::uint32_t even = (bits >> 16U) & 1U;
    value = std::bit_cast<float>((bits + 0x7fffU + even) & 0xffff0000U);
  }
  return values;
}

void expect_close(std::span<const float> got, std::span<const double> want, double tolerance,
                  const std::string& what) {
  expect_all_close(got, want, tolerance, what);
}

void expect_close(std::span<const double> got, std::span<const double> want, double tolerance,
                  const std::string& what) {
  expect_all_close(got, want, tolerance, what);
}

}  // namespace clora::test

// The block formats are those of dequantise.cpp. Sources of the rounding: quantize_row_*_ref of
// ggml-quants.c, and quants.py of the package gguf, which agree.
#include "model/files/quantise.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>

#include "model/files/quantise_k.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"
#include "runtime/memory/half.hpp"

namespace clora {
namespace {

using Byte = std::uint8_t;

constexpr std::size_t kBlock = 32;
constexpr std::size_t kMinBlocksOfThread = 4096;
constexpr std::uint16_t kF16Infinity = 0x7c00;

void put_16(Byte* out, std::uint16_t bits) { std::memcpy(out, &bits, sizeof bits); }

// False if the value becomes infinite.
bool put_f16(Byte* out, float value) {
  const std::uint16_t bits = float_to_f16(value);
  put_16(out, bits);
  return (bits & 0x7fffU) < kF16Infinity;
}

bool encode_f32(const float* x, Byte* block) {
  std::memcpy(block, x, sizeof *x);
  return true;
}

bool encode_f16(const float* x, Byte* block) { return put_f16(block, *x); }

bool encode_bf16(const float* x, Byte* block) {
  put_16(block, float_to_bf16(*x));
  return true;
}

// The first of the values with the largest magnitude.
float extreme_of(const float* x) {
  float extreme = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    if (std::abs(x[i]) > std::abs(extreme)) extreme = x[i];
  }
  return extreme;
}

// 0 for a scale that f16 rounds to zero and whose inverse is infinite.
float inverse_of(float d) {
  const float inverse = d == 0 ? 0.0F : 1 / d;
  return std::isfinite(inverse) ? inverse : 0.0F;
}

bool encode_q8_0(const float* x, Byte* block) {
  const float d = std::abs(extreme_of(x)) / 127;
  const float inverse = inverse_of(d);
  for (std::size_t i = 0; i < kBlock; ++i) {
    block[2 + i] = static_cast<Byte>(static_cast<std::int8_t>(std::round(x[i] * inverse)));
  }
  return put_f16(block, d);
}

// The product is rounded before the sum, as in the package gguf. (The compiler may not fuse them:
// the product is exact in double, and its conversion rounds it.)
int level_of(float x, float inverse, float offset, int largest) {
  const auto product = static_cast<float>(static_cast<double>(x) * static_cast<double>(inverse));
  const float level = product + offset;
  return level < static_cast<float>(largest) ? static_cast<int>(level) : largest;
}

// The low nibbles of 16 bytes hold the first half of the block.
void put_nibbles(const int* q, Byte* qs) {
  for (std::size_t i = 0; i < kBlock / 2; ++i) {
    qs[i] = static_cast<Byte>((q[i] & 0xf) | ((q[i + kBlock / 2] & 0xf) << 4));
  }
}

void put_fifth_bits(const int* q, Byte* qh) {
  std::fill_n(qh, kBlock / 8, Byte{0});
  for (std::size_t i = 0; i < kBlock; ++i) {
    qh[i / 8] = static_cast<Byte>(qh[i / 8] | (((q[i] >> 4) & 1) << (i % 8)));
  }
}

// x = d (q - center), where the value of the largest magnitude has q = 0.
template <int kCenter>
bool encode_centered(const float* x, Byte* block) {
  constexpr bool has_fifth_bits = kCenter == 16;
  const float d = extreme_of(x) / static_cast<float>(-kCenter);
  const float inverse = inverse_of(d);
  int q[kBlock];
  for (std::size_t i = 0; i < kBlock; ++i) {
    q[i] = level_of(x[i], inverse, kCenter + 0.5F, 2 * kCenter - 1);
  }
  if (has_fifth_bits) put_fifth_bits(q, block + 2);
  put_nibbles(q, block + (has_fifth_bits ? 6 : 2));
  return put_f16(block, d);
}

// x = d q + m, where m is the least value.
template <int kLargest>
bool encode_with_minimum(const float* x, Byte* block) {
  constexpr bool has_fifth_bits = kLargest == 31;
  const auto [low, high] = std::minmax_element(x, x + kBlock);
  const float d = (*high - *low) / static_cast<float>(kLargest);
  const float inverse = inverse_of(d);
  int q[kBlock];
  for (std::size_t i = 0; i < kBlock; ++i) {
    q[i] = level_of(x[i] - *low, inverse, 0.5F, kLargest);
  }
  if (has_fifth_bits) put_fifth_bits(q, block + 4);
  put_nibbles(q, block + (has_fifth_bits ? 8 : 4));
  const bool fits = put_f16(block, d);
  return put_f16(block + 2, *low) && fits;
}

// Returns false if a value does not fit.
using EncodeBlock = bool (*)(const float* x, Byte* block);

struct Encoder {
  DType type;
  EncodeBlock encode;
};

constexpr Encoder kEncoders[] = {
    {DType::f32, encode_f32},           {DType::f16, encode_f16},
    {DType::bf16, encode_bf16},         {DType::q8_0, encode_q8_0},
    {DType::q4_0, encode_centered<8>},  {DType::q4_1, encode_with_minimum<15>},
    {DType::q5_0, encode_centered<16>}, {DType::q5_1, encode_with_minimum<31>},
    {DType::q4_k, encode_q4_k},         {DType::q5_k, encode_q5_k},
    {DType::q6_k, encode_q6_k},
};

const Encoder* find_encoder(DType type) {
  const auto* at = std::ranges::find(kEncoders, type, &Encoder::type);
  return at == std::end(kEncoders) ? nullptr : at;
}

void require_finite(DType type, std::span<const float> values) {
  if (type == DType::f32 || type == DType::bf16) return;
  const auto bad = std::ranges::find_if_not(values, [](float x) { return std::isfinite(x); });
  if (bad == values.end()) return;
  fail(ErrorCode::invalid_data, "quantise: values of {} must be finite, got {} at element {}",
       name_of(type), *bad, bad - values.begin());
}

// Encodes the blocks [first, last). `bad` becomes the least index of a block that does not fit.
class Encoding {
 public:
  Encoding(const Encoder& encoder, std::span<const float> values, std::span<std::byte> out)
      : encode_(encoder.encode), facts_(facts_of(encoder.type)), values_(values), out_(out) {}

  std::size_t blocks() const { return values_.size() / facts_.block_elements; }
  std::size_t bad() const { return bad_; }

  void run(std::size_t first, std::size_t last) {
    auto* out = reinterpret_cast<Byte*>(out_.data());
    for (std::size_t i = first; i < last; ++i) {
      const bool fits =
          encode_(values_.data() + i * facts_.block_elements, out + i * facts_.block_bytes);
      if (!fits) note(i);
    }
  }

 private:
  void note(std::size_t block) {
    std::size_t seen = bad_;
    while (block < seen && !bad_.compare_exchange_weak(seen, block)) {
    }
  }

  EncodeBlock encode_;
  const DTypeFacts& facts_;
  std::span<const float> values_;
  std::span<std::byte> out_;
  std::atomic<std::size_t> bad_ = SIZE_MAX;
};

void run_on_threads(Encoding& encoding, unsigned threads) {
  const std::size_t wanted =
      threads > 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
  const std::size_t blocks = encoding.blocks();
  const std::size_t useful = std::max<std::size_t>(1, blocks / kMinBlocksOfThread);
  const std::size_t count = threads > 0 ? wanted : std::min(wanted, useful);
  const std::size_t share = (blocks + count - 1) / count;
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < count; ++i) {
    const std::size_t first = std::min(blocks, i * share), last = std::min(blocks, first + share);
    others.emplace_back([&encoding, first, last] { encoding.run(first, last); });
  }
  encoding.run(0, std::min(blocks, share));
}

}  // namespace

bool can_quantise(DType type) { return find_encoder(type) != nullptr; }

std::optional<DType> find_quantisable(std::string_view name) {
  const auto* const at = std::ranges::find(
      kEncoders, name, [](const Encoder& encoder) { return name_of(encoder.type); });
  return at == std::end(kEncoders) ? std::nullopt : std::optional(at->type);
}

std::string_view quantisable_types() {
  return "f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, q6_k, q5_k, q4_k";
}

std::vector<std::byte> quantise(DType type, std::span<const float> values, unsigned threads) {
  const Encoder* encoder = find_encoder(type);
  if (encoder == nullptr)
    fail(ErrorCode::unsupported, "quantise: weights cannot be written as {}; supported types: {}",
         name_of(type), quantisable_types());
  const std::size_t block = facts_of(type).block_elements;
  require(values.size() % block == 0, "quantise: {} needs a multiple of {} values, got {}",
          name_of(type), block, values.size());
  require_finite(type, values);
  std::vector<std::byte> bytes(bytes_of(type, values.size()));
  Encoding encoding(*encoder, values, bytes);
  run_on_threads(encoding, threads);
  if (encoding.bad() == SIZE_MAX) return bytes;
  const auto bad = values.subspan(encoding.bad() * block, block);
  const auto at = std::ranges::max_element(bad, {}, [](float x) { return std::abs(x); });
  fail(ErrorCode::invalid_data,
       "quantise: {} at element {} is too large for {}; choose bf16 or f32", *at,
       encoding.bad() * block + static_cast<std::size_t>(at - bad.begin()), name_of(type));
}

}  // namespace clora

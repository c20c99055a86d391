// The layers of GPTQ and AWQ: codes in 32-bit words with a scale and a zero point for each group of
// inputs.
#include <algorithm>
#include <array>
#include <bit>

#include "model/weights/stored_layer.hpp"
#include "runtime/fail.hpp"
#include "runtime/memory/half.hpp"

namespace clora {
namespace {

constexpr std::size_t kBlock = 32;
using Codes = std::array<std::uint32_t, kBlock>;
// The nibble of a word that is output i of eight, for AWQ.
constexpr std::array<std::uint32_t, 8> kAwqNibbles{0, 4, 1, 5, 2, 6, 3, 7};
// Rows that are arranged together: their codes are in neighbouring words.
constexpr std::size_t kTileRows = 64;

std::size_t size_of(std::int64_t n) { return static_cast<std::size_t>(n); }

struct PackedIntegers {
  WeightView codes, zeros, scales;
  bool is_awq = false;
  std::uint32_t bits = 4;
  std::uint32_t zero_offset = 0;
  std::size_t inputs = 0, outputs = 0;
  std::vector<std::size_t> groups;  // of each input

  std::uint32_t per_word() const { return 32 / bits; }

  // The value of output n of a row of packed outputs.
  std::uint32_t output_of(const WeightView& tensor, std::size_t row, std::size_t n) const {
    const std::size_t place = n % per_word();
    const std::size_t words = outputs / per_word();
    const auto word = element_of<std::uint32_t>(tensor, row * words + n / per_word());
    return word >> (bits * (is_awq ? kAwqNibbles[place] : place)) & ((1U << bits) - 1);
  }

  // Those of inputs 32 block to 32 block + 31.
  Codes codes_of(std::size_t n, std::size_t block) const {
    Codes all;
    if (is_awq) {
      for (std::size_t i = 0; i < kBlock; ++i) all[i] = output_of(codes, kBlock * block + i, n);
      return all;
    }
    for (std::size_t i = 0; i < kBlock; i += per_word()) {
      const std::size_t row = (kBlock * block + i) / per_word();
      auto word = element_of<std::uint32_t>(codes, row * outputs + n);
      for (std::size_t j = i; j < i + per_word(); ++j, word >>= bits)
        all[j] = word & ((1U << bits) - 1);
    }
    return all;
  }

  std::uint32_t zero_of(std::size_t n, std::size_t group) const {
    return output_of(zeros, group, n) + zero_offset;
  }
  std::uint16_t scale_of(std::size_t n, std::size_t group) const {
    return element_of<std::uint16_t>(scales, group * outputs + n);
  }

  // Whether each block of 32 inputs has one scale and zero point.
  bool has_blocks_of_one_group() const {
    for (std::size_t k = 0; k < inputs; ++k)
      if (groups[k] != groups[k / kBlock * kBlock]) return false;
    return true;
  }
  DType type() const {
    if (!has_blocks_of_one_group()) return DType::f32;
    return bits == 4 ? DType::q4_z : DType::q8_z;
  }
};

// A block of q4_z or q8_z.
void write_block(std::byte* out, const PackedIntegers& t, std::size_t n, std::size_t block) {
  const Codes codes = t.codes_of(n, block);
  const std::size_t group = t.groups[kBlock * block];
  const std::array<std::uint16_t, 2> head{t.scale_of(n, group),
                                          static_cast<std::uint16_t>(t.zero_of(n, group))};
  std::memcpy(out, head.data(), sizeof head);
  std::byte* bytes = out + sizeof head;
  if (t.bits == 8) {
    std::ranges::transform(codes, bytes, [](std::uint32_t q) { return std::byte(q); });
    return;
  }
  for (std::size_t i = 0; i < kBlock / 2; ++i)
    bytes[i] = std::byte(codes[i] | codes[i + kBlock / 2] << 4U);
}

// 32 values in f32; the product of an f16 and such an integer is exact.
void write_values(std::byte* out, const PackedIntegers& t, std::size_t n, std::size_t block) {
  const Codes codes = t.codes_of(n, block);
  std::array<float, kBlock> values;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const std::size_t group = t.groups[kBlock * block + i];
    const int code = static_cast<int>(codes[i]) - static_cast<int>(t.zero_of(n, group));
    values[i] = f16_to_float(t.scale_of(n, group)) * static_cast<float>(code);
  }
  std::memcpy(out, values.data(), sizeof values);
}

void copy_rows(std::span<std::byte> out, const PackedIntegers& t, DType type, std::size_t first) {
  const std::size_t row_bytes = bytes_of(type, t.inputs);
  const std::size_t block_bytes = bytes_of(type, kBlock);
  const std::size_t rows = out.size() / row_bytes;
  const auto write = type == DType::f32 ? write_values : write_block;
  for (std::size_t tile = 0; tile < rows; tile += kTileRows) {
    const std::size_t end = std::min(rows, tile + kTileRows);
    for (std::size_t block = 0; block < t.inputs / kBlock; ++block)
      for (std::size_t row = tile; row < end; ++row)
        write(&out[row * row_bytes + block * block_bytes], t, first + row, block);
  }
}

// The group of each input: that of the file, or its number.
std::vector<std::size_t> groups_of(const std::optional<WeightView>& stored, std::size_t inputs,
                                   std::size_t group_size, std::size_t count) {
  std::vector<std::size_t> groups(inputs);
  for (std::size_t k = 0; k < inputs; ++k) {
    groups[k] = stored ? element_of<std::uint32_t>(*stored, k) : k / group_size;
    if (groups[k] >= count)
      fail(ErrorCode::invalid_file,
           "{}: tensor {} must have numbers of its {} groups, got {} at {}", stored->file.string(),
           stored->stored_name, count, groups[k], k);
  }
  return groups;
}

void require_sizes(const WeightView& codes, const Shape& shape, std::int64_t per_word) {
  if (shape[1] % static_cast<std::int64_t>(kBlock) == 0 && shape[0] % per_word == 0) return;
  fail(ErrorCode::unsupported,
       "{}: tensor {} must have a multiple of {} outputs and of 32 inputs, got {}",
       codes.file.string(), codes.stored_name, per_word, shape.text());
}

}  // namespace

void arrange_integers(StoredLayer& layer, const QuantisationScheme& scheme) {
  const std::int64_t per_word = 32 / scheme.bits;
  PackedIntegers t{.codes = layer.take(".qweight", DType::i32, 2),
                   .zeros = layer.take(".qzeros", DType::i32, 2),
                   .scales = layer.take(".scales", DType::f16, 2),
                   .is_awq = scheme.method == QuantisationScheme::Method::awq,
                   .bits = static_cast<std::uint32_t>(scheme.bits),
                   .zero_offset = static_cast<std::uint32_t>(scheme.zero_offset),
                   .groups = {}};
  const Shape& words = t.codes.shape;
  if (words[0] == 0 || words[1] == 0)
    fail(ErrorCode::invalid_file, "{}: tensor {} is empty", t.codes.file.string(),
         t.codes.stored_name);
  const Shape shape =
      t.is_awq ? Shape{words[1] * per_word, words[0]} : Shape{words[1], words[0] * per_word};
  require_sizes(t.codes, shape, per_word);
  const std::int64_t group_size =
      scheme.group_size < 0 ? shape[1] : std::min(scheme.group_size, shape[1]);
  const std::int64_t groups = (shape[1] + group_size - 1) / group_size;
  require_shape(t.scales, {groups, shape[0]});
  require_shape(t.zeros, {groups, shape[0] / per_word});
  t.inputs = size_of(shape[1]);
  t.outputs = size_of(shape[0]);
  const auto order = t.is_awq ? std::nullopt : layer.take_if_stored(".g_idx", DType::i32, 1);
  if (order) require_shape(*order, {shape[1]});
  t.groups = groups_of(order, t.inputs, size_of(group_size), size_of(groups));
  const DType type = t.type();
  ArrangedWeight arranged{.sources = {t.codes, t.zeros, t.scales}, .copy_rows = {}};
  if (order) arranged.sources.push_back(*order);
  const WeightView codes = t.codes;
  arranged.copy_rows = [t = std::move(t), type](std::span<std::byte> out, std::int64_t first_row) {
    copy_rows(out, t, type, size_of(first_row));
  };
  layer.put(codes, type, shape, std::move(arranged));
}

}  // namespace clora

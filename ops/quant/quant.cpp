#include "clora/ops/quant/quant.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstring>

#include "clora/ops/gemm/bf16_rows.hpp"
#include "ops/dispatch/cpu_kernel.hpp"
#include "ops/dispatch/integer_products.hpp"
#include "ops/launch_grids.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"
#include "runtime/memory/half.hpp"

namespace clora {
namespace {

bool holds_weights(DType type) {
  return type != DType::i32 && type != DType::u32 && type != DType::u8;
}

constexpr auto kLanes = static_cast<std::size_t>(kPackedRows);
constexpr std::int64_t kPackedColumns = 64;  // K is a multiple of this
// Of dequantise: GPUs support at most 65535 work-groups in the second dimension.
constexpr std::uint32_t kMaxGridRows = 1 << 15;

bool has_integer_packed_layout(DType type) {
  return type == DType::q4_0 || type == DType::q4_1 || type == DType::q8_0;
}

bool has_packed_layout(DType type) {
  return has_integer_packed_layout(type) || type == DType::f32 || type == DType::bf16;
}

// Whether pack_panels() can pack rows of type `from` into panels of type `to`.
bool can_pack(DType from, DType to) {
  return has_packed_layout(to) && (from == to || (from == DType::f32 && to == DType::bf16));
}

// The words of two blocks of a row, in the order of cl/quant/quant_packed.clh: q4_1 unchanged; in
// the other types each block begins with its only scale, and the two scales come first, as one
// word.
template <DType kType, std::size_t kBlockBytes>
void reorder_blocks(std::byte* words, const std::byte* blocks) {
  if constexpr (kType == DType::q4_1) {
    std::memcpy(words, blocks, 2 * kBlockBytes);
  } else {
    constexpr std::size_t kHalf = 2;
    constexpr std::size_t kCodes = kBlockBytes - kHalf;
    std::memcpy(words, blocks, kHalf);
    std::memcpy(words + kHalf, blocks + kBlockBytes, kHalf);
    std::memcpy(words + 2 * kHalf, blocks + kHalf, kCodes);
    std::memcpy(words + 2 * kHalf + kCodes, blocks + kBlockBytes + kHalf, kCodes);
  }
}

// The sizes are compile-time constants, because loading a model waits for this.
template <DType kType, std::size_t kBlockBytes>
void pack(std::byte* out, const std::byte* rows, std::size_t row_count, std::size_t row_bytes) {
  constexpr std::size_t kWord = 4;
  constexpr std::size_t kPair = 2 * kBlockBytes;
  std::array<std::byte, kPair> words;
  for (std::size_t row = 0; row < row_count; ++row, rows += row_bytes) {
    std::byte* lane = out + row / kLanes * kLanes * row_bytes + row % kLanes * kWord;
    for (std::size_t at = 0; at < row_bytes; at += kPair) {
      reorder_blocks<kType, kBlockBytes>(words.data(), rows + at);
      for (std::size_t i = 0; i < kPair; i += kWord) {
        std::memcpy(lane + (at + i) * kLanes, &words[i], kWord);
      }
    }
  }
}

// Interleaves 32-bit words of the rows of each panel; word(row, i) returns word i of a row.
template <class Word>
void interleave(std::byte* out, std::size_t panels, std::size_t row_words, Word word) {
  for (std::size_t panel = 0; panel < panels; ++panel) {
    for (std::size_t i = 0; i < row_words; ++i) {
      std::array<std::uint32_t, kLanes> lanes;
      for (std::size_t r = 0; r < kLanes; ++r) lanes[r] = word(panel * kLanes + r, i);
      std::memcpy(out, lanes.data(), sizeof lanes);
      out += sizeof lanes;
    }
  }
}

std::uint32_t word_at(const std::byte* bytes) {
  std::uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// Words of 32 bits: f32 elements, or pairs of bf16.
void pack_words(std::byte* out, const std::byte* rows, std::size_t row_count,
                std::size_t row_bytes) {
  constexpr std::size_t kWord = 4;
  interleave(out, row_count / kLanes, row_bytes / kWord, [=](std::size_t row, std::size_t i) {
    return word_at(rows + row * row_bytes + i * kWord);
  });
}

void pack_as_bf16(std::byte* out, const std::byte* rows, std::size_t row_count,
                  std::size_t columns) {
  const auto bf16_at = [=](std::size_t element) -> std::uint32_t {
    return float_to_bf16(std::bit_cast<float>(word_at(rows + element * sizeof(float))));
  };
  interleave(out, row_count / kLanes, columns / 2, [=](std::size_t row, std::size_t i) {
    const std::size_t element = row * columns + 2 * i;
    return bf16_at(element) | bf16_at(element + 1) << 16U;
  });
}

bool takes_rows_kernel(Context& context, const Tensor& w) {
  const std::string name = fmt::format("dequantise_rows {}", weight_name(w));
  return takes_cpu_kernel(context, {"quant", "quant.cl", name}, [&w](SelfTest& test) {
    record_dequantise(test.batch(), test.output({16, 256}),
                      test.weights({16, 256}, w.type(), w.layout()));
  });
}

}  // namespace

WeightForm preferred_form(const Context& context, const Shape& shape, DType type) {
  const WeightForm as_in_file{type, Layout::plain};
  if (shape.rank() != 2) return as_in_file;
  if (context.capabilities().has_gpu_matrices()) {
    return {type, Layout::plain, !are_bf16_rows(type, shape[1])};
  }
  if (shape[0] % kPackedRows != 0 || shape[1] % kPackedColumns != 0) return as_in_file;
  if (has_integer_packed_layout(type)) {
    const bool in_integers = integer_products(context) != IntegerDots::none;
    return in_integers ? WeightForm{type, Layout::packed} : as_in_file;
  }
  const bool is_float = type == DType::f32 || type == DType::bf16;
  if (is_float && context.capabilities().bf16_dots) return {DType::bf16, Layout::packed};
  const bool in_place = context.capabilities().cpu && type == DType::f32;
  return in_place ? WeightForm{type, Layout::packed} : as_in_file;
}

std::size_t weight_alignment_bytes(const Context& context) {
  return context.capabilities().cpu ? 1 : 16;
}

void pack_panels(std::span<std::byte> out, std::span<const std::byte> rows, std::int64_t columns,
                 DType from, DType to) {
  const auto elements = static_cast<std::size_t>(columns);
  const std::size_t row_bytes = bytes_of(from, elements);
  const std::size_t row_count = rows.size() / row_bytes;
  require(can_pack(from, to) && columns % kPackedColumns == 0 &&
              rows.size() == row_count * row_bytes && row_count % kLanes == 0 &&
              out.size() == row_count * bytes_of(to, elements),
          "pack_panels: panels hold 16 rows of f32, bf16, q4_0, q4_1 or q8_0 with a multiple of {} "
          "elements, got {} bytes of {} for {} of {} with {}",
          kPackedColumns, out.size(), name_of(to), rows.size(), name_of(from), columns);
  if (from != to) return pack_as_bf16(out.data(), rows.data(), row_count, elements);
  const DType type = to;
  if (!has_integer_packed_layout(type))
    return pack_words(out.data(), rows.data(), row_count, row_bytes);
  if (type == DType::q4_0) pack<DType::q4_0, 18>(out.data(), rows.data(), row_count, row_bytes);
  if (type == DType::q4_1) pack<DType::q4_1, 20>(out.data(), rows.data(), row_count, row_bytes);
  if (type == DType::q8_0) pack<DType::q8_0, 34>(out.data(), rows.data(), row_count, row_bytes);
}

Defines& set_weight_type(Defines& defines, DType type, Layout layout) {
  if (!holds_weights(type)) {
    fail(ErrorCode::unsupported, "quant: weights must be floats or quantised blocks, got {}",
         name_of(type));
  }
  std::string name = "WEIGHT_";
  for (const char c : name_of(type)) {
    name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  defines.set("WEIGHT_TYPE", name);
  if (layout == Layout::packed) defines.set("WEIGHT_PACKED");
  return defines;
}

std::string weight_name(const Tensor& w) {
  return fmt::format("{}{}", name_of(w.type()), w.layout() == Layout::packed ? " packed" : "");
}

void require_weight(std::string_view op, std::string_view name, const Weight& w) {
  require(!w.empty(), "{}: {} must be a weight matrix, got an empty tensor", op, name);
  require(w.shape().rank() == 2 && w.elements() > 0 && holds_weights(w.type()),
          "{}: {} must be a matrix [N, K] of floats or quantised blocks, got {}", op, name,
          w.text());
}

void record_dequantise(Batch& batch, const Tensor& y, const Tensor& w) {
  require_weight("dequantise", "w", w);
  require_tensor("dequantise", "y", y, w.shape());
  require(!overlap(y, w), "dequantise: y must not alias w");
  const auto rows = static_cast<std::uint32_t>(w.shape()[0]);
  const auto columns = static_cast<std::uint32_t>(w.shape()[1]);
  Context& context = batch.context();
  Defines defines;
  set_weight_type(defines, w);
  Launch launch{{}, {}, dequantise_cost(w), "quant/dequantise"};
  if (takes_rows_kernel(context, w)) {
    const RowShare share = share_rows(rows, context.device());
    launch.kernel = context.kernel("quant.cl", "dequantise_rows", defines);
    launch.grid = single_item_groups(share.groups);
    batch.launch(std::move(launch), y, w, rows, columns, share.rows_per_group);
    return;
  }
  launch.kernel = context.kernel("quant.cl", "dequantise", defines);
  launch.grid = {{round_up(columns, 64), std::min(rows, kMaxGridRows), 1}, {64, 1, 1}};
  batch.launch(std::move(launch), y, w, rows, columns);
}

Cost dequantise_cost(const Tensor& w) {
  const auto elements = static_cast<double>(w.elements());
  return {elements, 4 * elements + static_cast<double>(w.bytes())};
}

}  // namespace clora

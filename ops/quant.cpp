#include "ops/quant.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

#include "ops/launch_shape.hpp"
#include "ops/variant_choice.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

bool holds_weights(DType type) {
  return type != DType::i32 && type != DType::u32 && type != DType::u8;
}

constexpr std::size_t kStripRows = 16;
constexpr std::int64_t kStripColumns = 64;  // K is a multiple of it

bool has_strips(DType type) {
  return type == DType::q4_0 || type == DType::q4_1 || type == DType::q8_0;
}

// The words of two blocks of a row, as cl/quant_strips.clh has them: those of q4_1 as they lie; in
// the others each block begins with its only scale, and the two scales come first, as one word.
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

// Sizes known to the compiler: a model's load waits for this.
template <DType kType, std::size_t kBlockBytes>
void pack(std::byte* out, const std::byte* rows, std::size_t row_count, std::size_t row_bytes) {
  constexpr std::size_t kWord = 4;
  constexpr std::size_t kPair = 2 * kBlockBytes;
  std::array<std::byte, kPair> words;
  for (std::size_t row = 0; row < row_count; ++row, rows += row_bytes) {
    std::byte* lane = out + row / kStripRows * kStripRows * row_bytes + row % kStripRows * kWord;
    for (std::size_t at = 0; at < row_bytes; at += kPair) {
      reorder_blocks<kType, kBlockBytes>(words.data(), rows + at);
      for (std::size_t i = 0; i < kPair; i += kWord) {
        std::memcpy(lane + (at + i) * kStripRows, &words[i], kWord);
      }
    }
  }
}

Variant choose(Context& context, const Tensor& w) {
  const std::string name = fmt::format("dequantise_rows {}", weight_name(w));
  return variant_for(context, "quant.cl", name, [&w](SelfTest& test) {
    record_dequantise(test.batch(), test.output({16, 256}),
                      test.weights({16, 256}, w.type(), w.layout()));
  });
}

}  // namespace

Layout preferred_layout(const Context& context, const Shape& shape, DType type) {
  const bool wanted = has_matrix_unit(context.variant()) && context.device().int8_dots;
  const bool fits = shape.rank() == 2 && shape[0] % std::int64_t{kStripRows} == 0 &&
                    shape[1] % kStripColumns == 0;
  return wanted && fits && has_strips(type) ? Layout::strips : Layout::plain;
}

void pack_strips(std::span<std::byte> out, std::span<const std::byte> rows, std::int64_t columns,
                 DType type) {
  const std::size_t row_bytes = bytes_of(type, static_cast<std::size_t>(columns));
  require(has_strips(type) && columns % kStripColumns == 0 && out.size() == rows.size() &&
              out.size() % (kStripRows * row_bytes) == 0,
          "pack_strips: strips hold 16 rows of q4_0, q4_1 or q8_0 with a multiple of {} elements, "
          "got {} bytes for {} of {} with {}",
          kStripColumns, out.size(), rows.size(), name_of(type), columns);
  const std::size_t row_count = rows.size() / row_bytes;
  if (type == DType::q4_0) pack<DType::q4_0, 18>(out.data(), rows.data(), row_count, row_bytes);
  if (type == DType::q4_1) pack<DType::q4_1, 20>(out.data(), rows.data(), row_count, row_bytes);
  if (type == DType::q8_0) pack<DType::q8_0, 34>(out.data(), rows.data(), row_count, row_bytes);
}

Defines& set_weight_type(Defines& defines, DType type, Layout layout) {
  if (!holds_weights(type)) {
    fail(ErrorCode::unsupported, "quant: weights are floats or quantised blocks, got {}",
         name_of(type));
  }
  std::string name = "WEIGHT_";
  for (const char c : name_of(type)) {
    name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  defines.set("WEIGHT_TYPE", name);
  if (layout == Layout::strips) defines.set("WEIGHT_STRIPS");
  return defines;
}

std::string weight_name(const Tensor& w) {
  return fmt::format("{}{}", name_of(w.type()), w.layout() == Layout::strips ? " strips" : "");
}

void require_weight(std::string_view op, std::string_view name, const Tensor& w) {
  require(!w.empty(), "{}: {} is empty, a weight matrix is needed", op, name);
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
  if (choose(context, w) == Variant::cpu) {
    const RowShare share = share_rows(rows, context.device());
    launch.kernel = context.kernel("quant.cl", "dequantise_rows", defines);
    launch.grid = single_item_groups(share.groups);
    batch.launch(std::move(launch), y, w, rows, columns, share.rows_per_group);
    return;
  }
  launch.kernel = context.kernel("quant.cl", "dequantise", defines);
  launch.grid = {{round_up(columns, 64), rows, 1}, {64, 1, 1}};
  batch.launch(std::move(launch), y, w, rows, columns);
}

Cost dequantise_cost(const Tensor& w) {
  const auto elements = static_cast<double>(w.elements());
  return {elements, 4 * elements + static_cast<double>(w.bytes())};
}

}  // namespace clora

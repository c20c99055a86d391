// The layers of bitsandbytes' nf4: codes of the values of a table, and their largest size per
// block.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "clora/runtime/files/json.hpp"
#include "model/files/block_decoders.hpp"
#include "model/weights/stored_layer.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::size_t kBlock = 64;
constexpr const char* kStateSuffix = ".weight.quant_state.bitsandbytes__nf4";

struct Nf4Layer {
  WeightView codes, absmax, map;
  WeightView nested_absmax, nested_map;  // if absmax holds codes
  std::size_t blocksize = kBlock, nested_blocksize = 256;
  float nested_offset = 0;
  std::size_t columns = 0;

  unsigned code_of(std::size_t element) const {
    const auto both = std::to_integer<unsigned>(codes.bytes[element / 2]);
    return element % 2 == 0 ? both >> 4U : both & 15U;
  }
  float absmax_of(std::size_t element) const {
    const std::size_t block = element / blocksize;
    if (absmax.type == DType::f32) return element_of<float>(absmax, block);
    const auto code = element_of<std::uint8_t>(absmax, block);
    return element_of<float>(nested_map, code) *
               element_of<float>(nested_absmax, block / nested_blocksize) +
           nested_offset;
  }
  // Whether all rows are blocks of 64 elements with one absmax.
  DType type() const {
    return columns % kBlock == 0 && blocksize % kBlock == 0 ? DType::nf4 : DType::f32;
  }
};

void write_block(std::byte* out, const Nf4Layer& layer, std::size_t first) {
  const float absmax = layer.absmax_of(first);
  std::memcpy(out, &absmax, sizeof absmax);
  out += sizeof absmax;
  constexpr std::size_t kHalf = 16;
  for (std::size_t begin = first; begin < first + kBlock; begin += 2 * kHalf)
    for (std::size_t e = begin; e < begin + kHalf; ++e)
      *out++ = std::byte(layer.code_of(e) | layer.code_of(e + kHalf) << 4U);
}

void write_value(std::byte* out, const Nf4Layer& layer, std::size_t element) {
  const float value = kNf4Values.at(layer.code_of(element)) * layer.absmax_of(element);
  std::memcpy(out, &value, sizeof value);
}

void copy_rows(std::span<std::byte> out, const Nf4Layer& layer, DType type, std::size_t first_row) {
  const DTypeFacts& facts = facts_of(type);
  const auto write = type == DType::nf4 ? write_block : write_value;
  std::size_t element = first_row * layer.columns;
  for (std::size_t at = 0; at < out.size(); at += facts.block_bytes) {
    write(&out[at], layer, element);
    element += facts.block_elements;
  }
}

std::string_view text_of(const WeightView& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
}

// "[N, K]" of the JSON.
Shape shape_of(const JsonKeys& state) {
  const nlohmann::json* list = state.find("shape");
  const auto is_size = [](const nlohmann::json& n) {
    return n.is_number_unsigned() && n.get<std::uint64_t>() < std::uint64_t{1} << 31U;
  };
  if (list == nullptr || !list->is_array() || list->size() != 2 ||
      !std::ranges::all_of(*list, is_size))
    state.wrong_kind("shape", "a list of two sizes", list == nullptr ? nlohmann::json() : *list);
  return {(*list)[0].get<std::int64_t>(), (*list)[1].get<std::int64_t>()};
}

std::size_t positive(const JsonKeys& state, std::string_view key) {
  const std::int64_t value = state.integer(key);
  if (value <= 0) state.wrong_kind(key, "a positive integer", *state.find(key));
  return static_cast<std::size_t>(value);
}

std::int64_t blocks_of(std::int64_t count, std::size_t block) {
  const auto size = static_cast<std::int64_t>(block);
  return count / size + (count % size != 0 ? 1 : 0);
}

void require_nf4_values(const WeightView& map) {
  require_shape(map, {static_cast<std::int64_t>(kNf4Values.size())});
  for (std::size_t i = 0; i < kNf4Values.size(); ++i)
    if (element_of<float>(map, i) != kNf4Values[i])
      fail(ErrorCode::unsupported, "{}: tensor {} must hold the values of nf4, got {} at {}",
           map.file.string(), map.stored_name, element_of<float>(map, i), i);
}

// absmax [blocks], and what its codes mean.
void take_absmax(StoredLayer& layer, const JsonKeys& state, std::int64_t blocks, Nf4Layer& read) {
  read.absmax = layer.take(".weight.absmax");
  require_shape(read.absmax, {blocks});
  if (read.absmax.type == DType::f32) return;
  if (read.absmax.type != DType::u8)
    fail(ErrorCode::unsupported, "{}: tensor {} must have the type f32 or u8, got {}",
         read.absmax.file.string(), read.absmax.stored_name, name_of(read.absmax.type));
  read.nested_blocksize = positive(state, "nested_blocksize");
  read.nested_offset = static_cast<float>(state.number("nested_offset"));
  read.nested_map = layer.take(".weight.nested_quant_map", DType::f32, 1);
  require_shape(read.nested_map, {256});
  read.nested_absmax = layer.take(".weight.nested_absmax", DType::f32, 1);
  require_shape(read.nested_absmax, {blocks_of(blocks, read.nested_blocksize)});
}

}  // namespace

void arrange_nf4(StoredLayer& layer) {
  const WeightView text = layer.take(kStateSuffix);
  const std::string source = fmt::format("{}: tensor {}", text.file.string(), text.stored_name);
  const nlohmann::json json = parse_json(text_of(text), source, {.bytes = 64 << 10U});
  const JsonKeys state(json, source);
  const Shape shape = shape_of(state);
  Nf4Layer read{.codes = layer.take(".weight"),
                .absmax = {},
                .map = layer.take(".weight.quant_map", DType::f32, 1),
                .nested_absmax = {},
                .nested_map = {}};
  if (read.codes.type != DType::u8)
    fail(ErrorCode::unsupported, "{}: tensor {} must have the type u8, got {}",
         read.codes.file.string(), read.codes.stored_name, name_of(read.codes.type));
  require_shape(read.codes, {blocks_of(shape.elements(), 2), 1});
  require_nf4_values(read.map);
  read.columns = static_cast<std::size_t>(shape[1]);
  read.blocksize = positive(state, "blocksize");
  take_absmax(layer, state, blocks_of(shape.elements(), read.blocksize), read);
  const DType type = read.type();
  ArrangedWeight arranged{.sources = {read.codes, read.absmax, text}, .copy_rows = {}};
  if (read.absmax.type == DType::u8) {
    arranged.sources.push_back(read.nested_absmax);
    arranged.sources.push_back(read.nested_map);
  }
  const WeightView codes = read.codes;
  arranged.copy_rows = [read = std::move(read), type](std::span<std::byte> out,
                                                      std::int64_t first_row) {
    copy_rows(out, read, type, static_cast<std::size_t>(first_row));
  };
  layer.put(codes, type, shape, std::move(arranged));
}

}  // namespace clora

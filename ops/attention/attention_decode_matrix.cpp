#include "ops/attention/attention_decode_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ops/attention/attention_self_test.hpp"
#include "ops/dispatch/soft_cap_define.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/hopper/tensor_maps.hpp"

namespace clora {
namespace {

constexpr std::int64_t kBlock = 16;  // keys of a block, and the most heads of a tile
constexpr std::int64_t kMaxHeadDim = 256;
constexpr std::int64_t kMaxSplits = 32, kSplitsOfManyRows = 4;
constexpr std::size_t kAlignment = 16;  // of rows of keys and values
// Of a self-test, whose rows but one have about all keys: those that are not split, and those that
// are.
constexpr std::int64_t kTestRows = 5, kTestKeys = 400, kTestSplitKeys = 1616;

const char* refusal_of_keys(std::int64_t E, DType key_type) {
  if (key_type != DType::bf16 && key_type != DType::f16) return "it reads keys of bf16 or f16";
  const bool supports = E % 16 == 0 && E <= kMaxHeadDim;
  return supports ? nullptr : "it is for head dims of multiples of 16 up to 256";
}

// The most, at most those of a tile, that divide those of a key head.
std::int64_t heads_of(const AttentionSpec& spec) {
  std::int64_t heads = std::min(spec.H / spec.G, kBlock);
  while (spec.H / spec.G % heads != 0) --heads;
  return heads;
}

Defines defines_of(const AttentionForward& forward, MatrixUnitChoice unit,
                   const AttentionDecodeTile& tile) {
  const AttentionSpec& spec = forward.spec;
  Defines defines;
  define_matrix_unit(defines, unit);
  define_soft_cap(defines, spec.soft_cap);
  if (spec.page > 0) defines.set("PAGE", spec.page);
  if (tile.splits > 1) defines.set("SPLIT", tile.split_keys);
  defines.set("HEAD_DIM", spec.E).set("SUBGROUPS", tile.subgroups).set("STAGES", tile.stages);
  defines.set("KEY_TYPE", name_of(spec.key_type))
      .set("X_TYPE", name_of(forward.in.q.type()))
      .set("RESULT_TYPE", name_of(forward.y.type()));
  return defines;
}

// The arguments of SPLIT_PARAMETERS.
void append_parts(std::vector<Argument>& arguments, Batch& batch, const AttentionSpec& spec,
                  std::int64_t splits) {
  const auto counters = static_cast<std::uint32_t>(spec.T * spec.H / heads_of(spec));
  arguments.emplace_back(
      batch.temporary({spec.T, spec.H, splits, spec.E + 2}, DType::f32, "attention parts"));
  arguments.emplace_back(prepare_tensor_table(batch, {.counters = counters}, "attention/counters"));
  arguments.emplace_back(narrow(splits));
}

// The most keys that a row can have.
std::int64_t capacity_of(const AttentionSpec& spec, const AttentionInputs& in) {
  return spec.page > 0 ? in.pages.tables.shape()[1] * spec.page : spec.Tk;
}

// Long rows are split until as many work-groups run as the device runs at once, about; and where
// there are as many rows, too, so that one that is longer than the others does not end last.
AttentionDecodeTile tile_of(const AttentionForward& forward) {
  const AttentionSpec& spec = forward.spec;
  const auto units = static_cast<std::int64_t>(spec.units());
  const std::int64_t groups = spec.T * spec.H / heads_of(spec);
  const bool is_hopper = spec.context.device().matrix_unit == MatrixUnit::wgmma;
  const auto memory = is_hopper ? AttentionDecodeMemory::large : AttentionDecodeMemory::medium;
  AttentionDecodeTile tile = attention_decode_tile(spec.E, memory, groups > units);
  const std::int64_t unit_bytes = (is_hopper ? 227 : 99) << 10;  // of local memory
  const std::int64_t at_once = unit_bytes / tile.local_bytes(spec.E) * units;
  const std::int64_t useful = capacity_of(spec, forward.in) / tile.split_keys;
  const std::int64_t most = std::clamp<std::int64_t>(useful, 1, kMaxSplits);
  tile.splits = std::min(std::max(at_once / groups, kSplitsOfManyRows), most);
  return tile;
}

}  // namespace

std::int64_t AttentionDecodeTile::local_bytes(std::int64_t E) const {
  const std::int64_t row_bytes = (E <= 32 ? E : round_up(E, 64)) * 2;
  const std::int64_t block = round_up(kBlock * row_bytes, 1024);
  return subgroups * stages * 2 * block + block + (subgroups + 1) * kBlock * 8;
}

AttentionDecodeTile attention_decode_tile(std::int64_t E, AttentionDecodeMemory memory, bool many) {
  if (memory == AttentionDecodeMemory::medium) {  // not measured
    return {.subgroups = E <= 128 ? 4 : 2, .stages = E <= 64 ? 3 : 2};
  }
  if (E > 128) return {.subgroups = 4, .stages = 2};
  return {.subgroups = many ? 4 : 8, .stages = 3};
}

bool attention_decode_rounds(const Capabilities& capabilities, std::int64_t E, DType key_type) {
  return capabilities.has_gpu_matrices() && !capabilities.has_unproven_matrices() &&
         refusal_of_keys(E, key_type) == nullptr;
}

const char* attention_decode_matrix_refusal(const Context&, const AttentionForward& forward) {
  const AttentionSpec& spec = forward.spec;
  if (spec.has_bias) return "it has no bias of scores";
  if (!spec.decodes()) return "it is for few rows";
  if (const char* why = refusal_of_keys(spec.E, spec.key_type)) return why;
  if (spec.page % kBlock != 0) return "it reads pages of multiples of 16 positions";
  const bool is_aligned = forward.in.k.offset_bytes() % kAlignment == 0 &&
                          forward.in.v.offset_bytes() % kAlignment == 0;
  return is_aligned ? nullptr : "it reads keys that are aligned to 16 bytes";
}

AttentionForward attention_decode_matrix_test(SelfTest& test, const AttentionForward& forward,
                                              bool splits) {
  const AttentionSpec& spec = forward.spec;
  const AttentionInputs in =
      attention_test_inputs(test, {.rows = kTestRows,
                                   .keys = splits ? kTestSplitKeys : kTestKeys,
                                   .width = spec.E,
                                   .type = forward.in.q.type(),
                                   .key_type = spec.key_type,
                                   .scores = self_test_scores(spec),
                                   .in_pages = spec.page > 0,
                                   .has_short_row = true});
  const Tensor y = test.output(in.q.shape(), forward.y.type());
  const Tensor logs = test.output({kTestRows, in.q.shape()[1]});
  return {checked_spec("attention", test.batch().context(), in), y, logs, in};
}

// Tests the program of the problem over a smaller one.
bool attention_decode_matrix_passed(Context& context, const AttentionForward& forward) {
  const AttentionSpec& spec = forward.spec;
  const MatrixUnitChoice unit = matrix_unit_of(context);
  const AttentionDecodeTile tile = tile_of(forward);
  const bool splits = tile.splits > 1;
  const std::string name =
      fmt::format("attention_decode_matrix {} {}{}{}{}", spec.E, name_of(forward.in.q.type()),
                  key_suffix(spec), program_suffix(spec), splits ? " in splits" : "");
  const std::string options = defines_of(forward, unit, tile).text();
  return passed_self_test(
      context, {kAttentionDecodeMatrix, name, kBf16Tolerance, options}, [&](SelfTest& test) {
        const AttentionForward tested = attention_decode_matrix_test(test, forward, splits);
        if (!makes_reference(context)) {
          return record_attention_decode_matrix(test.batch(), tested, unit, tile);
        }
        record_attention(test.batch(), tested.y, tested.log_sum_exp, tested.in);
      });
}

void record_attention_decode_matrix(Batch& batch, const AttentionForward& forward) {
  record_attention_decode_matrix(batch, forward, matrix_unit_of(batch.context()), tile_of(forward));
}

void record_attention_decode_matrix(Batch& batch, const AttentionForward& forward,
                                    MatrixUnitChoice unit, const AttentionDecodeTile& tile) {
  const auto& [spec, y, log_sum_exp, in] = forward;
  const std::int64_t heads = heads_of(spec);
  const Defines defines = defines_of(forward, unit, tile);
  std::vector<Argument> arguments{y, forward.logs_or_y(), in.q, in.k, in.v, in.first, in.last};
  append_page_tables(arguments, in);
  if (tile.splits > 1) append_parts(arguments, batch, spec, tile.splits);
  arguments.insert(arguments.end(), {spec.problem(in.scale), narrow(heads),
                                     std::int32_t{forward.keeps_log_sum_exp()}});
  const auto items = static_cast<std::size_t>(tile.subgroups * matrix_unit_lanes(unit));
  const Grid grid{{static_cast<std::size_t>(spec.T * tile.splits) * items,
                   static_cast<std::size_t>(spec.H / heads), 1},
                  {items, 1, 1}};
  batch.record({batch.context().kernel(kAttentionDecodeMatrix, "attention_decode_matrix", defines),
                grid, spec.cost(), "attention/decode"},
               std::move(arguments));
}

}  // namespace clora

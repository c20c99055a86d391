#include "ops/attention/attention_spec.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>

#include "clora/ops/quant/quantise.hpp"
#include "ops/activations.hpp"
#include "ops/attention/attention_matrix.hpp"
#include "ops/dispatch/cpu_vector_defines.hpp"
#include "ops/dispatch/soft_cap_define.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::int64_t kGroupsPerUnit = 4;
constexpr std::int64_t kMaxChunks = 8;   // bounds the memory of the backward's parts
constexpr std::int64_t kMaxSplits = 32;  // each item of the portable join reads all of them
constexpr std::size_t kWorkGroup = 64;
constexpr std::int64_t kMaxDecodeHeads = 8;  // whose sums fit the registers of an item

std::int64_t power_of_two_from(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
}

std::size_t bytes_of(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

}  // namespace

std::int64_t attention_decode_scratch(std::int64_t heads, std::int64_t E, DType key_type,
                                      bool in_pages) {
  const std::int64_t padded = round_up(E, 16);
  const bool in_place = key_type == DType::f32 && !in_pages;
  const std::int64_t rows = in_place ? 0 : AttentionSpec::kKeys * padded;
  return heads * (2 * padded + AttentionSpec::kKeys + 3) + rows;
}

std::int64_t AttentionSpec::wanted_groups() const {
  return kGroupsPerUnit * static_cast<std::int64_t>(units());
}

std::int64_t AttentionSpec::chunk() const {
  const std::int64_t chunks =
      std::clamp<std::int64_t>(divide_up(wanted_groups(), G), 1, kMaxChunks);
  return power_of_two_from(std::max(kMinChunk, divide_up(T, chunks)));
}

std::int64_t AttentionSpec::forward_heads() const {
  const bool few = divide_up(T, kQueries) * G < wanted_groups();
  return few ? 1 : std::min(H / G, kMaxHeads);
}

std::int64_t AttentionSpec::forward_blocks() const {
  const bool many = divide_up(T, kQueries) * G >= 4 * kMaxBlocks * wanted_groups();
  return many ? kMaxBlocks : 1;
}

// The most, at most kMaxDecodeHeads, that divide those of a key head.
std::int64_t AttentionSpec::decode_heads() const {
  std::int64_t heads = std::min(H / G, kMaxDecodeHeads);
  while (H / G % heads != 0) --heads;
  return heads;
}

std::int64_t AttentionSpec::portable_splits() const {
  const std::int64_t useful = std::min(divide_up(Tk, work_group()), kMaxSplits);
  const std::int64_t wanted = divide_up(wanted_groups(), T * H / decode_heads());
  return power_of_two_from(std::clamp<std::int64_t>(wanted, 1, useful));  // few programs
}

LocalMemory AttentionSpec::local(std::int64_t floats) const {
  const std::size_t bytes = bytes_of(floats);
  if (bytes > context.device().local_memory_bytes) {
    fail(ErrorCode::unsupported,
         "attention: heads of {} need {} bytes of local memory, '{}' has {}; use the portable "
         "variant or another device",
         E, bytes, context.device().name, context.device().local_memory_bytes);
  }
  return {bytes};
}

std::int64_t AttentionSpec::forward_scratch() const {
  // Without bf16 products, keys of other types than f32 are upcast.
  const std::int64_t upcast_keys = key_type == DType::f32 ? 0 : kKeys * E;
  if (!bf16) return (2 * E + kKeys + 2) * kQueries + upcast_keys;
  const std::int64_t panels = forward_heads() * forward_blocks();
  return panels * (E / 2 + E + 2) * kQueries + kKeys * E + (kKeys + 1) * kQueries +
         2 * forward_blocks() * kQueries;
}

std::int64_t AttentionSpec::backward_scratch() const {
  if (!bf16) return (3 * E + 2 * kKeys + 4) * kQueries;
  return kStaged * E / 2 * 3 + backward_heads() * (4 * E / 2 + 3 * kKeys / 2 + 2) * kQueries +
         (2 * 8 + 2) * kQueries;
}

AttentionSpec AttentionSpec::for_cpus(bool rounds) const {
  AttentionSpec spec = *this;
  spec.cpu = true;
  spec.bf16 = rounds;
  return spec;
}

std::int64_t AttentionSpec::work_group() const {
  return static_cast<std::int64_t>(reduction_group(context.device(), kWorkGroup));
}

Defines AttentionSpec::defines(DType x, DType result) const {
  Defines types = defines().set("X_TYPE", name_of(x)).set("RESULT_TYPE", name_of(result));
  if (key_type != x) types.set("KEY_TYPE", name_of(key_type));
  return types;
}

Defines AttentionSpec::defines() const {
  Defines defines;
  define_soft_cap(defines, soft_cap);
  if (has_bias) defines.set("BIAS", 1);
  if (page > 0) defines.set("PAGE", page);
  if (!cpu) return defines.set("GROUP", work_group());
  defines.set("KEYS", kKeys);
  if (key_type != DType::f32) defines.set("KEY_TYPE", name_of(key_type));
  if (bf16) return defines.set("STAGED", kStaged).set("MAX_BLOCKS", kMaxBlocks);
  define_cpu_vectors(defines, context.device());
  return defines;
}

Grid AttentionSpec::groups(std::int64_t x, std::int64_t y) const {
  const auto items = static_cast<std::size_t>(work_group());
  return {{static_cast<std::size_t>(x) * items, static_cast<std::size_t>(y), 1}, {items, 1, 1}};
}

ValueBytes AttentionSpec::problem(float scale) const {
  return by_value(AttentionProblem{.T = narrow(T),
                                   .Tk = narrow(Tk),
                                   .H = narrow(H),
                                   .G = narrow(G),
                                   .E = narrow(E),
                                   .scale = scale,
                                   .causal = causal ? 1 : 0});
}

Cost AttentionSpec::cost() const {
  const auto rows = static_cast<double>(T);
  const double most = T == Tk && causal ? (rows + 1) / 2 : static_cast<double>(Tk);
  return attention_cost({T, H, E}, rows * (keys_per_row > 0 ? keys_per_row : most));
}

std::int32_t narrow(std::int64_t n) {
  if (n > std::numeric_limits<std::int32_t>::max()) {
    fail(ErrorCode::unsupported, "attention: sizes must be below 2^31, got {}; use fewer rows", n);
  }
  return i32(n);
}

void require_q8_heads(std::string_view op, std::int64_t E) {
  require(E % kElementsOfQ8Block == 0,
          "{}: heads in q8_0 must have a multiple of {} elements, got {}; use bf16", op,
          kElementsOfQ8Block, E);
}

void require_pages(std::string_view op, const KeyPages& pages, std::int64_t cache_rows,
                   std::int64_t T) {
  const auto positions = static_cast<std::uint64_t>(pages.positions);
  require(
      std::has_single_bit(positions) && cache_rows % pages.positions == 0,
      "{}: pages must have a power of two of positions, of which the {} rows of the cache are a "
      "multiple, got {}",
      op, cache_rows, pages.positions);
  require(!pages.tables.empty() && pages.tables.shape().rank() == 2,
          "{}: pages.tables must be i32 [sequences, pages], got {}", op,
          pages.tables.empty() ? "nothing" : pages.tables.text());
  require_tensor(op, "pages.tables", pages.tables, pages.tables.shape(), DType::i32);
  require_tensor(op, "pages.table_of", pages.table_of, {T}, DType::i32);
}

AttentionSpec checked_spec(std::string_view op, Context& context, const AttentionInputs& inputs) {
  const Tensor& q = inputs.q;
  const Tensor& k = inputs.k;
  require(!q.empty() && q.shape().rank() == 3 && q.elements() > 0,
          "{}: q must be f32, bf16 or f16 [T, H, E], got {}", op, q.empty() ? "nothing" : q.text());
  const std::int64_t E = q.shape()[2];
  require(!k.empty() && k.shape().rank() == 3 && k.elements() > 0,
          "{}: k must be [Tk, G, {}] to match q {}, got {}", op, E, q.text(),
          k.empty() ? "nothing" : k.text());
  const AttentionSpec spec{.context = context,
                           .T = q.shape()[0],
                           .Tk = k.shape()[0],
                           .H = q.shape()[1],
                           .G = k.shape()[1],
                           .E = E,
                           .keys_per_row = inputs.keys_per_row,
                           .soft_cap = inputs.soft_cap,
                           .causal = inputs.causal,
                           .has_bias = !inputs.bias.empty(),
                           .key_type = k.type(),
                           .page = inputs.pages.empty() ? 0 : inputs.pages.positions};
  require_soft_cap(op, spec.soft_cap);
  require(spec.H % spec.G == 0, "{}: the {} query heads must be a multiple of the {} key heads", op,
          spec.H, spec.G);
  require_any_activation(op, "q", q, {spec.T, spec.H, spec.E});
  if (k.type() == DType::q8_0) {
    require(spec.page > 0, "{}: keys and values of q8_0 must be in pages", op);
    require_q8_heads(op, spec.E);
    require_tensor(op, "k", k, {spec.Tk, spec.G, spec.E}, DType::q8_0);
  } else {
    require_any_activation(op, "k", k, {spec.Tk, spec.G, spec.E});
  }
  require_tensor(op, "v", inputs.v, {spec.Tk, spec.G, spec.E}, k.type());
  require_tensor(op, "first", inputs.first, {spec.T}, DType::i32);
  require_tensor(op, "last", inputs.last, {spec.T}, DType::i32);
  if (spec.has_bias) {
    const std::int64_t distances = inputs.bias.shape().last();
    require(distances % 2 == 1, "{}: the bias must be of 2P - 1 distances, got {}", op, distances);
    require_tensor(op, "bias", inputs.bias, {spec.H, distances});
    require(spec.soft_cap == 0, "{}: scores with a bias cannot have a soft cap", op);
  }
  if (!inputs.pages.empty()) require_pages(op, inputs.pages, spec.Tk, spec.T);
  require(inputs.pages.empty() || !spec.has_bias, "{}: keys in pages cannot have a bias of scores",
          op);
  if (!inputs.order.empty()) {
    require_tensor(op, "order", inputs.order, {3 * divide_up(spec.T, 128) + 1}, DType::i32);
  }
  return spec;
}

bool reads_vec4s(const AttentionSpec& spec, const AttentionInputs& inputs) {
  constexpr std::int64_t kFour = 4;
  return spec.E % kFour == 0 &&
         std::ranges::all_of(std::array{inputs.q, inputs.k, inputs.v}, [](const Tensor& t) {
           return is_quantised(t.type()) || t.offset_bytes() % bytes_of(t.type(), kFour) == 0;
         });
}

std::vector<Argument> AttentionForward::arguments() const {
  return {y,
          logs_or_y(),
          in.q,
          in.k,
          in.v,
          in.first,
          in.last,
          spec.problem(in.scale),
          std::int32_t{keeps_log_sum_exp()}};
}

void append_page_tables(std::vector<Argument>& arguments, const AttentionInputs& inputs) {
  if (inputs.pages.empty()) return;
  arguments.emplace_back(inputs.pages.tables);
  arguments.emplace_back(inputs.pages.table_of);
  arguments.emplace_back(narrow(inputs.pages.tables.shape()[1]));
}

void append_bias(std::vector<Argument>& arguments, const AttentionInputs& inputs) {
  if (inputs.bias.empty()) return;
  arguments.emplace_back(inputs.bias);
  arguments.emplace_back(narrow(inputs.bias.shape().last() / 2));
}

AttentionInputs upcast(Batch& batch, const AttentionInputs& inputs) {
  AttentionInputs wide = inputs;
  for (Tensor* t : {&wide.q, &wide.k, &wide.v}) *t = record_upcast(batch, *t);
  return wide;
}

std::int64_t attention_decode_splits(const Device& device, std::int64_t rows, std::int64_t G) {
  const std::int64_t wanted = kGroupsPerUnit * std::max<std::int64_t>(1, device.compute_units);
  return power_of_two_from(divide_up(wanted, rows * G));
}

Cost attention_cost(const Shape& q, double pairs) {
  require(q.rank() == 3, "attention cost: q must be [T, H, E], got {}", q.text());
  const auto heads = static_cast<double>(q[1]), width = static_cast<double>(q[2]);
  return {4 * pairs * heads * width, 2.0 * sizeof(float) * static_cast<double>(q.elements())};
}

bool attention_rounds_to_bf16(const Capabilities& capabilities, std::int64_t T, std::int64_t E) {
  if (T <= AttentionSpec::kDecodeRows) return false;
  if (capabilities.has_gpu_matrices()) return attention_matrix_supports(T, E);
  return capabilities.bf16_dots && E % 32 == 0;
}

}  // namespace clora

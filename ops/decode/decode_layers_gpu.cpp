#include "ops/decode/decode_layers_gpu.hpp"

#include <algorithm>
#include <bit>

#include "clora/ops/quant/quant.hpp"
#include "ops/decode/decode_layers_table.hpp"
#include "ops/decode/decode_pages_self_test.hpp"
#include "ops/dispatch/co_resident_groups.hpp"
#include "ops/dispatch/soft_cap_define.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/hopper/ptx.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::size_t kGroup = 512;
constexpr std::int64_t kMaxLayers = 128;  // with addresses in local memory
constexpr std::int64_t kLanes = 32;       // of a team, minimum
constexpr std::int64_t kMaxSplits = 16;
constexpr std::int64_t kSliceSteps = 512;  // of a row of an adapter's a: the kernel's SLICE_STEPS
constexpr std::int64_t kMaxRanks = 1024;   // of the adapters of one product
constexpr double kTolerance = 1e-3;        // the order of sums through two blocks of a model
// Local memory available to a group's own arrays on NVIDIA GPUs, whatever the driver reports: 227
// KiB on Hopper, at least 99 from sm_80 on, less 3 and 2 KiB that the driver adds.
constexpr std::uint64_t kLocalBytesHopper = 224 << 10U;
constexpr std::uint64_t kLocalBytesAmpere = 97 << 10U;

std::int64_t group_of(const Device& device) {
  return static_cast<std::int64_t>(reduction_group(device, kGroup));
}
std::int64_t groups_of_launch(const Device& device) { return std::max(1U, device.compute_units); }

std::uint64_t local_memory_of(const Device& device) {
  if (device.matrix_unit == MatrixUnit::wgmma) return kLocalBytesHopper;
  return device.matrix_unit == MatrixUnit::mma ? kLocalBytesAmpere : device.local_memory_bytes;
}

// Floats of the row that a product reads, or of attention's scratch.
std::int64_t local_floats(const DecodeSizes& s, std::int64_t group) {
  return std::max({s.D, s.F, s.H * s.E, 5 * group + s.E});
}

// Items that share a pair of rows of w: as many as available, each with at least one vec8 to load.
std::int64_t lanes_for(const Device& device, std::int64_t pairs, std::int64_t steps) {
  const std::int64_t group = group_of(device);
  const std::int64_t items = group * groups_of_launch(device);
  const auto power = [](std::int64_t n) {
    return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n)));
  };
  return std::clamp(power(std::min(items / pairs, steps / 8)), kLanes, group);
}

std::int64_t splits_of(const Device& device, const DecodeSizes& s) {
  return std::clamp<std::int64_t>(groups_of_launch(device) / s.H, 2, kMaxSplits);
}

// The adapters' total rank and input width of one part of a layer's products.
struct PartRanks {
  std::int64_t ranks = 0;
  std::int64_t steps = 0;
};
std::array<PartRanks, 4> ranks_of(const DecodeLayer& l, const DecodeSizes& s) {
  const auto sum = [&](std::size_t first, std::size_t count) {
    std::int64_t ranks = 0;
    const std::size_t adapters = has_joined_adapter(l, first) ? 1 : count;
    for (std::size_t p = first; p < first + adapters; ++p) ranks += rank_of(l.loras[p]);
    return ranks;
  };
  return {{{sum(0, 3), s.D}, {sum(3, 1), s.H * s.E}, {sum(4, 2), s.D}, {sum(6, 1), s.F}}};
}

// The maximum total rank of any part; at least 1, as an array size.
std::int64_t max_ranks(const DecodeLayers& decode) {
  std::int64_t most = 1;
  for (const DecodeLayer& l : decode.layers) {
    for (const PartRanks& part : ranks_of(l, decode_sizes(decode))) {
      most = std::max(most, part.ranks);
    }
  }
  return most;
}

// The maximum number of partial sums of s that the groups compute for one part's adapters.
std::int64_t max_s_parts(const DecodeLayers& decode) {
  std::int64_t most = 1;
  for (const DecodeLayer& l : decode.layers) {
    for (const PartRanks& part : ranks_of(l, decode_sizes(decode))) {
      most = std::max(most, part.ranks * divide_up(part.steps, kSliceSteps));
    }
  }
  return most;
}

Defines defines_of(Context& context, const DecodeLayers& decode) {
  const DecodeSizes s = decode_sizes(decode);
  const Device& device = context.device();
  const std::int64_t group = group_of(device);
  Defines defines;
  set_weight_type(defines, decode.layers.front().q);
  set_use_ptx(defines, context);
  defines.set("KEY_TYPE", name_of(s.cache)).set("PAGE", s.page);
  defines.set("GROUP", group).set("D", s.D).set("F", s.F).set("H", s.H).set("G", s.G);
  defines.set("E", s.E).set("SPLITS", splits_of(device, s)).set("MAX_LAYERS", s.layers);
  defines.set("MAX_RANKS", max_ranks(decode)).set("ROPE_WIDTH", s.W);
  define_soft_cap(defines, decode.soft_cap);
  if (s.head_norms) defines.set("HEAD_NORMS");
  if (s.post_norms) defines.set("POST_NORMS");
  if (decode.function == GateFunction::gelu) defines.set("GELU");
  if (decode_is_adapted(decode)) defines.set("ADAPTED");
  if (s.joined_heads) defines.set("JOINED_HEADS");
  if (s.joined_gates) defines.set("JOINED_GATES");
  defines.set("LOCAL_FLOATS", local_floats(s, group));
  defines.set("HEADS_LANES", lanes_for(device, (s.H + 2 * s.G) * s.E / 2, s.D));
  defines.set("O_LANES", lanes_for(device, s.D / 2, s.H * s.E));
  defines.set("GATES_LANES", lanes_for(device, s.F, s.D));
  return defines.set("DOWN_LANES", lanes_for(device, s.D / 2, s.F));
}

// The model's first layer and the first one with an adapter (or the second layer), with small
// caches of the test.
std::vector<DecodeLayer> layers_to_test(SelfTest& test, const DecodeLayers& decode,
                                        std::int64_t S) {
  std::vector<DecodeLayer> layers{decode.layers.front()};
  const auto adapted = std::ranges::find_if(decode.layers, has_adapter);
  if (adapted != decode.layers.end() && adapted != decode.layers.begin()) {
    layers.push_back(*adapted);
  } else if (decode.layers.size() > 1) {
    layers.push_back(decode.layers[1]);
  }
  const DecodeSizes s = decode_sizes(decode);
  for (DecodeLayer& layer : layers) {
    layer.key_cache = test.changed(test.input({S, s.G, s.E}, 1, s.cache));
    layer.value_cache = test.changed(test.input({S, s.G, s.E}, 1, s.cache));
    layer.first = test.input({1}, std::vector<std::int32_t>{S > 2 ? 1 : 0});
  }
  return layers;
}

// Runs the program of the model itself, which is compiled for its sizes, on two of its layers: test
// weights of these sizes would take as much memory.
void test_decode_gpu(SelfTest& test, const DecodeLayers& decode) {
  constexpr std::int64_t kPages = 3;
  const std::int64_t rows = kPages * decode.pages.positions;
  std::int64_t S = rows;
  for (const DecodeLayer& layer : decode.layers) {
    for (const Tensor& table : {layer.rope_table, key_rope_table_of(layer)}) {
      if (!table.empty()) S = std::min(S, table.shape()[0]);
    }
  }
  const std::vector<std::int32_t> position{static_cast<std::int32_t>(S - 1)};
  DecodeLayers probe = decode;
  probe.layers = layers_to_test(test, decode, rows);
  probe.position = test.input({1}, position);
  probe.last = test.input({1}, position);
  place_in_pages(test, probe, {kPages, decode.pages.positions}, position);
  const Tensor x = test.changed(test.input({1, decode_sizes(decode).D}));
  const Tensor grid_barrier = test.input({3}, std::vector<std::int32_t>(3));
  if (makes_reference(test.batch().context())) {
    record_decode_layers_unfused(test.batch(), x, probe);
  } else {
    record_decode_layers_gpu(test.batch(), x, probe, grid_barrier, decode);
  }
}

}  // namespace

// Local arrays of cl/decode/decode_layers_gpu.cl: input, scratch, s, factors, table, and the
// residual stream with post-norms.
std::uint64_t decode_layers_gpu_local_bytes(const Device& device, const DecodeSizes& s,
                                            std::int64_t ranks) {
  const std::int64_t group = group_of(device);
  const std::int64_t scratch = 2 * group;  // fewer with PTX
  const std::int64_t floats = local_floats(s, group) + scratch + ranks +
                              2 * s.H * splits_of(device, s) + (s.post_norms ? s.D : 0);
  return static_cast<std::uint64_t>(4 * floats + 8 * std::int64_t{kDecodeAddresses} * s.layers);
}

bool decode_layers_gpu_fit(const Device& device, const DecodeSizes& s, std::int64_t ranks) {
  return s.D % 8 == 0 && s.F % 8 == 0 && s.E % 8 == 0 && s.H % s.G == 0 &&
         s.E / 4 <= group_of(device) && ranks <= kMaxRanks && s.layers <= kMaxLayers &&
         decode_layers_gpu_local_bytes(device, s, ranks) <= local_memory_of(device);
}

const char* decode_layers_gpu_refusal(const Context& context, const DecodeLayers& decode) {
  if (const char* refusal = refusal_of_several_rows(decode)) return refusal;
  if (decode_sizes(decode).cache == DType::q8_0) return "it writes caches of f32, bf16 or f16";
  const Tensor& like = decode.layers.front().q;
  for (const DecodeLayer& layer : decode.layers) {
    for (const Tensor* w : matrices_of(layer)) {
      if (w->type() != like.type() || w->layout() != Layout::plain) {
        return "it reads plain weights of one type";
      }
    }
  }
  const bool fits =
      decode_layers_gpu_fit(context.device(), decode_sizes(decode), max_ranks(decode));
  return fits ? nullptr : "the sizes are not multiples of 8, or exceed the local memory";
}

bool decode_layers_gpu_passed(Context& context, const DecodeLayers& decode) {
  if (co_resident_groups(context) == 0) return false;
  const std::string options = decode_layers_gpu_options(context, decode);
  return passed_self_test(context, {kDecodeLayersGpu, "decode_layers_gpu", kTolerance, options},
                          [&](SelfTest& test) { test_decode_gpu(test, decode); });
}

std::string decode_layers_gpu_options(Context& context, const DecodeLayers& decode) {
  return defines_of(context, decode).text();
}

void record_decode_layers_gpu(Batch& batch, const Tensor& x, const DecodeLayers& decode,
                              const Tensor& grid_barrier, const DecodeLayers& program_of) {
  Context& context = batch.context();
  const Device& device = context.device();
  const DecodeSizes s = decode_sizes(decode);
  require(decode_layers_gpu_refusal(context, decode) == nullptr,
          "decode_layers: the layers' weights must be plain and of one type, and their sizes "
          "multiples of 8");
  const auto temporary = [&](Shape shape, std::string_view name) {
    return batch.temporary(shape, DType::f32, name);
  };
  const Defines defines = defines_of(context, program_of);
  batch.launch({context.kernel(kDecodeLayersGpu, "decode_layers", defines),
                groups_of(static_cast<std::size_t>(group_of(device)),
                          static_cast<std::size_t>(groups_of_launch(device))),
                decode_layers_cost(decode), "decode_layers/forward", tensors_of(decode)},
               x, temporary({s.H + s.G, s.E}, "heads"),
               temporary({s.H, splits_of(device, s), s.E + 2}, "attention parts"),
               temporary({s.F}, "swiglu"), temporary({s.D}, "output"),
               temporary({max_s_parts(decode)}, "s parts"), decode_table(context, decode),
               decode.position, decode.last, decode.slot, decode.pages.tables, grid_barrier,
               by_value(decode_problem(decode)));
}

void record_decode_layers_gpu_in_full(Batch& batch, const Tensor& x, const DecodeLayers& decode,
                                      const Tensor& grid_barrier) {
  record_decode_layers_gpu(batch, x, decode, grid_barrier, decode);
}

}  // namespace clora

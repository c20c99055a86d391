#include "ops/recurrent/delta_rule_matrix.hpp"

#include <fmt/format.h>

#include <cmath>

#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/hopper/ptx.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::string_view kRows = "delta_rule_rows.cl";
constexpr std::int64_t kChunk = 64;    // CHUNK of delta_rule_matrix.clh
constexpr std::int64_t kPad = 64;      // of K_PAD and V_PAD
constexpr std::int64_t kMaxDim = 128;  // of a head: tiles of wider ones do not fit
constexpr std::int64_t kDimStep = 8;   // a chunk of 16 bytes
constexpr std::int64_t kSubgroups = 4;
constexpr std::int64_t kRowsGroup = 128;

// Narrow slices: the groups of a pass over the chunks are too few to fill a GPU. Hopper's GPUs have
// local memory for a third stage.
DeltaRuleMatrixTile tile_on(const Context& context) {
  return {.slice = 16, .stages = context.device().matrix_unit == MatrixUnit::wgmma ? 3 : 2};
}

const char* refusal_of(const Context& context, const DeltaRuleInputs& in) {
  const DeltaRuleHeads& heads = in.heads;
  const bool fits = heads.key_dim % kDimStep == 0 && heads.value_dim % kDimStep == 0 &&
                    heads.key_dim <= kMaxDim && heads.value_dim <= kMaxDim;
  if (!fits) return "it is for heads of multiples of 8 elements up to 128";
  if (in.qkv.shape()[0] < kChunk) return "it is for chunks of 64 rows";
  return matrix_unit_of(context).unit == MatrixUnit::mma
             ? nullptr
             : "its tiles need more local memory than matrix units but NVIDIA's have";
}

// One call: sizes, programs and scratch, which its forward and backward share.
class MatrixCall {
 public:
  MatrixCall(Batch& batch, const DeltaRuleInputs& in, MatrixUnitChoice unit,
             DeltaRuleMatrixTile tile)
      : batch_(batch), in_(in), unit_(unit), tile_(tile) {}

  // Everything up to the states.
  void record_states() {
    const std::int64_t keys = heads().key_heads * heads().key_dim, H = heads().value_heads;
    q_ = gather(in_.qkv, 0, key(), key_scale(), "delta q");
    k_ = gather(in_.qkv, keys, key(), 1, "delta k");
    v_ = gather(in_.qkv, 2 * keys, value(), 0, "delta v");
    gates_ = batch_.temporary({4, H, padded_}, DType::f32, "delta gates");
    w_ = scratch({H, padded_, key().pad}, "delta w");
    u_ = scratch({H, padded_, value().pad}, "delta u");
    const Tensor before = scratch(u_.shape(), "delta u before states");
    inverse_ = scratch({H, padded_, kChunk}, "delta inverse");
    states_ = scratch({H, (chunks() + 1) * key().pad, value().pad}, "delta states");
    const Grid of_rows{{static_cast<std::size_t>(padded_), static_cast<std::size_t>(H), 1},
                       {static_cast<std::size_t>(kChunk), 1, 1}};
    batch_.launch(rows_launch("gates", value(), of_rows), gates_, in_.a, in_.b, in_.rate,
                  in_.dt_bias, in_.rows, rows(), padded());
    batch_.launch(launch_of(kDeltaRuleMatrix, "chunk", chunks()), w_, before, inverse_, k_, v_,
                  gates_, in_.rows, rows(), padded());
    batch_.launch(launch_of(kDeltaRuleMatrix, "states", slices()), states_, u_, before, w_, k_,
                  gates_, padded());
  }

  void record_output(const Tensor& y) {
    Launch launch = launch_of(kDeltaRuleMatrix, "output", chunks());
    launch.cost = delta_rule_cost(rows(), heads(), y.type());
    batch_.launch(std::move(launch), y, q_, k_, u_, states_, gates_, in_.rows, rows(), padded());
  }

  void record_gradients(const DeltaRuleGradients& d, const Tensor& dy_rows) {
    const Tensor dy = gather(dy_rows, 0, value(), 0, "delta dy");
    const Tensor before = scratch(u_.shape(), "delta du before states");
    const Tensor du = scratch(u_.shape(), "delta du"), carry_dy = scratch(u_.shape(), "delta P dy");
    const Tensor d_states =
        scratch({heads().value_heads, chunks() * key().pad, value().pad}, "delta dstates");
    const Tensor dq = scratch(w_.shape(), "delta dq"), dk = scratch(w_.shape(), "delta dk");
    batch_.launch(launch_of(kDeltaRuleBackwardMatrix, "local", chunks()), before, carry_dy, q_, k_,
                  dy, gates_, in_.rows, rows(), padded());
    batch_.launch(launch_of(kDeltaRuleBackwardMatrix, "backward_states", slices()), d_states, du,
                  before, q_, k_, w_, carry_dy, gates_, padded());
    Launch chunk = launch_of(kDeltaRuleBackwardMatrix, "backward_chunk", chunks());
    chunk.cost = delta_rule_backward_cost(rows(), heads(), in_.qkv.type());
    batch_.launch(std::move(chunk), d.dqkv, d.da, d.db, dq, dk, in_.a, q_, k_, v_, u_, dy, du,
                  inverse_, states_, d_states, gates_, in_.rate, in_.dt_bias, in_.rows, rows(),
                  padded());
    scatter(d.dqkv, dq, 0, key_scale());
    scatter(d.dqkv, dk, heads().key_heads * heads().key_dim, 1);
  }

 private:
  // Heads of a tensor, and their padded width.
  struct Heads {
    std::int64_t count, dim, pad;
  };

  const DeltaRuleHeads& heads() const { return in_.heads; }
  Heads key() const { return heads_of(heads().key_heads, heads().key_dim); }
  Heads value() const { return heads_of(heads().value_heads, heads().value_dim); }
  static Heads heads_of(std::int64_t count, std::int64_t dim) {
    return {count, dim, round_up(dim, kPad)};
  }
  float key_scale() const { return 1.0F / std::sqrt(static_cast<float>(heads().key_dim)); }
  std::int32_t rows() const { return i32(in_.qkv.shape()[0]); }
  std::int32_t padded() const { return i32(padded_); }
  std::int64_t chunks() const { return padded_ / kChunk; }
  std::int64_t slices() const { return value().pad / tile_.slice; }

  Tensor scratch(Shape shape, std::string_view name) {
    return batch_.temporary(shape, DType::bf16, name);
  }

  // x groups for each value head.
  Launch launch_of(std::string_view file, std::string_view part, std::int64_t x) const {
    Defines defines;
    define_matrix_unit(defines, unit_);
    defines.set("TYPE", name_of(in_.qkv.type()));
    defines.set("K_PAD", key().pad).set("V_PAD", value().pad);
    defines.set("KEY_DIM", heads().key_dim).set("VALUE_DIM", heads().value_dim);
    defines.set("KEY_HEADS", heads().key_heads).set("VALUE_HEADS", heads().value_heads);
    defines.set("SLICE", tile_.slice).set("STAGES", tile_.stages);
    const auto items = static_cast<std::size_t>(kSubgroups * matrix_unit_lanes(unit_));
    const Grid grid{
        {static_cast<std::size_t>(x) * items, static_cast<std::size_t>(heads().value_heads), 1},
        {items, 1, 1}};
    return {batch_.context().kernel(file, fmt::format("delta_rule_matrix_{}", part), defines),
            grid,
            {},
            fmt::format("delta_rule/{}", part)};
  }

  Launch rows_launch(std::string_view part, const Heads& of, const Grid& grid) const {
    Defines defines;
    defines.set("TYPE", name_of(in_.qkv.type())).set("GROUP", kRowsGroup);
    defines.set("HEAD_DIM", of.dim).set("HEAD_PAD", of.pad).set("CHUNK", kChunk);
    defines.set("VALUE_HEADS", heads().value_heads);
    defines.set("PER_KEY_HEAD", heads().value_heads / heads().key_heads);
    set_use_ptx(defines, batch_.context());
    return {batch_.context().kernel(kRows, fmt::format("delta_rule_rows_{}", part), defines),
            grid,
            {},
            fmt::format("delta_rule/{}", part)};
  }
  // An item for 8 elements of each head of each padded row.
  Grid grid_of(const Heads& of) const {
    const std::int64_t items = padded_ * of.count * (of.pad / 8);
    return groups_of(kRowsGroup, static_cast<std::size_t>(items / kRowsGroup));
  }

  Tensor gather(const Tensor& x, std::int64_t begin, const Heads& of, float scale,
                std::string_view name) {
    const Tensor out = scratch({of.count, padded_, of.pad}, name);
    Launch launch = rows_launch("gather", of, grid_of(of));
    launch.cost.bytes = 2.0 * static_cast<double>(out.bytes());
    batch_.launch(std::move(launch), out, x, rows(), padded(), i32(x.shape()[1]), i32(begin),
                  i32(of.count), scale);
    return out;
  }
  void scatter(const Tensor& dx, const Tensor& d, std::int64_t begin, float scale) {
    batch_.launch(rows_launch("scatter", key(), grid_of(key())), dx, d, in_.qkv, rows(), padded(),
                  i32(in_.qkv.shape()[1]), i32(begin), i32(heads().key_heads), scale);
  }

  Batch& batch_;
  const DeltaRuleInputs& in_;
  MatrixUnitChoice unit_;
  DeltaRuleMatrixTile tile_;
  std::int64_t padded_ = round_up(in_.qkv.shape()[0], kChunk);
  Tensor q_, k_, v_, gates_, w_, u_, inverse_, states_;
};

// Heads of these widths and counts, two documents, of which the second begins within a chunk.
DeltaRuleInputs test_inputs(SelfTest& test, const DeltaRuleInputs& like) {
  constexpr std::int64_t kTestRows = 3 * kChunk + 5;
  constexpr std::int32_t kSecond = 100;
  const DeltaRuleHeads& heads = like.heads;
  const DType type = like.qkv.type();
  std::vector<std::int32_t> first(kTestRows, 0);
  std::fill(first.begin() + kSecond, first.end(), kSecond);
  std::vector<float> rates(static_cast<std::size_t>(heads.value_heads), -0.3F);
  return {.heads = heads,
          .qkv = test.input({kTestRows, heads.width()}, 1, type),
          .a = test.input({kTestRows, heads.value_heads}, 1, type),
          .b = test.input({kTestRows, heads.value_heads}, 1, type),
          .rate = test.input({heads.value_heads}, rates),
          .dt_bias = test.input({heads.value_heads}),
          .rows = test.input({kTestRows}, first)};
}

std::string test_name(std::string_view part, const DeltaRuleInputs& in) {
  const DeltaRuleHeads& heads = in.heads;
  return fmt::format("{} {}x{} {}x{} {}", part, heads.key_heads, heads.key_dim, heads.value_heads,
                     heads.value_dim, name_of(in.qkv.type()));
}

}  // namespace

const char* delta_rule_matrix_refusal(const Context& context, const DeltaRuleForward& forward) {
  if (!forward.state.empty()) return "it keeps no state";
  return refusal_of(context, forward.in);
}
const char* delta_rule_backward_matrix_refusal(const Context& context,
                                               const DeltaRuleBackward& backward) {
  return refusal_of(context, backward.in);
}

bool delta_rule_matrix_passed(Context& context, const DeltaRuleForward& forward) {
  const std::string name = test_name("delta_rule_matrix", forward.in);
  return passed_self_test(context, {kDeltaRuleMatrix, name, kBf16Tolerance}, [&](SelfTest& test) {
    const DeltaRuleInputs in = test_inputs(test, forward.in);
    record_delta_rule(test.batch(),
                      test.output({in.qkv.shape()[0], in.heads.values()}, in.qkv.type()), in);
  });
}
bool delta_rule_backward_matrix_passed(Context& context, const DeltaRuleBackward& backward) {
  const std::string name = test_name("delta_rule_backward_matrix", backward.in);
  return passed_self_test(context, {kDeltaRuleBackwardMatrix, name, kBf16Tolerance},
                          [&](SelfTest& test) {
                            const DeltaRuleInputs in = test_inputs(test, backward.in);
                            const DType type = in.qkv.type();
                            record_delta_rule_backward(
                                test.batch(),
                                {test.output(in.qkv.shape(), type), test.output(in.a.shape(), type),
                                 test.output(in.b.shape(), type)},
                                test.input({in.qkv.shape()[0], in.heads.values()}, 1, type), in);
                          });
}

void record_delta_rule_matrix(Batch& batch, const DeltaRuleForward& forward) {
  record_delta_rule_matrix(batch, forward, matrix_unit_of(batch.context()),
                           tile_on(batch.context()));
}
void record_delta_rule_matrix(Batch& batch, const DeltaRuleForward& forward, MatrixUnitChoice unit,
                              DeltaRuleMatrixTile tile) {
  MatrixCall call(batch, forward.in, unit, tile);
  call.record_states();
  call.record_output(forward.y);
}

void record_delta_rule_backward_matrix(Batch& batch, const DeltaRuleBackward& backward) {
  record_delta_rule_backward_matrix(batch, backward, matrix_unit_of(batch.context()),
                                    tile_on(batch.context()));
}
void record_delta_rule_backward_matrix(Batch& batch, const DeltaRuleBackward& backward,
                                       MatrixUnitChoice unit, DeltaRuleMatrixTile tile) {
  MatrixCall call(batch, backward.in, unit, tile);
  call.record_states();
  call.record_gradients(backward.out, backward.dy);
}

}  // namespace clora

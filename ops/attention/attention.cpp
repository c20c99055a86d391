#include "clora/ops/attention/attention.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ops/activations.hpp"
#include "ops/attention/attention_flash.hpp"
#include "ops/attention/attention_hopper.hpp"
#include "ops/attention/attention_spec.hpp"

namespace clora {
namespace {

constexpr std::string_view kForward = "attention_cpu.cl";
constexpr std::string_view kForwardBf16 = "attention_bf16_cpu.cl";
constexpr std::string_view kDecodePortable = "attention_decode.cl";
constexpr std::int64_t kTestWidth = 20;
constexpr std::int64_t kBf16TestWidth = 32;

void record_decode_cpu(Batch& batch, const AttentionSpec& spec, const Tensor& y,
                       const Tensor& log_sum_exp, const AttentionInputs& in) {
  const std::int64_t T = spec.T, H = spec.H, G = spec.G, E = spec.E;
  const std::int64_t splits = spec.splits();
  const Tensor parts = batch.temporary({T, H, splits, E + 2}, DType::f32, "attention parts");
  batch.launch({spec.kernel("attention_decode_cpu.cl", "attention_decode_cpu"),
                single_item_groups(static_cast<std::size_t>(T * G * splits)), spec.cost(),
                "attention/decode"},
               parts, in.q, in.k, in.v, in.first, in.last, narrow(H), narrow(G), narrow(E),
               in.scale, narrow(splits), spec.local(spec.decode_scratch()));
  const bool keeps = !log_sum_exp.empty();
  batch.launch({spec.kernel("attention_decode_cpu.cl", "attention_join_cpu"),
                single_item_groups(static_cast<std::size_t>(T)),
                {},
                "attention/join"},
               y, keeps ? log_sum_exp : y, parts, narrow(H), narrow(E), narrow(splits),
               std::int32_t{keeps});
}

void record_decode_portable(Batch& batch, const AttentionSpec& spec, const Tensor& y,
                            const Tensor& log_sum_exp, std::int32_t keeps,
                            const AttentionInputs& in) {
  const std::int64_t T = spec.T, H = spec.H, splits = spec.portable_splits();
  Defines defines = spec.defines();
  defines.set("HEAD_DIM", spec.E).set("SPLITS", splits);
  defines.set("VEC_SIZE", reads_vec4s(spec, in) ? 4 : 1);
  const auto kernel = [&](std::string_view function) {
    return spec.context.kernel(kDecodePortable, function, defines);
  };
  const Tensor parts = batch.temporary({T, H, splits, spec.E + 2}, DType::f32, "attention parts");
  batch.launch(
      {kernel("attention_decode"), spec.groups(T * splits, H), spec.cost(), "attention/decode"},
      parts, in.q, in.k, in.v, in.first, in.last, spec.problem(in.scale));
  const std::int64_t elements = T * H * spec.E;
  batch.launch({kernel("attention_join"),
                spec.groups(divide_up(elements, spec.work_group()), 1),
                {},
                "attention/join"},
               y, log_sum_exp, parts, elements, keeps);
}

void test_attention(SelfTest& test, std::int64_t rows, std::int64_t keys, std::int64_t width,
                    DType type = DType::f32) {
  const AttentionInputs in = attention_test_inputs(test, rows, keys, width, type);
  record_attention(test.batch(), test.output(in.q.shape(), type),
                   test.output({rows, in.q.shape()[1]}), in);
}

// Three blocks of rows, for any kernel that processes blocks.
void test_blocks(SelfTest& test, std::int64_t width) {
  constexpr std::int64_t kRows = 2 * AttentionSpec::kQueries + 5;
  test_attention(test, kRows, kRows, width);
}

// Each head dim and each type of y has its own program.
bool wgmma_passed(const AttentionSpec& spec, DType type) {
  constexpr std::int64_t kRows = 2 * 128 + 5;  // three tiles
  return passed_self_test(
      spec.context,
      {attention_wgmma_file(spec.E), fmt::format("attention_wgmma {} {}", spec.E, name_of(type)),
       kBf16Tolerance},
      [&](SelfTest& test) { test_attention(test, kRows, kRows, spec.E, type); });
}

// Chooses the kernel: sets variant and bf16.
void choose_forward(AttentionSpec& spec, DType type) {
  if (spec.wants_wgmma() && wgmma_passed(spec, type)) {
    spec.variant = Variant::wgmma;
    return;
  }
  if (spec.decodes()) {
    spec.variant = variant_for(spec.context, "attention_decode_cpu.cl", "attention_decode_cpu",
                               [](SelfTest& test) { test_attention(test, 3, 90, kTestWidth); });
    return;
  }
  spec.bf16 =
      spec.wants_bf16(&AttentionSpec::forward_scratch) &&
      passed_self_test(spec.context, {kForwardBf16, "attention_forward_bf16_cpu", kBf16Tolerance},
                       [](SelfTest& test) { test_blocks(test, kBf16TestWidth); });
  spec.variant = spec.bf16 ? Variant::cpu
                           : variant_for(spec.context, kForward, "attention_forward_cpu",
                                         [](SelfTest& test) { test_blocks(test, kTestWidth); });
}

void record_forward_cpu(Batch& batch, const AttentionSpec& spec, const Tensor& y,
                        const Tensor& log_sum_exp, std::int32_t keeps, const AttentionInputs& in) {
  const std::int64_t T = spec.T, H = spec.H, G = spec.G;
  const std::int64_t blocks = divide_up(T, AttentionSpec::kQueries);
  if (spec.bf16) {
    const std::int64_t heads = spec.forward_heads(), group_blocks = spec.forward_blocks();
    const std::int64_t groups = divide_up(blocks, group_blocks) * G * divide_up(H / G, heads);
    batch.launch(
        {spec.kernel(kForwardBf16, "attention_forward_bf16_cpu"),
         single_item_groups(static_cast<std::size_t>(groups)), spec.cost(), "attention/forward"},
        y, log_sum_exp, in.q, in.k, in.v, in.first, in.last, spec.problem(in.scale), keeps,
        narrow(heads), narrow(group_blocks), spec.local(spec.forward_scratch()));
    return;
  }
  batch.launch(
      {spec.kernel(kForward, "attention_forward_cpu"),
       single_item_groups(static_cast<std::size_t>(H * blocks)), spec.cost(), "attention/forward"},
      y, log_sum_exp, in.q, in.k, in.v, in.first, in.last, spec.problem(in.scale), keeps,
      spec.local(spec.forward_scratch()));
}

void record_forward_portable(Batch& batch, const AttentionSpec& spec, const Tensor& y,
                             const Tensor& log_sum_exp, std::int32_t keeps,
                             const AttentionInputs& in) {
  if (spec.decodes()) return record_decode_portable(batch, spec, y, log_sum_exp, keeps, in);
  if (const auto tile = attention_tile(spec, in)) {
    record_attention_flash(batch, spec, *tile, {y, log_sum_exp, keeps != 0}, in);
    return;
  }
  (void)spec.local(2 * spec.E + spec.work_group());
  const LocalMemory row = spec.local(spec.E);
  batch.launch({spec.kernel("attention.cl", "attention_forward"), spec.groups(spec.T, spec.H),
                spec.cost(), "attention/forward"},
               y, log_sum_exp, in.q, in.k, in.v, in.first, in.last, spec.problem(in.scale), keeps,
               row, row);
}

}  // namespace

Tensor record_attention_order(Batch& batch, const Tensor& first, const Tensor& last,
                              std::int64_t H) {
  if (batch.context().variant() != Variant::wgmma) return {};
  const std::int64_t units = std::max(1U, batch.context().device().compute_units);
  return record_tile_order(batch, first, last, std::max<std::int64_t>(1, units / H));
}

void record_attention(Batch& batch, const Tensor& y, const Tensor& log_sum_exp,
                      const AttentionInputs& in) {
  AttentionSpec spec = checked_spec("attention", batch.context(), in);
  require_activation("attention", "y", y, in.q.shape());
  const bool keeps = !log_sum_exp.empty();
  if (keeps) require_tensor("attention", "log_sum_exp", log_sum_exp, {spec.T, spec.H});
  choose_forward(spec, y.type());
  if (spec.wgmma()) {
    record_attention_wgmma(batch, spec, y, log_sum_exp, in);
    return;
  }
  const AttentionInputs wide = upcast(batch, in);
  const Tensor out = f32_result(batch, y);
  const Tensor& logs = keeps ? log_sum_exp : out;  // not written unless keeps
  if (!spec.cpu()) {
    record_forward_portable(batch, spec, out, logs, keeps, wide);
  } else if (spec.decodes()) {
    record_decode_cpu(batch, spec, out, log_sum_exp, wide);
  } else {
    record_forward_cpu(batch, spec, out, logs, keeps, wide);
  }
  record_result(batch, y, out);
}

}  // namespace clora

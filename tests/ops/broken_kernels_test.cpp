// Self-tests of kernel variants. For each family, the fast kernel is broken, and the self-test must
// fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>

#include "clora/ops/attention/attention.hpp"
#include "clora/ops/attention/rope_append.hpp"
#include "clora/ops/gemm/gemm.hpp"
#include "clora/ops/lora_linear/dora.hpp"
#include "clora/ops/lora_linear/lora_linear.hpp"
#include "clora/ops/loss/cross_entropy.hpp"
#include "clora/ops/optimizers/adamw.hpp"
#include "clora/ops/optimizers/adamw_q8.hpp"
#include "clora/ops/optimizers/lion.hpp"
#include "clora/ops/optimizers/sgd.hpp"
#include "clora/ops/quant/quant.hpp"
#include "clora/ops/rowwise/dropout.hpp"
#include "clora/ops/rowwise/embedding.hpp"
#include "clora/ops/rowwise/gelu.hpp"
#include "clora/ops/rowwise/layer_norm.hpp"
#include "clora/ops/rowwise/rms_norm.hpp"
#include "clora/ops/rowwise/rope.hpp"
#include "clora/ops/rowwise/soft_cap.hpp"
#include "clora/ops/rowwise/softmax.hpp"
#include "clora/ops/rowwise/swiglu.hpp"
#include "clora/ops/sample.hpp"
#include "tests/support/copied_kernels.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::Folders;
using test::Observed;
using test::same;
using testing::HasSubstr;

// The edit that breaks a kernel. By default every group does the work of the first one, as pocl 3.1
// miscompiles static functions that are not inlined.
struct Break {
  std::string file;
  std::string what = "get_group_id(0)";
  std::string by = "0";
};

struct Family {
  std::string name;  // the kernel's name in the warning
  Break broken;
  SelfTestRecord record;
  Variant variant = Variant::cpu;
  double tolerance = 1e-4;   // of the fast kernels relative to the portable ones
  std::string feature = {};  // what is broken, where a kernel has several breaks in one file
};

AttentionInputs attention_inputs(SelfTest& t, std::int64_t rows, std::int64_t width,
                                 DType keys = DType::f32) {
  std::vector<std::int32_t> last(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < last.size(); ++i) last[i] = static_cast<std::int32_t>(i);
  return {.q = t.input({rows, 2, width}),
          .k = t.input({rows, 1, width}, 1, keys),
          .v = t.input({rows, 1, width}, 1, keys),
          .first = t.input({rows}, std::vector<std::int32_t>(last.size(), 0)),
          .last = t.input({rows}, last),
          .scale = 0.25F};
}

void attention(SelfTest& t, std::int64_t rows, bool backward, std::int64_t width = 16,
               float soft_cap = 0) {
  AttentionInputs in = attention_inputs(t, rows, width);
  in.soft_cap = soft_cap;
  const Tensor y = t.output(in.q.shape());
  const Tensor logs = t.output({rows, 2});
  record_attention(t.batch(), y, logs, in);
  if (!backward) return;
  record_attention_backward(
      t.batch(), {t.output(in.q.shape()), t.output(in.k.shape()), t.output(in.k.shape())},
      t.input(in.q.shape()), y, logs, in);
}

// Over keys and values of another type than f32, as in a cache.
void attention_over(DType keys, SelfTest& t, std::int64_t rows, std::int64_t width = 16) {
  const AttentionInputs in = attention_inputs(t, rows, width, keys);
  record_attention(t.batch(), t.output(in.q.shape()), {}, in);
}

// Rows over so many keys that their splits have work.
void attention_in_splits(SelfTest& t) {
  constexpr std::int64_t kRows = 3, kKeys = 1600;
  const Shape keys{kKeys, 1, 128};
  const AttentionInputs in{.q = t.input({kRows, 2, 128}),
                           .k = t.input(keys, 1, DType::bf16),
                           .v = t.input(keys, 1, DType::bf16),
                           .first = t.input({kRows}, std::vector<std::int32_t>(kRows, 0)),
                           .last = t.input({kRows}, std::vector<std::int32_t>(kRows, kKeys - 1)),
                           .scale = 0.25F};
  record_attention(t.batch(), t.output(in.q.shape()), {}, in);
}

void append_to(DType cache, SelfTest& t) {
  record_cache_append(t.batch(), t.changed(t.input({9, 1, 16}, 1, cache)), t.input({5, 1, 16}),
                      t.input({5}, std::vector<std::int32_t>{4, 0, 8, 1, 2}));
}

void rope_and_append_to(DType cache, SelfTest& t) {
  const Shape keys{5, 1, 32}, rows{9, 1, 32};
  record_rope_append(t.batch(),
                     {.queries = t.changed(t.input({5, 2, 32})),
                      .keys = t.changed(t.input(keys)),
                      .values = t.input(keys),
                      .key_cache = t.changed(t.input(rows, 1, cache)),
                      .value_cache = t.changed(t.input(rows, 1, cache)),
                      .positions = t.input({5}, std::vector<std::int32_t>{3, 0, 6, 5, 6}),
                      .slots = t.input({5}, std::vector<std::int32_t>{4, 0, 8, 1, 2}),
                      .table = t.input({7, 16, 2})},
                     RopeLayout::half_split);
}

const std::vector<std::int32_t> kIds{3, 0, 6, 5, 6};
const std::vector<std::int32_t> kToken{7};

MomentumTensors with_momentum(SelfTest& t) {
  const auto words = std::bit_cast<std::array<float, 8>>(UpdateSettings{.learning_rate = 1});
  return {t.changed(t.input({300})), t.changed(t.input({300})), t.input({300}),
          t.input({8}, words)};
}

void head_loss(SelfTest& t) {
  const std::vector<std::int32_t> targets(40, 5);
  record_head_loss(t.batch(), t.output({40}), t.output({40, 64}),
                   {.x = t.input({40, 64}),
                    .head = t.input({80, 64}),
                    .targets = t.input({40}, targets),
                    .weight = t.input({1}, std::vector{0.5F})});
}

void lora_gradients(SelfTest& t) {
  // The rounding error of the other kernels is below the break's.
  const LoraWeights lora{t.input({4, 70}), t.input({4, 600}, 0.02F)};
  record_lora_linear_backward(t.batch(), t.output({90, 70}),
                              {t.changed(t.input({4, 70})), t.changed(t.input({4, 600}))},
                              t.input({90, 600}), {t.input({90, 70}), t.input({90, 4})},
                              {t.input({600, 70}, 0.05F), {}}, lora, Accumulate::no);
}

// Scaled columns, and one row of another adapter than the rest.
Epilogue two_adapters(SelfTest& t, std::int64_t rows, std::int64_t columns) {
  const std::array groups{RowGroup{0, 1, 1, 4}, RowGroup{1, rows, 0}};
  return {
      .low_rank = {.s = t.input({rows, 5}),
                   .u = t.input({2, 5, columns}),
                   .row_groups = t.input({rows, kRowGroupWords}, row_group_table(rows, groups))},
      .column_scale = t.input({columns})};
}

// Rows of two adapters with their shrink, which is in the product's launch. The rounding errors of
// other kernels are below the break's.
void row_shrink(SelfTest& t, std::int64_t steps) {
  constexpr std::int64_t kRows = 40, kRank = 16;
  const std::array groups{RowGroup{0, 9, 1, 12}, RowGroup{11, kRows, 0}};
  const Shape a{2, kRank, steps};
  LowRankTerm term{.s = t.changed(t.input({kRows, kRank}, 0.1F)),
                   .u = t.input({2, kRank, 80}),
                   .a = t.input(a),
                   .a_bf16 = t.input(a, 0.1F, DType::bf16)};
  term.row_groups = t.input({kRows, kRowGroupWords}, row_group_table(kRows, groups));
  record_gemm(t.batch(), t.output({kRows, 80}), t.input({kRows, steps}, 0.1F, DType::bf16),
              t.input({80, steps}, 0.1F), {.low_rank = term});
}

// Factors of DoRA to which b a w^T contributes much.
void column_scales(SelfTest& t) {
  constexpr std::int64_t kRank = 20, kColumns = 1024, kSteps = 128;
  constexpr std::size_t kBt = kRank * kSteps, kMagnitude = kBt + kRank * kColumns;
  const Tensor w = t.input({kColumns, kSteps}, 1, DType::bf16);
  const std::vector<float> squared(kColumns, 20.0F);
  record_column_scales(t.batch(), {.parameters = t.input({kMagnitude + kColumns}, 0.3F),
                                   .squared = t.input({kColumns}, squared),
                                   .column_scale = t.changed(t.input({kColumns})),
                                   .layers = {{.w = w,
                                               .rank = kRank,
                                               .scale = 0.5F,
                                               .a = 0,
                                               .bt = kBt,
                                               .magnitude = kMagnitude,
                                               .columns = 0}}});
}

std::vector<Family> families() {
  const Break range{"group_range.clh"};
  return {
      {"softmax_forward", range,
       [](SelfTest& t) {
         record_softmax(t.batch(), t.output({9, 40}), t.input({9, 40}));
       }},
      {"softmax_backward", range,
       [](SelfTest& t) {
         record_softmax_backward(t.batch(), t.output({9, 40}), t.input({9, 40}), t.input({9, 40}));
       }},
      {"rms_norm_forward", range,
       [](SelfTest& t) {
         record_rms_norm(t.batch(), t.output({9, 40}), t.input({9, 40}), t.input({40}), 1e-5F);
       }},
      {"rms_norm_forward_add", range,
       [](SelfTest& t) {
         const Tensor x0 = t.input({9, 40});
         record_rms_norm(t.batch(), t.output({9, 40}), t.input({9, 40}), t.input({40}), 1e-5F,
                         {x0, 0.5F});
       }},
      {"rms_norm_backward", range,
       [](SelfTest& t) {
         record_rms_norm_backward(t.batch(), t.output({9, 40}), t.input({9, 40}), t.input({9, 40}),
                                  t.input({40}), {}, 1e-5F);
       }},
      {"rms_norm_backward_recompute",
       {"rms_norm_cpu.cl", "if (y) vstore16(v * scale", "if (y) vstore16(v"},
       [](SelfTest& t) {
         record_rms_norm_backward(t.batch(), t.output({9, 40}), t.input({9, 40}), t.input({9, 40}),
                                  t.input({40}), {}, 1e-5F, {.y = t.output({9, 40})});
       }},
      {"layer_norm_forward", range,
       [](SelfTest& t) {
         record_layer_norm(t.batch(), t.output({9, 40}), t.input({9, 40}), t.input({40}),
                           t.input({40}), 1e-5F);
       }},
      {"layer_norm_backward", range,
       [](SelfTest& t) {
         record_layer_norm_backward(t.batch(), t.output({9, 40}), t.input({9, 40}),
                                    t.input({9, 40}), t.input({40}), {}, 1e-5F);
       }},
      {"swiglu_forward", range,
       [](SelfTest& t) {
         record_swiglu(t.batch(), t.output({9000}), t.input({9000}), t.input({9000}));
       }},
      {"swiglu_forward_saving", range,
       [](SelfTest& t) {
         const SwigluSaved saved{t.output({9000}, DType::bf16), t.output({9000}, DType::bf16)};
         record_swiglu(t.batch(), t.output({9000}), t.input({9000}), t.input({9000}), saved);
       }},
      {"swiglu_forward_saved", range,
       [](SelfTest& t) {
         record_swiglu(t.batch(), t.output({9000}), t.input({9000}, 1, DType::bf16),
                       t.input({9000}, 1, DType::bf16));
       }},
      {"swiglu_backward_saved", range,
       [](SelfTest& t) {
         record_swiglu_backward(t.batch(), t.output({9000}), t.output({9000}), t.input({9000}),
                                t.input({9000}, 1, DType::bf16), t.input({9000}, 1, DType::bf16));
       }},
      {"swiglu_backward", range,
       [](SelfTest& t) {
         record_swiglu_backward(t.batch(), t.output({9000}), t.output({9000}), t.input({9000}),
                                t.input({9000}), t.input({9000}));
       }},
      {"swiglu_backward_recompute", range,
       [](SelfTest& t) {
         record_swiglu_backward(t.batch(), t.output({9000}), t.output({9000}), t.input({9000}),
                                t.input({9000}), t.input({9000}), t.output({9000}));
       }},
      {"swiglu_backward_saved_recompute",
       {"swiglu_cpu.cl", "store16(GATE_FACTOR(g) * s * u", "store16(GATE_FACTOR(g) * s"},
       [](SelfTest& t) {
         record_swiglu_backward(t.batch(), t.output({9000}), t.output({9000}), t.input({9000}),
                                t.input({9000}, 1, DType::bf16), t.input({9000}, 1, DType::bf16),
                                t.output({9000}));
       }},
      {"gelu_forward", range,
       [](SelfTest& t) { record_gelu(t.batch(), t.output({9000}), t.input({9000})); }},
      {"gelu_backward", range,
       [](SelfTest& t) {
         record_gelu_backward(t.batch(), t.output({9000}), t.input({9000}), t.input({9000}));
       }},
      {"gelu_backward_recompute", range,
       [](SelfTest& t) {
         record_gelu_backward(t.batch(), t.output({9000}), t.input({9000}), t.input({9000}),
                              t.output({9000}));
       }},
      {"rope", range,
       [](SelfTest& t) {
         record_rope(t.batch(), t.output({5, 2, 32}), t.input({5, 2, 32}), t.input({5}, kIds),
                     t.input({7, 16, 2}), RopeLayout::half_split, RopeDirection::forward);
       }},
      {"dropout_range",
       {"dropout.cl"},
       [](SelfTest& t) {
         const std::vector<std::uint32_t> counters{1, 2};
         record_dropout(t.batch(), t.output({99}), t.input({99}), t.input({2}, counters), {0.5F, 1},
                        false);
       }},
      {"embedding_rows q8_0",
       {"embedding.cl"},
       [](SelfTest& t) {
         record_embedding(t.batch(), t.output({5, 64}), t.input({5}, kIds),
                          t.weights({7, 64}, DType::q8_0));
       }},
      {"embedding_rows q8_0 scaled",
       {"embedding.cl", "vstore16(SCALED_VALUE(hi)", "vstore16((hi)"},
       [](SelfTest& t) {
         record_embedding(t.batch(), t.output({5, 64}), t.input({5}, kIds),
                          t.weights({7, 64}, DType::q8_0), 3);
       }},
      {"dequantise_rows q4_1",
       {"quant.cl"},
       [](SelfTest& t) {
         record_dequantise(t.batch(), t.output({9, 64}), t.weights({9, 64}, DType::q4_1));
       }},
      {"gemm_tiles q4_1",
       {"gemm_cpu.cl"},
       [](SelfTest& t) {
         record_gemm(t.batch(), t.output({40, 70}), t.input({40, 64}),
                     t.weights({70, 64}, DType::q4_1));
       }},
      {"gemm_tiles q4_1",
       {"gemm_epilogue_cpu.clh", "{y, 0, e.column_scale}", "{y, 0, 0}"},
       [](SelfTest& t) {
         record_gemm(t.batch(), t.output({40, 70}), t.input({40, 64}),
                     t.weights({70, 64}, DType::q4_1), two_adapters(t, 40, 70));
       }},
      {"gemm_skinny f32",
       {"gemm_skinny_epilogue_cpu.clh", "total *= vload16(0, e.column_scale)", "total *= 1.0f"},
       [](SelfTest& t) {
         record_gemm(t.batch(), t.output({2, 70}), t.input({2, 64}), t.input({70, 64}),
                     two_adapters(t, 2, 70));
       }},
      {"gemm_skinny_int8 q4_1 packed",
       {"gemm_skinny_int8_cpu.cl"},
       [](SelfTest& t) {
         record_gemm(t.batch(), t.output({2, 80}), t.input({2, 64}),
                     t.weights({80, 64}, DType::q4_1, Layout::packed));
       },
       Variant::cpu_int8},
      {"gemm_packed_cpu f32 packed",
       {"gemm_packed_cpu.cl", "get_group_id(1)"},
       [](SelfTest& t) {
         record_gemm(t.batch(), t.output({40, 80}), t.input({40, 64}),
                     t.weights({80, 64}, DType::f32, Layout::packed));
       }},
      {"gemm_packed_cpu f32 packed",
       {"shrink_dots_cpu.clh", "min(r + 2, R - 1)", "min(r + 1, R - 1)"},
       [](SelfTest& t) {
         record_gemm(t.batch(), t.output({40, 80}), t.input({40, 64}),
                     t.weights({80, 64}, DType::f32, Layout::packed),
                     {.low_rank = {t.output({40, 5}), t.input({5, 80}), 1, t.input({5, 64})}});
       }},
      {"gemm_skinny_packed f32 packed",
       {"gemm_skinny_packed_cpu.cl"},
       [](SelfTest& t) {
         record_gemm(t.batch(), t.output({2, 80}), t.input({2, 64}),
                     t.weights({80, 64}, DType::f32, Layout::packed));
       }},
      {"gemm_skinny f32",
       {"gemm_skinny_cpu.cl"},
       [](SelfTest& t) {
         record_gemm(t.batch(), t.output({2, 70}), t.input({2, 64}), t.input({70, 64}));
       }},
      {"gemm_wgmma",
       {"gemm_wgmma_epilogue.clh", "(float2)(two[0], two[1])", "(float2)(two[0], two[0])"},
       [](SelfTest& t) {
         record_gemm(t.batch(), t.output({40, 80}), t.input({40, 64}), t.input({80, 64}));
       },
       Variant::wgmma,
       kBf16Tolerance},
      {"head_loss_wgmma",
       {"cross_entropy_head_wgmma.cl", "total[1] = row_sum(total[1]);", ""},
       head_loss,
       Variant::wgmma,
       kBf16Tolerance},
      {"head_loss_matrix",
       {"cross_entropy_head_matrix.cl", "n < SUBGROUPS_ACROSS; ++n",
        "n + 1 < SUBGROUPS_ACROSS; ++n"},
       head_loss,
       Variant::mma,
       kBf16Tolerance},
      {"gemm_wgmma",
       {"gemm_wgmma.cl", "shrink_scale * term_scale", "shrink_scale"},
       [](SelfTest& t) {
         // In that case another program computes s and rounds it. That error is below the break's.
         record_gemm(
             t.batch(), t.output({40, 80}), t.input({40, 64}, 1, DType::bf16), t.input({80, 64}),
             {.low_rank = {t.output({40, 5}), t.input({5, 80}), 0.5F, t.input({5, 64}, 0.1F)}});
       },
       Variant::wgmma,
       kBf16Tolerance},
      {"gemm_wgmma",
       {"gemm_wgmma_row_shrink.clh", "own[8] = sums[2];", "own[8] = sums[0];"},
       [](SelfTest& t) { row_shrink(t, 256); },
       Variant::wgmma,
       kBf16Tolerance},
      {"gemm_wgmma",
       {"gemm_wgmma_epilogue.clh", "sums[4 * j] += of.x;", ""},
       [](SelfTest& t) { row_shrink(t, 3072); },
       Variant::wgmma,
       kBf16Tolerance,
       "slices"},
      {"gemm_wgmma",
       {"gemm_wgmma_tile_coords.clh", "tile.slice = id % grid.slices", "tile.slice = 0"},
       [](SelfTest& t) {
         record_gemm(t.batch(), t.output({40, 80}), t.input({40, 3072}), t.input({80, 3072}));
       },
       Variant::wgmma,
       kBf16Tolerance},
      {"gemm_skinny ptx",
       {"warp_lanes.clh", "shfl.sync.bfly", "shfl.sync.up"},
       [](SelfTest& t) {
         record_gemm(t.batch(), t.output({1, 80}), t.input({1, 64}), t.input({80, 64}));
       },
       Variant::wgmma},
      {"gemm_matrix",
       {"gemm_matrix_stages.clh", "rows - 1) * stride", "rows - 2) * stride"},
       [](SelfTest& t) {
         record_gemm(t.batch(), t.output({40, 80}), t.input({40, 64}), t.input({80, 64}));
       },
       Variant::mma,
       kBf16Tolerance},
      {"lora_gradient",
       {"lora_linear_cpu.cl"},
       [](SelfTest& t) {
         record_lora_gradient(t.batch(), t.changed(t.input({4, 70})), t.input({9, 4}),
                              t.input({9, 70}), 1);
       }},
      {"lora_gradients_wgmma",
       {"lora_gradient_sums.clh", "first + i < count", "first + i + 1 < count"},
       lora_gradients,
       Variant::wgmma,
       kBf16Tolerance},
      {"lora_gradients_matrix",
       {"lora_gradient_matrix.cl", "n < SPLITS; ++n", "n + 1 < SPLITS; ++n"},
       lora_gradients,
       Variant::mma,
       kBf16Tolerance},
      {"dora_products",
       {"dora_products.cl", "min(r0 + lane / 4 + 8, R - 1)", "min(r0 + lane / 4, R - 1)"},
       column_scales,
       Variant::mma},
      {"attention_forward_cpu", {"attention_cpu.cl"}, [](SelfTest& t) { attention(t, 70, false); }},
      {"attention_forward_bf16_cpu",
       {"attention_bf16_cpu.cl"},
       [](SelfTest& t) { attention(t, 70, false, 32); },
       Variant::avx512_bf16},
      {"attention_backward_bf16_cpu",
       {"attention_backward_bf16_cpu.cl"},
       [](SelfTest& t) { attention(t, 70, true, 32); },
       Variant::avx512_bf16,
       kBf16Tolerance},
      {"attention_wgmma 64 f32",
       {"attention_hdim64_wgmma.cl", "x - (shifted - 12582912.0f)", "x - (shifted - 12582911.0f)"},
       [](SelfTest& t) { attention(t, 261, false, 64); },
       Variant::wgmma,
       kBf16Tolerance},
      {"attention_wgmma 128 f32",
       {"attention_wgmma.clh", "rows->factor[i / 2 % 2];", "rows->factor[0];"},
       [](SelfTest& t) { attention(t, 261, false, 128); },
       Variant::wgmma,
       kBf16Tolerance},
      {"attention_backward_wgmma 128 f32",
       {"attention_backward_wgmma_scores.clh", "if (key + 8 > t ||", "if (key + 9 > t ||"},
       [](SelfTest& t) { attention(t, 261, true, 128); },
       Variant::wgmma,
       kBf16Tolerance},
      {"attention_matrix 96 f32",
       {"attention_matrix.clh", "out[r][e].v[i][j] *= factor", "out[r][e].v[i][j] *= 1.0f"},
       [](SelfTest& t) { attention(t, 261, false, 96); },
       Variant::mma,
       kBf16Tolerance},
      {"attention_backward_matrix 96 f32",
       {"attention_backward_keys_matrix.cl", "scales[r][i] = scale", "scales[r][i] = 1.0f"},
       [](SelfTest& t) { attention(t, 261, true, 96); },
       Variant::mma,
       kBf16Tolerance},
      {"attention_decode_matrix 64 f32 bf16 keys",
       {"attention_decode_matrix.cl", "key <= keys.y) continue;", "true) continue;"},
       [](SelfTest& t) { attention_over(DType::bf16, t, 5, 64); },
       Variant::mma,
       kBf16Tolerance},
      {"attention_decode_matrix 128 f32 bf16 keys in splits",
       {"attention_decode_parts.clh", "(float2)(two[0], two[1])", "(float2)(two[0], 0.0f)"},
       attention_in_splits,
       Variant::mma,
       kBf16Tolerance},
      {"attention_decode_cpu",
       {"attention_decode_cpu.cl"},
       [](SelfTest& t) { attention(t, 5, false); }},
      {"attention_backward_cpu",
       {"attention_backward_cpu.cl"},
       [](SelfTest& t) { attention(t, 70, true); }},
      {"attention_forward_cpu capped",
       {"attention_lanes_cpu.clh", "CAP_SCORES(s, LN_2);", ""},
       [](SelfTest& t) { attention(t, 70, false, 16, 0.1F); }},
      {"attention_forward_bf16_cpu capped",
       {"attention_lanes_cpu.clh", "CAP_SCORES(s, LN_2);", ""},
       [](SelfTest& t) { attention(t, 70, false, 32, 0.1F); },
       Variant::avx512_bf16},
      {"attention_backward_cpu capped",
       {"attention_backward_cpu.cl", "CAP_GRADIENTS(gradient, score, LN_2);", ""},
       [](SelfTest& t) { attention(t, 70, true, 16, 0.1F); }},
      {"attention_backward_bf16_cpu capped",
       {"attention_backward_bf16_cpu.cl", "CAP_GRADIENTS(change, weight##_score, LN_2);", ""},
       [](SelfTest& t) { attention(t, 70, true, 32, 0.1F); },
       Variant::avx512_bf16,
       kBf16Tolerance},
      {"attention_decode_cpu capped",
       {"attention_decode_cpu.clh", "CAP_SCORES(s, 1.0f)", "CAP_SCORES(s, 0.5f)"},
       [](SelfTest& t) { attention(t, 5, false, 16, 0.1F); }},
      {"attention_forward_cpu bf16 keys",
       {"attention_upcast_cpu.clh", "from + n * step", "from"},
       [](SelfTest& t) { attention_over(DType::bf16, t, 70); }},
      {"attention_forward_cpu f16 keys",
       {"attention_upcast_cpu.clh", "from + n * step", "from"},
       [](SelfTest& t) { attention_over(DType::f16, t, 70); }},
      {"attention_forward_bf16_cpu bf16 keys",
       {"attention_bf16_tile_cpu.clh", "interleaved(even, odd)", "interleaved(odd, even)"},
       [](SelfTest& t) { attention_over(DType::bf16, t, 70, 32); },
       Variant::avx512_bf16,
       kBf16Tolerance},
      {"attention_forward_bf16_cpu f16 keys",
       {"attention_bf16_tile_cpu.clh", "load16_f16((at) + 16)", "load16_f16(at)"},
       [](SelfTest& t) { attention_over(DType::f16, t, 70, 32); },
       Variant::avx512_bf16,
       kBf16Tolerance},
      {"attention_decode_cpu bf16 keys",
       {"attention_upcast_cpu.clh", "from + n * step", "from"},
       [](SelfTest& t) { attention_over(DType::bf16, t, 5); }},
      {"attention_decode_cpu f16 keys",
       {"attention_upcast_cpu.clh", "from + n * step", "from"},
       [](SelfTest& t) { attention_over(DType::f16, t, 5); }},
      {"cache_append_cpu",
       {"attention_decode_cpu.cl"},
       [](SelfTest& t) { append_to(DType::f32, t); }},
      {"cache_append_cpu bf16 keys",
       {"bf16_values16.clh", "0x7fffu", "0x0u"},
       [](SelfTest& t) { append_to(DType::bf16, t); }},
      {"cache_append_cpu f16 keys",
       {"f16_values16.clh", "size - 0x38000000u + 0xfffu", "size - 0x38000000u"},
       [](SelfTest& t) { append_to(DType::f16, t); }},
      {"rope_append_cpu f32 keys", range, [](SelfTest& t) { rope_and_append_to(DType::f32, t); }},
      {"rope_append_cpu bf16 keys",
       {"rope_append_cpu.cl", "values + t * key_width", "values"},
       [](SelfTest& t) { rope_and_append_to(DType::bf16, t); },
       Variant::cpu,
       kBf16Tolerance},
      {"rope_append_cpu f16 keys",
       {"rope_append_cpu.cl", "k, key_table + angles", "k, key_table"},
       [](SelfTest& t) { rope_and_append_to(DType::f16, t); },
       Variant::cpu,
       kBf16Tolerance},
      {"rope_append_cpu q8_0 keys",
       {"rope_append_cpu.cl", "key_cache + into", "key_cache"},
       [](SelfTest& t) { rope_and_append_to(DType::q8_0, t); },
       Variant::cpu,
       kBf16Tolerance},
      {"cross_entropy_loss",
       {"cross_entropy_cpu.cl"},
       [](SelfTest& t) {
         record_cross_entropy(t.batch(), t.output({5}), {}, {t.input({5, 40}), t.input({5}, kIds)});
       }},
      {"cross_entropy_gradient",
       {"cross_entropy_cpu.cl"},
       [](SelfTest& t) {
         record_cross_entropy(t.batch(), t.output({5}), t.output({5, 40}),
                              {t.input({5, 40}), t.input({5}, kIds), t.input({1})});
       }},
      {"cross_entropy_gradient capped",
       {"cross_entropy_cpu.cl", "CAP_GRADIENTS(d, x, 1.0f);", ""},
       [](SelfTest& t) {
         record_cross_entropy(t.batch(), t.output({5}), t.output({5, 40}),
                              {.logits = t.input({5, 40}),
                               .targets = t.input({5}, kIds),
                               .weight = t.input({1}),
                               .soft_cap = 0.5F});
       }},
      {"cross_entropy_loss capped",
       {"cross_entropy_cpu.cl", "(max_logit - capped(row[target]))", "(max_logit - row[target])"},
       [](SelfTest& t) {
         record_cross_entropy(
             t.batch(), t.output({5}), {},
             {.logits = t.input({5, 40}), .targets = t.input({5}, kIds), .soft_cap = 0.5F});
       }},
      {"cross_entropy_gradient with terms",
       {"cross_entropy_cpu.cl", "(p - TARGET_FACTOR)", "(p - 1.0f)"},
       [](SelfTest& t) {
         record_cross_entropy(t.batch(), t.output({5}), t.output({5, 40}),
                              {.logits = t.input({5, 40}),
                               .targets = t.input({5}, kIds),
                               .weight = t.input({1}),
                               .terms = {0.2F, 0.1F, t.output({5})}});
       }},
      {"dot_in_order",
       {"cross_entropy_cpu.cl", "vload16(0, x + i) * vload16(0, y + i)", "vload16(0, x + i)"},
       [](SelfTest& t) {
         record_dot(t.batch(), t.changed(t.input({1})), t.input({99}), t.input({99}));
       }},
      {"soft_cap",
       {"soft_cap_cpu.cl", "capped16(vload16(i, x), cap)", "capped16(vload16(0, x), cap)"},
       [](SelfTest& t) { record_soft_cap(t.batch(), t.changed(t.input({70'000})), 0.5F); }},
      {"sum_in_order",
       {"cross_entropy_cpu.cl", "for (; i + 16 <= count; i += 16)",
        "for (; i + 16 <= count; i += 32)"},
       [](SelfTest& t) { record_sum(t.batch(), t.output({1}), t.input({99}), false); }},
      {"adamw",
       {"flat_update_cpu.clh"},
       [](SelfTest& t) {
         const auto words = std::bit_cast<std::array<float, 8>>(UpdateSettings{.learning_rate = 1});
         const std::vector<float> zeros(300);
         record_adamw(t.batch(),
                      {t.changed(t.input({300})), t.changed(t.input({300}, zeros)),
                       t.changed(t.input({300}, zeros)), t.input({300}), t.input({8}, words)},
                      t.output({1}));
       }},
      {"lion",
       {"flat_update_cpu.clh"},
       [](SelfTest& t) { record_lion(t.batch(), with_momentum(t), t.output({1})); }},
      {"sgd",
       {"flat_update_cpu.clh"},
       [](SelfTest& t) { record_sgd(t.batch(), with_momentum(t), Nesterov::yes, t.output({1})); }},
      {"adamw_q8",
       {"adamw_q8_cpu.cl"},
       [](SelfTest& t) {
         const auto words = std::bit_cast<std::array<float, 8>>(UpdateSettings{.learning_rate = 1});
         const auto moment = [&] {
           const std::vector<std::uint32_t> zeros(600 / 4);
           return QuantisedMoment{t.changed(t.input({600 / 4}, zeros).slice(0, {600}, DType::u8)),
                                  t.changed(t.input({3}, std::vector<float>(3)))};
         };
         const AdamwQ8Tensors tensors{.parameters = t.changed(t.input({600})),
                                      .first = moment(),
                                      .root = moment(),
                                      .gradients = t.input({600}),
                                      .settings = t.input({8}, words)};
         record_adamw_q8(t.batch(), tensors, t.output({1}));
       }},
      {"sample",
       {"sample_cpu.cl", "d / row->temperature", "d / (2.0f * row->temperature)"},
       [](SelfTest& t) {
         const auto words = std::bit_cast<std::array<std::uint32_t, 16>>(
             SampleSettings{.temperature = 0.7F, .seed = 3});
         record_sample(t.batch(), t.output({1}, DType::i32), t.input({1, 16}, words),
                       t.input({1, 100}));
       }},
      {"sample_logprobs",
       {"sample_logprobs_cpu.cl", "- log_sum", "+ log_sum"},
       [](SelfTest& t) {
         record_logprobs(t.batch(), {t.output({1}), t.output({1, 3}, DType::i32), t.output({1, 3})},
                         t.input({1, 100}), t.input({1}, kToken));
       }},
  };
}

class BrokenKernel : public testing::TestWithParam<Family> {};
INSTANTIATE_TEST_SUITE_P(Families, BrokenKernel, testing::ValuesIn(families()),
                         [](const auto& given) {
                           const Family& family = given.param;
                           std::string name = family.name + " " + family.feature +
                                              (family.feature.empty() ? "in " : " in ") +
                                              family.broken.file;
                           std::ranges::replace_if(
                               name, [](char c) { return c == ' ' || c == '.'; }, '_');
                           return name;
                         });

constexpr std::string_view kOtherDevice = "the kernel is for another device";

bool is_for_this_device(const Family& family) { return test::is_for_this_device(family.variant); }

TEST_P(BrokenKernel, IsSeenOnceAndReplacedByThePortableOne) {
  const Family& family = GetParam();
  if (!is_for_this_device(family)) GTEST_SKIP() << kOtherDevice;
  const Folders folders;
  folders.replace(family.broken.file, family.broken.what, family.broken.by);
  const auto want = Observed(folders, Variant::portable).run(family.record);
  const Observed untested(folders, family.variant, false);
  const auto broken = untested.run(family.record);
  EXPECT_FALSE(same(broken, want, family.tolerance)) << "the break does no harm here";
  const Observed tested(folders, family.variant);
  for (int repeat = 0; repeat < 2; ++repeat) {
    EXPECT_TRUE(same(tested.run(family.record), want, family.tolerance));
  }
  EXPECT_THAT(*tested.warnings, testing::Contains(HasSubstr("self-test: " + family.name)).Times(1));
}

// The table of sums holds the expected results. tools/write_self_test_sums writes its rows.
TEST_P(BrokenKernel, WhileIntactIsTestedWithoutThePortableOne) {
  const Family& family = GetParam();
  if (!is_for_this_device(family)) GTEST_SKIP() << kOtherDevice;
  if (!is_for_cpus(family.variant)) GTEST_SKIP() << "GPUs build the portable kernels anyway";
  const Folders folders;
  const Observed tested(folders, family.variant);
  (void)tested.run(family.record);
  EXPECT_THAT(*tested.missing_sums, testing::IsEmpty());
  EXPECT_THAT(*tested.warnings, testing::IsEmpty());
}

}  // namespace
}  // namespace clora

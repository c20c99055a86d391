#include "ops/dispatch/implementation_report.hpp"

#include <algorithm>

#include "clora/ops/attention/attention.hpp"
#include "clora/ops/attention/rope_append.hpp"
#include "clora/ops/decode/decode_layers.hpp"
#include "clora/ops/experts/grouped_gemm.hpp"
#include "clora/ops/gemm/gemm.hpp"
#include "clora/ops/lora_linear/lora_linear.hpp"
#include "clora/ops/loss/cross_entropy.hpp"
#include "clora/ops/optimizers/adamw.hpp"
#include "clora/ops/optimizers/adamw_q8.hpp"
#include "clora/ops/optimizers/lion.hpp"
#include "clora/ops/optimizers/sgd.hpp"
#include "clora/ops/quant/quant.hpp"
#include "clora/ops/recurrent/delta_rule.hpp"
#include "clora/ops/rowwise/add.hpp"
#include "clora/ops/rowwise/cast.hpp"
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
#include "clora/runtime/error.hpp"

namespace clora {
namespace {

// The sizes of a small model, and of a batch of it.
constexpr std::int64_t T = 512, D = 512, F = 1024, H = 8, G = 2, E = 64, V = 4096, R = 16, S = 128,
                       X = 8;

// Records typical ops. Tensors are not initialised, since nothing runs; except those of
// decode_layers, whose self-test on GPUs reads them.
class TypicalOps {
 public:
  explicit TypicalOps(Batch& batch) : batch_(batch), context_(batch.context()) {}

  void gemm_of_many_rows() {
    record_gemm(batch_, activation({T, F}), activation({T, D}), weight());
  }
  void gemm_of_one_row() { record_gemm(batch_, f32({1, F}), f32({1, D}), weight()); }
  void gemm_of_one_quantised_row() {
    record_gemm(batch_, f32({1, F}), f32({1, D}), weight(DType::q4_1));
  }

  void attention_of_many_rows() {
    record_attention(batch_, activation({T, H, E}), f32({T, H}), packed_rows());
  }
  void capped_attention() {
    AttentionInputs in = packed_rows();
    in.soft_cap = 50;
    record_attention(batch_, activation({T, H, E}), f32({T, H}), in);
  }
  void attention_of_one_row() {
    record_attention(batch_, f32({1, H, E}), {},
                     {.q = f32({1, H, E}),
                      .k = f32({S, G, E}),
                      .v = f32({S, G, E}),
                      .first = i32(1),
                      .last = i32(1)});
  }
  void attention_backward() {
    const AttentionInputs in = packed_rows();
    record_attention_backward(batch_,
                              {activation({T, H, E}), activation({T, G, E}), activation({T, G, E})},
                              activation({T, H, E}), activation({T, H, E}), f32({T, H}), in);
  }
  void cache_append() { record_cache_append(batch_, f32({S, G, E}), f32({1, G, E}), i32(1)); }

  void rope_append() {
    record_rope_append(batch_,
                       {.queries = activation({T, H, E}),
                        .keys = activation({T, G, E}),
                        .values = activation({T, G, E}),
                        .key_cache = tensor({T, G, E}, DType::bf16),
                        .value_cache = tensor({T, G, E}, DType::bf16),
                        .positions = i32(T),
                        .slots = i32(T),
                        .table = f32({S, E / 2, 2})},
                       RopeLayout::half_split);
  }

  void grouped_gemm() {
    const Routing routing = make_routing(
        {T, X, 2},
        [this](Shape shape, DType type, std::string_view) { return tensor(shape, type); });
    record_grouped_gemm(batch_, activation({routing.plan.slot_count(), F}), activation({T, D}),
                        ExpertRows::of_entries, {weight({X * F, D}, DType::bf16)}, routing.plan);
  }
  DeltaRuleInputs delta_rule_inputs() {
    const DeltaRuleHeads heads{G, H, E, E};
    return {.heads = heads,
            .qkv = activation({T, heads.width()}),
            .a = activation({T, H}),
            .b = activation({T, H}),
            .rate = f32({H}),
            .dt_bias = f32({H}),
            .rows = i32(T)};
  }
  void delta_rule() { record_delta_rule(batch_, activation({T, H * E}), delta_rule_inputs()); }
  void delta_rule_backward() {
    const DeltaRuleInputs in = delta_rule_inputs();
    record_delta_rule_backward(batch_,
                               {activation(in.qkv.shape()), activation({T, H}), activation({T, H})},
                               activation({T, H * E}), in);
  }
  void lora_gradient() {
    record_gradient(batch_, {.out = f32({R, D}), .s = activation({T, R}), .x = activation({T, D})});
  }
  void cross_entropy() {
    record_cross_entropy(batch_, f32({T}), f32({T, V}),
                         {.logits = f32({T, V}), .targets = i32(T), .weight = f32({1})});
  }
  void cross_entropy_head() {
    record_head_loss(batch_, f32({T}), f32({T, D}),
                     {.x = activation({T, D}),
                      .head = tensor({V, D}, DType::bf16),
                      .targets = i32(T),
                      .weight = f32({1})});
  }

  // Chooses as the generator does.
  void decode_layers(DType type) {
    const DecodeLayers decode{.layers = {decode_layer(type), decode_layer(type)},
                              .position = i32(1),
                              .last = i32(1),
                              .slot = i32(1),
                              .pages = {tensor({1, 1}, DType::i32), i32(1), 16},
                              .heads = H};
    (void)decodes_in_one_launch(context_, decode);
  }
  void decode_layers_of_floats() { decode_layers(DType::bf16); }
  void decode_layers_quantised() { decode_layers(DType::q4_1); }

  void rms_norm() { record_rms_norm(batch_, activation({T, D}), f32({T, D}), f32({D}), 1e-5F); }
  void layer_norm() {
    record_layer_norm(batch_, activation({T, D}), f32({T, D}), f32({D}), f32({D}), 1e-5F);
  }
  void soft_cap() { record_soft_cap(batch_, f32({V}), 30); }
  void softmax() { record_softmax(batch_, f32({T, D}), f32({T, D})); }
  void swiglu() {
    record_swiglu(batch_, activation({T, F}), activation({T, F}), activation({T, F}));
  }
  void gelu() { record_gelu(batch_, activation({T, F}), activation({T, F})); }
  void rope() {
    record_rope(batch_, activation({T, H, E}), activation({T, H, E}), i32(T), f32({T, E / 2, 2}),
                RopeLayout::half_split, RopeDirection::forward);
  }
  void dropout() {
    record_dropout(batch_, f32({T, D}), f32({T, D}), tensor({2}, DType::u32), {.probability = 0.1F},
                   false);
  }
  void add() { record_add(batch_, f32({T, D}), f32({T, D}), f32({T, D})); }
  void cast() { record_cast(batch_, activation({T, D}), f32({T, D})); }
  void embedding() { record_embedding(batch_, f32({T, D}), i32(T), tensor({V, D}, DType::bf16)); }
  void quant() { record_dequantise(batch_, f32({F, D}), weight(DType::q4_1)); }
  void adamw() {
    const Shape n{T * D};
    record_adamw(batch_,
                 {.parameters = f32(n),
                  .first_moment = f32(n),
                  .second_moment = f32(n),
                  .gradients = f32(n),
                  .settings = f32({8})},
                 f32({1}));
  }
  void adamw_q8() {
    const Shape n{T * D};
    const auto moment = [&] {
      return QuantisedMoment{tensor(n, DType::u8), f32({moment_blocks(T * D)})};
    };
    record_adamw_q8(batch_,
                    {.parameters = f32(n),
                     .first = moment(),
                     .root = moment(),
                     .gradients = f32(n),
                     .settings = f32({8})},
                    f32({1}));
  }
  MomentumTensors with_momentum() {
    const Shape n{T * D};
    return {.parameters = f32(n), .momentum = f32(n), .gradients = f32(n), .settings = f32({8})};
  }
  void lion() { record_lion(batch_, with_momentum(), f32({1})); }
  void sgd() { record_sgd(batch_, with_momentum(), Nesterov::no, f32({1})); }
  void sample() {
    record_sample(batch_, i32(1), tensor({1, kSampleSettingWords}, DType::u32), f32({1, V}));
  }

 private:
  Tensor tensor(Shape shape, DType type) {
    return context_.allocate(shape, type, MemoryTag::scratch);
  }
  Tensor f32(Shape shape) { return tensor(shape, DType::f32); }
  Tensor i32(std::int64_t n) { return tensor({n}, DType::i32); }
  Tensor activation(Shape shape) { return tensor(shape, context_.activation_type()); }
  // With small positive numbers in any type of floats or blocks.
  Tensor filled(const Tensor& tensor) {
    std::vector<std::uint8_t> bytes(tensor.bytes());
    for (std::uint8_t& byte : bytes) {
      random_ = random_ * 1664525U + 1013904223U;  // Numerical Recipes; the high bits are random
      byte = static_cast<std::uint8_t>(0x20U + (random_ >> 8U) % 0x1cU);
    }
    context_.write(tensor, std::as_bytes(std::span(bytes)));
    return tensor;
  }
  // In the layout in which a model's weights are loaded.
  Tensor weight(Shape shape, DType type) {
    const WeightForm form = preferred_form(context_, shape, type);
    return tensor(shape, form.type).in_layout(form.layout);
  }
  Tensor weight(DType type = DType::bf16) { return weight({F, D}, type); }

  AttentionInputs packed_rows() {
    return {.q = activation({T, H, E}),
            .k = activation({T, G, E}),
            .v = activation({T, G, E}),
            .first = i32(T),
            .last = i32(T)};
  }
  DecodeLayer decode_layer(DType type) {
    const auto matrix = [&](std::int64_t n, std::int64_t k) {
      return filled(weight({n, k}, type));
    };
    return {.input_norm = filled(f32({D})),
            .q = matrix(H * E, D),
            .k = matrix(G * E, D),
            .v = matrix(G * E, D),
            .o = matrix(D, H * E),
            .output_norm = filled(f32({D})),
            .gate = matrix(F, D),
            .up = matrix(F, D),
            .down = matrix(D, F),
            .key_cache = f32({S, G, E}),
            .value_cache = f32({S, G, E}),
            .first = i32(1),
            .rope_table = filled(f32({S, E / 2, 2}))};
  }

  Batch& batch_;
  Context& context_;
  std::uint32_t random_ = 1;
};

struct TypicalOp {
  std::string_view family;
  std::string_view problem;
  void (TypicalOps::*record)();
};

// tests/ops/families_test.cpp fails if a family is missing.
constexpr TypicalOp kTypical[] = {
    {"gemm", "512 rows, bf16 weights", &TypicalOps::gemm_of_many_rows},
    {"gemm", "one row, bf16 weights", &TypicalOps::gemm_of_one_row},
    {"gemm", "one row, q4_1 weights", &TypicalOps::gemm_of_one_quantised_row},
    {"attention", "512 rows, heads of 64", &TypicalOps::attention_of_many_rows},
    {"attention", "one row, heads of 64", &TypicalOps::attention_of_one_row},
    {"attention", "512 rows, heads of 64, soft cap", &TypicalOps::capped_attention},
    {"attention_backward", "512 rows, heads of 64", &TypicalOps::attention_backward},
    {"delta_rule", "512 rows, heads of 64", &TypicalOps::delta_rule},
    {"delta_rule_backward", "512 rows, heads of 64", &TypicalOps::delta_rule_backward},
    {"cache_append", "", &TypicalOps::cache_append},
    {"rope_append", "", &TypicalOps::rope_append},
    {"grouped_gemm", "512 rows, 2 of 8 experts, bf16 weights", &TypicalOps::grouped_gemm},
    {"lora_gradient", "512 rows, rank 16", &TypicalOps::lora_gradient},
    {"cross_entropy", "", &TypicalOps::cross_entropy},
    {"cross_entropy_head", "512 rows, bf16 weights", &TypicalOps::cross_entropy_head},
    {"decode_layers", "bf16 weights", &TypicalOps::decode_layers_of_floats},
    {"decode_layers", "q4_1 weights", &TypicalOps::decode_layers_quantised},
    {"rms_norm", "", &TypicalOps::rms_norm},
    {"layer_norm", "", &TypicalOps::layer_norm},
    {"softmax", "", &TypicalOps::softmax},
    {"soft_cap", "", &TypicalOps::soft_cap},
    {"swiglu", "", &TypicalOps::swiglu},
    {"gelu", "", &TypicalOps::gelu},
    {"rope", "", &TypicalOps::rope},
    {"dropout", "", &TypicalOps::dropout},
    {"cast", "", &TypicalOps::cast},
    {"add", "", &TypicalOps::add},
    {"embedding", "", &TypicalOps::embedding},
    {"quant", "q4_1 weights", &TypicalOps::quant},
    {"adamw", "", &TypicalOps::adamw},
    {"adamw_q8", "", &TypicalOps::adamw_q8},
    {"lion", "", &TypicalOps::lion},
    {"sgd", "", &TypicalOps::sgd},
    {"sample", "", &TypicalOps::sample},
};

ReportedChoice report_of(Context& context, const TypicalOp& op) {
  ReportedChoice reported{std::string(op.family), std::string(op.problem), {}, {}};
  const ChoiceLog log(context);
  try {
    Batch batch(context);
    (TypicalOps(batch).*op.record)();
  } catch (const Error& error) {
    reported.error = error.what();
  }
  const auto made = std::ranges::find(log.choices(), op.family, &MadeChoice::family);
  if (made != log.choices().end()) reported.considered = made->considered;
  return reported;
}

}  // namespace

std::vector<ReportedChoice> implementation_report(Context& context) {
  std::vector<ReportedChoice> all;
  for (const TypicalOp& op : kTypical) all.push_back(report_of(context, op));
  return all;
}

}  // namespace clora

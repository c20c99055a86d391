#include "model/configuration/experts_layer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/fail.hpp"

namespace clora {
namespace {

// A router's logits are one row of a kernel's work-group.
constexpr std::int64_t kMaxExperts = 1024;
// The experts of a row are in an item's registers (cl/experts/router.cl).
constexpr std::int64_t kMaxUsed = 32;
constexpr std::int64_t kMaxIntermediate = std::int64_t{1} << 24;

void check(std::string_view file, std::string_view what, std::int64_t size, std::int64_t most) {
  if (size < 1 || size > most)
    fail(ErrorCode::invalid_file, "{}: {} must be from 1 to {}, got {}", file, what, most, size);
}

std::vector<LinearSpec> role_of(const ExpertsNames& names, const std::string& role,
                                const std::string& gguf, const Shape& shape, std::int64_t experts) {
  std::vector<LinearSpec> all;
  for (std::int64_t i = 0; i < experts; ++i) {
    all.push_back({.names = {fmt::format("{}.experts.{}.{}", names.module, i, role), gguf},
                   .outputs = shape[0],
                   .inputs = shape[1],
                   .stack = {i, experts}});
  }
  return all;
}

}  // namespace

SubLayerSpec experts_layer(const ModelConfig& config, const ExpertsNames& names,
                           const ExpertsOptions& options, std::string_view file) {
  check(file, "the number of experts", options.experts, kMaxExperts);
  check(file, "the number of experts of a token", options.used,
        std::min(options.experts, kMaxUsed));
  check(file, "the intermediate size of an expert", options.intermediate_size, kMaxIntermediate);
  const std::int64_t D = config.hidden_size, F = options.intermediate_size;
  const auto role = [&](const std::string& name, const char* gguf, const Shape& shape) {
    return role_of(names, name, gguf, shape, options.experts);
  };
  ExpertsLayerSpec experts;
  experts.function = options.function;
  experts.used = options.used;
  experts.normalises = options.normalises;
  experts.router.names = {names.module + ".gate", "ffn_gate_inp"};
  experts.router.outputs = options.experts;
  experts.router.inputs = D;
  experts.router.is_router = true;
  experts.gate = role(names.gate, "ffn_gate_exps", {F, D});
  experts.up = role(names.up, "ffn_up_exps", {F, D});
  experts.down = role(names.down, "ffn_down_exps", {D, F});
  SubLayerSpec layer;
  layer.norm = {{"post_attention_layernorm", "ffn_norm"}, D};
  layer.f = std::move(experts);
  return layer;
}

std::int64_t expert_layers(const ModelConfig& config) {
  std::int64_t count = 0;
  for (const BlockSpec& block : config.blocks) {
    count += std::ranges::count_if(block, [](const SubLayerSpec& layer) {
      return std::holds_alternative<ExpertsLayerSpec>(layer.f);
    });
  }
  return count;
}

ExpertsOptions read_experts(const HuggingFaceKeys& keys) {
  keys.ignore({"router_aux_loss_coef", "output_router_logits"});
  const auto experts = keys.find_integer("num_experts");
  const auto local = keys.find_integer("num_local_experts");
  if (experts && local && *experts != *local)
    fail(ErrorCode::invalid_file, "{}: num_experts is {}, but num_local_experts is {}",
         keys.source(), *experts, *local);
  const auto any = experts ? experts : local;
  return {.experts = any ? *any : keys.integer("num_local_experts"),
          .used = keys.integer("num_experts_per_tok")};
}

ExpertsOptions read_experts(const GgufKeys& keys) {
  return {.experts = keys.integer("expert_count"), .used = keys.integer("expert_used_count")};
}

void write_experts(nlohmann::ordered_json& object, const ExpertsLayerSpec& experts,
                   const std::string& experts_key) {
  object[experts_key] = experts.experts();
  object["num_experts_per_tok"] = experts.used;
}

}  // namespace clora

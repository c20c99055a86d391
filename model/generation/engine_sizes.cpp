#include "model/generation/engine_sizes.hpp"

#include <algorithm>

#include "model/transformer/sub_layer.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

std::int64_t pages_of(const EngineConfig& config) {
  const std::int64_t wanted = config.cache_positions > 0
                                  ? config.cache_positions
                                  : config.max_sequences * config.max_positions;
  return divide_up(wanted, kPagePositions);
}

// The fewest rows whose heads, in any layer, end where a kernel argument may begin.
std::int64_t aligned_rows(const Context& context, const ModelConfig& config) {
  const auto alignment = static_cast<std::int64_t>(context.device().base_alignment_bytes);
  std::int64_t rows = 1;
  for (const BlockSpec& block : config.blocks) {
    for (const SubLayerSpec& layer : block) {
      const auto* attention = std::get_if<AttentionLayerSpec>(&layer.f);
      if (attention == nullptr) continue;
      for (const std::int64_t heads : {attention->heads, attention->kv_heads}) {
        while (rows * heads * attention->head_dim * 2 % alignment != 0) rows *= 2;
      }
    }
  }
  return rows;
}

}  // namespace

bool has_states(const ModelConfig& config) {
  return std::ranges::any_of(config.blocks, [](const BlockSpec& block) {
    return std::ranges::any_of(block, [](const SubLayerSpec& layer) {
      return !std::holds_alternative<AttentionLayerSpec>(layer.f) &&
             !cache_shapes(layer, 1).empty();
    });
  });
}

std::vector<PagedForwardConfig> forward_configs(std::span<const ModelStage> stages,
                                                const EngineConfig& config,
                                                const AdapterSlots& slots) {
  const DType cache_type = kv_cache_type_of(stages.front().model->context(), config.cache_type);
  std::vector<PagedForwardConfig> configs;
  for (const ModelStage& stage : stages) {
    configs.push_back({.adapter = stage.adapter,
                       .stacks = slots.stacks(configs.size()),
                       .max_positions = config.max_positions,
                       .pages = pages_of(config),
                       .page_positions = kPagePositions,
                       .sequences = config.max_sequences,
                       .cache_type = cache_type});
  }
  return configs;
}

std::int64_t outputs_of(std::int64_t max_sequences) {
  constexpr std::int64_t kFewest = 8;  // fewer rows would take nearly as long
  return std::max(max_sequences, kFewest);
}

ShapeRules shape_rules(std::span<const ModelStage> stages) {
  ShapeRules rules;
  for (const ModelStage& stage : stages) {
    const Context& context = stage.model->context();
    rules.paged_alignment =
        std::max(rules.paged_alignment, aligned_rows(context, stage.model->config()));
    if (context.device().kind != DeviceKind::gpu) continue;
    rules.pads_to_powers_of_two = true;
    // Kernels in tiles have too few tiles for these, and each goes over all keys.
    rules.max_paged_prompt_rows = 64;
  }
  return rules;
}

}  // namespace clora

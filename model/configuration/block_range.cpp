#include "clora/model/configuration/block_range.hpp"

#include <optional>

#include "runtime/fail.hpp"
#include "runtime/parse_integer.hpp"

namespace clora {
namespace {

// 3 of "model.layers.3.input_layernorm.weight"; nullopt of a tensor outside of the blocks.
std::optional<std::int64_t> block_of(const ModelConfig& config, std::string_view name) {
  if (!name.starts_with(config.block_prefix)) return std::nullopt;
  const std::string_view rest = name.substr(config.block_prefix.size());
  return parse_integer(rest.substr(0, rest.find('.')));
}

bool is_of_module(std::string_view name, const TensorNames& module) {
  return !module.hugging_face.empty() && name.starts_with(module.hugging_face + '.');
}

}  // namespace

BlockRange all_blocks(const ModelConfig& config) { return {0, config.layers}; }

bool holds_tensor(const ModelConfig& config, const BlockRange& blocks, std::string_view name) {
  if (const auto block = block_of(config, name)) return blocks.contains(*block);
  const bool is_first = blocks.begin == 0, is_last = blocks.end == config.layers;
  if (is_of_module(name, config.position_bias.names)) return true;
  if (is_of_module(name, config.embedding.words)) {
    return is_first || (is_last && config.has_head && config.tied_head);
  }
  const bool is_of_output =
      is_of_module(name, config.final_norm.names) || name.starts_with("lm_head.");
  return is_of_output ? is_last : is_first;
}

void check(const BlockRange& blocks, const ModelConfig& config) {
  require(blocks.begin >= 0 && blocks.begin < blocks.end && blocks.end <= config.layers,
          "model {}: a stage needs some of its {} blocks, got [{}, {})", config.name, config.layers,
          blocks.begin, blocks.end);
}

}  // namespace clora

// require_same_computation() of gguf_key_writing.hpp.
#include <cmath>
#include <string>

#include "model/configuration/gguf_key_writing.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

bool are_close(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(a); }

bool are_close(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!are_close(a[i], b[i])) return false;
  }
  return true;
}

bool are_same(const std::optional<RopeSpec>& a, const std::optional<RopeSpec>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->width == b->width && a->temperature == b->temperature &&
         are_close(a->scaling.attention_factor, b->scaling.attention_factor) &&
         are_close(rope_frequencies(*a), rope_frequencies(*b));
}

double scale_of(const AttentionLayerSpec& attention) {
  return attention.scale.value_or(1 / std::sqrt(static_cast<double>(attention.head_dim)));
}

// Names what differs between two sub-layers; empty if nothing does. Both lose what was compared
// with a tolerance.
std::string difference_of(SubLayerSpec& a, SubLayerSpec& b) {
  if (!are_close(a.multiplier, b.multiplier)) return "the multiplier of its outputs";
  a.multiplier = b.multiplier;
  auto* one = std::get_if<AttentionLayerSpec>(&a.f);
  auto* other = std::get_if<AttentionLayerSpec>(&b.f);
  if (one == nullptr || other == nullptr) return a == b ? "" : "its layers or their tensors";
  if (!are_same(one->rope, other->rope)) return "its rope";
  if (one->window != other->window) return "its sliding window";
  if (!are_close(scale_of(*one), scale_of(*other))) return "the scale of its scores";
  if (!are_close(one->soft_cap, other->soft_cap)) return "the cap of its scores";
  one->rope = other->rope;
  one->scale = other->scale;
  one->soft_cap = other->soft_cap;
  return a == b ? "" : "its attention or the tensors of it";
}

std::string difference_of(BlockSpec a, BlockSpec b) {
  if (a.size() != b.size()) return "the number of its layers";
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::string difference = difference_of(a[i], b[i]); !difference.empty()) return difference;
  }
  return {};
}

std::string difference_of(const ModelConfig& a, const ModelConfig& b) {
  if (a.layers != b.layers || a.blocks.size() != b.blocks.size()) return "the number of blocks";
  for (const auto size : {&ModelConfig::hidden_size, &ModelConfig::vocabulary}) {
    if (a.*size != b.*size) return "the hidden size or the vocabulary";
  }
  if (!are_close(a.norm_epsilon, b.norm_epsilon)) return "the epsilon of its norms";
  if (a.tied_head != b.tied_head || a.has_head != b.has_head) return "the head";
  for (const auto scale :
       {&ModelConfig::embedding_scale, &ModelConfig::logit_scale, &ModelConfig::logit_soft_cap}) {
    if (!are_close(a.*scale, b.*scale)) return "a scale or a cap of embeddings or logits";
  }
  if (a.final_norm != b.final_norm) return "the final norm";
  for (std::size_t i = 0; i < a.blocks.size(); ++i) {
    const std::string difference = difference_of(a.blocks[i], b.blocks[i]);
    if (!difference.empty()) return fmt::format("block {}: {}", i, difference);
  }
  return {};
}

}  // namespace

void require_same_computation(const ModelConfig& expected, const ModelConfig& written) {
  const std::string difference = difference_of(expected, written);
  if (difference.empty()) return;
  fail(ErrorCode::unsupported,
       "{}: cannot be written as GGUF: programs would compute another model from it ({}); write "
       "safetensors instead",
       expected.name, difference);
}

}  // namespace clora

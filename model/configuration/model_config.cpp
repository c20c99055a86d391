// Code shared by config.json and GGUF: names, checks, rotary frequencies.
#include "clora/model/configuration/model_config.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/configuration/model_config_checks.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// Far above any model, and small enough that a product of two sizes cannot overflow.
constexpr std::int64_t kMaxSize = std::int64_t{1} << 30;
constexpr std::int64_t kMaxLayers = 10'000;

void check_size(std::string_view file, std::string_view what, std::int64_t size,
                std::int64_t most = kMaxSize) {
  if (size < 1 || size > most)
    fail(ErrorCode::invalid_file, "{}: {} must be from 1 to {}, got {}", file, what, most, size);
}

// The Llama 3.1 rule: wavelengths above original / low are stretched by `factor`, those below
// original / high are kept, and those between are interpolated.
double llama3_frequency(double frequency, const RopeScaling& scaling) {
  const double original = static_cast<double>(scaling.original_max_positions);
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double kept = (original / wavelength - scaling.low_freq_factor) /
                      (scaling.high_freq_factor - scaling.low_freq_factor);
  const double share = std::clamp(kept, 0.0, 1.0);
  return share * frequency + (1 - share) * frequency / scaling.factor;
}

// The share of pair i's frequency that yarn keeps: 1 for pairs that rotate more than beta_fast
// times in the original context, 0 for those that rotate less than beta_slow times.
double yarn_kept_share(const RopeSpec& rope, std::int64_t i) {
  const RopeScaling& scaling = rope.scaling;
  const auto width = static_cast<double>(rope.width);
  const auto original = static_cast<double>(scaling.original_max_positions);
  const auto pair_of = [&](double rotations) {
    return width * std::log(original / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(rope.base));
  };
  double low = pair_of(scaling.beta_fast), high = pair_of(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1);
  if (low == high) high += 0.001;  // as transformers
  return 1 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
}

// REQUIRES: at_length().
double scaled_frequency(const RopeSpec& rope, std::int64_t i, double frequency) {
  const RopeScaling& scaling = rope.scaling;
  switch (scaling.kind) {
    case RopeScaling::Kind::linear:
      return frequency / scaling.factor;
    case RopeScaling::Kind::llama3:
      return llama3_frequency(frequency, scaling);
    case RopeScaling::Kind::yarn: {
      const double kept = yarn_kept_share(rope, i);
      return frequency * kept + frequency / scaling.factor * (1 - kept);
    }
    case RopeScaling::Kind::factors:
      return frequency / double{scaling.factors.at(static_cast<std::size_t>(i))};
    case RopeScaling::Kind::none:
    case RopeScaling::Kind::dynamic:
    case RopeScaling::Kind::longrope:
      break;
  }
  return frequency;
}

void check_soft_cap(double cap, std::string_view what, std::string_view file) {
  if (std::isfinite(cap) && cap >= 0) return;
  fail(ErrorCode::invalid_file, "{}: the soft cap of {} must be 0 (none) or more, got {}", file,
       what, cap);
}

void check_rope(const RopeSpec& rope, std::string_view file) {
  const bool has_base = std::isfinite(rope.base) && rope.base > 0;
  if (!has_base || !(rope.scaling.factor > 0))
    fail(ErrorCode::invalid_file, "{}: the rope base {} and factor {} must be positive", file,
         rope.base, rope.scaling.factor);
  if (!rope.temperature) return;
  check_size(file, "the length of the temperature of queries", rope.temperature->length);
  if (!std::isfinite(rope.temperature->scale) || rope.temperature->scale < 0)
    fail(ErrorCode::invalid_file,
         "{}: the scale of the temperature of queries must be 0 or more, "
         "got {}",
         file, rope.temperature->scale);
}

// The widths that ops/recurrent/short_conv.hpp has.
void check_taps(const SubLayerSpec& layer, std::string_view file) {
  constexpr std::int64_t kMin = 2, kMax = 8;
  std::int64_t taps = kMin;
  if (const auto* conv = std::get_if<ShortConvLayerSpec>(&layer.f)) taps = conv->taps.taps;
  if (const auto* delta_net = std::get_if<DeltaNetLayerSpec>(&layer.f)) {
    taps = delta_net->taps.taps;
  }
  if (taps >= kMin && taps <= kMax) return;
  fail(ErrorCode::unsupported, "{}: a convolution with {} taps is not supported; from {} to {} are",
       file, taps, kMin, kMax);
}

}  // namespace

void check_sizes(const ModelConfig& config, std::string_view file) {
  check_size(file, "the number of layers", config.layers, kMaxLayers);
  check_size(file, "the hidden size", config.hidden_size);
  check_size(file, "the intermediate size", config.intermediate_size);
  check_size(file, "the number of heads", config.heads);
  check_size(file, "the number of key/value heads", config.kv_heads);
  check_size(file, "the head dim", config.head_dim);
  check_size(file, "the vocabulary", config.vocabulary);
  check_size(file, "the number of positions", config.max_positions);
  for (const AttentionLayerSpec* attention : attentions_of(config)) {
    if (attention->window) check_size(file, "the sliding window", *attention->window);
    if (attention->rope) check_rope(*attention->rope, file);
    check_soft_cap(attention->soft_cap, "scores", file);
  }
  for (const BlockSpec& block : config.blocks) {
    for (const SubLayerSpec& layer : block) check_taps(layer, file);
  }
  if (config.heads % config.kv_heads != 0)
    fail(ErrorCode::invalid_file, "{}: {} heads must be a multiple of the {} key/value heads", file,
         config.heads, config.kv_heads);
  if (config.head_dim % 2 != 0)
    fail(ErrorCode::invalid_file, "{}: the head dim must be even, got {}", file, config.head_dim);
  check_rope(config.rope, file);
  check_soft_cap(config.logit_soft_cap, "logits", file);
  if (!(config.norm_epsilon >= 0 && config.norm_epsilon < 1))
    fail(ErrorCode::invalid_file, "{}: the RMS norm's epsilon must be from 0 to 1, got {}", file,
         config.norm_epsilon);
}

RopeSpec at_length(const RopeSpec& rope, std::int64_t length) {
  RopeSpec at = rope;
  RopeScaling& scaling = at.scaling;
  const bool longer = length > scaling.original_max_positions;
  if (scaling.kind == RopeScaling::Kind::dynamic) {
    scaling.kind = RopeScaling::Kind::none;
    const double ratio =
        static_cast<double>(length) / static_cast<double>(scaling.original_max_positions);
    const auto width = static_cast<double>(rope.width);
    const double stretch = scaling.factor * ratio - (scaling.factor - 1);
    if (longer) at.base *= std::pow(stretch, width / (width - 2));
  } else if (scaling.kind == RopeScaling::Kind::longrope) {
    scaling.kind = RopeScaling::Kind::factors;
    scaling.factors = longer ? scaling.long_factors : scaling.short_factors;
  }
  return at;
}

std::vector<double> rope_frequencies(const RopeSpec& rope) {
  const RopeSpec at = at_length(rope, 0);
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < at.width / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(at.width);
    frequencies.push_back(scaled_frequency(at, i, std::pow(at.base, -exponent)));
  }
  return frequencies;
}

RopeSpec of_keys(RopeSpec rope) {
  rope.temperature.reset();
  return rope;
}

double query_factor(const RopeSpec& rope, std::int64_t position) {
  if (!rope.temperature) return 1;
  const auto whole = static_cast<double>(position / rope.temperature->length);
  return 1 + rope.temperature->scale * std::log1p(whole);
}

std::vector<const AttentionLayerSpec*> attentions_of(const ModelConfig& config) {
  std::vector<const AttentionLayerSpec*> attentions;
  for (const BlockSpec& block : config.blocks) {
    for (const SubLayerSpec& layer : block) {
      if (const auto* attention = std::get_if<AttentionLayerSpec>(&layer.f)) {
        attentions.push_back(attention);
      }
    }
  }
  return attentions;
}

std::int64_t half_split_source_row(std::int64_t row, std::int64_t head_dim) {
  const std::int64_t head = row / head_dim;
  const std::int64_t within = row % head_dim;
  const std::int64_t half = head_dim / 2;
  return head * head_dim + 2 * (within % half) + within / half;
}

}  // namespace clora

// A complete decoder-only transformer in double, with plain loops: the reference of the recorded
// one. Supports the same architectures as model/ and an optional adapter. Slow; for tiny models
// only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "clora/lora/merge.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "model/files/dequantise.hpp"
#include "model/weights/stored_order.hpp"
#include "tests/reference/delta_rule_reference.hpp"
#include "tests/reference/gelu_reference.hpp"
#include "tests/reference/short_conv_reference.hpp"
#include "tests/reference/swiglu_reference.hpp"

namespace clora::test {

using Matrix = std::vector<double>;  // row-major

// A low-rank addition to one linear layer, in double so that a test can change it by small steps.
struct ReferenceLora {
  std::int64_t rank = 0;
  double scale = 1;
  Matrix a;   // [R, K]
  Matrix bt;  // [R, N]
};

class ReferenceTransformer {
 public:
  explicit ReferenceTransformer(const WeightFiles& files) : config_(files.config()) {
    for (const WeightView& view : files.all()) {
      const auto elements = static_cast<std::size_t>(view.shape.elements());
      const std::vector<float> values =
          needs_reordering(view) ? to_float(view.type, in_hugging_face_order(view), elements)
                                 : to_float(view.type, view.bytes, elements);
      Matrix& weight = weights_[view.name] = {values.begin(), values.end()};
      for (double& value : weight) {
        value = view.negative_exp ? -std::exp(value) : value + double{view.offset};
      }
    }
  }

  std::map<std::string, ReferenceLora> loras;  // by path

  // Logits [S, V] of one document.
  Matrix logits(std::span<const std::int32_t> ids) const {
    const auto width = static_cast<std::size_t>(config_.hidden_size);
    Matrix x;
    for (const std::int32_t id : ids) {
      const double* row = &embeddings()[static_cast<std::size_t>(id) * width];
      x.insert(x.end(), row, row + width);
    }
    for (double& value : x) value *= config_.embedding_scale;
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) block(x, ids.size(), layer);
    norm(x, weight_of("", config_.final_norm));
    const auto head = weights_.find("lm_head.weight");
    Matrix y = product(x, head == weights_.end() ? embeddings() : head->second, ids.size());
    for (double& value : y)
      value = soft_capped(value * config_.logit_scale, config_.logit_soft_cap);
    return y;
  }

  // -log p of ids[t + 1], summed over each t with is_target[t + 1].
  double loss_sum(std::span<const std::int32_t> ids,
                  std::span<const std::uint8_t> is_target) const {
    const Matrix all = logits(ids);
    const auto vocabulary = static_cast<std::size_t>(config_.vocabulary);
    double sum = 0;
    for (std::size_t t = 0; t + 1 < ids.size(); ++t) {
      if (is_target[t + 1] == 0) continue;
      const auto row = std::span(all).subspan(t * vocabulary, vocabulary);
      const double row_max = *std::ranges::max_element(row);
      double exps = 0;
      for (const double v : row) exps += std::exp(v - row_max);
      sum += row_max + std::log(exps) - row[static_cast<std::size_t>(ids[t + 1])];
    }
    return sum;
  }

 private:
  const Matrix& embeddings() const {
    const auto found = weights_.find("model.embed_tokens.weight");
    return found == weights_.end() ? weights_.at("lm_head.weight") : found->second;
  }

  // y [rows, N] = x [rows, K] w [N, K]^T
  static Matrix product(const Matrix& x, const Matrix& w, std::size_t rows) {
    const std::size_t inputs = x.size() / rows;
    const std::size_t outputs = w.size() / inputs;
    Matrix y(rows * outputs);
    for (std::size_t t = 0; t < rows; ++t) {
      for (std::size_t n = 0; n < outputs; ++n) {
        double sum = 0;
        for (std::size_t k = 0; k < inputs; ++k) sum += x[t * inputs + k] * w[n * inputs + k];
        y[t * outputs + n] = sum;
      }
    }
    return y;
  }

  Matrix linear(const Matrix& x, std::size_t rows, const std::string& path) const {
    Matrix y = product(x, weights_.at(path + ".weight"), rows);
    const std::size_t outputs = y.size() / rows;
    const auto bias = weights_.find(path + ".bias");
    for (std::size_t i = 0; i < y.size() && bias != weights_.end(); ++i) {
      y[i] += bias->second[i % outputs];
    }
    const auto lora = loras.find(path);
    if (lora == loras.end()) return y;
    const Matrix s = product(x, lora->second.a, rows);
    const auto rank = static_cast<std::size_t>(lora->second.rank);
    for (std::size_t t = 0; t < rows; ++t) {
      for (std::size_t r = 0; r < rank; ++r) {
        const double factor = lora->second.scale * s[t * rank + r];
        for (std::size_t n = 0; n < outputs; ++n) {
          y[t * outputs + n] += factor * lora->second.bt[r * outputs + n];
        }
      }
    }
    return y;
  }

  // Normalises rows of w's width in place.
  void norm(Matrix& x, const Matrix& w) const {
    for (std::size_t begin = 0; begin < x.size(); begin += w.size()) {
      double squares = 0;
      for (std::size_t i = 0; i < w.size(); ++i) squares += x[begin + i] * x[begin + i];
      const double factor =
          1 / std::sqrt(squares / static_cast<double>(w.size()) + config_.norm_epsilon);
      for (std::size_t i = 0; i < w.size(); ++i) x[begin + i] *= factor * w[i];
    }
  }

  // Rotates the first elements of each head of `head_dim`; no-op without rope.
  static void rotate(Matrix& x, std::size_t rows, std::size_t head_dim,
                     const std::optional<RopeSpec>& rope) {
    if (!rope) return;
    const std::vector<double> frequencies = rope_frequencies(*rope);
    const double factor = rope->scaling.attention_factor;  // llama.cpp's mscale
    const std::size_t heads = x.size() / rows / head_dim, pairs = frequencies.size();
    for (std::size_t t = 0; t < rows; ++t) {
      for (std::size_t h = 0; h < heads; ++h) {
        double* head = &x[(t * heads + h) * head_dim];
        for (std::size_t i = 0; i < pairs; ++i) {
          const double angle = static_cast<double>(t) * frequencies[i];
          const double a = head[i];
          const double b = head[i + pairs];
          head[i] = factor * (a * std::cos(angle) - b * std::sin(angle));
          head[i + pairs] = factor * (a * std::sin(angle) + b * std::cos(angle));
        }
      }
    }
  }

  // 0: no cap.
  static double soft_capped(double x, double cap) {
    return cap == 0 ? x : cap * std::tanh(x / cap);
  }

  static Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v, std::size_t rows,
                          const AttentionLayerSpec& spec) {
    const auto width = static_cast<std::size_t>(spec.head_dim);
    const auto heads = static_cast<std::size_t>(spec.heads);
    const auto kv_heads = static_cast<std::size_t>(spec.kv_heads);
    const auto window = static_cast<std::size_t>(spec.window.value_or(0));
    const double scale = spec.scale.value_or(1 / std::sqrt(static_cast<double>(width)));
    Matrix y(q.size());
    for (std::size_t t = 0; t < rows; ++t) {
      const std::size_t first = window > 0 && t + 1 > window ? t + 1 - window : 0;
      for (std::size_t h = 0; h < heads; ++h) {
        const std::size_t g = h / (heads / kv_heads);
        Matrix p;
        for (std::size_t s = first; s <= t; ++s) {
          double dot = 0;
          for (std::size_t e = 0; e < width; ++e) {
            dot += q[(t * heads + h) * width + e] * k[(s * kv_heads + g) * width + e];
          }
          p.push_back(soft_capped(dot * scale, spec.soft_cap));
        }
        const double row_max = *std::ranges::max_element(p);
        double sum = 0;
        for (double& value : p) sum += value = std::exp(value - row_max);
        for (std::size_t s = first; s <= t; ++s) {
          for (std::size_t e = 0; e < width; ++e) {
            y[(t * heads + h) * width + e] +=
                p[s - first] / sum * v[(s * kv_heads + g) * width + e];
          }
        }
      }
    }
    return y;
  }

  void block(Matrix& x, std::size_t rows, std::int64_t layer) const {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    for (const SubLayerSpec& spec : config_.blocks[static_cast<std::size_t>(layer)]) {
      Matrix h = x;
      norm(h, weight_of(prefix, spec.norm));
      Matrix y = std::visit([&](const auto& f) { return sub_layer(h, rows, prefix, f); }, spec.f);
      if (spec.post_norm) norm(y, weight_of(prefix, *spec.post_norm));
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += spec.multiplier * y[i];
    }
  }

  const Matrix& weight_of(const std::string& prefix, const NormSpec& spec) const {
    return weights_.at(prefix + spec.names.hugging_face + ".weight");
  }

  // The outputs of linear layers with the same input, or of one for all, by their widths.
  std::vector<Matrix> linears(const Matrix& h, std::size_t rows, const std::string& prefix,
                              const std::optional<LinearSpec>& joined,
                              const std::vector<const LinearSpec*>& separate,
                              const std::vector<std::size_t>& widths) const {
    std::vector<Matrix> outputs;
    if (!joined) {
      for (const LinearSpec* each : separate) {
        outputs.push_back(linear(h, rows, prefix + each->names.hugging_face));
      }
      return outputs;
    }
    const Matrix all = linear(h, rows, prefix + joined->names.hugging_face);
    const std::size_t total = all.size() / rows;
    std::size_t begin = 0;
    for (const std::size_t width : widths) {
      Matrix& part = outputs.emplace_back();
      for (std::size_t t = 0; t < rows; ++t) {
        const double* row = &all[t * total + begin];
        part.insert(part.end(), row, row + width);
      }
      begin += width;
    }
    return outputs;
  }

  Matrix sub_layer(const Matrix& h, std::size_t rows, const std::string& prefix,
                   const AttentionLayerSpec& spec) const {
    const auto head_dim = static_cast<std::size_t>(spec.head_dim);
    const auto queries = static_cast<std::size_t>(spec.heads) * head_dim;
    const auto keys = static_cast<std::size_t>(spec.kv_heads) * head_dim;
    std::vector<Matrix> qkv =
        linears(h, rows, prefix, spec.qkv, {&spec.q, &spec.k, &spec.v}, {queries, keys, keys});
    const Matrix gate = spec.output_gate ? take_gates(qkv[0], head_dim) : Matrix();
    if (spec.q_norm) norm(qkv[0], weight_of(prefix, *spec.q_norm));
    if (spec.k_norm) norm(qkv[1], weight_of(prefix, *spec.k_norm));
    rotate(qkv[0], rows, head_dim, spec.rope);
    rotate(qkv[1], rows, head_dim, spec.rope);
    for (std::size_t i = 0; i < qkv[0].size() && spec.rope; ++i) {
      qkv[0][i] *= query_factor(*spec.rope, static_cast<std::int64_t>(i / queries));
    }
    Matrix y = attention(qkv[0], qkv[1], qkv[2], rows, spec);
    for (std::size_t i = 0; i < gate.size(); ++i) y[i] /= 1 + std::exp(-gate[i]);
    return linear(y, rows, prefix + spec.o.names.hugging_face);
  }

  // q has a query and a gate of each head: returns the gates, and leaves the queries.
  static Matrix take_gates(Matrix& q, std::size_t head_dim) {
    Matrix queries, gates;
    for (std::size_t i = 0; i < q.size(); ++i) {
      (i / head_dim % 2 == 0 ? queries : gates).push_back(q[i]);
    }
    q = queries;
    return gates;
  }

  Matrix sub_layer(const Matrix& h, std::size_t rows, const std::string& prefix,
                   const DeltaNetLayerSpec& spec) const {
    const auto from = [&](const LinearSpec& each) {
      return linear(h, rows, prefix + each.names.hugging_face);
    };
    const auto parameter = [&](const ParameterSpec& each) {
      return weights_.at(prefix + each.names.hugging_face);
    };
    const reference::DeltaRuleProblem rule{
        .heads = {spec.key_heads, spec.value_heads, spec.key_dim, spec.value_dim},
        .rate = parameter(spec.rate),
        .dt_bias = parameter(spec.dt_bias),
        .first = std::vector<std::int32_t>(rows, 0)};
    const reference::DeltaRuleValues values{
        reference::short_conv(conv_of(prefix, spec.taps, rows), from(spec.qkv)), from(spec.a),
        from(spec.b)};
    Matrix y = reference::DeltaRule(rule, values).forward();
    norm(y, weight_of(prefix, spec.norm));
    const Matrix z = from(spec.z);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] *= reference::silu(z[i]);
    return linear(y, rows, prefix + spec.out.names.hugging_face);
  }

  Matrix sub_layer(const Matrix& h, std::size_t rows, const std::string& prefix,
                   const FeedForwardLayerSpec& spec) const {
    const auto F = static_cast<std::size_t>(spec.down.inputs);
    std::vector<Matrix> both =
        linears(h, rows, prefix, spec.gate_up, {&spec.gate, &spec.up}, {F, F});
    Matrix& gate = both[0];
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const bool is_silu = spec.function == GateFunction::silu;
      gate[i] = (is_silu ? reference::silu(gate[i]) : reference::gelu(gate[i])) * both[1][i];
    }
    return linear(gate, rows, prefix + spec.down.names.hugging_face);
  }

  Matrix sub_layer(const Matrix& h, std::size_t rows, const std::string& prefix,
                   const MlpLayerSpec& spec) const {
    const Matrix up = linear(h, rows, prefix + spec.up.names.hugging_face);
    const Matrix raised = reference::gelu(Matrix(up.size(), 0), up, spec.form).y;
    return linear(raised, rows, prefix + spec.down.names.hugging_face);
  }

  Matrix sub_layer(const Matrix& h, std::size_t rows, const std::string& prefix,
                   const ShortConvLayerSpec& spec) const {
    const Matrix bcx = linear(h, rows, prefix + spec.in.names.hugging_face);
    reference::ShortConvProblem conv = conv_of(prefix, spec.taps, rows);
    conv.gated = true;
    if (spec.bias) conv.bias = weights_.at(prefix + spec.bias->names.hugging_face);
    return linear(reference::short_conv(conv, bcx), rows, prefix + spec.out.names.hugging_face);
  }

  // Of one document of `rows` rows.
  reference::ShortConvProblem conv_of(const std::string& prefix, const ParameterSpec& spec,
                                      std::size_t rows) const {
    const Matrix& stored = weights_.at(prefix + spec.names.hugging_face);  // [C, 1, W]
    const auto C = static_cast<std::size_t>(spec.width), W = static_cast<std::size_t>(spec.taps);
    reference::ShortConvProblem conv{.channels = C,
                                     .width = W,
                                     .taps = {},
                                     .bias = {},
                                     .first = std::vector<std::int32_t>(rows, 0)};
    for (std::size_t lag = 0; lag < W; ++lag) {
      for (std::size_t c = 0; c < C; ++c) conv.taps.push_back(stored[c * W + W - 1 - lag]);
    }
    return conv;
  }

  // The numbers of the experts of a row, in descending order of their probabilities p.
  static std::vector<std::size_t> chosen(std::span<const double> p, std::size_t count) {
    std::vector<std::size_t> order(p.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return p[i]; });
    order.resize(count);
    return order;
  }

  Matrix sub_layer(const Matrix& h, std::size_t rows, const std::string& prefix,
                   const ExpertsLayerSpec& spec) const {
    const auto experts = static_cast<std::size_t>(spec.experts());
    const std::size_t width = h.size() / rows;
    Matrix p = linear(h, rows, prefix + spec.router.names.hugging_face), y(h.size());
    for (std::size_t t = 0; t < rows; ++t) {
      const auto of_row = std::span(p).subspan(t * experts, experts);
      const double row_max = *std::ranges::max_element(of_row);
      double sum = 0, of_chosen = 0;
      for (double& value : of_row) sum += value = std::exp(value - row_max);
      for (double& value : of_row) value /= sum;
      const auto ids = chosen(of_row, static_cast<std::size_t>(spec.used));
      for (const std::size_t e : ids) of_chosen += of_row[e];
      const Matrix x(h.begin() + static_cast<std::ptrdiff_t>(t * width),
                     h.begin() + static_cast<std::ptrdiff_t>((t + 1) * width));
      for (const std::size_t e : ids) {
        const FeedForwardLayerSpec expert{
            spec.function, spec.gate[e], spec.up[e], {}, spec.down[e]};
        const Matrix out = sub_layer(x, 1, prefix, expert);
        const double weight = spec.normalises ? of_row[e] / of_chosen : of_row[e];
        for (std::size_t i = 0; i < width; ++i) y[t * width + i] += weight * out[i];
      }
    }
    return y;
  }

  ModelConfig config_;
  std::map<std::string, Matrix> weights_;
};

}  // namespace clora::test

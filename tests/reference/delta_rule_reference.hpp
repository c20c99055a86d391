// The gated delta rule by its recurrence, row by row in double, and its gradient through time.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "clora/ops/recurrent/delta_rule.hpp"

namespace clora::reference {

struct DeltaRuleProblem {
  DeltaRuleHeads heads;
  std::vector<double> rate, dt_bias;  // [value heads]
  std::vector<std::int32_t> first;    // [T]
};

struct DeltaRuleValues {
  std::vector<double> qkv, a, b;  // or their gradients
};

// One value head of one row, from the values.
struct DeltaRuleRow {
  std::vector<double> q, k, v;
  double q_norm = 0, k_norm = 0;  // sqrt(|x|^2 + 1e-6)
  double g = 0, beta = 0;
};

class DeltaRule {
 public:
  using Vector = std::vector<double>;

  DeltaRule(const DeltaRuleProblem& problem, const DeltaRuleValues& values)
      : p_(problem), x_(values), K_(size(p_.heads.key_dim)), V_(size(p_.heads.value_dim)) {}

  // y [T, values]
  Vector forward() const {
    Vector y(p_.first.size() * size(p_.heads.values()));
    for (std::size_t h = 0; h < size(p_.heads.value_heads); ++h) {
      const auto states = states_of(h);
      for (std::size_t t = 0; t < p_.first.size(); ++t) {
        const DeltaRuleRow row = row_of(t, h);
        for (std::size_t e = 0; e < K_ * V_; ++e)
          y[at(t, h) + e % V_] += row.q[e / V_] * states[t][e];
      }
    }
    return y;
  }

  DeltaRuleValues backward(const Vector& dy) const {
    DeltaRuleValues d{Vector(x_.qkv.size()), Vector(x_.a.size()), Vector(x_.b.size())};
    for (std::size_t h = 0; h < size(p_.heads.value_heads); ++h) backward_of(h, dy, d);
    return d;
  }

  // S after the last row, of head h: [K, V]
  Vector last_state(std::size_t h) const { return states_of(h).back(); }

 private:
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
  std::size_t at(std::size_t t, std::size_t h) const {
    return t * size(p_.heads.values()) + h * V_;
  }
  std::size_t gate(std::size_t t, std::size_t h) const {
    return t * size(p_.heads.value_heads) + h;
  }
  std::size_t q_at(std::size_t t, std::size_t h) const {
    const std::size_t per = size(p_.heads.value_heads / p_.heads.key_heads);
    return t * size(p_.heads.width()) + h / per * K_;
  }
  std::size_t k_at(std::size_t t, std::size_t h) const {
    return q_at(t, h) + size(p_.heads.key_heads) * K_;
  }
  std::size_t v_at(std::size_t t, std::size_t h) const {
    return t * size(p_.heads.width()) + 2 * size(p_.heads.key_heads) * K_ + h * V_;
  }
  bool begins(std::size_t t) const { return size(p_.first[t]) == t; }

  Vector part(std::size_t begin, std::size_t count) const {
    const auto from = x_.qkv.begin() + static_cast<std::ptrdiff_t>(begin);
    return {from, from + static_cast<std::ptrdiff_t>(count)};
  }
  static double norm(Vector& x, double scale) {
    double squares = 1e-6;
    for (const double value : x) squares += value * value;
    for (double& value : x) value *= scale / std::sqrt(squares);
    return std::sqrt(squares);
  }
  double gate_input(std::size_t t, std::size_t h) const { return x_.a[gate(t, h)] + p_.dt_bias[h]; }

  DeltaRuleRow row_of(std::size_t t, std::size_t h) const {
    DeltaRuleRow row{part(q_at(t, h), K_), part(k_at(t, h), K_), part(v_at(t, h), V_)};
    row.q_norm = norm(row.q, 1 / std::sqrt(static_cast<double>(K_)));
    row.k_norm = norm(row.k, 1);
    row.g = p_.rate[h] * std::log1p(std::exp(gate_input(t, h)));
    row.beta = 1 / (1 + std::exp(-x_.b[gate(t, h)]));
    return row;
  }

  // exp(g) S of the row before, which is 0 before the document.
  Vector decayed(const std::vector<Vector>& states, std::size_t t, double g) const {
    if (begins(t)) return Vector(K_ * V_);
    Vector s = states[t - 1];
    for (double& value : s) value *= std::exp(g);
    return s;
  }
  // v - k S
  Vector error_of(const DeltaRuleRow& row, const Vector& s) const {
    Vector error = row.v;
    for (std::size_t e = 0; e < K_ * V_; ++e) error[e % V_] -= row.k[e / V_] * s[e];
    return error;
  }
  // After each row.
  std::vector<Vector> states_of(std::size_t h) const {
    std::vector<Vector> states;
    for (std::size_t t = 0; t < p_.first.size(); ++t) {
      const DeltaRuleRow row = row_of(t, h);
      Vector s = decayed(states, t, row.g);
      const Vector error = error_of(row, s);
      for (std::size_t e = 0; e < K_ * V_; ++e) s[e] += row.k[e / V_] * row.beta * error[e % V_];
      states.push_back(std::move(s));
    }
    return states;
  }

  void backward_of(std::size_t h, const Vector& dy, DeltaRuleValues& d) const {
    const auto states = states_of(h);
    Vector ds(K_ * V_);  // of the state after row t
    for (std::size_t t = p_.first.size(); t-- > 0;) {
      const DeltaRuleRow row = row_of(t, h);
      const Vector before = decayed(states, t, row.g), error = error_of(row, before);
      Vector dq(K_), dk(K_), du(V_);
      for (std::size_t e = 0; e < K_ * V_; ++e) {
        const std::size_t i = e / V_, c = e % V_;
        dq[i] += dy[at(t, h) + c] * states[t][e];
        ds[e] += row.q[i] * dy[at(t, h) + c];
        dk[i] += ds[e] * row.beta * error[c];
        du[c] += row.k[i] * ds[e];
      }
      double dbeta = 0, dg = 0;
      for (std::size_t c = 0; c < V_; ++c) {
        dbeta += du[c] * error[c];
        d.qkv[v_at(t, h) + c] += row.beta * du[c];
      }
      for (std::size_t e = 0; e < K_ * V_; ++e) {
        dk[e / V_] -= row.beta * du[e % V_] * before[e];
        ds[e] -= row.k[e / V_] * row.beta * du[e % V_];
        dg += ds[e] * before[e];
        ds[e] = begins(t) ? 0 : ds[e] * std::exp(row.g);
      }
      add_norm_gradient(d.qkv, q_at(t, h), dq, row.q_norm, 1 / std::sqrt(static_cast<double>(K_)));
      add_norm_gradient(d.qkv, k_at(t, h), dk, row.k_norm, 1);
      d.a[gate(t, h)] = dg * p_.rate[h] / (1 + std::exp(-gate_input(t, h)));
      d.b[gate(t, h)] = dbeta * row.beta * (1 - row.beta);
    }
  }

  // y = scale x / norm
  void add_norm_gradient(Vector& dx, std::size_t begin, const Vector& dy, double norm,
                         double scale) const {
    double along = 0;
    for (std::size_t i = 0; i < dy.size(); ++i) along += dy[i] * x_.qkv[begin + i];
    for (std::size_t i = 0; i < dy.size(); ++i) {
      dx[begin + i] += scale / norm * (dy[i] - along * x_.qkv[begin + i] / (norm * norm));
    }
  }

  const DeltaRuleProblem& p_;
  const DeltaRuleValues& x_;
  std::size_t K_, V_;
};

}  // namespace clora::reference

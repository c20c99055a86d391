// The preference losses in double, directly from the formulas of ops/loss/preference.hpp.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "clora/ops/loss/preference.hpp"

namespace clora::test {

struct AnswersOfRows {
  std::vector<std::int32_t> begin, end;  // of each answer
  std::vector<std::int32_t> answer;      // of each row
  std::vector<std::int32_t> label;
  std::vector<double> reference;
};

struct PreferenceTotals {
  double loss = 0, nll = 0, chosen_reward = 0, rejected_reward = 0, chosen_logp = 0,
         rejected_logp = 0, wins = 0, log_odds = 0;
};

inline double sigmoid_reference(double x) { return 1 / (1 + std::exp(-x)); }
inline double log_odds_reference(double logp) { return logp - std::log(1 - std::exp(logp)); }

inline double logp_reference(const AnswersOfRows& of, const std::vector<double>& loss,
                             std::size_t a) {
  double sum = 0;
  for (std::int32_t t = of.begin[a]; t < of.end[a]; ++t) sum -= loss[static_cast<std::size_t>(t)];
  return sum;
}

// The sum of the divergences that are estimated.
inline double kl_sum_reference(const AnswersOfRows& of, const std::vector<double>& loss) {
  double sum = 0;
  for (std::size_t a = 0; a < of.begin.size(); ++a) {
    if (of.begin[a] >= of.end[a]) continue;
    sum += logp_reference(of, loss, a) - of.reference[a];
  }
  return sum;
}

inline void add_answer(PreferenceTotals& totals, bool is_chosen, double reward, double logp) {
  (is_chosen ? totals.chosen_reward : totals.rejected_reward) += reward;
  (is_chosen ? totals.chosen_logp : totals.rejected_logp) += logp;
}

inline double pair_loss_reference(const PreferenceFormula& f, double c, double r, double nc,
                                  double nr) {
  const double beta = f.beta, e = f.label_smoothing;
  switch (f.kind) {
    case PreferenceKind::ipo:
      return std::pow(c / nc - r / nr - 1 / (2 * beta), 2);
    case PreferenceKind::orpo:
      return -beta *
             std::log(sigmoid_reference(log_odds_reference(c / nc) - log_odds_reference(r / nr)));
    default:
      return -(1 - e) * std::log(sigmoid_reference(beta * (c - r))) -
             e * std::log(sigmoid_reference(-beta * (c - r)));
  }
}

inline void add_pair(PreferenceTotals& totals, const PreferenceFormula& f, const AnswersOfRows& of,
                     const std::vector<double>& loss, std::size_t a) {
  const bool is_orpo = f.kind == PreferenceKind::orpo;
  const double nc = of.end[a] - of.begin[a], nr = of.end[a + 1] - of.begin[a + 1];
  const double pc = logp_reference(of, loss, a), pr = logp_reference(of, loss, a + 1);
  const double c = is_orpo ? pc : pc - of.reference[a];
  const double r = is_orpo ? pr : pr - of.reference[a + 1];
  totals.loss += pair_loss_reference(f, c, r, nc, nr);
  const double beta = f.beta, rc = is_orpo ? beta * c / nc : beta * c,
               rr = is_orpo ? beta * r / nr : beta * r;
  add_answer(totals, true, rc, is_orpo ? pc / nc : pc);
  add_answer(totals, false, rr, is_orpo ? pr / nr : pr);
  totals.wins += rc > rr ? 1 : 0;
  if (is_orpo) totals.log_odds += log_odds_reference(c / nc) - log_odds_reference(r / nr);
}

// loss: of each row. kl: the term of KTO.
inline PreferenceTotals preference_reference(const PreferenceFormula& f, const AnswersOfRows& of,
                                             const std::vector<double>& loss, double kl, bool nll) {
  PreferenceTotals totals;
  for (std::size_t a = 0; a < of.begin.size(); ++a) {
    if (of.begin[a] >= of.end[a]) continue;
    if (f.kind != PreferenceKind::kto) {
      if (a % 2 == 0) add_pair(totals, f, of, loss, a);
      continue;
    }
    const bool is_chosen = of.label[a] != 0;
    const double ratio = logp_reference(of, loss, a) - of.reference[a], beta = f.beta;
    const double margin = is_chosen ? ratio - kl : kl - ratio;
    totals.loss += static_cast<double>(is_chosen ? f.desirable_weight : f.undesirable_weight) *
                   (1 - sigmoid_reference(beta * margin));
    add_answer(totals, is_chosen, beta * ratio, logp_reference(of, loss, a));
  }
  for (std::size_t t = 0; nll && t < loss.size(); ++t) {
    if (of.answer[t] < 0 || of.answer[t] % 2 == 0) totals.nll += loss[t];
  }
  return totals;
}

}  // namespace clora::test

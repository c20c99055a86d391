#include "clora/model/training/preference_loss.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/fail.hpp"

namespace clora {

const char* name_of(PreferenceKind kind) {
  switch (kind) {
    case PreferenceKind::ipo:
      return "ipo";
    case PreferenceKind::orpo:
      return "orpo";
    case PreferenceKind::kto:
      return "kto";
    case PreferenceKind::dpo:
      break;
  }
  return "dpo";
}

std::optional<PreferenceKind> find_preference(std::string_view name) {
  for (const PreferenceKind kind :
       {PreferenceKind::dpo, PreferenceKind::ipo, PreferenceKind::orpo, PreferenceKind::kto}) {
    if (name == name_of(kind)) return kind;
  }
  return std::nullopt;
}

void check(const PreferenceLoss& loss) {
  const auto& [kind, beta, smoothing, desirable, undesirable] = loss.formula;
  require(std::isfinite(beta) && beta > 0, "training: beta must be finite and above 0, got {}",
          beta);
  require(smoothing >= 0 && smoothing < 0.5F,
          "training: the label smoothing of preferences must be at least 0 and below 0.5, got {}",
          smoothing);
  require(smoothing == 0 || kind == PreferenceKind::dpo,
          "training: label smoothing of preferences is for dpo, got {}", name_of(kind));
  for (const float weight : {desirable, undesirable}) {
    require(std::isfinite(weight) && weight >= 0,
            "training: the weights of desirable and undesirable answers must be finite and at "
            "least 0, got {}",
            weight);
  }
  require(desirable == 1 || kind == PreferenceKind::kto,
          "training: a weight of desirable answers is for kto, got {}", name_of(kind));
  require(undesirable == 1 || kind == PreferenceKind::kto,
          "training: a weight of undesirable answers is for kto, got {}", name_of(kind));
}

std::vector<PreferenceScore> scores_of(const PreferenceSums& sums, PreferenceKind kind,
                                       std::int64_t nll_rows) {
  std::vector<PreferenceScore> scores;
  const auto add = [&](const char* name, double sum, double count) {
    if (count > 0) scores.push_back({name, sum / count});
  };
  const double chosen = static_cast<double>(sums.chosen_count);
  const double rejected = static_cast<double>(sums.rejected_count);
  add("rewards/chosen", static_cast<double>(sums.chosen_reward), chosen);
  add("rewards/rejected", static_cast<double>(sums.rejected_reward), rejected);
  if (chosen > 0 && rejected > 0) {
    if (kind != PreferenceKind::kto) {
      add("rewards/accuracies", static_cast<double>(sums.wins), chosen);
    }
    scores.push_back({"rewards/margins", static_cast<double>(sums.chosen_reward) / chosen -
                                             static_cast<double>(sums.rejected_reward) / rejected});
  }
  add("logps/chosen", static_cast<double>(sums.chosen_logp), chosen);
  add("logps/rejected", static_cast<double>(sums.rejected_logp), rejected);
  add("nll_loss", static_cast<double>(sums.nll), static_cast<double>(nll_rows));
  if (kind == PreferenceKind::orpo) {
    add("log_odds_ratio", static_cast<double>(sums.log_odds_ratio), chosen);
    add("log_odds_chosen", static_cast<double>(sums.log_odds), chosen);
  }
  if (kind == PreferenceKind::kto) {
    add("kl", static_cast<double>(sums.kl), static_cast<double>(sums.kl_count));
  }
  return scores;
}

double loss_of(const PreferenceSums& sums, PreferenceKind kind, std::int64_t nll_rows) {
  const double chosen = static_cast<double>(sums.chosen_count);
  const double count =
      kind == PreferenceKind::kto ? chosen + static_cast<double>(sums.rejected_count) : chosen;
  const double loss = static_cast<double>(sums.loss) / std::max(count, 1.0);
  if (nll_rows == 0) return loss;
  return loss + static_cast<double>(sums.nll) / static_cast<double>(nll_rows);
}

PreferenceSums sums_of(std::span<const float> values) {
  require(values.size() >= static_cast<std::size_t>(kPreferenceSums),
          "preference loss: {} sums are required, got {}", kPreferenceSums, values.size());
  PreferenceSums sums;
  std::memcpy(static_cast<void*>(&sums), values.data(), sizeof(sums));
  return sums;
}

}  // namespace clora

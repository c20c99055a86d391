// PreferenceLoss: what a model is trained on that shall prefer some answers to others, instead of
// the next token (ops/loss/preference.hpp), and what is reported of it. Values and pure functions;
// thread-safe.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "clora/ops/loss/preference.hpp"

namespace clora {

// The reference is the model as it is before the first step: with a new adapter, the base model.
struct PreferenceLoss {
  PreferenceFormula formula = {};

  bool has_reference() const { return formula.kind != PreferenceKind::orpo; }
  bool has_nll() const { return formula.kind == PreferenceKind::orpo; }
  bool has_kl() const { return formula.kind == PreferenceKind::kto; }
  bool has_pairs() const { return formula.kind != PreferenceKind::kto; }
};

// "dpo"
const char* name_of(PreferenceKind kind);
// The kind of that name; nullopt if there is none, as for "sft".
std::optional<PreferenceKind> find_preference(std::string_view name);

// Throws Error(invalid_argument) for a setting out of range.
void check(const PreferenceLoss& loss);

// A value that is reported, by TRL's name for it: "rewards/chosen".
struct PreferenceScore {
  const char* name;
  double value;
};
// The means of the pairs (answers) that were added up; without those that have no answer. nll_rows:
// the rows of PreferenceSums::nll.
std::vector<PreferenceScore> scores_of(const PreferenceSums& sums, PreferenceKind kind,
                                       std::int64_t nll_rows);

// The mean loss.
double loss_of(const PreferenceSums& sums, PreferenceKind kind, std::int64_t nll_rows);

// Sums as they were read from the device. REQUIRES: kPreferenceSums values.
PreferenceSums sums_of(std::span<const float> values);

}  // namespace clora

#include "tools/command_line/suggestion.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace clora {
namespace {

// Option names of other programs, and the equivalents of clora.
constexpr std::array<std::pair<std::string_view, std::string_view>, 35> kSpellings{{
    {"learning-rate", "lr"},
    {"lr-schedule", "schedule"},
    {"lr-scheduler-type", "schedule"},
    {"warmup", "warmup-steps"},
    {"iters", "steps"},
    {"iterations", "steps"},
    {"max-steps", "steps"},
    {"num-epochs", "epochs"},
    {"num-train-epochs", "epochs"},
    {"num-layers", "layers"},
    {"lora-layers", "layers"},
    {"lora-rank", "rank"},
    {"lora-r", "rank"},
    {"lora-alpha", "alpha"},
    {"lora-dropout", "dropout"},
    {"modules", "target-modules"},
    {"per-device-train-batch-size", "batch-size"},
    {"gradient-accumulation-steps", "grad-accumulation"},
    {"grad-accumulation-steps", "grad-accumulation"},
    {"max-grad-norm", "clip-norm"},
    {"max-length", "max-seq-length"},
    {"steps-per-eval", "eval-every"},
    {"steps-per-save", "save-every"},
    {"output-dir", "adapter-out"},
    {"output", "adapter-out"},
    {"output", "out"},
    {"out", "adapter-out"},
    {"adapter-path", "adapter"},
    {"resume-from-checkpoint", "resume"},
    {"max-new-tokens", "max-tokens"},
    {"n-predict", "max-tokens"},
    {"repeat-penalty", "repetition-penalty"},
    {"system-prompt", "system"},
    {"force", "overwrite"},
    {"dataset", "data"},
}};

struct Best {
  std::string name;
  double score = 1;  // distance / length; smaller is nearer
};

void consider(std::string_view word, std::string_view spelling, std::string_view name, Best& best) {
  const std::size_t longer = std::max(word.size(), spelling.size());
  const std::size_t distance = edit_distance(word, spelling);
  const bool begins = word.size() >= 3 && spelling.starts_with(word);
  if (!begins && distance * 3 > longer) return;
  const double score = begins ? 0.2 : static_cast<double>(distance) / static_cast<double>(longer);
  if (score < best.score) best = {std::string(name), score};
}

}  // namespace

std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before(to.size() + 1);
  std::vector<std::size_t> previous(to.size() + 1);
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = previous[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(previous);
    previous.swap(row);
  }
  return previous[to.size()];
}

std::string suggestion_for(std::string_view word, const std::vector<std::string>& candidates) {
  Best best;
  for (const std::string& candidate : candidates) consider(word, candidate, candidate, best);
  for (const auto& [spelling, name] : kSpellings) {
    if (std::ranges::find(candidates, name) != candidates.end()) {
      consider(word, spelling, name, best);
    }
  }
  return best.name;
}

}  // namespace clora

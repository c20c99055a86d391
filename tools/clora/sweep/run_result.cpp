#include "tools/clora/sweep/run_result.hpp"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <utility>

#include "clora/runtime/files/json.hpp"

namespace clora {
namespace {

using Json = nlohmann::ordered_json;

constexpr JsonLimits kLineLimits{.bytes = 1U << 20U, .depth = 8};

std::optional<Json> event_of(const std::string& line) {
  try {
    Json event = parse_json<Json>(line, "log.jsonl", kLineLimits);
    if (event.is_object() && event.contains("event") && event["event"].is_string()) return event;
  } catch (const Error&) {  // a line that a killed process did not complete
  }
  return std::nullopt;
}

std::optional<double> number_in(const Json& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::int64_t step_in(const Json& event, const char* key) {
  const auto found = event.find(key);
  return found == event.end() ? 0 : json_integer(*found).value_or(0);
}

void note_scores(RunResult& result, const Json& event) {
  result.scores.clear();
  for (const char* name :
       {"exact_match", "accuracy", "normalised_accuracy", "recall_at_1", "spearman"}) {
    if (const auto score = number_in(event, name)) result.scores.emplace_back(name, *score);
  }
  const auto own = event.find("scores");
  if (own == event.end() || !own->is_object()) return;
  for (const auto& [name, score] : own->items()) {
    if (score.is_number()) result.scores.emplace_back(name, score.get<double>());
  }
}

void note_end(RunResult& result, const Json& event) {
  const auto stopped = event.find("stopped");
  result.finished = stopped != event.end() && *stopped == false;
  result.stopped = stopped != event.end() && *stopped == true;
  result.steps = step_in(event, "steps");
  result.seconds = number_in(event, "seconds").value_or(0);
  if (const auto best = number_in(event, "best_loss")) result.valid_loss = best;
}

std::optional<double> mean_of_last_tenth(const std::vector<double>& losses) {
  if (losses.empty()) return std::nullopt;
  const auto count = static_cast<std::ptrdiff_t>((losses.size() + 9) / 10);
  return std::accumulate(losses.end() - count, losses.end(), 0.0) / static_cast<double>(count);
}

}  // namespace

RunResult read_run_result(const std::filesystem::path& folder) {
  RunResult result;
  std::vector<double> losses;
  std::ifstream lines(folder / "log.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto event = event_of(line);
    if (!event) continue;
    const std::string kind = event->at("event").get<std::string>();
    if (kind == "done") {
      note_end(result, *event);
    } else if (kind == "eval") {
      result.valid_loss = number_in(*event, "loss");
      note_scores(result, *event);
    } else if (kind == "step") {
      result.finished = result.stopped = false;  // the run went on after its end
      result.steps = step_in(*event, "step");
      if (const auto loss = number_in(*event, "loss")) losses.push_back(*loss);
    }
  }
  result.train_loss = mean_of_last_tenth(losses);
  return result;
}

bool is_better(const RunResult& a, const RunResult& b) {
  const auto key = [](const RunResult& result) {
    const double none = std::numeric_limits<double>::infinity();
    return std::tuple(result.valid_loss.value_or(none), result.train_loss.value_or(none));
  };
  return key(a) < key(b);
}

nlohmann::ordered_json json_of(const RunResult& result) {
  Json object{{"finished", result.finished}, {"steps", result.steps}, {"seconds", result.seconds}};
  if (result.valid_loss) object["valid_loss"] = *result.valid_loss;
  if (result.train_loss) object["train_loss"] = *result.train_loss;
  for (const auto& [name, score] : result.scores) object["scores"][name] = score;
  return object;
}

}  // namespace clora

#include "tools/clora/scoring_command.hpp"

#include <cmath>

#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"
#include "tools/command_line/process.hpp"

namespace clora {
namespace {

constexpr JsonLimits kLimits{.bytes = 1U << 20U, .depth = 4};
constexpr std::size_t kShownBytes = 400;

std::string lines_of(const std::vector<Answer>& answers) {
  std::string lines;
  for (const Answer& answer : answers) {
    const nlohmann::ordered_json object{
        {"prompt", answer.prompt}, {"reference", answer.wanted}, {"reply", answer.got}};
    lines += json_text(object) + '\n';
  }
  return lines;
}

// The end of what the command wrote to stderr, where its reason is.
std::string reason_of(const ProcessResult& result) {
  std::string text = result.err;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.size() > kShownBytes) text = "..." + text.substr(text.size() - kShownBytes);
  return text.empty() ? "" : ": " + text;
}

nlohmann::ordered_json scores_of(const std::string& text) {
  nlohmann::ordered_json scores;
  try {
    scores = parse_json<nlohmann::ordered_json>(text, "its output", kLimits);
  } catch (const Error& error) {
    fail(ErrorCode::invalid_data,
         "--eval-command: a JSON object of scores is required on its stdout; {}", error.what());
  }
  if (!scores.is_object()) {
    fail(ErrorCode::invalid_data, "--eval-command: its output must be a JSON object, got {}",
         json_excerpt(scores));
  }
  for (const auto& [name, score] : scores.items()) {
    if (score.is_number() && std::isfinite(score.get<double>())) continue;
    fail(ErrorCode::invalid_data, "--eval-command: the score \"{}\" must be a number, got {}", name,
         json_excerpt(score));
  }
  return scores;
}

}  // namespace

nlohmann::ordered_json scores_by_command(const std::string& command, double seconds,
                                         const std::vector<Answer>& answers) {
  const ProcessResult result =
      run_process({"/bin/sh", "-c", command}, seconds, {}, lines_of(answers));
  if (!result.succeeded()) {
    fail(ErrorCode::invalid_data, "--eval-command: '{}' {}{}", command, end_text(result),
         reason_of(result));
  }
  return scores_of(result.out);
}

}  // namespace clora

#include "tools/clora/training/training_log.hpp"

#include <cmath>
#include <optional>
#include <utility>

#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr const char* kLines = "log.jsonl";
constexpr const char* kPicture = "loss.svg";

// Lines written by TrainingLog are short and flat; a damaged file may hold others.
constexpr JsonLimits kLineLimits{.bytes = 1U << 20U, .depth = 8};

// The event of a line; nullopt if it is not an event.
std::optional<nlohmann::ordered_json> event_of(const std::string& line) {
  try {
    auto event = parse_json<nlohmann::ordered_json>(line, kLines, kLineLimits);
    const OrderedJsonKeys keys(event, kLines);
    if (!keys.find_text("event")) return std::nullopt;
    static_cast<void>(keys.find_integer("step"));  // throws if it has another type
    static_cast<void>(keys.find_number("loss"));
    return event;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

TrainingLog::TrainingLog(std::filesystem::path folder, std::string title,
                         std::int64_t retained_steps)
    : folder_(std::move(folder)),
      retained_steps_(retained_steps),
      curve_{std::move(title), {}, {}} {}

void TrainingLog::begin() {
  keep_lines();
  lines_.open(folder_ / kLines, std::ios::app);
}

void TrainingLog::keep_lines() {
  std::string kept;
  std::ifstream earlier(folder_ / kLines);
  for (std::string line; retained_steps_ > 0 && std::getline(earlier, line);) {
    const auto event = event_of(line);
    if (!event) {
      ++left_out_;
    } else if (OrderedJsonKeys(*event, kLines).find_integer("step").value_or(retained_steps_ + 1) <=
               retained_steps_) {
      note_loss(*event);
      kept += line + '\n';
    }
  }
  write_file_atomically(folder_ / kLines, kept);
}

void TrainingLog::note_loss(const nlohmann::ordered_json& event) {
  const OrderedJsonKeys keys(event, kLines);
  const std::string kind = keys.text("event");
  if (kind != "step" && kind != "eval") return;
  auto& points = kind == "step" ? curve_.train : curve_.valid;
  const auto* loss = keys.find("loss");  // null if not finite; the chart omits it
  points.push_back(
      {keys.find_integer("step").value_or(0), loss == nullptr ? NAN : loss->get<double>()});
}

bool comes_before_progress(const nlohmann::ordered_json& event) {
  return event.at("event") == "start" || event.at("event") == "devices";
}

void TrainingLog::add(const nlohmann::ordered_json& event) {
  waiting_ += json_text(event) + '\n';
  if (comes_before_progress(event)) return;
  if (!lines_.is_open()) begin();
  note_loss(event);
  lines_ << std::exchange(waiting_, {}) << std::flush;
  if (!lines_) fail(ErrorCode::io, "train: '{}' cannot be written", (folder_ / kLines).string());
}

void TrainingLog::write_picture() const {
  if (curve_.train.empty()) return;
  write_file_atomically(folder_ / kPicture, loss_picture(curve_));
}

}  // namespace clora

#include "tools/clora/training_log.hpp"

#include <nlohmann/json.hpp>

#include "runtime/error.hpp"
#include "runtime/file.hpp"

namespace clora {
namespace {

constexpr const char* kLines = "log.jsonl";
constexpr const char* kPicture = "loss.svg";

}  // namespace

TrainingLog::TrainingLog(const std::filesystem::path& folder, std::string title,
                         std::int64_t kept_steps)
    : folder_(folder), curve_{std::move(title), {}, {}} {
  keep_lines(kept_steps);
  lines_.open(folder_ / kLines, std::ios::app);
  if (!lines_) fail(ErrorCode::io, "train: '{}' cannot be written", (folder_ / kLines).string());
}

void TrainingLog::keep_lines(std::int64_t last_step) {
  std::string kept;
  std::ifstream earlier(folder_ / kLines);
  for (std::string line; last_step > 0 && std::getline(earlier, line);) {
    const auto event = nlohmann::ordered_json::parse(line, nullptr, false);
    if (!event.is_object() || event.value("step", last_step + 1) > last_step) continue;
    note_loss(event);
    kept += line + '\n';
  }
  write_file_atomically(folder_ / kLines, kept);
}

void TrainingLog::note_loss(const nlohmann::ordered_json& event) {
  const std::string kind = event.value("event", "");
  if (kind != "step" && kind != "eval") return;
  auto& points = kind == "step" ? curve_.train : curve_.valid;
  points.push_back({event.value("step", std::int64_t{0}), event.value("loss", 0.0)});
}

void TrainingLog::add(const nlohmann::ordered_json& event) {
  note_loss(event);
  lines_ << event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
         << std::endl;
  if (!lines_) fail(ErrorCode::io, "train: '{}' cannot be written", (folder_ / kLines).string());
}

void TrainingLog::write_picture() const {
  if (curve_.train.empty()) return;
  write_file_atomically(folder_ / kPicture, loss_picture(curve_));
}

}  // namespace clora

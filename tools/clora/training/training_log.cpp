#include "tools/clora/training/training_log.hpp"

#include <utility>

#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"
#include "tools/clora/training/loss_picture.hpp"

namespace clora {
namespace {

constexpr const char* kPicture = "loss.svg";

}  // namespace

TrainingLog::TrainingLog(std::filesystem::path folder, std::string title,
                         std::int64_t retained_steps)
    : folder_(std::move(folder)), retained_steps_(retained_steps), title_(std::move(title)) {}

void TrainingLog::begin() {
  keep_lines();
  lines_.open(folder_ / kLogFile, std::ios::app);
}

void TrainingLog::keep_lines() {
  std::string kept;
  std::ifstream earlier(folder_ / kLogFile);
  for (std::string line; retained_steps_ > 0 && std::getline(earlier, line);) {
    const auto event = run_event(line);
    if (!event) {
      ++left_out_;
    } else if (OrderedJsonKeys(*event, kLogFile)
                   .find_integer("step")
                   .value_or(retained_steps_ + 1) <= retained_steps_) {
      record_.add(*event);
      kept += line + '\n';
    }
  }
  write_file_atomically(folder_ / kLogFile, kept);
}

bool comes_before_progress(const nlohmann::ordered_json& event) {
  return event.at("event") == "start" || event.at("event") == "devices";
}

void TrainingLog::add(const nlohmann::ordered_json& event) {
  waiting_.push_back(event);
  if (comes_before_progress(event)) return;
  if (!lines_.is_open()) begin();
  for (const nlohmann::ordered_json& each : std::exchange(waiting_, {})) {
    record_.add(each);
    lines_ << json_text(each) << '\n';
  }
  lines_ << std::flush;
  if (!lines_) {
    fail(ErrorCode::io, "train: '{}' cannot be written", (folder_ / kLogFile).string());
  }
}

void TrainingLog::write_picture() const {
  const SeriesPoints& train = record_.points("step", "loss");
  if (train.empty()) return;
  write_file_atomically(folder_ / kPicture,
                        loss_picture({title_, train, record_.points("eval", "loss")}));
}

}  // namespace clora

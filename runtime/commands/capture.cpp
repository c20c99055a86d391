#include "runtime/commands/capture.hpp"

#include "runtime/commands/captured_launch.hpp"
#include "runtime/fail.hpp"

namespace clora {

Capture::Capture(Context& context, CaptureRequest request)
    : context_(context), request_(std::move(request)) {}

Capture::~Capture() = default;

std::string Capture::what() const {
  return fmt::format("capture: launch {} of {}", request_.launch, request_.op);
}

bool Capture::is_wanted(const Command& command) {
  const auto* kernel = std::get_if<KernelCommand>(&command);
  if (kernel == nullptr || pauses_ > 0) return false;
  const std::string_view label = label_of(command);
  ++seen_[std::string(label)];
  const bool is_of_op = label == request_.op || kernel->launch.kernel.function == request_.op;
  return is_of_op && ++launches_ == request_.launch;
}

bool Capture::takes(const Command& command) noexcept try {
  if (!is_wanted(command)) return false;
  begin(std::get<KernelCommand>(command));
  return captured_ != nullptr;
} catch (const std::exception& error) {
  end(LogLevel::warning,
      fmt::format("{} cannot be captured: {}; the run continues without it", what(), error.what()));
  return false;
}

void Capture::begin(const KernelCommand& command) {
  if (!command.launch.uses.empty()) {
    fail(ErrorCode::unsupported,
         "its kernel {} reads tensor addresses from memory, and these are not valid in another "
         "process; set CLORA_VARIANT=portable to use kernels that take every tensor as an argument",
         command.launch.kernel.function);
  }
  captured_ = std::make_unique<CapturedLaunch>(context_, command);
}

void Capture::finish() noexcept try {
  captured_->read_results();
  captured_->write(request_);
  end(LogLevel::info, fmt::format("{} is saved in {}; run it with 'clc replay {}'", what(),
                                  request_.folder.string(), request_.folder.string()));
} catch (const std::exception& error) {
  end(LogLevel::warning,
      fmt::format("{} cannot be written: {}; the run continues without it", what(), error.what()));
}

void Capture::end(LogLevel level, const std::string& message) noexcept {
  captured_.reset();
  context_.capture_ = nullptr;
  context_.hooks().log_message(level, message);
}

void Capture::give_up() noexcept try {
  std::string labels;
  for (const auto& [label, count] : seen_) {
    labels += fmt::format("{}{} ({})", labels.empty() ? "" : ", ", label, count);
  }
  end(LogLevel::warning,
      fmt::format("{} was not reached, the run had {} of these launches; launches by label: {}",
                  what(), launches_, labels.empty() ? "none" : labels));
} catch (const std::exception&) {  // out of memory for the message
  return;
}

}  // namespace clora

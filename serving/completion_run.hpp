// EngineRun: the CompletionRun of a CompletionService. Threads: one at a time.
#pragma once

#include "clora/serving/completion_service.hpp"
#include "serving/completion_reply.hpp"

namespace clora {

class EngineRun final : public CompletionRun {
 public:
  struct Parts {
    EngineThread* engine = nullptr;
    std::unique_ptr<Submission> submission = {};
    ReplyContext context = {};
    std::size_t replies = 1;
    bool is_stream = false;
    std::chrono::milliseconds time{0};
  };
  explicit EngineRun(Parts parts);

  bool is_stream() const override { return parts_.is_stream; }
  nlohmann::json complete(const std::function<bool()>& client_left) override;
  bool stream(const std::function<bool(const std::string&)>& send,
              const std::function<bool()>& client_left) override;
  CompletionFigures figures() const override;

 private:
  using Clock = std::chrono::steady_clock;

  // Nothing if the client left or is too slow. Errors: those of complete().
  std::optional<ChoiceEvent> next(const std::function<bool()>& client_left);
  void require_time() const;
  void require_success(const GenerationEvent& event) const;
  bool send_all(const std::function<bool(const std::string&)>& send,
                const std::function<bool()>& client_left);

  Parts parts_;
  const ReplyContext context_;
  CompletionReply reply_;
  const Clock::time_point started_ = Clock::now();
  Clock::time_point next_check_ = started_;
  double first_token_seconds_ = 0;
};

}  // namespace clora

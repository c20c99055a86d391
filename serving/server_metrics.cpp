#include "clora/serving/server_metrics.hpp"

#include <fmt/format.h>

#include <array>

#include "serving/histogram.hpp"

namespace clora {
namespace {

constexpr std::array<double, 22> kFirstTokenSeconds{
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
    1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
constexpr std::array<double, 19> kInterTokenSeconds{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
                                                    0.3,  0.4,   0.5,  0.75,  1.0, 2.5,  5.0,
                                                    7.5,  10.0,  20.0, 40.0,  80.0};
constexpr std::array<double, 21> kRequestSeconds{0.3,  0.5,   0.8,   1.0,   1.5,   2.0,    2.5,
                                                 5.0,  10.0,  15.0,  20.0,  30.0,  40.0,   50.0,
                                                 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
constexpr std::array<double, 16> kTokens{1.0,     2.0,     5.0,     10.0,    20.0,   50.0,
                                         100.0,   200.0,   500.0,   1000.0,  2000.0, 5000.0,
                                         10000.0, 20000.0, 50000.0, 100000.0};

// A backslash, a quote and a line end are escaped in a label's value.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '"') result += '\\';
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result;
}

// Writes metrics with one prefix and the same labels.
class MetricsText {
 public:
  MetricsText(std::string_view prefix, std::string_view labels)
      : prefix_(prefix), labels_(labels) {}

  void begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = fmt::format("{}:{}", prefix_, name);
    text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name_, type, help);
  }
  // Of the metric begun last; more_labels: `,status="200"`.
  template <class T>
  void value(T value, std::string_view more_labels = {}) {
    text_ += fmt::format("{}{{{}{}}} {}\n", name_, labels_, more_labels, value);
  }
  template <class T>
  void gauge(std::string_view name, std::string_view help, T now) {
    begin(name, "gauge", help);
    value(now);
  }
  void counter(std::string_view name, std::string_view help, std::uint64_t total) {
    begin(name, "counter", help);
    value(total);
  }
  void histogram(std::string_view name, std::string_view help, const Histogram& histogram) {
    begin(name, "histogram", help);
    text_ += histogram.text(name_, labels_);
  }

  std::string take() { return std::move(text_); }

 private:
  std::string_view prefix_, labels_;
  std::string name_;
  std::string text_;
};

double used_share(const EngineStatistics& s) {
  return s.pages > 0 ? static_cast<double>(s.used_pages) / static_cast<double>(s.pages) : 0;
}

void write_engine(MetricsText& out, const EngineStatistics& s) {
  out.gauge("num_requests_running", "Replies that are being generated.", s.running);
  out.gauge("num_requests_waiting", "Replies that wait for their turn.", s.waiting);
  out.gauge("kv_cache_usage_perc", "Used share of the KV cache, from 0 to 1.", used_share(s));
  out.gauge("device_memory_bytes", "Device memory in use, after the last step.", s.memory_bytes);
  out.counter("prefix_cache_queries_total", "Prompt tokens looked up in the cache.",
              s.prompt_tokens);
  out.counter("prefix_cache_hits_total", "Prompt tokens found in the cache.",
              s.cached_prompt_tokens);
  out.counter("num_preemptions_total", "Sequences that gave their cache back.", s.preemptions);
  out.counter("prompt_tokens_total", "Tokens of prompts.", s.prompt_tokens);
  out.counter("generation_tokens_total", "Generated tokens.", s.generated_tokens);
  out.counter("spec_decode_num_draft_tokens_total", "Tokens guessed from earlier ones.",
              s.draft_tokens);
  out.counter("spec_decode_num_accepted_tokens_total", "Guessed tokens that were accepted.",
              s.accepted_draft_tokens);
  out.counter("engine_steps_total", "Steps of the engine.", s.steps);
}

}  // namespace

struct ServerMetrics::Histograms {
  Histogram first_token{kFirstTokenSeconds};
  Histogram inter_token{kInterTokenSeconds};
  Histogram request{kRequestSeconds};
  Histogram queue{kRequestSeconds};
  Histogram prefill{kRequestSeconds};
  Histogram decode{kRequestSeconds};
  Histogram inference{kRequestSeconds};
  Histogram prompt_tokens{kTokens};
  Histogram generated_tokens{kTokens};
};

ServerMetrics::ServerMetrics(std::string prefix, std::string model)
    : prefix_(std::move(prefix)),
      labels_(fmt::format("model_name=\"{}\"", escaped(model))),
      histograms_(std::make_unique<Histograms>()) {
  for (const char* reason : {"stop", "length", "abort"}) finished_[reason] = 0;
}

ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::first_tokens(double seconds) {
  const std::lock_guard lock(mutex_);
  histograms_->first_token.observe(seconds);
}

void ServerMetrics::next_tokens(double seconds, std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  histograms_->inter_token.observe(seconds / static_cast<double>(count), count);
}

void ServerMetrics::finished(const ReplyFigures& figures) {
  const std::lock_guard lock(mutex_);
  if (figures.reason == "error") {
    ++failed_;
    return;
  }
  ++finished_[std::string(figures.reason)];
  histograms_->request.observe(figures.seconds);
  histograms_->queue.observe(figures.queue_seconds);
  if (figures.generated_tokens > 0) {
    histograms_->prefill.observe(figures.prefill_seconds);
    histograms_->decode.observe(figures.decode_seconds);
    histograms_->inference.observe(figures.prefill_seconds + figures.decode_seconds);
  }
  histograms_->prompt_tokens.observe(static_cast<double>(figures.prompt_tokens));
  histograms_->generated_tokens.observe(static_cast<double>(figures.generated_tokens));
}

void ServerMetrics::answered(int status) {
  const std::lock_guard lock(mutex_);
  ++answered_[status];
}

std::string ServerMetrics::text(const EngineStatistics& statistics) const {
  MetricsText out(prefix_, labels_);
  write_engine(out, statistics);
  const std::lock_guard lock(mutex_);
  out.begin("request_success_total", "counter", "Replies by the reason of their end.");
  for (const auto& [reason, count] : finished_) {
    out.value(count, fmt::format(",finished_reason=\"{}\"", reason));
  }
  out.counter("request_failure_total", "Replies that an error ended.", failed_);
  out.begin("http_requests_total", "counter", "HTTP requests by the status of their answer.");
  for (const auto& [status, count] : answered_) {
    out.value(count, fmt::format(",status=\"{}\"", status));
  }
  out.histogram("time_to_first_token_seconds", "From the submission to the first token.",
                histograms_->first_token);
  out.histogram("inter_token_latency_seconds", "Between two tokens of a reply.",
                histograms_->inter_token);
  out.histogram("e2e_request_latency_seconds", "From the submission to the end of the reply.",
                histograms_->request);
  out.histogram("request_queue_time_seconds", "From the submission to the first step.",
                histograms_->queue);
  out.histogram("request_prefill_time_seconds", "From the first step to the first token.",
                histograms_->prefill);
  out.histogram("request_decode_time_seconds", "From the first token to the last one.",
                histograms_->decode);
  out.histogram("request_inference_time_seconds", "From the first step to the last token.",
                histograms_->inference);
  out.histogram("request_prompt_tokens", "Tokens of a prompt.", histograms_->prompt_tokens);
  out.histogram("request_generation_tokens", "Tokens of a reply.", histograms_->generated_tokens);
  return out.take();
}

}  // namespace clora

#include "tools/clora/commands/generation_options.hpp"
#include "tools/command_line/number_options.hpp"

#include <fmt/format.h>

#include <optional>

#include "clora/model/generation/stop_filter.hpp"

namespace clora {
namespace {

// Decodes token ids to text, shows it and stores it.
class ReplyText {
 public:
  ReplyText(const ModelText& text, const std::vector<std::string>& stops, Output& output,
            bool stream)
      : filter_(stops), output_(output), stream_(stream) {
    if (text.has_tokenizer()) decoder_.emplace(text.tokenizer());
  }

  void push(std::int32_t id) {
    if (decoder_) {
      show(filter_.push(decoder_->push(id)));
    } else if (stream_) {
      output_.text(fmt::format("{}{}", first_ ? "" : ",", id));
    }
    first_ = false;
  }

  void finish() {
    if (decoder_) show(filter_.push(decoder_->finish()));
    show(filter_.finish());
  }

  bool stopped() const { return filter_.stopped(); }
  std::string take() { return std::move(text_); }

 private:
  void show(const std::string& piece) {
    if (stream_ && !piece.empty()) output_.text(piece);
    text_ += piece;
  }

  std::optional<StreamDecoder> decoder_;
  StopFilter filter_;
  Output& output_;
  bool stream_;
  bool first_ = true;
  std::string text_;
};

}  // namespace

void add_sampling_options(CLI::App& command, SamplingOptions& options) {
  GenerationConfig& config = options.config;
  const std::string group = "Generation";
  command.add_option("--max-tokens", config.max_tokens, "Maximum number of tokens to generate")
      ->transform(Integer(1, kMaxCount))
      ->capture_default_str()
      ->group(group);
  command.add_option("--temperature", config.temperature, "Sampling temperature; 0: greedy")
      ->transform(Number(0, 1000))
      ->capture_default_str()
      ->group(group);
  command.add_option("--top-k", config.top_k, "Sample only from the K likeliest tokens; 0: off")
      ->transform(Integer(0, kMaxCount))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--top-p", config.top_p,
                  "Sample only from the likeliest tokens with this total probability; 1: off")
      ->transform(Number(0, 1))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--min-p", config.min_p,
                  "Sample only tokens with at least this fraction of the likeliest token's "
                  "probability; 0: off")
      ->transform(Number(0, 1))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--repetition-penalty", config.repetition_penalty,
                  "Penalty that makes earlier tokens less likely; 1: off")
      ->transform(NumberAbove(0, 1000))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--kv-cache-type", options.kv_cache_type,
                  "Type of the cached keys and values: bf16 and f16 take half the memory of f32, "
                  "q8_0 about a quarter; auto is bf16, or f32 with --precision f32")
      ->check(CLI::IsMember({"auto", "bf16", "f16", "q8_0", "f32"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--stop", options.stops,
                  "Text that ends the reply and is removed from it; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
}

Reply generate_reply(Generator& generator, std::span<const std::int32_t> prompt,
                     const GenerationConfig& config, const std::vector<std::string>& stops,
                     const ModelText& text, const Interrupt& interrupt, Output& output,
                     bool stream) {
  ReplyText shown(text, stops, output, stream);
  Reply reply;
  const auto go_on = [&] {
    reply.cancelled = interrupt.requested();
    return !reply.cancelled && !output.reader_left();
  };
  GenerationConfig watched = config;
  watched.on_prompt = [&](std::int64_t) { return go_on(); };
  reply.generation = generator.generate(prompt, watched, [&](std::int32_t id) {
    shown.push(id);
    return go_on() && !shown.stopped();
  });
  shown.finish();
  if (shown.stopped()) reply.generation.finish_reason = FinishReason::stop;
  reply.text = shown.take();
  return reply;
}

}  // namespace clora

#include "tools/clora/commands/generation_options.hpp"
#include "tools/command_line/number_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "clora/model/generation/grammar/token_grammar.hpp"
#include "clora/runtime/files/file.hpp"
#include "model/generation/reply_text.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr const char* kGroup = "Generation";

// The text of a reply, which is also shown with `stream`.
class ShownText {
 public:
  ShownText(const ModelText& text, const std::vector<std::string>& stops, Output& output,
            bool stream)
      : has_text_(text.has_tokenizer()),
        reply_(has_text_ ? &text.tokenizer() : nullptr, stops),
        output_(output),
        stream_(stream) {}

  void push(std::int32_t id) {
    if (has_text_) {
      show(reply_.push(id));
    } else if (stream_) {
      output_.text(fmt::format("{}{}", first_ ? "" : ",", id));
    }
    first_ = false;
  }

  void finish() { show(reply_.finish()); }
  bool stopped() const { return reply_.stopped(); }
  std::string take() { return std::move(text_); }

 private:
  void show(const std::string& piece) {
    if (stream_ && !piece.empty()) output_.text(piece);
    text_ += piece;
  }

  bool has_text_;
  ReplyText reply_;
  Output& output_;
  bool stream_;
  bool first_ = true;
  std::string text_;
};

void add_number(CLI::App& command, const char* name, double& value, CLI::Validator range,
                const char* help) {
  command.add_option(name, value, help)
      ->transform(std::move(range))
      ->capture_default_str()
      ->group(kGroup);
}

void add_count(CLI::App& command, const char* name, std::int64_t& value, Integer range,
               const char* help) {
  command.add_option(name, value, help)
      ->transform(std::move(range))
      ->capture_default_str()
      ->group(kGroup);
}

void add_filters(CLI::App& command, SamplingConfig& sampling) {
  add_number(command, "--temperature", sampling.temperature, Number(0, 1000),
             "Sampling temperature; 0: greedy");
  add_count(command, "--top-k", sampling.top_k, Integer(0, kMaxCount),
            "Sample only from the K likeliest tokens; 0: off");
  add_number(command, "--top-p", sampling.top_p, Number(0, 1),
             "Sample only from the likeliest tokens with this total probability; 1: off");
  add_number(command, "--min-p", sampling.min_p, Number(0, 1),
             "Sample only tokens with at least this fraction of the likeliest token's "
             "probability; 0: off");
  add_number(command, "--typical-p", sampling.typical_p, Number(0, 1),
             "Sample only from the tokens with this total probability whose information is nearest "
             "to the entropy; 1: off");
}

void add_penalties(CLI::App& command, SamplingConfig& sampling) {
  add_number(command, "--repetition-penalty", sampling.repetition_penalty, NumberAbove(0, 1000),
             "Penalty that makes earlier tokens less likely; 1: off");
  add_number(command, "--presence-penalty", sampling.presence_penalty, Number(-1000, 1000),
             "Subtracted from the logits of tokens that are in the reply; 0: off");
  add_number(command, "--frequency-penalty", sampling.frequency_penalty, Number(-1000, 1000),
             "Subtracted from a token's logit for each time that it is in the reply; 0: off");
}

void add_grammar_options(CLI::App& command, GrammarOptions& options) {
  CLI::Option* const object =
      command.add_flag("--json-object", options.json_object, "Reply with a JSON object")
          ->group(kGroup);
  CLI::Option* const schema = command
                                  .add_option("--json-schema", options.json_schema,
                                              "File with a JSON Schema that the reply must match")
                                  ->type_name("FILE")
                                  ->excludes(object)
                                  ->group(kGroup);
  command
      .add_option("--grammar", options.grammar,
                  "File with a grammar in GBNF that the reply must match")
      ->type_name("FILE")
      ->excludes(object)
      ->excludes(schema)
      ->group(kGroup);
}

}  // namespace

void add_sampling_options(CLI::App& command, SamplingOptions& options) {
  add_count(command, "--max-tokens", options.config.max_tokens, Integer(1, kMaxCount),
            "Maximum number of tokens to generate");
  add_filters(command, options.config.sampling);
  add_penalties(command, options.config.sampling);
  command
      .add_option("--kv-cache-type", options.kv_cache_type,
                  "Type of the cached keys and values: bf16 and f16 take half the memory of f32, "
                  "q8_0 about a quarter; auto is bf16, or f32 with --precision f32")
      ->check(CLI::IsMember({"auto", "bf16", "f16", "q8_0", "f32"}))
      ->capture_default_str()
      ->group(kGroup);
  command
      .add_option("--stop", options.stops,
                  "Text that ends the reply and is removed from it; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(kGroup);
  add_grammar_options(command, options.grammar);
  add_count(command, "--draft-tokens", options.config.draft_tokens, Integer(0, kMaxDraftTokens),
            "Tokens that are guessed from earlier ones and verified in one step, which is faster "
            "for texts that repeat themselves; 0: none");
}

std::shared_ptr<const TokenGrammar> grammar_of(const GrammarOptions& options,
                                               const ModelText& text) {
  const std::string& file = options.json_schema.empty() ? options.grammar : options.json_schema;
  if (!options.json_object && file.empty()) return nullptr;
  const GrammarVocabulary vocabulary(text.tokenizer());
  if (options.json_object) return TokenGrammar::any_json_object(vocabulary);
  const MappedFile contents = MappedFile::open(file);
  try {
    return options.json_schema.empty()
               ? TokenGrammar::from_gbnf(contents.text(), vocabulary)
               : TokenGrammar::from_json_schema(contents.text(), vocabulary);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", file, error.what());
  }
}

Reply generate_reply(Generator& generator, std::span<const std::int32_t> prompt,
                     const GenerationConfig& config, const std::vector<std::string>& stops,
                     const ModelText& text, const Interrupt& interrupt, Output& output,
                     bool stream) {
  ShownText shown(text, stops, output, stream);
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

// clora generate: generates text from a prompt.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/fail.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/commands/data_options.hpp"
#include "tools/clora/commands/generation_options.hpp"
#include "tools/clora/commands/prompt_cache.hpp"
#include "tools/clora/stage_options.hpp"
#include "tools/command_line/config_file.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora generate --model MODEL.gguf --prompt "Once upon a time" --max-tokens 100
  clora generate --model MODEL.gguf --adapter my-adapter --chat --prompt "What is a fjord?"
  clora generate --model MODEL.gguf --prompt - --temperature 0.8 --top-p 0.95 --seed 7 < prompt.txt
  clora generate --model MODEL.gguf --prompt-ids 1,2,3 --json --logprobs 5
  clora generate --model MODEL.gguf --chat --prompt "A person?" --json-schema person.json
  clora generate --model MODEL.gguf --prompt - --prompt-cache book.cache < book.txt
  clora generate --model LARGE.gguf --prompt "Once" --device gpu:0,gpu:1 --split layers
Lengths are in tokens, log-probabilities in nats: the model's own, before temperature and filters.
The reply ends at an end token of the model, at a --stop text, or after --max-tokens; a reply that
--max-tokens cuts off does not match its schema or grammar.
--prompt - reads standard input and strips one trailing newline.
--prompt-cache FILE has what the model computed of the prompt, in full pages of 16 tokens. A prompt
that begins with the same tokens computes only what follows, and replaces the file if it is another
one. The reply is the same. A file of another model, adapter or --kv-cache-type is an error.)";

struct Options {
  CommonOptions common;
  SamplingOptions sampling;
  std::string adapter;
  std::string prompt;
  std::vector<std::int32_t> prompt_ids;
  bool chat = false;
  std::string system;
  std::string chat_template;
  std::string prompt_cache;  // a file, or empty
  bool special = false;
  std::int64_t logprobs = -1;  // negative: off
};

std::string prompt_text(const Options& options) {
  if (options.prompt != "-") return options.prompt;
  std::string text = read_standard_input();
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::vector<std::int32_t> prompt_of(const Options& options, const ModelText& text) {
  if (!options.prompt_ids.empty()) return options.prompt_ids;
  const std::string prompt = prompt_text(options);
  if (!options.chat) return text.tokenizer().encode(prompt, {.parse_special = options.special});
  std::vector<ChatMessage> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system});
  messages.push_back({"user", prompt});
  return text.chat_template().encode(messages, true, text.tokenizer()).ids;
}

void require_prompt(const std::vector<std::int32_t>& prompt, const ModelConfig& config) {
  require(!prompt.empty(), "generate: the prompt must have at least one token, got none");
  for (const std::int32_t id : prompt) {
    require(id >= 0 && id < config.vocabulary, "generate: token ids must be in [0, {}), got {}",
            config.vocabulary, id);
  }
  const auto length = static_cast<std::int64_t>(prompt.size());
  require(config.max_positions == 0 || length < config.max_positions,
          "generate: the prompt has {} tokens, but the model accepts fewer than {}; shorten it",
          length, config.max_positions);
}

std::int64_t positions_for(const std::vector<std::int32_t>& prompt, std::int64_t max_tokens,
                           const ModelConfig& config) {
  const std::int64_t wanted = static_cast<std::int64_t>(prompt.size()) + max_tokens;
  return config.max_positions > 0 ? std::min(wanted, config.max_positions) : wanted;
}

nlohmann::ordered_json json_of(const std::vector<std::vector<TokenLogprob>>& alternatives) {
  auto all = nlohmann::ordered_json::array();
  for (const auto& of_token : alternatives) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& [id, logprob] : of_token) list.push_back({{"id", id}, {"logprob", logprob}});
    all.push_back(std::move(list));
  }
  return all;
}

double per_second(std::size_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

nlohmann::ordered_json json_of(const Reply& reply, const std::vector<std::int32_t>& prompt,
                               bool logprobs) {
  const Generation& generation = reply.generation;
  nlohmann::ordered_json object{{"text", reply.text},
                                {"prompt_ids", prompt},
                                {"ids", generation.ids},
                                {"finish_reason", name_of(generation.finish_reason)}};
  if (logprobs) {
    object["logprobs"] = generation.logprobs;
    object["top_logprobs"] = json_of(generation.top_logprobs);
  }
  object["cached_tokens"] = generation.cached_tokens;
  object["prompt_tokens_per_s"] = per_second(prompt.size(), generation.prompt_seconds);
  object["decode_tokens_per_s"] = per_second(generation.ids.size(), generation.decode_seconds);
  return object;
}

GenerationConfig generation_config(const Options& options,
                                   std::shared_ptr<const TokenGrammar> grammar,
                                   std::vector<std::int32_t> end_ids) {
  GenerationConfig config = options.sampling.config;
  config.sampling.seed = static_cast<std::uint32_t>(options.common.seed);
  config.sampling.logprobs = options.logprobs >= 0;
  config.sampling.top_logprobs = std::max<std::int64_t>(options.logprobs, 0);
  config.grammar = std::move(grammar);
  config.end_ids = std::move(end_ids);
  return config;
}

GeneratorConfig generator_config(const Options& options, const std::vector<std::int32_t>& prompt,
                                 const PromptCache& cache, const ModelConfig& model) {
  const std::int64_t wanted = positions_for(prompt, options.sampling.config.max_tokens, model);
  return {.max_positions = std::max(wanted, cache.positions()),
          .cache_type = named_kv_cache_type(options.sampling.kv_cache_type),
          .shares_prefixes = cache.is_used()};
}

int generate(const Options& options) {
  Output output(options.common.output);
  const ModelText text(options.common.model, options.chat_template);
  const std::vector<std::int32_t> prompt = [&] {
    const TraceSpan span(options.common.trace.get(), "tokenise");
    return prompt_of(options, text);
  }();
  std::shared_ptr<const TokenGrammar> grammar = grammar_of(options.sampling.grammar, text);
  const std::int64_t most = std::ssize(prompt) + options.sampling.config.max_tokens;
  const PromptCache cache(options.prompt_cache);
  LoadedModel loaded(options.common, output, most);
  require_prompt(prompt, loaded.model().config());
  const AdaptedStages adapted = loaded.with_adapter(options.adapter);
  const GenerationConfig config =
      generation_config(options, std::move(grammar), text.end_ids(loaded.model().config()));
  Generator generator(adapted.stages,
                      generator_config(options, prompt, cache, loaded.model().config()));
  cache.load(generator, output);
  const Interrupt interrupt("\nclora: stopping; press Ctrl-C again to stop immediately\n");
  const Reply reply = generate_reply(generator, prompt, config, options.sampling.stops, text,
                                     interrupt, output, !output.json());
  if (!output.json()) output.text("\n");
  cache.save(generator, prompt, output);
  output.object(json_of(reply, prompt, options.logprobs >= 0));
  output.detail("prompt {} tokens, {:.1f}/s; reply {} tokens, {:.1f}/s; {}", prompt.size(),
                per_second(prompt.size(), reply.generation.prompt_seconds),
                reply.generation.ids.size(),
                per_second(reply.generation.ids.size(), reply.generation.decode_seconds),
                name_of(reply.generation.finish_reason));
  loaded.show_inside();
  return reply.cancelled ? 1 : 0;
}

void add_prompt_options(CLI::App& command, Options& options) {
  auto* prompt =
      command.add_option("--prompt", options.prompt, "Text to continue; - reads standard input")
          ->type_name("TEXT|-");
  command.add_option("--prompt-ids", options.prompt_ids, "Prompt as token ids: 1,2,3")
      ->transform(Integer(0, std::numeric_limits<std::int32_t>::max()))
      ->type_name("IDS")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->excludes(prompt);
}

void require_prompt_option(const CLI::App& command) {
  if (command.count("--prompt") + command.count("--prompt-ids") > 0) return;
  throw UsageError("one of --prompt and --prompt-ids is required");
}

}  // namespace

void add_generate_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("generate", "Generate text from a prompt");
  const auto options = std::make_shared<Options>();
  add_prompt_options(*command, *options);
  CLI::Option* const chat = command->add_flag(
      "--chat", options->chat, "Treat the prompt as a user message, with the chat template");
  add_chat_template_option(*command, options->chat_template)->needs(chat);
  command->add_option("--system", options->system, "System message, with --chat")
      ->type_name("TEXT");
  command
      ->add_option("--prompt-cache", options->prompt_cache,
                   "File that keeps what is computed of the prompt: it is read if it exists")
      ->type_name("FILE");
  command->add_flag("--special,!--no-special", options->special,
                    "Parse special tokens in the prompt (default: no)");
  add_adapter_option(*command, options->adapter);
  add_sampling_options(*command, options->sampling);
  command
      ->add_option("--logprobs", options->logprobs,
                   "With --json: log-probabilities, and those of K alternatives per token")
      ->type_name("K")
      ->transform(Integer(0, 32))
      ->group("Generation");
  add_run_options(*command, options->common);
  add_stage_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, command, &action] {
    require_prompt_option(*command);
    action = [options] { return generate(*options); };
  });
}

}  // namespace clora

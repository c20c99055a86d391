// clora chat: a conversation with a model in the terminal.
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/fail.hpp"
#include "tools/clora/commands/chat_session.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/commands/data_options.hpp"
#include "tools/clora/commands/generation_options.hpp"
#include "tools/clora/stage_options.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora chat --model MODEL.gguf
  clora chat --model MODEL.gguf --adapter my-adapter --system "Answer in one sentence."
  clora chat --model MODEL.gguf --session monday.json
Each line is a message. /reset starts over, /exit or Ctrl-D quits, Ctrl-C ends a reply (twice: quits
immediately). When the conversation outgrows --context, its oldest turns are dropped. A message that
is too long on its own is dropped with a warning; the exit code is then 1. Lengths are in tokens.
--session FILE: the next chat with the same FILE goes on where this one ended. FILE has the messages
that were not dropped, in JSON; FILE.safetensors has what the model computed of them, which another
model, adapter or --kv-cache-type computes again.)";

struct Options {
  CommonOptions common;
  SamplingOptions sampling;
  std::string adapter;
  std::string system;
  std::string chat_template;
  std::string session;  // a file, or empty
  std::int64_t context = 2048;
};

// The turns so far, as token ids that leave space for a reply.
class Conversation {
 public:
  // Goes on after `messages`, those of a session, if there are any.
  Conversation(std::string system, std::vector<ChatMessage> messages, const ModelText& text)
      : system_(std::move(system)), text_(text), messages_(std::move(messages)) {
    if (messages_.empty()) reset();
    if (messages_.empty()) return;
    const std::string earlier = messages_[0].role == "system" ? messages_[0].content : "";
    require(system_.empty() || system_ == earlier,
            "chat: --system must be left out or be the system message of the session, which is "
            "'{}', got '{}'",
            earlier, system_);
    system_ = earlier;
  }

  void reset() {
    messages_.clear();
    if (!system_.empty()) messages_.push_back({"system", system_});
  }
  const std::vector<ChatMessage>& messages() const noexcept { return messages_; }
  void add(const std::string& role, const std::string& content) {
    messages_.push_back({role, content});
  }

  // Removes the last message, which got no reply.
  void take_back() { messages_.pop_back(); }

  // Drops the oldest turns until the rest fits. Errors: invalid_argument if the last message alone
  // is too long; then no turn is dropped.
  std::vector<std::int32_t> prompt(std::int64_t space, Output& output) {
    std::vector<ChatMessage> kept = messages_;
    std::vector<std::int32_t> ids = encode(kept);
    const std::size_t first = system_.empty() ? 0 : 1;
    while (static_cast<std::int64_t>(ids.size()) >= space && kept.size() > first + 1) {
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(first),
                 kept.begin() + static_cast<std::ptrdiff_t>(first + 2));
      ids = encode(kept);
    }
    require(static_cast<std::int64_t>(ids.size()) < space,
            "chat: the message has {} tokens with its template, but only {} fit; shorten it or "
            "raise --context",
            ids.size(), space - 1);
    if (kept.size() < messages_.size()) {
      output.remark("chat: the context is full; the oldest {} messages were dropped",
                    messages_.size() - kept.size());
    }
    messages_ = std::move(kept);
    return ids;
  }

 private:
  std::vector<std::int32_t> encode(const std::vector<ChatMessage>& messages) const {
    return text_.chat_template().encode(messages, true, text_.tokenizer()).ids;
  }

  std::string system_;
  const ModelText& text_;
  std::vector<ChatMessage> messages_;
};

// Reads the next line of the user. Returns false at the end of the input and at Ctrl-C.
bool read_message(std::string& message, Output& output) {
  if (::isatty(STDIN_FILENO) == 1) output.text("> ");
  return static_cast<bool>(std::getline(std::cin, message));
}

// The state shared by all replies.
struct Replying {
  Generator& generator;
  const ModelText& text;
  const std::vector<std::string>& stops;
  std::int64_t positions;
  const ChatSession& session;
  std::vector<std::int32_t> tokens = {};  // of the last prompt and its reply
};

void answer(Conversation& conversation, Replying& with, const GenerationConfig& config,
            Interrupt& interrupt, Output& output) {
  const std::vector<std::int32_t> prompt = conversation.prompt(with.positions, output);
  const Reply reply = generate_reply(with.generator, prompt, config, with.stops, with.text,
                                     interrupt, output, !output.json());
  if (!output.json()) output.text("\n");
  output.object({{"text", reply.text},
                 {"ids", reply.generation.ids},
                 {"finish_reason", name_of(reply.generation.finish_reason)},
                 {"prompt_tokens", prompt.size()},
                 {"cached_tokens", reply.generation.cached_tokens}});
  conversation.add("assistant", reply.text);
  with.tokens = prompt;
  with.tokens.insert(with.tokens.end(), reply.generation.ids.begin(), reply.generation.ids.end());
  with.session.save_messages(conversation.messages());
  interrupt.forget();
}

// Whether the error concerns this message only, so that the next one may succeed.
bool is_of_the_message(const Error& error) {
  switch (error.code()) {
    case ErrorCode::invalid_argument:
    case ErrorCode::invalid_data:
    case ErrorCode::unsupported:
      return true;
    default:
      return false;
  }
}

// Returns false if the message got no reply; the conversation is then unchanged.
bool try_to_answer(const std::string& message, Conversation& conversation, Replying& with,
                   const GenerationConfig& config, Interrupt& interrupt, Output& output) {
  conversation.add("user", message);
  try {
    answer(conversation, with, config, interrupt, output);
    return true;
  } catch (const Error& error) {
    if (!is_of_the_message(error)) throw;
    conversation.take_back();
    output.warning("{}; the message was dropped", error.what());
    output.object({{"error", error.what()}});
    return false;
  }
}

void start_over(Conversation& conversation, Replying& with) {
  conversation.reset();
  with.tokens.clear();
  with.session.save_messages(conversation.messages());
}

int chat(const Options& options) {
  Output output(options.common.output);
  const ModelText text(options.common.model, options.chat_template);
  text.chat_template();  // fail before loading if there is no chat template
  const ChatSession session(options.session);
  Conversation conversation(options.system, session.messages(), text);
  std::shared_ptr<const TokenGrammar> grammar = grammar_of(options.sampling.grammar, text);
  LoadedModel loaded(options.common, output, options.context);
  const AdaptedStages adapted = loaded.with_adapter(options.adapter);
  GenerationConfig config = options.sampling.config;
  config.sampling.seed = static_cast<std::uint32_t>(options.common.seed);
  config.grammar = std::move(grammar);
  config.end_ids = text.end_ids(loaded.model().config());
  const std::int64_t limit = loaded.model().config().max_positions;
  const std::int64_t positions = limit > 0 ? std::min(options.context, limit) : options.context;
  // A turn computes only what the turns before it did not.
  Generator generator(adapted.stages,
                      {.max_positions = positions,
                       .cache_type = named_kv_cache_type(options.sampling.kv_cache_type),
                       .shares_prefixes = true});
  session.load_keys(generator, output);
  Interrupt interrupt("\n");
  output.info("Chatting with {} on {}. /reset starts over, /exit quits.", options.common.model,
              loaded.device_names());
  Replying with{generator, text, options.sampling.stops, positions, session};
  bool all_answered = true;
  for (std::string message; !output.reader_left() && read_message(message, output);) {
    if (message == "/exit") break;
    if (message == "/reset") start_over(conversation, with);
    if (message.empty() || message == "/reset") continue;
    all_answered &= try_to_answer(message, conversation, with, config, interrupt, output);
    ++config.sampling.seed;  // a repeated message may get another answer
  }
  session.save_keys(generator, with.tokens, output);
  loaded.show_inside();
  return all_answered ? 0 : 1;
}

}  // namespace

void add_chat_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("chat", "Chat with a model");
  const auto options = std::make_shared<Options>();
  command->add_option("--system", options->system, "System message")->type_name("TEXT");
  add_chat_template_option(*command, options->chat_template);
  command
      ->add_option("--session", options->session,
                   "File that keeps the conversation: it is read at the start if it exists")
      ->type_name("FILE");
  add_adapter_option(*command, options->adapter);
  command->add_option("--context", options->context, "Context size in tokens")
      ->transform(Integer(2, kMaxCount))
      ->capture_default_str();
  add_sampling_options(*command, options->sampling);
  add_run_options(*command, options->common);
  add_stage_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return chat(*options); }; });
}

}  // namespace clora

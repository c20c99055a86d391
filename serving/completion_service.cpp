#include "clora/serving/completion_service.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "clora/serving/request_error.hpp"
#include "model/data/conversation.hpp"
#include "serving/chat_fields.hpp"
#include "serving/completion_run.hpp"
#include "serving/forced_calls.hpp"
#include "serving/request_body.hpp"

namespace clora {
namespace {

using nlohmann::json;

constexpr std::int64_t kTextTokens = 16;  // OpenAI's default of max_tokens for a text
// Log-probabilities of a request's prompts, alternatives included: each takes a hundred bytes and
// more until the reply is sent.
constexpr std::int64_t kMaxPromptLogprobs = 1'000'000;

// Of the tools that the reply may call.
std::vector<std::string> tool_names(const CompletionRequest& request) {
  if (!request.tool_choice.name.empty()) return {request.tool_choice.name};
  std::vector<std::string> names;
  for (const RequestJson& tool : request.chat.tools) names.push_back(tool["function"]["name"]);
  return names;
}

std::string request_model(const CompletionRequest& request, const ServedModels& models) {
  return request.model.empty() ? models.base() : request.model;
}

// Text after a template's is plain; a prompt is the client's own, so special tokens in it are
// tokens.
std::vector<std::int32_t> encode(const Tokenizer& tokenizer, const std::string& text,
                                 bool add_special) {
  return tokenizer.encode(
      text, {.parse_special = true, .add_bos = add_special ? AddBos::model_default : AddBos::no});
}

// prompts: those of the request, as ids.
void require_few_logprobs(const CompletionRequest& request,
                          const std::vector<std::vector<std::int32_t>>& prompts) {
  if (!request.echo || !request.sampling.logprobs) return;
  std::int64_t tokens = 0;
  for (const auto& prompt : prompts) tokens += std::ssize(prompt);
  const std::int64_t count = tokens * request.choices * (1 + request.sampling.top_logprobs);
  if (count <= kMaxPromptLogprobs) return;
  throw RequestError(
      {.param = "logprobs", .code = "invalid_value"},
      fmt::format("log-probabilities of prompts and their alternatives must be at most {} in a "
                  "request, got {}; send fewer prompts or lower logprobs or n",
                  kMaxPromptLogprobs, count));
}

std::vector<PromptEcho> echoes_of(const CompletionRequest& request,
                                  const std::vector<std::vector<std::int32_t>>& prompts,
                                  const Tokenizer& tokenizer) {
  std::vector<PromptEcho> echoes;
  if (!request.echo) return echoes;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const CompletionPrompt& prompt = request.prompts[i];
    echoes.push_back({.text = prompt.ids.empty() ? prompt.text : tokenizer.decode(prompt.ids),
                      .first_id = prompts[i].front()});
  }
  return echoes;
}

ReplyContext context_of(const CompletionRequest& request,
                        const std::vector<std::vector<std::int32_t>>& prompts,
                        ToolCallForm call_form, const CompletionOptions& options) {
  return {.kind = request.kind,
          .id = random_completion_id(request.kind),
          .model = request_model(request, *options.models),
          .fingerprint = options.fingerprint,
          .created = std::time(nullptr),
          .tokenizer = options.tokenizer,
          .logprobs = request.sampling.logprobs,
          .include_usage = request.include_usage,
          .call_form = call_form,
          .tools = tool_names(request),
          .parallel_tool_calls = request.parallel_tool_calls,
          .choices = request.choices,
          .echoes = echoes_of(request, prompts, *options.tokenizer)};
}

json token_text(const Tokenizer& tokenizer, std::optional<std::int32_t> id) {
  return id.has_value() ? json(tokenizer.token_text(*id)) : json();
}
json token_id(std::optional<std::int32_t> id) { return id.has_value() ? json(*id) : json(); }

}  // namespace

CompletionService::CompletionService(CompletionOptions options) : options_(std::move(options)) {}

CompletionRequest CompletionService::parse(std::string_view body, CompletionKind kind) {
  const std::lock_guard lock(parsing_);
  return parse_completion_request(body, kind);
}

std::vector<std::int32_t> CompletionService::chat_ids(CompletionRequest& request) const {
  if (options_.chat_template == nullptr) {
    throw RequestError({.code = "unsupported"},
                       "the model of this server has no chat template; use /v1/completions");
  }
  return as_errors_of_field("messages", [&] {
    Conversation conversation =
        fitted({.messages = std::move(request.messages), .tools = request.chat.tools},
               options_.chat_template->support());
    return options_.chat_template->encode(conversation.messages, request.chat, *options_.tokenizer)
        .ids;
  });
}

std::vector<std::int32_t> CompletionService::checked_ids(std::vector<std::int32_t> ids,
                                                         const char* field) const {
  const std::int32_t vocabulary = options_.tokenizer->vocabulary_size();
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < vocabulary) continue;
    throw RequestError(
        {.param = field, .code = "invalid_value"},
        fmt::format("{}: token ids must be from 0 to {}, got {}", field, vocabulary - 1, id));
  }
  return ids;
}

void CompletionService::require_length(const std::vector<std::int32_t>& prompt,
                                       const char* field) const {
  const std::int64_t most = options_.limits.max_positions - 1;
  if (!prompt.empty() && std::ssize(prompt) <= most) return;
  throw RequestError(
      {.param = field, .code = "context_length_exceeded"},
      fmt::format("the prompt must have 1 to {} tokens, got {}", most, prompt.size()));
}

std::vector<std::vector<std::int32_t>> CompletionService::prompts_of(
    CompletionRequest& request) const {
  const bool is_chat = request.kind == CompletionKind::chat;
  std::vector<std::vector<std::int32_t>> prompts;
  if (is_chat) prompts.push_back(chat_ids(request));
  for (const CompletionPrompt& prompt : request.prompts) {
    prompts.push_back(prompt.ids.empty()
                          ? encode(*options_.tokenizer, prompt.text, request.add_special_tokens)
                          : checked_ids(prompt.ids, "prompt"));
  }
  for (const auto& prompt : prompts) require_length(prompt, is_chat ? "messages" : "prompt");
  return prompts;
}

std::shared_ptr<const TokenGrammar> CompletionService::grammar_of(
    const CompletionRequest& request) const {
  if (request.format.kind == ReplyFormat::Kind::text) return nullptr;
  const bool is_call = request.tool_choice.is_forced;
  if (!options_.grammar_of) {
    throw RequestError(
        {.param = is_call ? "tool_choice" : "response_format", .code = "unsupported_parameter"},
        is_call ? "tool_choice must be \"auto\" or \"none\" on this server"
                : "response_format must be {\"type\": \"text\"} on this server");
  }
  try {
    return options_.grammar_of(request.format);
  } catch (const Error& error) {
    throw RequestError({.param = is_call ? "tools" : "response_format", .code = "invalid_value"},
                       error.what());
  }
}

std::int64_t CompletionService::max_tokens_of(const CompletionRequest& request,
                                              std::size_t prompt) const {
  const CompletionLimits& limits = options_.limits;
  const std::int64_t fits = limits.max_positions - static_cast<std::int64_t>(prompt);
  const std::int64_t most =
      limits.max_output_tokens > 0 ? std::min(limits.max_output_tokens, fits) : fits;
  if (limits.max_output_tokens > 0 && request.max_tokens.value_or(0) > limits.max_output_tokens) {
    throw RequestError({.param = "max_tokens", .code = "invalid_value"},
                       fmt::format("max_tokens must be at most {} on this server, got {}",
                                   limits.max_output_tokens, *request.max_tokens));
  }
  if (request.max_tokens) return std::min(*request.max_tokens, most);
  return request.kind == CompletionKind::chat ? most : std::min(kTextTokens, most);
}

GenerationRequest CompletionService::generation_of(const CompletionRequest& request,
                                                   const std::vector<std::int32_t>& prompt) const {
  GenerationRequest generation{.prompt = prompt};
  generation.max_tokens = max_tokens_of(request, prompt.size());
  generation.sampling = request.sampling;
  if (request.echo && request.sampling.logprobs) {
    generation.prompt_logprobs = request.sampling.top_logprobs;
  }
  generation.adapters = options_.models->uses_of(request.model, request.adapters);
  if (!request.ignore_eos) generation.end_ids = options_.end_ids;
  generation.stop_texts = request.stops;
  generation.draft_tokens = options_.draft_tokens;
  generation.grammar = grammar_of(request);
  return generation;
}

std::unique_ptr<CompletionRun> CompletionService::start(std::string_view body,
                                                        CompletionKind kind) {
  CompletionRequest request = parse(body, kind);
  options_.models->uses_of(request.model, request.adapters);  // an unknown model before all else
  for (const auto& [id, bias] : request.sampling.logit_bias) checked_ids({id}, "logit_bias");
  const ToolCallForm call_form = request.chat.tools.is_null()
                                     ? ToolCallForm::none
                                     : tool_call_form_of(options_.chat_template_text);
  if (request.tool_choice.is_forced) request.format = forced_call_format(call_form, request);
  const std::vector<std::vector<std::int32_t>> prompts = prompts_of(request);
  require_few_logprobs(request, prompts);
  std::vector<GenerationRequest> generations;
  for (const auto& prompt : prompts) {
    const GenerationRequest first = generation_of(request, prompt);
    for (std::int64_t i = 0; i < request.choices; ++i) {
      generations.push_back(first);
      generations.back().sampling.seed += static_cast<std::uint32_t>(i);
    }
  }
  EngineRun::Parts parts{.engine = options_.engine,
                         .context = context_of(request, prompts, call_form, options_),
                         .replies = generations.size(),
                         .is_stream = request.stream,
                         .time = options_.limits.request_time};
  parts.submission = options_.engine->submit(std::move(generations));
  return std::make_unique<EngineRun>(std::move(parts));
}

json CompletionService::tokenize(std::string_view body) {
  const std::unique_lock lock(parsing_);
  const RequestJson value = parse_request_body(body);
  RequestFields fields(value);
  fields.ignore({"model"});
  std::vector<std::int32_t> ids;
  if (fields.find("messages") != nullptr) {
    CompletionRequest request{.kind = CompletionKind::chat};
    read_chat_fields(fields, request);
    ids = chat_ids(request);
  } else {
    const char* name = fields.find("content") != nullptr ? "content" : "prompt";
    fields.required(name);
    ids = encode(*options_.tokenizer, fields.text(name).value(),
                 fields.flag("add_special_tokens").value_or(true));
  }
  fields.refuse_others();
  return {{"count", ids.size()},
          {"max_model_len", options_.limits.max_positions},
          {"tokens", std::move(ids)}};
}

json CompletionService::detokenize(std::string_view body) {
  const std::unique_lock lock(parsing_);
  const RequestJson value = parse_request_body(body);
  RequestFields fields(value);
  fields.ignore({"model"});
  const auto ids = checked_ids(fields.ids("tokens"), "tokens");
  fields.refuse_others();
  return {{"prompt", options_.tokenizer->decode(ids, {.keep_special = true})}};
}

// The class is the one that loads tokenizers of any kind in transformers.
json CompletionService::tokenizer_info() const {
  const Tokenizer& tokenizer = *options_.tokenizer;
  json info{{"tokenizer_class", "PreTrainedTokenizerFast"},
            {"model_max_length", options_.limits.max_positions},
            {"vocab_size", tokenizer.vocabulary_size()},
            {"add_bos_token", tokenizer.adds_bos()},
            {"bos_token", token_text(tokenizer, tokenizer.bos())},
            {"bos_token_id", token_id(tokenizer.bos())},
            {"eos_token", token_text(tokenizer, tokenizer.eos())},
            {"eos_token_id", token_id(tokenizer.eos())},
            {"stop_token_ids", options_.end_ids}};
  if (!options_.chat_template_source.empty()) info["chat_template"] = options_.chat_template_source;
  return info;
}

}  // namespace clora

#include "clora/serving/completion_request.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "serving/chat_fields.hpp"
#include "serving/prompt_fields.hpp"
#include "serving/request_body.hpp"
#include "serving/request_fields.hpp"
#include "serving/sampling_fields.hpp"

namespace clora {
namespace {

constexpr double kMaxScale = 100;

bool include_usage_of(RequestFields& fields, bool stream) {
  const RequestJson* value = fields.find("stream_options");
  if (value == nullptr) return false;
  if (!stream) fields.wrong("stream_options", "absent unless stream is true", *value);
  RequestFields options(*value, "stream_options");
  const bool wanted = options.flag("include_usage").value_or(false);
  options.accept_only("include_obfuscation", false);
  options.refuse_others();
  return wanted;
}

AdapterUse adapter_use_of(const RequestJson& value, std::size_t index) {
  RequestFields fields(value, fmt::format("adapters[{}]", index));
  fields.required("name");
  AdapterUse use{.name = fields.text("name").value()};
  use.scale = fields.number("scale", {-kMaxScale, kMaxScale}).value_or(1);
  fields.refuse_others();
  return use;
}

std::vector<AdapterUse> adapters_of(RequestFields& fields) {
  const RequestJson* value = fields.find("adapters");
  if (value == nullptr) return {};
  if (!value->is_array() || value->size() > 2) {
    fields.wrong("adapters", "an array of at most two adapters", *value);
  }
  std::vector<AdapterUse> adapters;
  for (const RequestJson& each : *value) adapters.push_back(adapter_use_of(each, adapters.size()));
  if (adapters.size() == 2 && adapters[0].name == adapters[1].name) {
    fields.wrong("adapters", "two different adapters", *value);
  }
  return adapters;
}

std::int64_t choices_of(RequestFields& fields, std::size_t prompts) {
  const std::int64_t choices = fields.integer("n", {1, kMaxChoices}).value_or(1);
  if (choices * static_cast<std::int64_t>(prompts) > kMaxChoices) {
    fields.wrong("n", fmt::format("at most {} for all prompts together", kMaxChoices), choices);
  }
  return choices;
}

void read_text_fields(RequestFields& fields, CompletionRequest& request) {
  request.prompts = prompts_of(fields, "prompt", static_cast<std::size_t>(kMaxChoices));
  request.add_special_tokens = fields.flag("add_special_tokens").value_or(true);
  request.echo = fields.flag("echo").value_or(false);
}

// Accepts unsupported fields that would change the reply only with the value that has no effect.
void refuse_unsupported(RequestFields& fields, const CompletionRequest& request) {
  if (request.kind == CompletionKind::text) {
    fields.accept_only("best_of", request.choices);
    fields.accept_only("suffix", "");
    return;
  }
  fields.accept_only("functions", RequestJson::array());
  fields.accept_only("function_call", "none");
  fields.accept_only("modalities", RequestJson::array({"text"}));
  fields.accept_only("store", false);
}

}  // namespace

CompletionRequest parse_completion_request(std::string_view body, CompletionKind kind) {
  const RequestJson value = parse_request_body(body);
  RequestFields fields(value);
  CompletionRequest request{.kind = kind};
  request.model = fields.text("model").value_or("");
  request.sampling = sampling_of(fields, kind);
  if (kind == CompletionKind::text) read_text_fields(fields, request);
  if (kind == CompletionKind::chat) read_chat_fields(fields, request);
  request.max_tokens = max_tokens_of(fields, kind, request.echo ? 0 : 1);
  request.choices = choices_of(fields, std::max<std::size_t>(request.prompts.size(), 1));
  request.adapters = adapters_of(fields);
  request.stops = fields.texts("stop", {});
  request.format = reply_format_of(fields);
  if (request.tool_choice.is_forced && request.format.kind != ReplyFormat::Kind::text) {
    fields.wrong("response_format", "text if tool_choice requires a call of a tool",
                 *fields.find("response_format"));
  }
  request.ignore_eos = fields.flag("ignore_eos").value_or(false);
  request.stream = fields.flag("stream").value_or(false);
  request.include_usage = include_usage_of(fields, request.stream);
  refuse_unsupported(fields, request);
  fields.ignore({"user", "metadata", "service_tier", "safety_identifier", "prompt_cache_key",
                 "prompt_cache_retention"});
  fields.refuse_others();
  return request;
}

}  // namespace clora

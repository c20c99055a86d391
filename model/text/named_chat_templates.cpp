#include "model/text/named_chat_templates.hpp"

#include <algorithm>
#include <array>

#include "runtime/fail.hpp"

namespace clora {
namespace {

// Bodies of the families. The settings before them are assignments: bos, and what is named below.

// ChatML. default_system: a system message if the conversation has none.
constexpr std::string_view kChatMl = R"(
{%- if bos is defined %}{{- bos_token }}{% endif %}
{%- if default_system is defined and messages and messages[0].role != 'system' %}
  {{- '<|im_start|>system\n' + default_system + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
  {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %})";

// Qwen3: reasoning is before the last </think>; that of turns before the last question is dropped.
// always_thinks: every generation prompt opens the reasoning.
constexpr std::string_view kQwen3 = R"(
{%- set ns = namespace(query=messages | length - 1, found=false) %}
{%- for message in messages[::-1] %}
  {%- set of_tool = message.content.startswith('<tool_response>')
                    and message.content.endswith('</tool_response>') %}
  {%- if not ns.found and message.role == 'user' and not of_tool %}
    {%- set ns.query = messages | length - 1 - loop.index0 %}
    {%- set ns.found = true %}
  {%- endif %}
{%- endfor %}
{%- for message in messages %}
  {{- '<|im_start|>' + message.role + '\n' }}
  {%- if message.role == 'assistant' %}
    {%- set content = message.content %}
    {%- set reasoning = message.reasoning_content if message.reasoning_content is string else '' %}
    {%- if not reasoning and '</think>' in content %}
      {%- set before = content.split('</think>')[0].rstrip('\n') %}
      {%- set reasoning = before.split('<think>')[-1].lstrip('\n') %}
      {%- set content = content.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {%- if loop.index0 > ns.query and (loop.last or reasoning) %}
      {{- '<think>\n' + reasoning.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
    {%- else %}
      {{- content }}
    {%- endif %}
  {%- else %}
    {{- message.content }}
  {%- endif %}
  {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
  {{- '<|im_start|>assistant\n' }}
  {%- if always_thinks is defined %}
    {{- '<think>\n' }}
  {%- elif enable_thinking is defined and not enable_thinking %}
    {{- '<think>\n\n</think>\n\n' }}
  {%- endif %}
{%- endif %})";

// Llama 3. dates: a system message that names them is always there. always_opens: an assistant's
// turn is opened at the end, whether or not it is wanted.
constexpr std::string_view kLlama3 = R"(
{%- macro open(role) %}{{- '<|start_header_id|>' + role + '<|end_header_id|>\n\n' }}{% endmacro %}
{{- bos_token }}
{%- set first = 0 %}
{%- if dates is defined %}
  {%- set content = '' %}
  {%- if messages and messages[0].role == 'system' %}
    {%- set content = messages[0].content | trim %}
    {%- set first = 1 %}
  {%- endif %}
  {{- open('system') + 'Cutting Knowledge Date: December 2023\nToday Date: ' }}
  {{- date_string if date_string is defined else strftime_now('%d %b %Y') }}
  {{- '\n\n' + content + '<|eot_id|>' }}
{%- endif %}
{%- for message in messages[first:] %}
  {{- open(message.role) + message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt or always_opens is defined %}{{- open('assistant') }}{% endif %})";

// Mistral. system: 'first' or 'last' user message takes it, 'own' turn, or it is refused. Around
// contents: ub, ue (user), ab, ae (assistant).
constexpr std::string_view kMistral = R"(
{%- set text = '' %}{% set first = 0 %}
{%- if system in ['first', 'last'] and messages and messages[0].role == 'system' %}
  {%- set text = messages[0].content + '\n\n' %}{% set first = 1 %}
{%- endif %}
{{- bos_token }}
{%- for message in messages[first:] %}
  {%- if system != 'own' and message.role != ['user', 'assistant'][loop.index0 % 2] %}
    {%- set wanted = ['user', 'assistant'][loop.index0 % 2] %}
    {%- set place = ' after an optional system message' if system
                    else ', and system messages are not supported' %}
    {{- raise_exception('roles must alternate between user and assistant' + place + '; message '
                        ~ loop.index ~ ' of the conversation must have the role ' + wanted
                        + ', got ' + message.role) }}
  {%- elif message.role == 'user' %}
    {{- ub }}
    {%- if system == 'first' and loop.first or system == 'last' and loop.last %}{{- text }}{% endif %}
    {{- message.content + ue }}
  {%- elif message.role == 'assistant' %}
    {{- ab + (message.content | trim if trims is defined else message.content) + eos_token + ae }}
  {%- elif message.role == 'system' %}
    {{- ub | replace('INST', 'SYSTEM_PROMPT') + message.content + ue.strip() | replace('INST', 'SYSTEM_PROMPT') }}
  {%- else %}
    {{- raise_exception('a role must be system, user or assistant, got ' + message.role) }}
  {%- endif %}
{%- endfor %})";

constexpr std::string_view kZephyr = R"(
{%- for message in messages %}
  {{- '<|' + message.role + '|>\n' + message.content + eos_token + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>\n' }}{% endif %})";

// Gemma. takes_system: a first system message is put before the first user message.
constexpr std::string_view kGemma = R"(
{{- bos_token }}
{%- set text = '' %}{% set first = 0 %}
{%- if takes_system is defined and messages and messages[0].role == 'system' %}
  {%- set text = messages[0].content + '\n\n' %}{% set first = 1 %}
{%- endif %}
{%- for message in messages[first:] %}
  {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
    {%- set place = ', after an optional system message' if takes_system is defined else '' %}
    {{- raise_exception('roles must alternate between user and assistant, beginning with user'
                        + place + '; got ' + message.role + ' as number ' ~ loop.index) }}
  {%- endif %}
  {{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\n' }}
  {%- if loop.first %}{{- text }}{% endif %}
  {{- message.content | trim + '<end_of_turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<start_of_turn>model\n' }}{% endif %})";

struct NamedTemplate {
  std::string_view name, body, settings = "";
};

constexpr auto kTemplates = std::to_array<NamedTemplate>({
    {"chatml", kChatMl},
    {"chatml-bos", kChatMl, "{%- set bos = true %}"},
    {"smollm2", kChatMl,
     "{%- set default_system = 'You are a helpful AI assistant named SmolLM, trained by Hugging "
     "Face' %}"},
    {"hermes3", kChatMl,
     "{%- set bos = true %}{%- set default_system = 'You are a helpful assistant.' %}"},
    {"qwen2", kChatMl, "{%- set default_system = 'You are a helpful assistant.' %}"},
    {"qwen2.5", kChatMl,
     "{%- set default_system = 'You are Qwen, created by Alibaba Cloud. You are a helpful "
     "assistant.' %}"},
    {"qwen3", kQwen3},
    {"qwen3-instruct", kChatMl},
    {"qwen3-thinking", kQwen3, "{%- set always_thinks = true %}"},
    {"llama3", kLlama3},
    {"llama3-first", kLlama3, "{%- set always_opens = true %}"},
    {"llama3.1", kLlama3, "{%- set dates = true %}"},
    {"llama3.2", kLlama3, "{%- set dates = true %}"},
    {"mistral-v0.1", kMistral,
     "{%- set system = '' %}{%- set ub, ue, ab, ae = '[INST] ', ' [/INST]', '', ' ' %}"},
    {"mistral-v0.2", kMistral,
     "{%- set system = '' %}{%- set ub, ue, ab, ae = '[INST] ', ' [/INST]', '', '' %}"},
    {"mistral-v1", kMistral,
     "{%- set system = 'first' %}{%- set ub, ue, ab, ae = ' [INST] ', ' [/INST]', ' ', '' %}"},
    {"mistral-v2", kMistral,
     "{%- set system = 'last' %}{%- set ub, ue, ab, ae = '[INST] ', '[/INST]', ' ', '' %}"},
    {"mistral-v3", kMistral,
     "{%- set system = 'last' %}{%- set trims = true %}"
     "{%- set ub, ue, ab, ae = '[INST] ', '[/INST]', ' ', '' %}"},
    {"mistral-nemo", kMistral,
     "{%- set system = 'last' %}{%- set ub, ue, ab, ae = '[INST]', '[/INST]', '', '' %}"},
    {"mistral-v7", kMistral,
     "{%- set system = 'own' %}{%- set ub, ue, ab, ae = '[INST] ', '[/INST]', ' ', '' %}"},
    {"mistral-v7-tekken", kMistral,
     "{%- set system = 'own' %}{%- set ub, ue, ab, ae = '[INST]', '[/INST]', '', '' %}"},
    {"zephyr", kZephyr},
    {"gemma", kGemma},
    {"gemma3", kGemma, "{%- set takes_system = true %}"},
});

constexpr auto names_of() {
  std::array<std::string_view, kTemplates.size()> names{};
  std::ranges::transform(kTemplates, names.begin(), &NamedTemplate::name);
  return names;
}
constexpr auto kNames = names_of();

void require_token(const NamedTemplate& chosen, const Tokenizer& tokenizer, const char* mark) {
  if (chosen.body.find(mark) == std::string_view::npos || tokenizer.id_of(mark)) return;
  fail(ErrorCode::unsupported,
       "chat template {}: '{}' must be a single token of the model's vocabulary", chosen.name,
       mark);
}

[[noreturn]] void refuse_without(const NamedTemplate& chosen, const char* what) {
  fail(ErrorCode::unsupported, "chat template {}: it uses the {} token, but the model has none",
       chosen.name, what);
}

void check_tokens(const NamedTemplate& chosen, const Tokenizer& tokenizer) {
  for (const char* mark : {"<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>",
                           "<|eot_id|>", "<start_of_turn>", "<end_of_turn>"})
    require_token(chosen, tokenizer, mark);
  const bool writes_bos = chosen.body == kChatMl
                              ? chosen.settings.find("set bos") != std::string_view::npos
                              : chosen.body.find("bos_token") != std::string_view::npos;
  if (writes_bos && !tokenizer.bos()) refuse_without(chosen, "beginning");
  const bool writes_eos = chosen.body.find("eos_token") != std::string_view::npos;
  if (writes_eos && !tokenizer.eos()) refuse_without(chosen, "end");
}

}  // namespace

std::span<const std::string_view> named_chat_template_names() { return kNames; }

std::string named_chat_template_list() {
  std::string names;
  for (const std::string_view name : kNames) names.append(names.empty() ? "" : ", ").append(name);
  return names;
}

std::string named_chat_template(std::string_view name, const Tokenizer& tokenizer) {
  const auto found = std::ranges::find(kTemplates, name, &NamedTemplate::name);
  require(found != kTemplates.end(), "chat template: unknown format '{}'; known formats: {}", name,
          named_chat_template_list());
  check_tokens(*found, tokenizer);
  return std::string(found->settings).append(found->body);
}

}  // namespace clora

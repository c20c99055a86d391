#include "clora/model/text/chat_template.hpp"

#include <algorithm>
#include <optional>

#include "model/text/chat_renderer.hpp"
#include "model/text/chat_turns.hpp"
#include "model/text/named_chat_templates.hpp"
#include "runtime/fail.hpp"

namespace clora {

struct ChatTemplate::Parts {
  ChatRenderer renderer;
  std::optional<ChatRenderer> tool_renderer = {};  // of conversations with tools
  ChatSupport support = renderer.support;          // of either

  const ChatRenderer& renderer_for(const ChatOptions& options) const {
    return tool_renderer && !options.tools.empty() ? *tool_renderer : renderer;
  }
};

namespace {

ChatRenderer renderer_of(std::string name, std::string_view text, const Tokenizer& tokenizer) {
  ChatRenderer renderer{std::move(name), jinja::Template::parse(text),
                        special_tokens_of(tokenizer)};
  renderer.support = find_support(renderer, text);
  return renderer;
}

// A renderer of a text of the model's files.
ChatRenderer model_renderer(std::string_view text, const Tokenizer& tokenizer) {
  try {
    return renderer_of({}, text, tokenizer);
  } catch (const Error& error) {
    fail(error.code(),
         "chat template: {}; if the template formats conversations like one of these, set "
         "`chat_template` to that name: {}",
         error.what(), named_chat_template_list());
  }
}

// Whether special tokens in these bytes are parsed: they are the template's own.
bool is_template(const ChatText& text, std::size_t begin, std::size_t end) {
  for (const ChatText::Run& run : text.runs)
    if (!run.is_template && run.begin < end && run.end > begin) return false;
  return true;
}

using Json = nlohmann::ordered_json;

// The function's name in a tool or in a call, of either form; empty: none.
std::string function_of(const Json& item) {
  if (!item.is_object()) return {};
  const auto function = item.find("function");
  const Json& holder = function != item.end() && function->is_object() ? *function : item;
  const auto name = holder.find("name");
  return name != holder.end() && name->is_string() ? name->get<std::string>() : std::string();
}

// A template without tools ignores them, and the model would not learn of them.
void check_function(const Json& item, std::string_view what, std::string_view text) {
  const std::string name = function_of(item);
  require(name.empty() || text.find(name) != std::string_view::npos,
          "chat template: the template does not render {} '{}'; remove it, or use a template with "
          "tools",
          what, name);
}

// What the rendering has of a message.
std::string text_of_message(const ChatText& text, std::size_t message) {
  std::string own;
  for (const ChatText::Run& run : text.runs)
    if (run.message == static_cast<std::int32_t>(message))
      own.append(text.text, run.begin, run.end - run.begin);
  return own;
}

void check_calls(std::span<const ChatMessage> messages, const ChatOptions& options,
                 const ChatText& text) {
  if (options.tools.is_array())
    for (const Json& tool : options.tools) check_function(tool, "the tool", text.text);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto calls = messages[i].fields.find("tool_calls");
    if (calls == messages[i].fields.end() || !calls->is_array()) continue;
    const std::string own = text_of_message(text, i);
    for (const Json& call : *calls) check_function(call, "a call of", own);
  }
}

bool is_white(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

bool has_reasoning(const ChatMessage& message) {
  for (const char* key : {"reasoning_content", "reasoning", "thinking"}) {
    const auto found = message.fields.find(key);
    if (found != message.fields.end() && found->is_string() &&
        !is_white(found->get_ref<const std::string&>()))
      return true;
  }
  return false;
}

// Some templates leave out what they do not know, a system message for one.
void check_nothing_is_lost(std::span<const ChatMessage> messages, const ChatText& text,
                           const ChatSupport& support) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    require(support.thinking || !has_reasoning(message),
            "chat template: the template renders no reasoning, which message {} has; remove it, or "
            "put it into the content",
            i + 1);
    const bool asks = message.role == "system" || message.role == "user";
    if (!asks || is_white(message.content) || message.fields.contains("content")) continue;
    const bool found = std::ranges::any_of(text.runs, [i](const ChatText::Run& run) {
      return run.message == static_cast<std::int32_t>(i);
    });
    require(found,
            "chat template: the template leaves out message {}, of the {}; remove it, or put its "
            "text into a user message",
            i + 1, message.role);
  }
}

// Tokenises a rendered conversation, piece by piece between the borders of turns.
class Encoder {
 public:
  Encoder(const ChatText& text, const Tokenizer& tokenizer, bool parse_special)
      : text_(text), tokenizer_(tokenizer), parse_special_(parse_special) {}

  ChatTokens encode(const std::vector<ChatTurn>& turns) {
    std::size_t at = 0;
    for (const ChatTurn& turn : turns) {
      add(at, turn.begin, nullptr);
      add(turn.begin, turn.end, &turn);
      at = turn.end;
    }
    add(at, text_.text.size(), nullptr);
    return std::move(out_);
  }

  std::vector<TextPart> parts_of(std::string_view piece, std::size_t begin) const {
    return tokenizer_.parts_of(piece, [this, begin](std::size_t from, std::size_t to) {
      return parse_special_ || is_template(text_, begin + from, begin + to);
    });
  }

 private:
  void add(std::size_t begin, std::size_t end, const ChatTurn* turn) {
    const std::string_view piece = std::string_view(text_.text).substr(begin, end - begin);
    for (const TextPart& part : parts_of(piece, begin)) {
      if (part.special >= 0) {
        out_.ids.push_back(part.special);
      } else {
        add_plain(piece.substr(part.begin, part.end - part.begin), begin + part.begin);
      }
      after_special_ = part.special >= 0;
      const bool is_target = turn != nullptr && turn->trains;
      out_.is_target.resize(out_.ids.size(), is_target ? 1 : 0);
      out_.turn.resize(out_.ids.size(), turn != nullptr
                                            ? turn->message
                                            : message_in(begin + part.begin, begin + part.end));
    }
  }

  void add_plain(std::string_view text, std::size_t begin) {
    const EncodeOptions how{
        .parse_special = parse_special_ || is_template(text_, begin, begin + text.size()),
        .add_bos = AddBos::no,
        .continues = !out_.ids.empty(),
        .after_special = after_special_};
    const std::vector<std::int32_t> ids = tokenizer_.encode(text, how);
    out_.ids.insert(out_.ids.end(), ids.begin(), ids.end());
  }

  // The message whose content the bytes have.
  std::int32_t message_in(std::size_t begin, std::size_t end) const {
    for (const ChatText::Run& run : text_.runs)
      if (run.message >= 0 && run.begin < end && run.end > begin) return run.message;
    return -1;
  }

  const ChatText& text_;
  const Tokenizer& tokenizer_;
  bool parse_special_;
  ChatTokens out_;
  bool after_special_ = false;
};

// For find_turns(). Marks in contents do not count: it searches what follows a content.
std::vector<std::size_t> special_ends(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::size_t> ends;
  for (const TextPart& part :
       tokenizer.parts_of(text, [](std::size_t, std::size_t) { return true; }))
    if (part.special >= 0) ends.push_back(part.token_end);
  return ends;
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string_view template_text, const Tokenizer& tokenizer) {
  if (template_text.empty()) {
    fail(ErrorCode::unsupported,
         "chat template: the model's files contain none; set `chat_template` to the format that "
         "the model was trained on (one of {}), or use prompts without a template",
         named_chat_template_list());
  }
  return ChatTemplate(
      std::make_shared<const Parts>(Parts{model_renderer(template_text, tokenizer)}));
}

ChatTemplate ChatTemplate::of_model(const Tokenizer& tokenizer) {
  const ChatTemplate standard = parse(tokenizer.chat_template(), tokenizer);
  if (tokenizer.tool_chat_template().empty()) return standard;
  Parts parts = *standard.parts_;
  parts.tool_renderer = model_renderer(tokenizer.tool_chat_template(), tokenizer);
  parts.support.tools = parts.tool_renderer->support.tools;
  parts.support.tool_calls |= parts.tool_renderer->support.tool_calls;
  parts.support.thinking |= parts.tool_renderer->support.thinking;
  return ChatTemplate(std::make_shared<const Parts>(std::move(parts)));
}

ChatTemplate ChatTemplate::named(std::string_view name, const Tokenizer& tokenizer) {
  const std::string text = named_chat_template(name, tokenizer);
  return ChatTemplate(
      std::make_shared<const Parts>(Parts{renderer_of(std::string(name), text, tokenizer)}));
}

std::string_view ChatTemplate::name() const { return parts_->renderer.name; }
const ChatSupport& ChatTemplate::support() const { return parts_->support; }

ChatText ChatTemplate::render(std::span<const ChatMessage> messages,
                              const ChatOptions& options) const {
  require(!messages.empty(), "chat template: a conversation needs at least one message, got none");
  ChatText text = parts_->renderer_for(options).render(messages, options);
  check_calls(messages, options, text);
  return text;
}

ChatTokens ChatTemplate::encode(std::span<const ChatMessage> messages, const ChatOptions& options,
                                const Tokenizer& tokenizer) const {
  const ChatText text = render(messages, options);
  const ChatRenderer& renderer = parts_->renderer_for(options);
  if (!options.add_generation_prompt) check_nothing_is_lost(messages, text, renderer.support);
  const TurnQuery query{
      .messages = messages,
      .options = options,
      .text = text,
      .special_ends = [&](std::string_view part) { return special_ends(tokenizer, part); },
      .must_find = !options.add_generation_prompt};
  return Encoder(text, tokenizer, options.parse_special).encode(find_turns(renderer, query));
}

std::span<const std::string_view> chat_template_names() { return named_chat_template_names(); }

}  // namespace clora

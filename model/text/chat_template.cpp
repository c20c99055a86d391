#include "clora/model/text/chat_template.hpp"

#include "clora/runtime/files/json.hpp"
#include "model/text/jinja_text.hpp"
#include "model/text/known_chat_styles.hpp"
#include "runtime/fail.hpp"

namespace clora {

namespace {

bool has_special(const Tokenizer& tokenizer, std::string_view text) {
  const std::optional<std::int32_t> id = tokenizer.id_of(text);
  return id && tokenizer.is_special(*id);
}

void require_tokens(const ChatStyle& style, const Tokenizer& tokenizer,
                    std::initializer_list<const char*> marks) {
  for (const char* mark : marks) {
    if (tokenizer.id_of(mark)) continue;
    fail(ErrorCode::unsupported,
         "chat template {}: '{}' must be a single token of the model's vocabulary", style.name,
         mark);
  }
}

std::string text_of(const ChatStyle& style, const Tokenizer& tokenizer, const char* what,
                    std::optional<std::int32_t> id) {
  if (id) return tokenizer.token_text(*id);
  fail(ErrorCode::unsupported, "chat template {}: it uses the {} token, but the model has none",
       style.name, what);
}

ChatMarks marks_of(const ChatStyle& style, const Tokenizer& tokenizer) {
  ChatMarks marks;
  if (style.family == ChatFamily::chatml) {
    require_tokens(style, tokenizer, {"<|im_start|>", "<|im_end|>"});
  } else if (style.family == ChatFamily::llama3) {
    require_tokens(style, tokenizer, {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"});
  } else if (style.family == ChatFamily::gemma) {
    require_tokens(style, tokenizer, {"<start_of_turn>", "<end_of_turn>"});
  } else {
    marks.eos = text_of(style, tokenizer, "end", tokenizer.eos());
    marks.brackets_are_tokens = has_special(tokenizer, "[INST]");
  }
  if (style.writes_bos) marks.bos = text_of(style, tokenizer, "beginning", tokenizer.bos());
  return marks;
}

}  // namespace

ChatTemplate::ChatTemplate(const ChatStyle& style, const Tokenizer& tokenizer)
    : style_(&style), marks_(marks_of(style, tokenizer)) {}

ChatTemplate ChatTemplate::recognise(std::string_view template_text, const Tokenizer& tokenizer) {
  if (template_text.empty()) {
    fail(ErrorCode::unsupported,
         "chat template: the model's files contain none; set `chat_template` to the format that "
         "the model was trained on (one of {}), or use prompts without a template",
         known_chat_style_names());
  }
  const std::string fingerprint = jinja_fingerprint(template_text);
  if (const ChatStyle* style = find_style_of_template(fingerprint)) {
    return ChatTemplate(*style, tokenizer);
  }
  fail(ErrorCode::unsupported,
       "chat template: the template in the model's files is not supported: it begins with {} and "
       "has the fingerprint {}; if it formats conversations like one of these, set `chat_template` "
       "to that name: {}; otherwise use prompt and completion records",
       json_excerpt(nlohmann::json(template_text.substr(0, 60)), 120), fingerprint,
       known_chat_style_names());
}

ChatTemplate ChatTemplate::named(std::string_view name, const Tokenizer& tokenizer) {
  const ChatStyle* style = find_chat_style(name);
  require(style != nullptr, "chat template: unknown format '{}'; known formats: {}", name,
          known_chat_style_names());
  return ChatTemplate(*style, tokenizer);
}

std::vector<ChatPiece> ChatTemplate::render(std::span<const ChatMessage> messages,
                                            const ChatOptions& options) const {
  return render_chat(*style_, marks_, messages, options);
}

ChatTokens ChatTemplate::encode(std::span<const ChatMessage> messages, const ChatOptions& options,
                                const Tokenizer& tokenizer) const {
  ChatTokens result;
  bool first = true, after_token = false;
  for (const ChatPiece& piece : render(messages, options)) {
    const auto token = piece.is_token ? tokenizer.id_of(piece.text) : std::nullopt;
    if (token) {
      result.ids.push_back(*token);
    } else {
      const EncodeOptions how{.parse_special = options.parse_special,
                              .add_bos = AddBos::no,
                              .continues = !first,
                              .after_special = after_token};
      const std::vector<std::int32_t> ids = tokenizer.encode(piece.text, how);
      result.ids.insert(result.ids.end(), ids.begin(), ids.end());
    }
    result.is_target.resize(result.ids.size(), piece.is_target ? 1 : 0);
    first = false;
    after_token = piece.is_token;
  }
  return result;
}

}  // namespace clora

#include "model/chat_template.hpp"

#include <algorithm>
#include <array>

#include "runtime/error.hpp"

namespace clora {

namespace {

constexpr const char* kImStart = "<|im_start|>";
constexpr const char* kImEnd = "<|im_end|>";
constexpr const char* kStartHeader = "<|start_header_id|>";
constexpr const char* kEndHeader = "<|end_header_id|>";
constexpr const char* kEndOfTurn = "<|eot_id|>";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Jinja texts hold line breaks as they are or as backslash n; both become line breaks.
std::string with_line_breaks(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '\\' && i + 1 < text.size() && text[i + 1] == 'n';
    out += escaped ? '\n' : text[i];
    if (escaped) ++i;
  }
  return out;
}

// The text between `before` and `after` within one literal of the template, empty where there is
// none: the first that does not run over the end of its literal.
std::string literal_between(std::string_view text, std::string_view before,
                            std::string_view after) {
  for (std::size_t at = text.find(before); at != std::string_view::npos;
       at = text.find(before, at + 1)) {
    const std::size_t begin = at + before.size();
    const std::size_t end = text.find(after, begin);
    if (end == std::string_view::npos) return {};
    const std::string_view inner = text.substr(begin, end - begin);
    if (!contains(inner, "}}") && !contains(inner, "' +") && !contains(inner, "\" +")) {
      return std::string(inner);
    }
  }
  return {};
}

// Marks of templates that are written otherwise than the kinds here although they share tokens.
void refuse_known_others(std::string_view text) {
  constexpr std::array<std::array<std::string_view, 2>, 6> kOthers = {{
      {"<think>", "a template with thinking parts (Qwen3, DeepSeek)"},
      {"[INST]", "Mistral or Llama 2"},
      {"<start_of_turn>", "Gemma"},
      {"<|assistant|>", "Phi 3 or Zephyr"},
      {"<|im_sep|>", "Phi 4"},
      {"<|START_OF_TURN_TOKEN|>", "Command R"},
  }};
  for (const auto& [mark, name] : kOthers) {
    if (!contains(text, mark)) continue;
    fail(ErrorCode::unsupported,
         "chat template: {} is not supported; supported are ChatML and Llama 3", name);
  }
}

void require_tokens(const Tokenizer& tokenizer, std::initializer_list<const char*> marks) {
  for (const char* mark : marks) {
    if (tokenizer.id_of(mark)) continue;
    fail(ErrorCode::unsupported,
         "chat template: '{}' must be one token of the model's vocabulary, and is none", mark);
  }
}

// Jinja's trim, for white space of ASCII.
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kWhite = " \t\n\r\v\f";
  const std::size_t begin = text.find_first_not_of(kWhite);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhite) - begin + 1);
}

void check_messages(std::span<const ChatMessage> messages) {
  require(!messages.empty(), "chat template: a conversation needs at least one message, got none");
  for (const ChatMessage& m : messages) {
    const bool known = m.role == "system" || m.role == "user" || m.role == "assistant";
    require(known, "chat template: a role must be system, user or assistant, got '{}'", m.role);
  }
}

}  // namespace

ChatTemplate ChatTemplate::recognise(std::string_view template_text, const Tokenizer& tokenizer) {
  if (template_text.empty()) {
    fail(ErrorCode::unsupported, "chat template: the model's files hold none");
  }
  refuse_known_others(template_text);
  const std::string text = with_line_breaks(template_text);
  ChatTemplate result;
  if (contains(text, kImStart) && contains(text, kImEnd)) {
    require_tokens(tokenizer, {kImStart, kImEnd});
    result.kind_ = Kind::chatml;
    result.default_system_ = literal_between(text, "<|im_start|>system\n", kImEnd);
  } else if (contains(text, kStartHeader) && contains(text, kEndOfTurn)) {
    require_tokens(tokenizer, {kStartHeader, kEndHeader, kEndOfTurn});
    result.kind_ = Kind::llama3;
    if (contains(text, "Cutting Knowledge Date: ")) {
      const std::string date = literal_between(text, "date_string = \"", "\"");
      result.system_preface_ =
          fmt::format("Cutting Knowledge Date: December 2023\nToday Date: {}\n\n",
                      date.empty() ? "26 Jul 2024" : date);
    }
  } else {
    fail(ErrorCode::unsupported,
         "chat template: not one of the supported ChatML and Llama 3; it begins '{}'",
         text.substr(0, 60));
  }
  const bool starts_with_bos = contains(text, "bos_token") && tokenizer.bos();
  if (starts_with_bos) result.bos_text_ = tokenizer.token_text(*tokenizer.bos());
  return result;
}

std::vector<ChatMessage> ChatTemplate::turns_of(std::span<const ChatMessage> messages) const {
  std::vector<ChatMessage> turns(messages.begin(), messages.end());
  const bool has_system = turns.front().role == "system";
  if (kind_ == Kind::chatml) {
    if (!has_system && !default_system_.empty()) {
      turns.insert(turns.begin(), {"system", default_system_});
    }
    return turns;
  }
  for (ChatMessage& turn : turns) turn.content = trimmed(turn.content);
  if (has_system) {
    turns.front().content.insert(0, system_preface_);
  } else if (!system_preface_.empty()) {
    turns.insert(turns.begin(), {"system", system_preface_});
  }
  return turns;
}

void ChatTemplate::open_turn(const std::string& role, std::string_view content,
                             std::vector<ChatPiece>& pieces) const {
  if (kind_ == Kind::chatml) {
    pieces.push_back({kImStart, true});
    pieces.push_back({role + "\n"});
  } else {
    pieces.push_back({kStartHeader, true});
    pieces.push_back({role});
    pieces.push_back({kEndHeader, true});
    pieces.push_back({"\n\n"});
  }
  pieces.back().text += content;
}

void ChatTemplate::append_turn(const ChatMessage& turn, std::vector<ChatPiece>& pieces) const {
  const bool assistant = turn.role == "assistant";
  open_turn(turn.role, assistant ? std::string_view() : turn.content, pieces);
  if (assistant) pieces.push_back({turn.content, false, true});
  pieces.push_back({kind_ == Kind::chatml ? kImEnd : kEndOfTurn, true, assistant});
  if (kind_ == Kind::chatml) pieces.push_back({"\n"});
}

std::vector<ChatPiece> ChatTemplate::render(std::span<const ChatMessage> messages,
                                            bool add_generation_prompt) const {
  check_messages(messages);
  std::vector<ChatPiece> pieces;
  if (!bos_text_.empty()) pieces.push_back({bos_text_, true});
  for (const ChatMessage& turn : turns_of(messages)) append_turn(turn, pieces);
  if (add_generation_prompt) open_turn("assistant", "", pieces);
  return pieces;
}

ChatTokens ChatTemplate::encode(std::span<const ChatMessage> messages, bool add_generation_prompt,
                                const Tokenizer& tokenizer) const {
  ChatTokens result;
  for (const ChatPiece& piece : render(messages, add_generation_prompt)) {
    const EncodeOptions options{piece.is_token, AddBos::no, /*continues=*/true};
    const std::vector<std::int32_t> ids = tokenizer.encode(piece.text, options);
    result.ids.insert(result.ids.end(), ids.begin(), ids.end());
    result.is_target.resize(result.ids.size(), piece.is_target ? 1 : 0);
  }
  return result;
}

}  // namespace clora

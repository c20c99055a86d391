#include "model/text/chat_turns.hpp"

#include <algorithm>

#include "runtime/fail.hpp"

namespace clora {
namespace {

struct Range {
  std::size_t begin = 0, end = 0;
};

// The bytes from the first to the last one of a message.
std::optional<Range> content_of(const ChatText& text, std::int32_t message) {
  std::optional<Range> range;
  for (const ChatText::Run& run : text.runs) {
    if (run.message != message) continue;
    if (!range) range = Range{run.begin, run.end};
    range->end = run.end;
  }
  return range;
}

std::size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

std::size_t common_suffix(std::string_view a, std::string_view b) {
  const auto different = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first;
  return static_cast<std::size_t>(different - a.rbegin());
}

class TurnFinder {
 public:
  TurnFinder(const ChatRenderer& renderer, const TurnQuery& query)
      : renderer_(renderer), query_(query), full_(query.text.text) {}

  std::vector<ChatTurn> find() {
    std::vector<ChatTurn> turns;
    std::size_t done = 0;
    for (std::size_t i = 0; i < query_.messages.size(); ++i) {
      if (query_.messages[i].role != "assistant") continue;
      const auto turn = find_turn(i, done);
      if (turn) {
        turns.push_back(*turn);
        done = turn->end;
      } else if (query_.must_find && query_.messages[i].trains) {
        refuse(i, "the assistant's turn cannot be found in what the template renders");
      }
    }
    return turns;
  }

 private:
  [[noreturn]] static void refuse(std::size_t i, std::string_view what) {
    fail(ErrorCode::invalid_argument,
         "message {}: {}, so it is not known what to train on; set \"train\": false or \"weight\": "
         "0 on this message, or set `chat_template` to a template that renders every turn",
         i + 1, what);
  }

  std::optional<ChatText> rendered(std::size_t count, bool prompt) const {
    ChatOptions options = query_.options;
    options.add_generation_prompt = prompt;
    try {
      return renderer_.render(query_.messages.first(count), options);
    } catch (const Error&) {
      return std::nullopt;  // a template may refuse a conversation that it accepts when longer
    }
  }

  std::optional<ChatTurn> find_turn(std::size_t i, std::size_t done) const {
    auto content = content_of(query_.text, static_cast<std::int32_t>(i));
    const auto prompt = rendered(i, true);
    const auto shorter = i + 1 == query_.messages.size() && !query_.options.add_generation_prompt
                             ? std::optional(query_.text)
                             : rendered(i + 1, false);
    if (content && shorter) leave_out_repetitions(i, *shorter, *content);
    const auto begin = begin_of(i, content, prompt);
    if (!begin || *begin < done) return std::nullopt;
    const auto end = end_of(i, *begin, content, shorter);
    if (!end || *end <= *begin || !is_alone(i, {*begin, *end}, content)) return std::nullopt;
    return ChatTurn{*begin, *end, static_cast<std::int32_t>(i), query_.messages[i].trains};
  }

  // A later message may repeat a part of this one, the name of a function for one (gpt-oss). The
  // rendering that ends with this one does not have that, so the content ends where what precedes
  // its end is most like what precedes the end there.
  void leave_out_repetitions(std::size_t i, const ChatText& shorter, Range& content) const {
    const auto message = static_cast<std::int32_t>(i);
    const auto inside = content_of(shorter, message);
    if (!inside) return;
    const std::string_view wanted = std::string_view(shorter.text).substr(0, inside->end);
    if (full_.starts_with(wanted)) {
      content.end = std::min(content.end, inside->end);
      return;
    }
    const auto last = std::find_if(shorter.runs.rbegin(), shorter.runs.rend(),
                                   [&](const auto& run) { return run.message == message; });
    std::size_t most = last->end - last->begin;
    for (const ChatText::Run& run : query_.text.runs) {
      if (run.message != message) continue;
      const std::size_t same = common_suffix(full_.substr(0, run.end), wanted);
      if (same < most) continue;
      most = same;
      content.end = run.end;
    }
  }

  std::optional<std::size_t> begin_of(std::size_t i, const std::optional<Range>& content,
                                      const std::optional<ChatText>& prompt) const {
    // The prompt may end inside of the content, with a part that the message has, too (QwQ).
    if (prompt && full_.starts_with(prompt->text) &&
        (!content || prompt->text.size() < std::max(content->end, content->begin + 1))) {
      return prompt->text.size();
    }
    if (!content || !prompt) return std::nullopt;
    if (const auto after = begin_after_previous(i, *content, *prompt)) return after;
    return begin_after_prompt(i, *content, *prompt);
  }

  // What the generation prompt's rendering has after the previous message is in the full text, too,
  // up to the content. A part of the prompt at its end may be missing: <think>, in a turn without.
  std::optional<std::size_t> begin_after_previous(std::size_t i, const Range& content,
                                                  const ChatText& prompt) const {
    if (i == 0) return std::nullopt;
    const auto before = content_of(query_.text, static_cast<std::int32_t>(i) - 1);
    const auto in_prompt = content_of(prompt, static_cast<std::int32_t>(i) - 1);
    if (!before || !in_prompt || before->end > content.begin) return std::nullopt;
    const std::string_view tail = std::string_view(prompt.text).substr(in_prompt->end);
    const std::size_t common = common_prefix(full_.substr(before->end), tail);
    const std::size_t begin = before->end + common;
    const bool whole = common == tail.size() && begin <= content.begin;
    if (whole || begin == content.begin) return begin;
    // A content that begins as the rest of the prompt does, "He" of "Here is", is the turn's.
    const std::size_t cut =
        std::min(before_open_mark(tail.substr(0, common)), content.begin - before->end);
    const auto plain = rendered(i, false);
    const bool inside_prompt =
        plain && prompt.text.starts_with(plain->text) &&
        (in_prompt->end + cut > plain->text.size() || (always_opens() && cut > 0));
    return inside_prompt && before->end + cut < content.end ? std::optional(before->end + cut)
                                                            : std::nullopt;
  }

  // A turn does not begin in the middle of a mark such as </think>.
  static std::size_t before_open_mark(std::string_view text) {
    const std::size_t open = text.rfind('<');
    const bool is_open =
        open != std::string_view::npos && text.find('>', open) == std::string_view::npos;
    return is_open ? open : text.size();
  }

  // The last place before the content with the text that only the prompt has.
  std::optional<std::size_t> begin_after_prompt(std::size_t i, const Range& content,
                                                const ChatText& prompt) const {
    const auto plain = rendered(i, false);
    if (!plain || !prompt.text.starts_with(plain->text)) return std::nullopt;
    const std::string added = prompt.text.substr(plain->text.size());
    if (added.empty() || added.size() > content.begin) return std::nullopt;
    const std::size_t at = full_.rfind(added, content.begin - added.size());
    return at == std::string_view::npos ? std::nullopt : std::optional(at + added.size());
  }

  std::optional<std::size_t> end_of(std::size_t i, std::size_t begin,
                                    const std::optional<Range>& content,
                                    const std::optional<ChatText>& shorter) const {
    const std::size_t after = content ? content->end : begin;
    if (!shorter) return std::nullopt;
    if (full_.starts_with(shorter->text) && shorter->text.size() >= after) {
      const bool is_last = i + 1 == query_.messages.size();
      return is_last ? end_of_last(i, after, shorter->text.size())
                     : after + end_in(full_.substr(after, shorter->text.size() - after));
    }
    const auto inside = content_of(*shorter, static_cast<std::int32_t>(i));
    if (!content || !inside) return std::nullopt;
    const std::string_view tail = std::string_view(shorter->text).substr(inside->end);
    if (const auto same = common_end(tail, full_.substr(after))) return after + *same;
    return first_special(i, after);
  }

  // A template may end a conversation with a token that no turn has (Phi-3). What the last turn
  // ends with, too, if another message follows it, is the turn's.
  std::size_t end_of_last(std::size_t i, std::size_t after, std::size_t size) const {
    const std::string_view tail = full_.substr(after, size - after);
    std::vector<ChatMessage> longer(query_.messages.begin(), query_.messages.end());
    longer.push_back({"user", "Hi"});
    ChatOptions options = query_.options;
    options.add_generation_prompt = false;
    try {
      const ChatText text = renderer_.render(longer, options);
      const auto content = content_of(text, static_cast<std::int32_t>(i));
      const auto same = content ? common_end(tail, std::string_view(text.text).substr(content->end))
                                : std::nullopt;
      if (same) return after + *same;
    } catch (const Error&) {
      return after + end_in(tail);  // the template refuses the longer conversation
    }
    return after + end_in(tail);
  }

  // The size of a turn's end in what follows its content up to the end of the turn.
  std::size_t end_in(std::string_view tail) const {
    const std::vector<std::size_t> specials = own_ends(tail);
    return specials.empty() ? tail.size() : specials.back();
  }

  // The same, up to the last special token that another rendering has, too.
  std::optional<std::size_t> common_end(std::string_view tail, std::string_view other) const {
    const std::vector<std::size_t> specials = own_ends(tail);
    if (specials.empty())
      return other.starts_with(tail) ? std::optional(tail.size()) : std::nullopt;
    for (auto end = specials.rbegin(); end != specials.rend(); ++end)
      if (other.starts_with(tail.substr(0, *end))) return *end;
    return std::nullopt;
  }

  // The ends of the special tokens after a content, without those of a turn opened after it.
  std::vector<std::size_t> own_ends(std::string_view tail) const {
    std::vector<std::size_t> ends = query_.special_ends(tail);
    if (ends.empty() || !always_opens()) return ends;
    std::size_t limit = ends.front();
    if (!opening_.empty() && tail.ends_with(opening_))
      limit = std::max(limit, tail.size() - opening_.size());
    std::erase_if(ends, [limit](std::size_t end) { return end > limit; });
    return ends;
  }

  // A turn may end with one token while it is the last and with another one later (gpt-oss).
  std::optional<std::size_t> first_special(std::size_t i, std::size_t after) const {
    std::size_t limit = full_.size();
    for (const ChatText::Run& run : query_.text.runs)
      if (run.message > static_cast<std::int32_t>(i) && run.begin >= after)
        limit = std::min(limit, run.begin);
    const std::vector<std::size_t> specials =
        query_.special_ends(full_.substr(after, limit - after));
    return specials.empty() ? std::nullopt : std::optional(after + specials.front());
  }

  // Whether the template ends every rendering with an opened turn, whether or not a generation
  // prompt is wanted: found in a conversation of a question and an answer.
  bool always_opens() const {
    if (!opens_) opens_ = find_always_opens();
    return *opens_;
  }

  bool find_always_opens() const {
    const std::vector<ChatMessage> talk = {{"user", "Hi"}, {"assistant", "Hello"}};
    try {
      const ChatText asked = renderer_.render(std::span(talk).first(1), {});
      const ChatText told = renderer_.render(talk, {});
      const auto user = content_of(asked, 0), question = content_of(told, 0),
                 answer = content_of(told, 1);
      if (!user || !question || !answer || question->end >= answer->begin) return false;
      return opens(std::string_view(asked.text).substr(user->end),
                   std::string_view(told.text).substr(question->end, answer->begin - question->end),
                   std::string_view(told.text).substr(answer->end));
    } catch (const Error&) {
      return false;
    }
  }

  // `asked` follows a question without an answer, `between` one with an answer, `tail` the answer.
  // What is opened may differ from how the answer begins after its first token (Command R7B).
  bool opens(std::string_view asked, std::string_view between, std::string_view tail) const {
    const std::vector<std::size_t> specials = query_.special_ends(asked);
    if (!specials.empty()) opening_ = asked.substr(specials.front());
    if (asked == between) return !tail.empty() && tail.back() == between.back();
    const std::size_t common = common_prefix(asked, between);
    return !opening_.empty() && tail.ends_with(opening_) && common > specials.front() &&
           common < asked.size();
  }

  // Whether the range has the message's content and no other one's.
  bool is_alone(std::size_t i, Range range, const std::optional<Range>& content) const {
    if (content && (content->end <= range.begin || content->end > range.end)) return false;
    return std::ranges::none_of(query_.text.runs, [&](const ChatText::Run& run) {
      return run.message >= 0 && run.message != static_cast<std::int32_t>(i) &&
             run.begin < range.end && run.end > range.begin;
    });
  }

  const ChatRenderer& renderer_;
  const TurnQuery& query_;
  std::string_view full_;
  mutable std::optional<bool> opens_;
  mutable std::string opening_;  // what such a template opens, after the question's end
};

}  // namespace

std::vector<ChatTurn> find_turns(const ChatRenderer& renderer, const TurnQuery& query) {
  if (std::ranges::any_of(query.text.runs, &ChatText::Run::generated))
    return generated_turns(query);
  return TurnFinder(renderer, query).find();
}

}  // namespace clora

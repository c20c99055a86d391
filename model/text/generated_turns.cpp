// generated_turns() of chat_turns.hpp.
#include "model/text/chat_turns.hpp"

namespace clora {

std::vector<ChatTurn> generated_turns(const TurnQuery& query) {
  std::vector<ChatTurn> turns;
  std::int32_t last = -1;
  for (const ChatText::Run& run : query.text.runs) {
    if (!run.generated) continue;
    const bool extends = !turns.empty() && turns.back().end == run.begin;
    if (!extends) turns.push_back({run.begin, run.end, -1, true});
    turns.back().end = run.end;
    if (run.message >= 0) turns.back().message = run.message;
  }
  for (ChatTurn& turn : turns) {
    if (turn.message < 0) turn.message = last + 1;
    const auto count = static_cast<std::int32_t>(query.messages.size());
    const auto at = [&]() -> const ChatMessage& {
      return query.messages[static_cast<std::size_t>(turn.message)];
    };
    while (turn.message < count && at().role != "assistant") ++turn.message;
    if (turn.message >= count) turn.message = count - 1;
    turn.trains = at().trains;
    last = turn.message;
  }
  return turns;
}

}  // namespace clora

#include "model/special_splitter.hpp"

#include <algorithm>

namespace clora {

SpecialSplitter::SpecialSplitter(const Vocabulary& vocabulary) {
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const bool control = vocabulary.is_special(id);
    const std::string_view text = vocabulary.text(id);
    if (text.empty() || (!control && vocabulary.type(id) != TokenType::user_defined)) continue;
    by_first_byte_[static_cast<unsigned char>(text[0])].push_back({text, id, control});
  }
  for (auto& entries : by_first_byte_) {
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.text.size() > b.text.size(); });
  }
}

SpecialSplitter::Match SpecialSplitter::find(std::string_view text, std::size_t from,
                                             bool parse_control) const {
  for (std::size_t i = from; i < text.size(); ++i) {
    for (const Entry& entry : by_first_byte_[static_cast<unsigned char>(text[i])]) {
      if (entry.control && !parse_control) continue;
      if (text.compare(i, entry.text.size(), entry.text) == 0) {
        return {i, i + entry.text.size(), entry.id};
      }
    }
  }
  return {text.size(), text.size(), -1};
}

}  // namespace clora

#include "model/text/special_splitter.hpp"

#include <algorithm>
#include <utility>

#include "model/text/utf8.hpp"

namespace clora {
namespace {

// Returns the start of the character whose last byte is text[end - 1].
std::size_t character_before(std::string_view text, std::size_t end) {
  for (std::size_t length = 1; length <= 4 && length <= end; ++length) {
    const Utf8Char c = read_utf8(text, end - length);
    if (c.code_point >= 0 && c.length == length) return end - length;
  }
  return end - 1;
}

bool is_white_at(std::string_view text, std::size_t at) {
  return is_white_space(read_utf8(text, at).code_point);
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  const auto is_word = [&](std::size_t at) {
    return is_word_character(read_utf8(text, at).code_point);
  };
  if (begin > 0 && is_word(character_before(text, begin))) return false;
  return end == text.size() || !is_word(end);
}

std::size_t without_white_before(std::string_view text, std::size_t done, std::size_t begin) {
  while (begin > done) {
    const std::size_t before = character_before(text, begin);
    if (before < done || !is_white_at(text, before)) break;
    begin = before;
  }
  return begin;
}

std::size_t without_white_after(std::string_view text, std::size_t end) {
  while (end < text.size() && is_white_at(text, end)) end += read_utf8(text, end).length;
  return end;
}

}  // namespace

SpecialSplitter::SpecialSplitter(std::vector<Entry> entries) {
  for (Entry& entry : entries) {
    if (entry.text.empty()) continue;
    empty_ = false;
    by_first_byte_[static_cast<unsigned char>(entry.text[0])].push_back(std::move(entry));
  }
  for (auto& list : by_first_byte_) {
    std::ranges::stable_sort(
        list, [](const Entry& a, const Entry& b) { return a.text.size() > b.text.size(); });
  }
}

const SpecialSplitter::Entry* SpecialSplitter::longest_at(std::string_view text, std::size_t at,
                                                          bool parse_control) const {
  for (const Entry& entry : by_first_byte_[static_cast<unsigned char>(text[at])]) {
    if (entry.control && !parse_control) continue;
    if (text.compare(at, entry.text.size(), entry.text) == 0) return &entry;
  }
  return nullptr;
}

SpecialSplitter::Match SpecialSplitter::find(std::string_view text, std::size_t done,
                                             std::size_t from, bool parse_control) const {
  for (std::size_t i = from; !empty_ && i < text.size();) {
    const Entry* entry = longest_at(text, i, parse_control);
    if (entry == nullptr) {
      ++i;
      continue;
    }
    const std::size_t end = i + entry->text.size();
    if (entry->rules.single_word && !stands_alone(text, i, end)) {
      i = end;  // the text that it covers is not searched again
      continue;
    }
    return {entry->rules.lstrip ? without_white_before(text, done, i) : i,
            entry->rules.rstrip ? without_white_after(text, end) : end, entry->id, end};
  }
  return {text.size(), text.size(), -1, text.size()};
}

}  // namespace clora

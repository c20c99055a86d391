#include "model/text/jinja/text_parts.hpp"

#include <algorithm>

#include "model/text/utf8.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {
namespace {

struct Character {
  std::size_t begin, end;
  std::int32_t code_point;
};

std::vector<Character> characters_of(std::string_view text) {
  std::vector<Character> characters;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Char c = read_utf8(text, i);
    characters.push_back({i, i + c.length, c.code_point});
    i += c.length;
  }
  return characters;
}

// Parts that white space separates, in order.
std::vector<Text> words_of(const Text& text, std::size_t limit) {
  std::vector<Text> parts;
  std::size_t begin = std::string::npos;
  for (const Character& c : characters_of(text.bytes())) {
    const bool white = is_python_white(c.code_point);
    if (!white && begin == std::string::npos) begin = c.begin;
    if (!white || begin == std::string::npos) continue;
    if (parts.size() == limit) continue;  // the last part goes to the end of the text
    parts.push_back(text.slice(begin, c.begin));
    begin = std::string::npos;
  }
  if (begin != std::string::npos) parts.push_back(text.slice(begin, text.size()));
  return parts;
}

std::vector<Text> words_from_right(const Text& text, std::size_t limit) {
  std::vector<Text> parts;
  std::size_t end = std::string::npos;
  const std::vector<Character> characters = characters_of(text.bytes());
  for (auto c = characters.rbegin(); c != characters.rend(); ++c) {
    const bool white = is_python_white(c->code_point);
    if (!white && end == std::string::npos) end = c->end;
    if (!white || end == std::string::npos || parts.size() == limit) continue;
    parts.push_back(text.slice(c->end, end));
    end = std::string::npos;
  }
  if (end != std::string::npos) parts.push_back(text.slice(0, end));
  std::ranges::reverse(parts);
  return parts;
}

std::size_t as_limit(std::int64_t limit) {
  return limit < 0 ? static_cast<std::size_t>(-1) : static_cast<std::size_t>(limit);
}

void charge(const Text& text, WorkBudget& budget) { budget.text(text.size()); }

const std::string& checked(const Text* separator) {
  require(!separator->empty(), "split: the separator is empty");
  return separator->bytes();
}

bool is_line_end(std::int32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

}  // namespace

Text stripped(const Text& text, Ends ends, const Text* set) {
  std::vector<std::int32_t> members;
  if (set != nullptr) {
    for (const Character& c : characters_of(set->bytes())) members.push_back(c.code_point);
  }
  const auto is_stripped = [&](const Character& c) {
    return set == nullptr ? is_python_white(c.code_point)
                          : std::ranges::find(members, c.code_point) != members.end();
  };
  const std::vector<Character> characters = characters_of(text.bytes());
  auto first = characters.begin(), last = characters.end();
  while (ends.left && first != last && is_stripped(*first)) ++first;
  while (ends.right && first != last && is_stripped(*std::prev(last))) --last;
  return first == last ? Text() : text.slice(first->begin, std::prev(last)->end);
}

std::vector<Text> split(const Text& text, const Text* separator, std::int64_t limit,
                        WorkBudget& budget) {
  charge(text, budget);
  std::size_t cuts = as_limit(limit), begin = 0;
  if (separator == nullptr) return words_of(text, cuts);
  const std::string& mark = checked(separator);
  std::vector<Text> parts;
  for (; cuts > 0; --cuts) {
    const std::size_t at = text.bytes().find(mark, begin);
    if (at == std::string::npos) break;
    parts.push_back(text.slice(begin, at));
    begin = at + mark.size();
  }
  parts.push_back(text.slice(begin, text.size()));
  budget.step(parts.size());
  return parts;
}

std::vector<Text> split_from_right(const Text& text, const Text* separator, std::int64_t limit,
                                   WorkBudget& budget) {
  charge(text, budget);
  std::size_t cuts = as_limit(limit), end = text.size();
  if (separator == nullptr) return words_from_right(text, cuts);
  const std::string& mark = checked(separator);
  std::vector<Text> parts;
  for (; cuts > 0 && end >= mark.size(); --cuts) {
    const std::size_t at = text.bytes().rfind(mark, end - mark.size());
    if (at == std::string::npos) break;
    parts.push_back(text.slice(at + mark.size(), end));
    end = at;
  }
  parts.push_back(text.slice(0, end));
  std::ranges::reverse(parts);
  budget.step(parts.size());
  return parts;
}

std::vector<Text> lines_of(const Text& text, bool keep_ends, WorkBudget& budget) {
  charge(text, budget);
  std::vector<Text> lines;
  std::size_t begin = 0;
  const std::string& bytes = text.bytes();
  for (std::size_t i = 0; i < bytes.size();) {
    const Utf8Char c = read_utf8(bytes, i);
    std::size_t after = i + c.length;
    if (is_line_end(c.code_point)) {
      if (c.code_point == '\r' && after < bytes.size() && bytes[after] == '\n') ++after;
      lines.push_back(text.slice(begin, keep_ends ? after : i));
      begin = after;
    }
    i = after;
  }
  if (begin < bytes.size()) lines.push_back(text.slice(begin, bytes.size()));
  budget.step(lines.size());
  return lines;
}

Text joined(const std::vector<Text>& parts, const Text& separator, WorkBudget& budget) {
  std::size_t size = parts.size() * separator.size();
  for (const Text& part : parts) size += part.size();
  budget.text(size);
  Text out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out.append(separator);
    out.append(parts[i]);
  }
  return out;
}

namespace {

Text with_between_characters(const Text& text, const Text& to, std::size_t limit,
                             WorkBudget& budget) {
  std::vector<Text> parts(1);
  std::size_t cuts = limit == 0 ? 0 : limit - 1;
  if (limit == 0) return text;
  for (const Character& c : characters_of(text.bytes())) {
    if (parts.size() > 1 && cuts == 0) {
      parts.back().append_slice(text, c.begin, c.end);
      continue;
    }
    parts.push_back(text.slice(c.begin, c.end));
    if (parts.size() > 2) --cuts;
  }
  if (cuts > 0) parts.emplace_back();
  return joined(parts, to, budget);
}

}  // namespace

Text replaced(const Text& text, const Text& from, const Text& to, std::int64_t limit,
              WorkBudget& budget) {
  if (from.empty()) return with_between_characters(text, to, as_limit(limit), budget);
  return joined(split(text, &from, limit, budget), to, budget);
}

Text filled(const Text& text, std::int64_t left, std::int64_t right, std::string_view fill,
            WorkBudget& budget) {
  require(left <= 10'000 && right <= 10'000, "a text is padded to more than 10000 columns");
  Text out;
  for (std::int64_t i = 0; i < left; ++i) out.append(fill);
  out.append(text);
  for (std::int64_t i = 0; i < right; ++i) out.append(fill);
  budget.text(out.size());
  return out;
}

}  // namespace clora::jinja

// Text: the strings of a template's values, with the provenance of every byte.
//
// A byte is the template's own (written in its text, or derived from nothing else), or came from an
// input of the rendering. Concatenating, slicing and rewriting a Text keep the origins of its
// bytes. An origin is a number that the caller chooses for its inputs (Origin::source), and whether
// the byte is inside a {% generation %} block. Positions are byte offsets; characters (code points)
// are what Python counts. A value type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace clora::jinja {

struct Origin {
  static constexpr std::int32_t kTemplate = -1;
  std::int32_t source = kTemplate;  // kTemplate, or a number >= 0 of an input
  bool generated = false;           // inside of a {% generation %} block

  bool operator==(const Origin&) const = default;
};

// The bytes [begin, end) of a text have this origin.
struct Run {
  std::size_t begin = 0, end = 0;
  Origin origin = {};

  bool operator==(const Run&) const = default;
};

class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes, Origin origin = {});
  explicit Text(const char* bytes) : Text(std::string(bytes)) {}

  const std::string& bytes() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return bytes_.size(); }
  bool empty() const noexcept { return bytes_.empty(); }
  // In order, without gaps, none empty, neighbours with different origins.
  const std::vector<Run>& runs() const noexcept { return runs_; }
  Origin origin_at(std::size_t at) const;  // REQUIRES at < size()
  // The origin of the first byte, or the template's of an empty text.
  Origin first_origin() const { return runs_.empty() ? Origin{} : runs_.front().origin; }

  void append(const Text& other);
  void append(std::string_view bytes, Origin origin = {});
  void append_slice(const Text& other, std::size_t begin, std::size_t end);  // in bytes

  Text slice(std::size_t begin,
             std::size_t end) const;  // in bytes; REQUIRES begin <= end <= size()

  // Markup is what the filters safe and escape give: + escapes the text that it joins to it, as
  // in jinja2. Other operations give plain texts.
  bool is_markup() const noexcept { return is_markup_; }
  Text as_markup() const;

  // Marks all bytes as inside of a {% generation %} block.
  void mark_generated();

  // Replaces every character by what `map` writes for its code point (-1: an invalid byte).
  Text mapped(const std::function<void(std::int32_t, std::string_view, std::string&)>& map) const;

 private:
  std::string bytes_;
  std::vector<Run> runs_;
  bool is_markup_ = false;
};

// The number of characters; each byte that is not UTF-8 counts as one.
std::size_t character_count(std::string_view text);
// The byte offset of a character, or text.size() behind the last one.
std::size_t byte_of_character(std::string_view text, std::size_t character);

// White space of Python's str.strip(), str.split() and str.isspace().
bool is_python_white(std::int32_t code_point);

}  // namespace clora::jinja

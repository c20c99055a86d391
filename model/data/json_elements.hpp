// JsonElements: the elements of a JSON array in a file, as texts, one at a time and in bounded
// memory: [{...}, {...}]. Only brackets, strings and commas are read here; what is between them is
// left to the parser of an element. Threads: one at a time.
#pragma once

#include <cstddef>
#include <string>

#include "model/data/byte_source.hpp"

namespace clora {

class JsonElements {
 public:
  // REQUIRES: the first byte of the source that is not white space is '['.
  JsonElements(ByteSource source, std::size_t max_element_bytes)
      : source_(std::move(source)), max_bytes_(max_element_bytes) {}

  // Reads the next element, without white space around it; returns false after the last. Errors:
  // invalid_data, naming the line: an element of more bytes, an array that is not closed, or text
  // after it; those of ByteSource.
  bool next(std::string& element);

  std::size_t number() const noexcept { return first_line_; }  // the line on which it begins

 private:
  enum class State { before, inside, after };

  bool take(char c, std::string& element);
  void append(char c, std::string& element);
  void require_end();
  [[noreturn]] void bad(const char* what) const;

  ByteSource source_;
  std::size_t max_bytes_;
  State state_ = State::before;
  std::size_t line_ = 1, first_line_ = 1;
  std::size_t count_ = 0;  // of the elements so far
  std::size_t depth_ = 0;  // of brackets within the element
  bool in_string_ = false, is_escaped_ = false;
};

}  // namespace clora

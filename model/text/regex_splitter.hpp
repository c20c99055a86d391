// RegexSplitter: a compiled Unicode pattern that cuts a text into its matches and the gaps between
// them, losing nothing. Move-only; split() is safe from several threads at once.
//
// Bytes that are not valid UTF-8 match nothing: each run of them is a piece of its own. White space
// (\s) is Unicode's White_Space, as in the tokenizers that the patterns come from; PCRE2's own \s
// holds U+180E too.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

class RegexSplitter {
 public:
  // Throws Error(unsupported) with the pattern and the place where PCRE2 does not accept it.
  explicit RegexSplitter(const std::string& pattern);
  RegexSplitter(RegexSplitter&&) noexcept;
  RegexSplitter& operator=(RegexSplitter&&) noexcept;
  ~RegexSplitter();

  // Appends the pieces of `text`, in order, none empty; they point into `text`.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  struct Code;
  void split_valid(std::string_view text, std::vector<std::string_view>& pieces) const;

  std::unique_ptr<Code> code_;
};

}  // namespace clora

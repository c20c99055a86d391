// RegexSplitter: a compiled Unicode pattern that splits a text into its matches and the gaps
// between them, without loss. Move-only; split() is thread-safe.
//
// Bytes that are not valid UTF-8 match nothing: each run of them is a separate piece. White space
// (\s) is Unicode's White_Space, as in the tokenizers from which the patterns come; PCRE2's own \s
// also contains U+180E.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

class RegexSplitter {
 public:
  // Throws Error(unsupported), with the pattern and the position, if PCRE2 rejects it.
  explicit RegexSplitter(const std::string& pattern);
  RegexSplitter(RegexSplitter&&) noexcept;
  RegexSplitter& operator=(RegexSplitter&&) noexcept;
  ~RegexSplitter();

  // Appends the non-empty pieces of `text`, in order; they point into `text`.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  struct Code;
  void split_valid(std::string_view text, std::vector<std::string_view>& pieces) const;

  std::unique_ptr<Code> code_;
};

}  // namespace clora

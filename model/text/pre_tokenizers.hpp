// Pre-tokenisers of byte-level vocabularies by the names in GGUF files (tokenizer.ggml.pre): how a
// text is split before its bytes are merged, and what Hugging Face's tokenizer.json of the same
// models says besides. The table in pre_tokenizers.cpp is the only place that lists them. Private
// to model/ and tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace clora {

struct PreTokenizer {
  std::vector<std::string> patterns;  // as TokenizerSpec::split_patterns
  bool normalize_nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;  // unless tokenizer.ggml.add_bos_token is false
};

// Throws Error(unsupported), which lists the known names.
PreTokenizer pre_tokenizer_of(std::string_view name);

// All known names, in the order of the table.
std::vector<std::string_view> pre_tokenizer_names();

// True if the pattern is known to match every text from end to end, so that a Split that drops gaps
// between matches is one that keeps them.
bool leaves_no_gap(std::string_view pattern);

// The patterns of tokenizer.json's ByteLevel with use_regex, and of Digits with individual_digits.
std::string gpt2_split_pattern();
std::string single_digit_pattern();

}  // namespace clora

// Reads the normaliser and the pre-tokeniser of a tokenizer.json, which process a text before it is
// merged, into fields of a TokenizerSpec.
#pragma once

#include "clora/model/text/tokenizer_spec.hpp"
#include "clora/runtime/files/json.hpp"

namespace clora {

// Fills algorithm, split_patterns, normalize_nfc, add_leading_space, space_prefix, metaspace and
// split_before_space. REQUIRES: spec.ignore_merges is set. Errors: unsupported, with the part's
// path, its name and what is supported; invalid_file for a malformed part.
void read_tokenizer_pipeline(const JsonKeys& file, TokenizerSpec& spec);

}  // namespace clora

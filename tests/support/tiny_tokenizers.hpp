// Small vocabularies for tests that need no file: every byte is a token, with a few merges and
// special tokens in addition.
#pragma once

#include "clora/model/text/tokenizer.hpp"

namespace clora::test {

// Byte-level, GPT-2's pattern. Ids: the bytes in the alphabet's order from 0, then the merges'
// tokens ("th", "the", "Ġthe", "lo", "llo", "ab", "bc", "abc"), <|im_start|>, <|im_end|> (eos),
// <|bos|> (bos), <tool> (user-defined).
TokenizerSpec byte_level_spec();

// The character that represents a byte in GPT-2's alphabet.
std::string byte_symbol(unsigned char byte);

// The ids of these tokens; -1 for missing tokens.
std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer,
                                 std::initializer_list<const char*> texts);

// Options to encode a piece of text without BOS.
EncodeOptions without_bos(bool parse_special = false);

}  // namespace clora::test

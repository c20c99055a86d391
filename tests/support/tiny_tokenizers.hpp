// Small vocabularies for tests that need no file: every byte is a token, with a few merges and
// special tokens on top.
#pragma once

#include "model/tokenizer.hpp"

namespace clora::test {

// Byte-level, GPT-2's pattern. Ids: the bytes in the alphabet's order from 0, then the merges'
// tokens ("th", "the", "Ġthe", "lo", "llo", "ab", "bc", "abc"), <|im_start|>, <|im_end|> (eos),
// <|bos|> (bos), <tool> (user-defined).
TokenizerSpec byte_level_spec();

// The character of GPT-2's alphabet that writes a byte.
std::string byte_symbol(unsigned char byte);

}  // namespace clora::test

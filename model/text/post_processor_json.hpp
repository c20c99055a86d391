// Reads the post_processor of a tokenizer.json: the special tokens that it puts before and after a
// text. Pure function.
#pragma once

#include <optional>
#include <string>

#include "clora/runtime/files/json.hpp"

namespace clora {

struct PostProcessor {
  bool defines_frame = false;  // else whether bos is added is left to tokenizer_config.json
  std::optional<std::string> before, after;  // texts of special tokens
};

// ByteLevel, TemplateProcessing and Sequence are supported; for an encoder (WordPiece), also a
// token after the text, BertProcessing and RobertaProcessing. Errors: unsupported, with the part's
// path and what is supported; invalid_file for a malformed part.
PostProcessor read_post_processor(const JsonKeys& part, bool encoder);

}  // namespace clora

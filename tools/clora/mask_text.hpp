// The tokens of a record as text that shows which of them are trained, for clora tokenize --mask.
// Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "clora/model/data/records.hpp"

namespace clora {

struct MaskStyle {
  std::string_view begin, end;  // around what is trained
};
inline constexpr MaskStyle kColouredMask{"\x1b[30;42m", "\x1b[0m"};
inline constexpr MaskStyle kPlainMask{"\u27E6", "\u27E7"};  // white square brackets

// The record's text with special tokens, and `style` around each run of trained tokens. Control
// characters but for line breaks and tabs are escaped, so that data cannot control a terminal. With
// colours, a line break inside of a trained run is preceded by a mark, which would be invisible.
std::string masked_text(const RecordView& record, const Tokenizer& tokenizer,
                        const MaskStyle& style);

struct MaskCounts {
  std::size_t tokens = 0, trained = 0, runs = 0;  // runs of trained tokens
};
MaskCounts mask_counts(const RecordView& record);

}  // namespace clora

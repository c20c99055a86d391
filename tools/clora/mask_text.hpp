// The tokens of a record as text that shows which of them are trained, for clora tokenize --mask.
// Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

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
  std::size_t tokens = 0, trained = 0;
  std::vector<std::size_t> runs = {};  // the tokens of each run of trained ones: of each turn
};
MaskCounts mask_counts(const RecordView& record);

// "1 run", "2 runs (3, 11)"; of many runs, the first 16.
std::string runs_text(const MaskCounts& counts);

}  // namespace clora

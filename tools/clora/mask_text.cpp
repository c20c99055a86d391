#include "tools/clora/mask_text.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "clora/model/data/records.hpp"
#include "tools/command_line/printable.hpp"

namespace clora {
namespace {

// The lines of a text made printable, with their breaks.
void append_printable(std::string_view text, bool trained, const MaskStyle& style,
                      std::string& out) {
  const bool marks_breaks = trained && style.begin == kColouredMask.begin;
  for (;;) {
    const std::size_t end = text.find('\n');
    out += printable(text.substr(0, end));
    if (end == std::string_view::npos) return;
    if (marks_breaks) out += "\u21B5";
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::string masked_text(const RecordView& record, const Tokenizer& tokenizer,
                        const MaskStyle& style) {
  std::string out;
  for (std::size_t i = 0; i < record.ids.size();) {
    const bool trained = record.is_target[i] != 0;
    std::string run;
    for (; i < record.ids.size() && (record.is_target[i] != 0) == trained; ++i)
      run += tokenizer.token_bytes(record.ids[i]);
    if (trained) out += style.begin;
    append_printable(run, trained, style, out);
    if (trained) out += style.end;
  }
  return out;
}

MaskCounts mask_counts(const RecordView& record) {
  MaskCounts counts{.tokens = record.ids.size()};
  for (std::size_t i = 0; i < record.ids.size(); ++i) {
    if (record.is_target[i] == 0) continue;
    ++counts.trained;
    if (i == 0 || record.is_target[i - 1] == 0) counts.runs.push_back(0);
    ++counts.runs.back();
  }
  return counts;
}

std::string runs_text(const MaskCounts& counts) {
  constexpr std::size_t kMaxShown = 16;
  const std::size_t count = counts.runs.size();
  if (count == 1) return "1 run";
  const std::span shown = std::span(counts.runs).first(std::min(count, kMaxShown));
  return fmt::format("{} runs ({}{})", count, fmt::join(shown, ", "),
                     count > kMaxShown ? ", ..." : "");
}

}  // namespace clora

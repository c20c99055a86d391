// Human-readable views of a HostArray: parts of it, and its printed form.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/parse_integer.hpp"
#include "tools/clc/call/host_array.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

constexpr std::int64_t kMaxShownInFull = 64;  // elements of an array printed in full
constexpr std::int64_t kEdge = 3;             // shown at each end of a dimension of a larger array
constexpr std::int64_t kValuesPerLine = 8;

struct Range {
  std::int64_t begin = 0, end = 0;
  bool keeps_dimension = true;
};

std::optional<std::int64_t> index_in(std::string_view text) {
  const auto index = parse_integer(text);
  return index && *index >= 0 ? index : std::nullopt;
}

// Parses "3", "2:8", ":8", "2:" or ":" for a dimension of `size`.
std::optional<Range> range_of(std::string_view text, std::int64_t size) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    const auto at = index_in(text);
    if (!at || *at >= size) return std::nullopt;
    return Range{*at, *at + 1, false};
  }
  const std::string_view first = text.substr(0, colon), last = text.substr(colon + 1);
  const auto begin = first.empty() ? 0 : index_in(first);
  const auto end = last.empty() ? size : index_in(last);
  if (!begin || !end || *begin >= *end || *end > size) return std::nullopt;
  return Range{*begin, *end, true};
}

std::vector<Range> ranges_of(const HostArray& array, std::string_view text) {
  std::vector<Range> ranges;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::size_t d = ranges.size();
    const auto range =
        d < array.shape.size() ? range_of(text.substr(0, comma), array.shape[d]) : std::nullopt;
    if (!range) {
      throw UsageError(
          fmt::format("--print: '{}' is not an index or range in dimension {} of {}; write [3], "
                      "[0:8] or [2,0:8]",
                      text.substr(0, comma), d, text_of(array.shape)));
    }
    ranges.push_back(*range);
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  }
  while (ranges.size() < array.shape.size())
    ranges.push_back({0, array.shape[ranges.size()], true});
  return ranges;
}

// Copies the elements in the ranges from dimension d on; `from` is the first element.
void copy_part(const HostArray& array, const std::vector<Range>& ranges, std::size_t d,
               std::int64_t from, std::vector<std::byte>& to) {
  if (d == ranges.size()) {
    const std::size_t size = bytes_of(array.type);
    const std::byte* begin = array.bytes.data() + static_cast<std::size_t>(from) * size;
    to.insert(to.end(), begin, begin + size);
    return;
  }
  for (std::int64_t i = ranges[d].begin; i < ranges[d].end; ++i) {
    copy_part(array, ranges, d + 1, from * array.shape[d] + i, to);
  }
}

class Picture {
 public:
  explicit Picture(const HostArray& array)
      : array_(array), in_full_(array.elements() <= kMaxShownInFull) {}

  std::string text() {
    visit(0, 0, [this](std::int64_t i) { width_ = std::max(width_, array_.value_text(i).size()); });
    draw(0, 0);
    return text_;
  }

 private:
  bool leaves_out(std::size_t d) const { return !in_full_ && array_.shape[d] > 2 * kEdge + 1; }
  // The index to show after i.
  std::int64_t next(std::size_t d, std::int64_t i) const {
    return leaves_out(d) && i == kEdge - 1 ? array_.shape[d] - kEdge : i + 1;
  }

  template <class Each>
  void visit(std::size_t d, std::int64_t from, const Each& each) {
    if (d == array_.shape.size()) return each(from);
    for (std::int64_t i = 0; i < array_.shape[d]; i = next(d, i)) {
      visit(d + 1, from * array_.shape[d] + i, each);
    }
  }

  void draw(std::size_t d, std::int64_t from) {
    if (d == array_.shape.size()) {
      text_ += fmt::format("{:>{}}", array_.value_text(from), width_);
      return;
    }
    text_ += '[';
    for (std::int64_t i = 0; i < array_.shape[d]; i = next(d, i)) {
      if (i > 0) separate(d, i);
      draw(d + 1, from * array_.shape[d] + i);
    }
    text_ += ']';
  }

  void separate(std::size_t d, std::int64_t i) {
    const bool after_gap = leaves_out(d) && i == array_.shape[d] - kEdge;
    const bool innermost = d + 1 == array_.shape.size();
    const std::string line = '\n' + std::string(d + 1, ' ');
    if (innermost) {
      text_ += after_gap ? " ... " : in_full_ && i % kValuesPerLine == 0 ? line : " ";
    } else {
      text_ += after_gap ? line + "..." + line : line;
    }
  }

  const HostArray& array_;
  bool in_full_;
  std::size_t width_ = 0;
  std::string text_;
};

}  // namespace

HostArray part_of(const HostArray& array, std::string_view ranges) {
  const std::vector<Range> selected = ranges_of(array, ranges);
  HostArray part{.type = array.type, .shape = {}, .bytes = {}};
  for (const Range& range : selected) {
    if (range.keeps_dimension) part.shape.push_back(range.end - range.begin);
  }
  copy_part(array, selected, 0, 0, part.bytes);
  return part;
}

std::string picture_of(const HostArray& array) { return Picture(array).text(); }

}  // namespace clora

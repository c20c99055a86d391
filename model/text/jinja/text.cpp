#include "model/text/jinja/text.hpp"

#include <algorithm>
#include <utility>

#include "model/text/utf8.hpp"

namespace clora::jinja {

Text::Text(std::string bytes, Origin origin) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({0, bytes_.size(), origin});
}

Origin Text::origin_at(std::size_t at) const {
  const auto after = std::ranges::upper_bound(runs_, at, {}, &Run::end);
  return after == runs_.end() ? Origin{} : after->origin;
}

void Text::append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  const std::size_t begin = bytes_.size();
  bytes_ += bytes;
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({begin, bytes_.size(), origin});
  }
}

void Text::append(const Text& other) { append_slice(other, 0, other.size()); }

void Text::append_slice(const Text& other, std::size_t begin, std::size_t end) {
  auto run = std::ranges::upper_bound(other.runs_, begin, {}, &Run::end);
  for (; run != other.runs_.end() && run->begin < end; ++run) {
    const std::size_t from = std::max(begin, run->begin), to = std::min(end, run->end);
    append(std::string_view(other.bytes_).substr(from, to - from), run->origin);
  }
}

Text Text::slice(std::size_t begin, std::size_t end) const {
  Text out;
  out.append_slice(*this, begin, end);
  return out;
}

Text Text::as_markup() const {
  Text out = *this;
  out.is_markup_ = true;
  return out;
}

void Text::mark_generated() {
  const std::vector<Run> runs = std::exchange(runs_, {});
  for (Run run : runs) {
    run.origin.generated = true;
    if (!runs_.empty() && runs_.back().origin == run.origin) {
      runs_.back().end = run.end;
    } else {
      runs_.push_back(run);
    }
  }
}

Text Text::mapped(
    const std::function<void(std::int32_t, std::string_view, std::string&)>& map) const {
  Text out;
  std::string mapped;
  for (const Run& run : runs_) {
    const std::string_view part = std::string_view(bytes_).substr(run.begin, run.end - run.begin);
    mapped.clear();
    for (std::size_t i = 0; i < part.size();) {
      const Utf8Char c = read_utf8(part, i);
      map(c.code_point, part.substr(i, c.length), mapped);
      i += c.length;
    }
    out.append(mapped, run.origin);
  }
  return out;
}

std::size_t character_count(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++count) i += read_utf8(text, i).length;
  return count;
}

std::size_t byte_of_character(std::string_view text, std::size_t character) {
  std::size_t at = 0;
  for (; character > 0 && at < text.size(); --character) at += read_utf8(text, at).length;
  return at;
}

bool is_python_white(std::int32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

}  // namespace clora::jinja

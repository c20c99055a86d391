#include "runtime/files/checksum_list.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <system_error>

#include "clora/runtime/error.hpp"
#include "clora/runtime/files/digest.hpp"
#include "clora/runtime/files/file.hpp"
#include "runtime/files/file_contents.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHead = "clora checksums 1\n";
constexpr std::size_t kDigestDigits = 32;

// "DIGEST SIZE" of a file; nothing if it cannot be read.
std::optional<std::string> facts_of(const fs::path& path) {
  const Descriptor file = open_to_read(path);
  if (file.value() < 0) return std::nullopt;
  try {
    const std::vector<std::byte> bytes = read_contents(path, file);
    return fmt::format("{} {}", digest_of(bytes).text(), bytes.size());
  } catch (const Error&) {  // a folder, or a disk error
    return std::nullopt;
  }
}

}  // namespace

ChecksumList ChecksumList::read(const fs::path& path) {
  ChecksumList list;
  const Descriptor file = open_to_read(path);
  if (file.value() < 0) return list;
  const std::string text = read_text_contents(path, file);
  std::string_view rest = text;
  if (rest.size() < kDigestDigits + 1 || rest.substr(kDigestDigits, 1) != "\n") return list;
  const std::string_view digest = rest.substr(0, kDigestDigits);
  rest.remove_prefix(kDigestDigits + 1);
  if (digest_of(rest).text() != digest || !rest.starts_with(kHead)) return list;
  rest.remove_prefix(kHead.size());
  while (!rest.empty()) {  // "DIGEST SIZE PATH\n"
    const std::string_view line = rest.substr(0, rest.find('\n'));
    const std::size_t space = line.find(' ', kDigestDigits + 1);
    list.entries_.emplace(line.substr(space + 1), line.substr(0, space));
    rest.remove_prefix(line.size() + 1);
  }
  return list;
}

void ChecksumList::write(const fs::path& file) const {
  std::string text(kHead);
  for (const auto& [path, facts] : entries_) text += fmt::format("{} {}\n", facts, path);
  write_file_atomically(file, std::string_view(digest_of(text).text() + '\n' + text));
}

std::uintmax_t ChecksumList::bytes() const {
  std::uintmax_t sum = 0;
  for (const auto& [path, facts] : entries_) {
    std::uintmax_t size = 0;
    std::from_chars(facts.data() + kDigestDigits + 1, facts.data() + facts.size(), size);
    sum += size;
  }
  return sum;
}

bool ChecksumList::matches(const fs::path& folder, const std::string& path) const {
  const auto found = entries_.find(path);
  return found != entries_.end() && facts_of(folder / path) == found->second;
}

bool ChecksumList::add(const fs::path& folder, const std::string& path) {
  if (path.find('\n') != std::string::npos) return false;
  const auto facts = facts_of(folder / path);
  if (facts) entries_[path] = *facts;
  return facts.has_value();
}

std::vector<std::string> ChecksumList::paths() const {
  std::vector<std::string> all;
  for (const auto& [path, facts] : entries_) all.push_back(path);
  return all;
}

std::vector<std::string> files_below(const fs::path& folder) {
  std::vector<std::string> found;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error);
  for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    if (at->is_regular_file(gone) && !at->is_symlink(gone)) {
      found.push_back(at->path().lexically_relative(folder).string());
    }
  }
  return found;
}

}  // namespace clora

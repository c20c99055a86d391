#include "clora/runtime/programs/program_store.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "clora/runtime/files/digest.hpp"
#include "clora/runtime/files/file.hpp"
#include "runtime/errno_text.hpp"
#include "runtime/fail.hpp"
#include "runtime/files/file_contents.hpp"
#include "runtime/files/private_folder.hpp"
#include "runtime/memory/descriptor.hpp"
#include "runtime/programs/locked_mark.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEntryEnd = ".program";

// The digest stored in a .crashed file; empty if there is none.
std::string crashed_digest(const fs::path& path) {
  const Descriptor file = open_to_read(path);
  return file.value() < 0 ? std::string() : read_text_contents(path, file);
}

// Whether the bytes of an entry are those of its crash record.
bool crashed_before(std::span<const std::byte> bytes, const fs::path& record) {
  const std::string digest = crashed_digest(record);
  return !digest.empty() && digest == digest_of(bytes).text();
}

// The same for the file of an entry, which is read only if there is a record.
bool file_crashed_before(const fs::path& entry, const fs::path& record) {
  std::error_code ignored;
  if (!fs::exists(record, ignored)) return false;
  const Descriptor file = open_to_read(entry);
  return file.value() >= 0 && crashed_before(read_contents(entry, file), record);
}

struct AgedEntry {
  fs::path path;
  fs::file_time_type used;
  std::uintmax_t bytes = 0;
};

// The entries of a folder, the least recently used first. Entries that disappear during the scan
// are skipped.
std::vector<AgedEntry> entries_by_age(const fs::path& folder) {
  std::vector<AgedEntry> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() != kEntryEnd) continue;
    std::error_code gone;
    const fs::file_time_type used = at->last_write_time(gone);
    const std::uintmax_t bytes = gone ? 0 : at->file_size(gone);
    if (!gone) entries.push_back({at->path(), used, bytes});
  }
  std::ranges::sort(entries, {}, &AgedEntry::used);
  return entries;
}

// Removes files that a process left unfinished when it died.
void remove_old_partials(const fs::path& folder) {
  const auto yesterday = fs::file_time_type::clock::now() - std::chrono::hours(24);
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (at->path().extension() == kPartialEnd && at->last_write_time(ignored) < yesterday) {
      fs::remove(at->path(), ignored);
    }
  }
}

}  // namespace

DiskProgramStore::DiskProgramStore(fs::path folder, std::size_t limit_bytes)
    : folder_(std::move(folder)), limit_bytes_(limit_bytes) {}

fs::path DiskProgramStore::entry(const std::string& name) const {
  return folder_ / (name + std::string(kEntryEnd));
}

fs::path DiskProgramStore::crashed(const std::string& name) const {
  return folder_ / (name + ".crashed");
}

void DiskProgramStore::find_crashes() {
  std::error_code error;
  fs::directory_iterator at(folder_ / "attempts", error);
  for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
    const fs::path path = at->path();
    const auto dead = take_dead_mark(path);
    if (!dead) continue;
    const std::string name = path.stem().string();
    write_file_atomically(crashed(name), dead->content);
    const std::lock_guard lock(mutex_);
    unreported_.insert(name);
    std::error_code ignored;
    fs::remove(path, ignored);
  }
}

std::optional<std::vector<std::byte>> DiskProgramStore::load(const std::string& name) {
  require_private_folder(folder_);
  std::call_once(searched_, [this] { find_crashes(); });
  {
    const std::lock_guard lock(mutex_);
    if (unreported_.erase(name) > 0) {
      fail(ErrorCode::invalid_file,
           "{}: a process crashed while the driver loaded it; it is no longer used",
           entry(name).string());
    }
  }
  const fs::path path = entry(name);
  const Descriptor file = open_to_read(path);
  if (file.value() < 0) {
    if (errno == ENOENT) return std::nullopt;
    fail(ErrorCode::io, "{}: cannot be opened: {}", path.string(), errno_text(errno));
  }
  require_private(path, file);
  std::vector<std::byte> bytes = read_contents(path, file);
  if (crashed_before(bytes, crashed(name))) return std::nullopt;
  ::futimens(file.value(), nullptr);  // marks the entry as used; if this fails, it only looks older
  return bytes;
}

void DiskProgramStore::save(const std::string& name, std::span<const std::byte> bytes) {
  if (crashed_before(bytes, crashed(name))) return;
  make_private_folder(folder_);
  write_file_atomically(entry(name), bytes);
  ::chmod(entry(name).c_str(), S_IRUSR | S_IWUSR);  // load() rejects files that others may write
  std::error_code ignored;
  fs::remove(crashed(name), ignored);
  evict();
}

std::shared_ptr<void> DiskProgramStore::begin_attempt(const std::string& name,
                                                      std::span<const std::byte> bytes) {
  static std::atomic<unsigned> count{0};
  make_private_folder(folder_ / "attempts");
  return std::make_shared<LockedMark>(
      folder_ / "attempts" / fmt::format("{}.{}-{}", name, ::getpid(), count.fetch_add(1)),
      digest_of(bytes).text());
}

std::vector<DiskProgramStore::Listed> DiskProgramStore::list() const {
  std::vector<Listed> listed;
  for (const AgedEntry& one : entries_by_age(folder_)) {
    const std::string name = one.path.stem().string();
    listed.push_back({.name = name,
                      .path = one.path,
                      .bytes = one.bytes,
                      .used = one.used,
                      .held_back = file_crashed_before(one.path, crashed(name))});
  }
  std::ranges::reverse(listed);
  return listed;
}

void DiskProgramStore::remove(const std::string& name) {
  for (const fs::path& path : {entry(name), crashed(name)}) {
    std::error_code error;
    fs::remove(path, error);
    if (error) fail(ErrorCode::io, "{}: cannot be removed: {}", path.string(), error.message());
  }
}

void DiskProgramStore::evict() const {
  const std::vector<AgedEntry> entries = entries_by_age(folder_);
  std::uintmax_t sum = 0;
  for (const AgedEntry& one : entries) sum += one.bytes;
  for (const AgedEntry& one : entries) {
    if (sum <= limit_bytes_) break;
    std::error_code ignored;  // another process may have removed it first
    fs::remove(one.path, ignored);
    sum -= one.bytes;
  }
  remove_old_partials(folder_);
  remove_old_partials(folder_ / "attempts");
}

}  // namespace clora

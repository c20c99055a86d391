#include "runtime/program_store.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "runtime/descriptor.hpp"
#include "runtime/digest.hpp"
#include "runtime/error.hpp"
#include "runtime/file.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEntryEnd = ".program";
constexpr std::string_view kPartialEnd =
    ".partial";  // of AtomicFile and of attempts not yet locked

std::string reason(int error) { return std::generic_category().message(error); }

Descriptor open_to_read(const fs::path& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

// Reads, where a mapping would do: a file that shrinks under a mapping ends the process.
std::vector<std::byte> read_all(const fs::path& path, int descriptor) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    fail(ErrorCode::io, "{}: a readable file is required", path.string());
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(facts.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(descriptor, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorCode::io, "{}: cannot be read: {}", path.string(), reason(errno));
    if (got == 0) break;  // shortened meanwhile: whoever checks the bytes will see
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The digest written in a .crashed file; empty where there is none.
std::string crashed_digest(const fs::path& path) {
  const Descriptor file = open_to_read(path);
  return file.value() < 0 ? std::string() : text_of(read_all(path, file.value()));
}

// Takes the lock of an attempt whose process is gone and returns its digest; nothing while the
// process lives, or when it ended the attempt in an orderly way just now.
std::optional<std::string> digest_of_dead_attempt(const fs::path& path, const Descriptor& file) {
  if (file.value() < 0 || ::flock(file.value(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  struct stat facts {};
  if (::fstat(file.value(), &facts) != 0 || facts.st_nlink == 0) return std::nullopt;
  return text_of(read_all(path, file.value()));
}

// Removes what an earlier process left under this name: process ids come again, in a container
// soon.
void remove_if_abandoned(const std::string& path) {
  const Descriptor file = open_to_read(path);
  if (file.value() >= 0 && ::flock(file.value(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
}

// A locked file in attempts/; the lock falls with the process, however that ends.
class Attempt {
 public:
  Attempt(fs::path path, std::string_view digest)
      : path_(std::move(path)), file_(make(path_.string() + std::string(kPartialEnd), digest)) {
    // It gets its name once it is locked: a file there without a lock is a dead process's.
    if (::rename((path_.string() + std::string(kPartialEnd)).c_str(), path_.c_str()) != 0) {
      fail(ErrorCode::io, "{}: cannot be named: {}", path_.string(), reason(errno));
    }
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  ~Attempt() { ::unlink(path_.c_str()); }  // before the lock goes with the descriptor

 private:
  static Descriptor make(const std::string& path, std::string_view digest) {
    remove_if_abandoned(path);
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    const bool locked = file.value() >= 0 && ::flock(file.value(), LOCK_EX) == 0;
    if (!locked || ::write(file.value(), digest.data(), digest.size()) !=
                       static_cast<ssize_t>(digest.size())) {
      const int error = errno;
      if (file.value() >= 0) ::unlink(path.c_str());
      fail(ErrorCode::io, "{}: cannot be written: {}", path, reason(error));
    }
    return file;
  }

  fs::path path_;
  Descriptor file_;
};

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(ErrorCode::io, "{}: cannot be made: {}", folder.string(), error.message());
}

struct Kept {
  fs::path path;
  fs::file_time_type used;
  std::uintmax_t bytes = 0;
};

// The entries of a folder, the least recently used first. What vanishes meanwhile is left out.
std::vector<Kept> entries_by_age(const fs::path& folder) {
  std::vector<Kept> kept;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() != kEntryEnd) continue;
    std::error_code gone;
    const fs::file_time_type used = at->last_write_time(gone);
    const std::uintmax_t bytes = gone ? 0 : at->file_size(gone);
    if (!gone) kept.push_back({at->path(), used, bytes});
  }
  std::ranges::sort(kept, {}, &Kept::used);
  return kept;
}

// Files that a process left half-written when it died.
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
    if (path.extension() == kPartialEnd) continue;
    const Descriptor file = open_to_read(path);
    const auto digest = digest_of_dead_attempt(path, file);
    if (!digest) continue;
    const std::string name = path.stem().string();
    write_file_atomically(crashed(name), *digest);
    const std::lock_guard lock(mutex_);
    untold_.insert(name);
    std::error_code ignored;
    fs::remove(path, ignored);
  }
}

std::optional<std::vector<std::byte>> DiskProgramStore::load(const std::string& name) {
  std::call_once(searched_, [this] { find_crashes(); });
  {
    const std::lock_guard lock(mutex_);
    if (untold_.erase(name) > 0) {
      fail(ErrorCode::invalid_file, "{}: a process died while the driver loaded it; kept out",
           entry(name).string());
    }
  }
  const fs::path path = entry(name);
  const Descriptor file = open_to_read(path);
  if (file.value() < 0) {
    if (errno == ENOENT) return std::nullopt;
    fail(ErrorCode::io, "{}: cannot be opened: {}", path.string(), reason(errno));
  }
  std::vector<std::byte> bytes = read_all(path, file.value());
  const std::string held_back = crashed_digest(crashed(name));
  if (!held_back.empty() && held_back == digest_of(bytes).text()) return std::nullopt;
  ::futimens(file.value(), nullptr);  // used now; where that is refused it merely looks older
  return bytes;
}

void DiskProgramStore::save(const std::string& name, std::span<const std::byte> bytes) {
  const std::string held_back = crashed_digest(crashed(name));
  if (!held_back.empty() && held_back == digest_of(bytes).text()) return;
  make_folder(folder_);
  write_file_atomically(entry(name), bytes);
  std::error_code ignored;
  fs::remove(crashed(name), ignored);
  evict();
}

std::shared_ptr<void> DiskProgramStore::begin_attempt(const std::string& name,
                                                      std::span<const std::byte> bytes) {
  static std::atomic<unsigned> count{0};
  make_folder(folder_ / "attempts");
  return std::make_shared<Attempt>(
      folder_ / "attempts" / fmt::format("{}.{}-{}", name, ::getpid(), count.fetch_add(1)),
      digest_of(bytes).text());
}

std::vector<DiskProgramStore::Listed> DiskProgramStore::list() const {
  std::vector<Listed> listed;
  for (const Kept& one : entries_by_age(folder_)) {
    const std::string name = one.path.stem().string();
    listed.push_back({.name = name,
                      .path = one.path,
                      .bytes = one.bytes,
                      .used = one.used,
                      .held_back = fs::exists(crashed(name))});
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
  const std::vector<Kept> kept = entries_by_age(folder_);
  std::uintmax_t sum = 0;
  for (const Kept& one : kept) sum += one.bytes;
  for (const Kept& one : kept) {
    if (sum <= limit_bytes_) break;
    std::error_code ignored;  // another process may have been faster
    fs::remove(one.path, ignored);
    sum -= one.bytes;
  }
  remove_old_partials(folder_);
  remove_old_partials(folder_ / "attempts");
}

}  // namespace clora

#include "runtime/files/file_contents.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "runtime/errno_text.hpp"
#include "runtime/fail.hpp"

namespace clora {

Descriptor open_to_read(const std::filesystem::path& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

std::vector<std::byte> read_contents(const std::filesystem::path& path, const Descriptor& file) {
  struct stat facts {};
  if (::fstat(file.value(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    fail(ErrorCode::io, "{}: a readable file is required", path.string());
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(facts.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.value(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      fail(ErrorCode::io, "{}: cannot be read: {}", path.string(), errno_text(errno));
    }
    if (got == 0) break;  // another program shortened it: the caller checks the contents
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

std::string read_text_contents(const std::filesystem::path& path, const Descriptor& file) {
  const std::vector<std::byte> bytes = read_contents(path, file);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace clora

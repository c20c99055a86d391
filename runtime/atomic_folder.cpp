#include "runtime/atomic_folder.hpp"

#include <unistd.h>

#include <system_error>
#include <utility>

#include "runtime/error.hpp"

namespace clora {
namespace {

std::filesystem::path beside(const std::filesystem::path& path, std::string_view ending) {
  return path.parent_path() /
         fmt::format(".{}.{}.{}", path.filename().string(), ::getpid(), ending);
}

void require_done(const std::error_code& error, const std::filesystem::path& path) {
  if (error) fail(ErrorCode::io, "{}: cannot be written: {}", path.string(), error.message());
}

}  // namespace

AtomicFolder::AtomicFolder(std::filesystem::path path, std::string mark)
    : path_(std::move(path)), partial_(beside(path_, "partial")), mark_(std::move(mark)) {
  std::error_code error;
  std::filesystem::create_directories(partial_, error);
  require_done(error, path_);
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(partial_, ignored);
}

void AtomicFolder::commit() const {
  const std::filesystem::path old = beside(path_, "old");
  std::error_code error;
  const bool replaces = std::filesystem::exists(path_, error);
  if (replaces && !std::filesystem::exists(path_ / mark_, error)) {
    fail(ErrorCode::io, "{}: something else is there, without a {}; move it away", path_.string(),
         mark_);
  }
  if (replaces) std::filesystem::rename(path_, old, error);
  require_done(error, path_);
  std::filesystem::rename(partial_, path_, error);
  require_done(error, path_);
  std::filesystem::remove_all(old, error);
}

}  // namespace clora

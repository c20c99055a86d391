// Mappings and atomic writes (runtime/files/file.hpp).
#include "clora/runtime/files/file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <utility>

#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using test::read_file;
using test::TemporaryFolder;
using test::write_file;

std::string text_of(const MappedFile& file) { return std::string(file.text()); }

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                                std::filesystem::directory_iterator()));
}

// While this object lives, files of this process cannot grow past `bytes`; to the writer this looks
// like a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(MappedFile, ShowsTheBytesOfTheFile) {
  const TemporaryFolder folder;
  write_file(folder / "a", "seven b");
  const MappedFile file = MappedFile::open(folder / "a");
  EXPECT_EQ(text_of(file), "seven b");
  EXPECT_EQ(file.path(), folder / "a");
}

TEST(MappedFile, KeepsItsBytesWhenMoved) {
  const TemporaryFolder folder;
  write_file(folder / "a", "first");
  write_file(folder / "b", "second");
  MappedFile file = MappedFile::open(folder / "a");
  const MappedFile moved = std::move(file);
  EXPECT_EQ(text_of(moved), "first");
  MappedFile target = MappedFile::open(folder / "a");
  target = MappedFile::open(folder / "b");
  EXPECT_EQ(text_of(target), "second");
}

TEST(MappedFile, RefusesAMissingFile) {
  const TemporaryFolder folder;
  CLORA_EXPECT_ERROR(MappedFile::open(folder / "none"), ErrorCode::not_found, "none: no such file");
}

TEST(MappedFile, RefusesAFolder) {
  const TemporaryFolder folder;
  CLORA_EXPECT_ERROR(MappedFile::open(folder.path()), ErrorCode::invalid_file, "got a folder");
}

TEST(MappedFile, RefusesAnEmptyFile) {
  const TemporaryFolder folder;
  write_file(folder / "empty", "");
  CLORA_EXPECT_ERROR(MappedFile::open(folder / "empty"), ErrorCode::invalid_file, "is empty");
}

TEST(MappedFile, RefusesAllButRegularFiles) {
  CLORA_EXPECT_ERROR(MappedFile::open("/dev/null"), ErrorCode::invalid_file, "regular file");
}

TEST(MappedFile, RefusesAFileThatMayNotBeRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const TemporaryFolder folder;
  write_file(folder / "secret", "x");
  std::filesystem::permissions(folder / "secret", std::filesystem::perms::none);
  CLORA_EXPECT_ERROR(MappedFile::open(folder / "secret"), ErrorCode::io, "cannot be opened");
}

TEST(AtomicWrite, WritesThePartsInOrder) {
  const TemporaryFolder folder;
  const std::string first = "one, ";
  const std::string second = "two";
  const std::array parts{std::as_bytes(std::span(first)), std::as_bytes(std::span(second))};
  write_file_atomically(folder / "a", parts);
  EXPECT_EQ(read_file(folder / "a"), "one, two");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(AtomicWrite, ReplacesTheOldFile) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old and longer");
  write_file_atomically(folder / "a", "new");
  EXPECT_EQ(read_file(folder / "a"), "new");
}

TEST(AtomicWrite, DoesNotDisturbAMappingOfTheOldFile) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old and longer");
  const MappedFile old = MappedFile::open(folder / "a");
  write_file_atomically(folder / "a", "new");
  EXPECT_EQ(text_of(old), "old and longer");
}

TEST(AtomicWrite, KeepsTheOldFileWhenTheDiskIsFull) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  {
    const FileSizeLimit limit(1000);
    CLORA_EXPECT_ERROR(write_file_atomically(folder / "a", std::string(5000, 'x')), ErrorCode::io,
                       "writing failed: File too large");
  }
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_EQ(files_in(folder.path()), 1u) << "the temporary file is left behind";
}

TEST(AtomicWrite, KeepsTheOldFileWhenAbandoned) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("half of the n");
    EXPECT_EQ(read_file(folder / "a"), "old");
  }
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(AtomicWrite, NamesAnAbsentFolder) {
  const TemporaryFolder folder;
  CLORA_EXPECT_ERROR(write_file_atomically(folder / "none/a", "x"), ErrorCode::io,
                     "cannot be written: No such file or directory");
}

TEST(AtomicWrite, RefusesToReplaceAFolder) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "a");
  CLORA_EXPECT_ERROR(write_file_atomically(folder / "a", "x"), ErrorCode::io, "cannot be replaced");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(AtomicWrite, RefusesASecondCommit) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "a");
  file.commit();
  CLORA_EXPECT_ERROR(file.commit(), ErrorCode::invalid_argument, "once");
  EXPECT_EQ(read_file(folder / "a"), "");
}

}  // namespace
}  // namespace clora

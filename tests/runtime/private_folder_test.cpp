// Write access to the folders that hold code of this process.
#include "runtime/files/private_folder.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files/file_contents.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

mode_t mode_of(const fs::path& path) {
  struct stat facts {};
  EXPECT_EQ(::stat(path.c_str(), &facts), 0) << path;
  return facts.st_mode & 07777U;
}

TEST(PrivateFolder, IsCreatedForItsUserAloneWhateverTheUmask) {
  const test::TemporaryFolder folder;
  const mode_t saved = ::umask(0);
  make_private_folder(folder / "a/b/c");
  ::umask(saved);
  for (const char* created : {"a", "a/b", "a/b/c"})
    EXPECT_EQ(mode_of(folder / created), 0700U) << created;
  EXPECT_NO_THROW(make_private_folder(folder / "a/b/c"));
}

TEST(PrivateFolder, IsOneThatOthersCannotWriteTo) {
  const test::TemporaryFolder folder;
  fs::create_directory(folder / "a");
  for (const mode_t mode : {0700U, 0755U, 0500U}) {
    ASSERT_EQ(::chmod((folder / "a").c_str(), mode), 0);
    EXPECT_NO_THROW(require_private_folder(folder / "a")) << mode;
  }
  for (const mode_t mode : {0770U, 0702U, 0777U, 01777U, 0775U}) {
    ASSERT_EQ(::chmod((folder / "a").c_str(), mode), 0);
    CLORA_EXPECT_ERROR(require_private_folder(folder / "a"), ErrorCode::invalid_file,
                       fmt::format("mode {:04o}", mode));
    CLORA_EXPECT_ERROR(make_private_folder(folder / "a"), ErrorCode::invalid_file, "writable");
  }
  EXPECT_NO_THROW(require_private_folder(folder / "none"));
}

TEST(PrivateFolder, IsNotThatOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can change the owner of a file";
  const test::TemporaryFolder folder;
  fs::create_directory(folder / "a");
  test::write_file(folder / "file", "x");
  ASSERT_EQ(::chown((folder / "a").c_str(), 12345, 12345), 0);
  ASSERT_EQ(::chown((folder / "file").c_str(), 12345, 12345), 0);
  CLORA_EXPECT_ERROR(require_private_folder(folder / "a"), ErrorCode::invalid_file, "user 12345");
  CLORA_EXPECT_ERROR(require_private(folder / "file", open_to_read(folder / "file")),
                     ErrorCode::invalid_file, "user 12345");
}

TEST(PrivateFolder, ReportsThatItCannotBeCreated) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "file", "x");
  CLORA_EXPECT_ERROR(make_private_folder(folder / "file"), ErrorCode::io, "cannot be created");
  CLORA_EXPECT_ERROR(make_private_folder(folder / "file/a"), ErrorCode::io, "cannot be created");
}

}  // namespace
}  // namespace clora

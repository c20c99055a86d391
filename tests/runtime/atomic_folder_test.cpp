// Folders that are moved to their final path once they are complete.
#include "runtime/files/atomic_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <functional>
#include <thread>

#include "tests/support/test_files.hpp"

namespace {

// Called instead of renameat2() if set; returns the error of a file system that cannot exchange.
std::function<int()> instead_of_exchange;

}  // namespace

// Replaces the function of libc in this program.
extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned flags) noexcept {
  if (!instead_of_exchange) {
    return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
  }
  errno = instead_of_exchange();
  return -1;
}

namespace clora {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class AtomicFolderTest : public testing::Test {
 protected:
  std::vector<std::string> names(const std::string& of = "") const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder / of)) {
      all.push_back(entry.path().filename().string());
    }
    std::ranges::sort(all);
    return all;
  }
  test::TemporaryFolder folder;
};

TEST_F(AtomicFolderTest, WithoutACommitNothingIsLeft) {
  {
    const AtomicFolder created(folder / "a", "mark");
    test::write_file(created.partial() / "mark", "x");
  }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(AtomicFolderTest, ThatReplacesAnotherIsThereAtEveryMoment) {
  const auto commit = [&](int number) {
    const AtomicFolder created(folder / "a", "mark");
    test::write_file(created.partial() / "mark", std::to_string(number));
    created.commit();
  };
  commit(0);
  std::atomic<bool> done = false;
  std::atomic<int> missing = 0;
  std::thread reader([&] {
    while (!done) missing += std::filesystem::exists(folder / "a/mark") ? 0 : 1;
  });
  for (int number = 1; number <= 300; ++number) commit(number);
  done = true;
  reader.join();
  EXPECT_EQ(missing, 0);
  EXPECT_EQ(test::read_file(folder / "a/mark"), "300");
  EXPECT_THAT(names(), ElementsAre("a"));
}

// File systems that cannot exchange two names.
class WithoutExchange : public AtomicFolderTest {
 protected:
  WithoutExchange() {
    std::filesystem::create_directory(folder / "a");
    test::write_file(folder / "a/mark", "old");
  }
  ~WithoutExchange() override { instead_of_exchange = nullptr; }

  // Tries to replace the folder a; the exchange fails with the result of `failure`.
  void commit(const std::function<int(const AtomicFolder&)>& failure) const {
    const AtomicFolder created(folder / "a", "mark");
    test::write_file(created.partial() / "mark", "new");
    instead_of_exchange = [&] { return failure(created); };
    created.commit();
  }
};

TEST_F(WithoutExchange, ReplacesTheOldFolderByTwoRenames) {
  for (const int error : {EINVAL, ENOSYS}) {
    test::write_file(folder / "a/mark", "old");
    commit([error](const AtomicFolder&) { return error; });
    EXPECT_EQ(test::read_file(folder / "a/mark"), "new") << error;
    EXPECT_THAT(names(), ElementsAre("a")) << error;
  }
}

TEST_F(WithoutExchange, PutsTheOldFolderBackIfTheSecondRenameFails) {
  const auto failure = [](const AtomicFolder& created) {
    std::filesystem::remove_all(created.partial());  // so that there is nothing to rename
    return EINVAL;
  };
  CLORA_EXPECT_ERROR(commit(failure), ErrorCode::io, "cannot be written");
  EXPECT_EQ(test::read_file(folder / "a/mark"), "old");
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(WithoutExchange, ReportsAnyOtherErrorAndLeavesTheOldFolder) {
  CLORA_EXPECT_ERROR(commit([](const AtomicFolder&) { return EACCES; }), ErrorCode::io,
                     "Permission denied");
  EXPECT_EQ(test::read_file(folder / "a/mark"), "old");
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(AtomicFolderTest, PutsItsFilesAmongOthersThatStay) {
  std::filesystem::create_directory(folder / "a");
  test::write_file(folder / "a/mark", "old");
  test::write_file(folder / "a/notes", "mine");
  {
    const AtomicFolder created(folder / "a", "mark");
    test::write_file(created.partial() / "mark", "new");
    test::write_file(created.partial() / "more", "new");
    EXPECT_EQ(test::read_file(folder / "a/mark"), "old");
    created.commit_files();
  }
  EXPECT_THAT(names("a"), ElementsAre("mark", "more", "notes"));
  EXPECT_EQ(test::read_file(folder / "a/mark"), "new");
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(AtomicFolderTest, CreatesANewFolderAlsoWithASlashAtTheEnd) {
  for (const char* path : {"b", "c/", "d/../e/", "x/y/z"}) {
    const AtomicFolder created(folder / path, "mark");
    test::write_file(created.partial() / "mark", "x");
    created.commit_files();
  }
  for (const char* path : {"b/mark", "c/mark", "e/mark", "x/y/z/mark"}) {
    EXPECT_TRUE(std::filesystem::exists(folder / path)) << path;
  }
}

TEST_F(AtomicFolderTest, RemovesWhatAKilledOwnerLeftAndNothingOfALivingOne) {
  const pid_t child = ::fork();
  if (child == 0) {
    const AtomicFolder created(folder / "a", "mark");
    test::write_file(created.partial() / "big", "x");
    ::raise(SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  ASSERT_EQ(names().size(), 1U);
  const AtomicFolder of_another(folder / "b", "mark");
  const AtomicFolder next(folder / "a", "mark");
  EXPECT_EQ(names().size(), 2U);
  EXPECT_TRUE(std::filesystem::exists(next.partial()));
  EXPECT_TRUE(std::filesystem::exists(of_another.partial()));
}

}  // namespace
}  // namespace clora

// Folders that are moved to their final path once they are complete.
#include "runtime/files/atomic_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <thread>

#include "tests/support/test_files.hpp"

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
    const AtomicFolder made(folder / "a", "mark");
    test::write_whole_file(made.partial() / "mark", "x");
  }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(AtomicFolderTest, ThatReplacesAnotherIsThereAtEveryMoment) {
  const auto commit = [&](int number) {
    const AtomicFolder made(folder / "a", "mark");
    test::write_whole_file(made.partial() / "mark", std::to_string(number));
    made.commit();
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
  EXPECT_EQ(test::read_whole_file(folder / "a/mark"), "300");
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(AtomicFolderTest, PutsItsFilesAmongOthersThatStay) {
  std::filesystem::create_directory(folder / "a");
  test::write_whole_file(folder / "a/mark", "old");
  test::write_whole_file(folder / "a/notes", "mine");
  {
    const AtomicFolder made(folder / "a", "mark");
    test::write_whole_file(made.partial() / "mark", "new");
    test::write_whole_file(made.partial() / "more", "new");
    EXPECT_EQ(test::read_whole_file(folder / "a/mark"), "old");
    made.commit_files();
  }
  EXPECT_THAT(names("a"), ElementsAre("mark", "more", "notes"));
  EXPECT_EQ(test::read_whole_file(folder / "a/mark"), "new");
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(AtomicFolderTest, IsMadeWhereNothingIsAlsoWithASlashAtTheEnd) {
  for (const char* path : {"b", "c/", "d/../e/", "x/y/z"}) {
    const AtomicFolder made(folder / path, "mark");
    test::write_whole_file(made.partial() / "mark", "x");
    made.commit_files();
  }
  for (const char* path : {"b/mark", "c/mark", "e/mark", "x/y/z/mark"}) {
    EXPECT_TRUE(std::filesystem::exists(folder / path)) << path;
  }
}

TEST_F(AtomicFolderTest, RemovesWhatAKilledOwnerLeftAndNothingOfALivingOne) {
  const pid_t child = ::fork();
  if (child == 0) {
    const AtomicFolder made(folder / "a", "mark");
    test::write_whole_file(made.partial() / "big", "x");
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

// Entries of built programs as bytes, and the folder that holds them. Does not use OpenCL.

#include "clora/runtime/programs/program_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "runtime/programs/program_entry.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

constexpr std::size_t kNoLimit = std::size_t{1} << 30;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

ProgramKey key_of(std::string_view source) {
  Device device;
  device.name = "a device";
  device.driver = "1.2";
  return program_key(device, "twice.cl", "-D N=1", source);
}

ProgramEntry entry() {
  return {.functions = {"twice", "thrice"}, .binary = bytes_of("machine code")};
}

TEST(ProgramEntry, ComesBackAsItWasEncoded) {
  const ProgramEntry back =
      decode_program_entry(key_of("text"), encode_program_entry(key_of("text"), entry()));
  EXPECT_EQ(back.functions, entry().functions);
  EXPECT_EQ(back.binary, entry().binary);
}

TEST(ProgramEntry, RefusesEveryFlippedByteAndEveryLength) {
  const std::vector<std::byte> intact = encode_program_entry(key_of("text"), entry());
  for (std::size_t i = 0; i < intact.size(); ++i) {
    std::vector<std::byte> damaged = intact;
    damaged[i] ^= std::byte{1};
    EXPECT_THROW(decode_program_entry(key_of("text"), damaged), Error) << "byte " << i;
    EXPECT_THROW(decode_program_entry(key_of("text"), std::span(intact).first(i)), Error) << i;
  }
  std::vector<std::byte> longer = intact;
  longer.push_back(std::byte{0});
  EXPECT_THROW(decode_program_entry(key_of("text"), longer), Error);
}

TEST(ProgramEntry, IsOfOneSourceOptionsDeviceAndDriver) {
  const std::vector<std::byte> bytes = encode_program_entry(key_of("text"), entry());
  ProgramKey other = key_of("text");
  for (std::string* field : {&other.platform, &other.device, &other.driver, &other.opencl_version,
                             &other.file, &other.options, &other.source}) {
    const std::string saved = *field;
    *field += "x";
    EXPECT_NE(other.name(), key_of("text").name());
    CLORA_EXPECT_ERROR(decode_program_entry(other, bytes), ErrorCode::invalid_file,
                       "another program");
    *field = saved;
  }
  EXPECT_NE(key_of("text").source, key_of("next").source);
}

TEST(DiskProgramStore, GivesBackWhatWasSavedAlsoToAnotherStore) {
  const TemporaryFolder folder;
  DiskProgramStore store(folder / "programs", kNoLimit);
  EXPECT_FALSE(store.load("a").has_value());
  store.save("a", bytes_of("one"));
  store.save("a", bytes_of("two"));
  EXPECT_EQ(store.load("a"), bytes_of("two"));
  EXPECT_EQ(DiskProgramStore(folder / "programs", kNoLimit).load("a"), bytes_of("two"));
}

TEST(DiskProgramStore, DropsTheLeastRecentlyUsedBeyondItsLimit) {
  const TemporaryFolder folder;
  DiskProgramStore store(folder.path(), 30);
  const std::vector<std::byte> ten = bytes_of("0123456789");
  const auto now = fs::file_time_type::clock::now();
  int age = 60;
  for (const char* name : {"a", "b", "c"}) {
    store.save(name, ten);
    fs::last_write_time(folder / (name + std::string(".program")),
                        now - std::chrono::seconds(age--));
  }
  EXPECT_TRUE(store.load("a").has_value());  // used, and so the most recent
  store.save("d", ten);
  EXPECT_TRUE(store.load("a").has_value());
  EXPECT_FALSE(store.load("b").has_value());
  EXPECT_TRUE(store.load("c").has_value());
  EXPECT_TRUE(store.load("d").has_value());
}

TEST(DiskProgramStore, ReportsThatItsFolderCannotBeCreated) {
  const TemporaryFolder folder;
  test::write_file(folder / "file", "not a folder");
  DiskProgramStore store(folder / "file/programs", kNoLimit);
  CLORA_EXPECT_ERROR(store.save("a", bytes_of("one")), ErrorCode::io, "programs");
  CLORA_EXPECT_ERROR(store.load("a"), ErrorCode::io, "programs");
  CLORA_EXPECT_ERROR(store.begin_attempt("a", {}), ErrorCode::io, "programs");
}

// Entries are executed as code in the processes that load them.
TEST(DiskProgramStore, KeepsItsEntriesFromOtherUsersWhateverTheUmask) {
  const TemporaryFolder folder;
  const mode_t saved = ::umask(0);
  DiskProgramStore store(folder / "programs", kNoLimit);
  store.save("a", bytes_of("one"));
  const auto attempt = store.begin_attempt("a", bytes_of("one"));
  ::umask(saved);
  EXPECT_EQ(store.load("a"), bytes_of("one"));
  for (const char* created : {"programs", "programs/a.program", "programs/attempts"}) {
    const auto others = fs::perms::group_all | fs::perms::others_all;
    EXPECT_EQ(fs::status(folder / created).permissions() & others, fs::perms::none) << created;
  }
}

TEST(DiskProgramStore, UsesNoFolderAndNoEntryThatOthersMayWrite) {
  const TemporaryFolder folder;
  DiskProgramStore store(folder / "programs", kNoLimit);
  store.save("a", bytes_of("one"));
  const auto others_may_write = [&](const char* path, bool may) {
    fs::permissions(folder / path, fs::perms::others_write,
                    may ? fs::perm_options::add : fs::perm_options::remove);
  };
  others_may_write("programs", true);
  CLORA_EXPECT_ERROR(store.load("a"), ErrorCode::invalid_file, "not be writable by other users");
  CLORA_EXPECT_ERROR(store.save("a", bytes_of("two")), ErrorCode::invalid_file, "programs");
  others_may_write("programs", false);
  EXPECT_EQ(store.load("a"), bytes_of("one"));
  others_may_write("programs/a.program", true);
  CLORA_EXPECT_ERROR(store.load("a"), ErrorCode::invalid_file, "a.program");
  store.save("a", bytes_of("two"));  // in a new file
  EXPECT_EQ(store.load("a"), bytes_of("two"));
}

TEST(DiskProgramStore, KeepsTheOldEntryIfTheDiskIsFull) {
  const TemporaryFolder folder;
  DiskProgramStore store(folder.path(), kNoLimit);
  store.save("a", bytes_of("old"));
  rlimit saved{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &saved), 0);
  std::signal(SIGXFSZ, SIG_IGN);  // so the write fails without a signal
  const rlimit small{.rlim_cur = 4096, .rlim_max = saved.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto failure = test::caught([&] { store.save("a", std::vector<std::byte>(10000)); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &saved), 0);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->code, ErrorCode::io);
  EXPECT_EQ(store.load("a"), bytes_of("old"));
  std::size_t files = 0;
  for (const auto& file : fs::directory_iterator(folder.path())) {
    ++files;
    EXPECT_EQ(file.path().extension(), ".program");  // no partial file remains
  }
  EXPECT_EQ(files, 1U);
}

// Runs f in a forked process that ends without any clean-up.
template <class F>
void in_dying_process(F f) {
  const pid_t child = fork();
  if (child == 0) {
    f();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
}

void die_with(const fs::path& folder, const std::string& name, std::string_view bytes) {
  in_dying_process([&] {
    DiskProgramStore store(folder, kNoLimit);
    const auto attempt = store.begin_attempt(name, bytes_of(bytes));
    _exit(0);
  });
}

TEST(DiskProgramStore, HoldsBackAnEntryThatAProcessDiedOf) {
  const TemporaryFolder folder;
  DiskProgramStore(folder.path(), kNoLimit).save("a", bytes_of("one"));
  die_with(folder.path(), "a", "one");

  DiskProgramStore next(folder.path(), kNoLimit);
  CLORA_EXPECT_ERROR(next.load("a"), ErrorCode::invalid_file, "crashed");
  EXPECT_FALSE(next.load("a").has_value());  // reported only once
  next.save("a", bytes_of("one"));           // the same binary is still blocked
  EXPECT_FALSE(next.load("a").has_value());
  DiskProgramStore later(folder.path(), kNoLimit);
  EXPECT_FALSE(later.load("a").has_value());
  EXPECT_TRUE(fs::is_empty(folder / "attempts"));

  later.save("a", bytes_of("two"));  // a new binary is tried again
  EXPECT_EQ(later.load("a"), bytes_of("two"));
}

TEST(DiskProgramStore, ListsAsHeldBackOnlyTheBytesThatAProcessDiedOf) {
  const TemporaryFolder folder;
  DiskProgramStore store(folder.path(), kNoLimit);
  store.save("a", bytes_of("one"));
  die_with(folder.path(), "a", "one");
  store.save("b", bytes_of("two"));
  die_with(folder.path(), "b", "one");  // of an entry that was replaced since
  CLORA_EXPECT_ERROR(store.load("a"), ErrorCode::invalid_file, "crashed");
  CLORA_EXPECT_ERROR(store.load("b"), ErrorCode::invalid_file, "crashed");
  for (const DiskProgramStore::Listed& listed : store.list()) {
    EXPECT_EQ(listed.held_back, !store.load(listed.name).has_value()) << listed.name;
    EXPECT_EQ(listed.held_back, listed.name == "a") << listed.name;
  }
}

TEST(DiskProgramStore, TakesALivingProcessForNoCrash) {
  const TemporaryFolder folder;
  DiskProgramStore first(folder.path(), kNoLimit);
  first.save("a", bytes_of("one"));
  auto attempt = first.begin_attempt("a", bytes_of("one"));
  in_dying_process([&] {  // another process reads the entry meanwhile
    DiskProgramStore other(folder.path(), kNoLimit);
    if (other.load("a") != bytes_of("one")) _exit(1);
  });
  attempt.reset();
  EXPECT_EQ(DiskProgramStore(folder.path(), kNoLimit).load("a"), bytes_of("one"));
  EXPECT_TRUE(fs::is_empty(folder / "attempts"));
}

TEST(DiskProgramStore, ServesSeveralWritersAndReadersCompleteEntries) {
  const TemporaryFolder folder;
  constexpr int kProcesses = 4;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      DiskProgramStore store(folder.path(), 40000);  // so entries are also evicted
      const std::vector<std::byte> mine(9000, std::byte{static_cast<unsigned char>('a' + p)});
      for (int i = 0; i < 30; ++i) {
        const std::string name = std::to_string(i % 5);
        store.save(name, mine);
        const auto seen = store.load(name);
        if (seen && (seen->size() != 9000 || seen->front() != seen->back())) _exit(1);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  for (const auto& file : fs::directory_iterator(folder.path())) {
    EXPECT_EQ(file.path().extension(), ".program");
  }
}

}  // namespace
}  // namespace clora

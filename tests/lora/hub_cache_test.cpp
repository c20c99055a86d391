#include "lora/hub_cache.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/test_files.hpp"

namespace clora {
namespace {

// A cache with OWNER/NAME, whose main is commit abc, and a second commit.
class HubCache : public testing::Test {
 protected:
  HubCache() {
    for (const char* commit : {"abc", "def"}) {
      std::filesystem::create_directories(repository_ / "snapshots" / commit);
    }
    std::filesystem::create_directories(repository_ / "refs");
    test::write_file(repository_ / "refs/main", "abc\n");
    test::write_file(repository_ / "refs/v2", "def");
    ::setenv("HF_HUB_CACHE", cache_.path().c_str(), 1);
  }
  ~HubCache() override { ::unsetenv("HF_HUB_CACHE"); }

  test::TemporaryFolder cache_;
  std::filesystem::path repository_ = cache_ / "models--owner--name";
};

TEST_F(HubCache, ResolvesTheMainRevisionOfAName) {
  EXPECT_EQ(resolve_hub_path("hf://owner/name"), repository_ / "snapshots/abc");
}

TEST_F(HubCache, ResolvesBranchesAndCommits) {
  EXPECT_EQ(resolve_hub_path("hf://owner/name@v2"), repository_ / "snapshots/def");
  EXPECT_EQ(resolve_hub_path("hf://owner/name@def"), repository_ / "snapshots/def");
}

TEST_F(HubCache, ResolvesTheFolderOfARepository) {
  EXPECT_EQ(resolve_hub_path(repository_), repository_ / "snapshots/abc");
  EXPECT_EQ(resolve_hub_path(repository_.string() + "/"), repository_ / "snapshots/abc");
}

TEST_F(HubCache, ResolvesTheOnlySnapshotWithoutMain) {
  std::filesystem::remove_all(repository_ / "refs");
  CLORA_EXPECT_ERROR(resolve_hub_path(repository_), ErrorCode::not_found, "2 snapshots");
  std::filesystem::remove_all(repository_ / "snapshots/abc");
  EXPECT_EQ(resolve_hub_path("hf://owner/name"), repository_ / "snapshots/def");
}

TEST_F(HubCache, LeavesOtherPathsAlone) {
  for (const char* path : {"model.gguf", "folder/", "owner/name", "/models--x"}) {
    EXPECT_EQ(resolve_hub_path(path), std::filesystem::path(path));
  }
  EXPECT_EQ(resolve_hub_path(repository_ / "snapshots/def"), repository_ / "snapshots/def");
}

TEST_F(HubCache, NamesTheCommandThatDownloadsWhatIsMissing) {
  CLORA_EXPECT_ERROR(resolve_hub_path("hf://owner/other"), ErrorCode::not_found,
                     "hf download owner/other'");
  CLORA_EXPECT_ERROR(resolve_hub_path("hf://owner/name@v3"), ErrorCode::not_found,
                     "hf download owner/name --revision v3");
}

TEST_F(HubCache, RefusesOtherForms) {
  for (const char* path : {"hf://name", "hf://a/b/c", "hf://owner/name@", "hf://owner/../x",
                           "hf://owner/name@../../x", "hf://"}) {
    CLORA_EXPECT_ERROR(resolve_hub_path(path), ErrorCode::invalid_argument, "hf://OWNER/NAME");
  }
}

TEST_F(HubCache, GivesTheNameOfASnapshot) {
  EXPECT_EQ(hub_id_of(repository_ / "snapshots/abc"), "owner/name");
  EXPECT_EQ(hub_id_of(repository_ / "snapshots/abc/"), "owner/name");
  EXPECT_EQ(hub_id_of("/models/abc"), "");
}

TEST_F(HubCache, IsInTheHomeOfTheHub) {
  ::unsetenv("HF_HUB_CACHE");
  const test::TemporaryFolder home;
  std::filesystem::create_directories(home / "hub");
  std::filesystem::rename(repository_, home / "hub/models--owner--name");
  ::setenv("HF_HOME", home.path().c_str(), 1);
  EXPECT_EQ(resolve_hub_path("hf://owner/name"), home / "hub/models--owner--name/snapshots/abc");
  ::unsetenv("HF_HOME");
}

}  // namespace
}  // namespace clora

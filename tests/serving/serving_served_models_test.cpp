// The names of models, and the folders of adapters that a client may name.
#include "clora/serving/served_models.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clora/serving/request_error.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

template <class F>
int status_of_refusal(const F& f) {
  try {
    f();
  } catch (const RequestError& error) {
    return error.reason().status;
  }
  return 200;
}

TEST(ServedModels, AreListedWithRootAndParent) {
  ServedModels models("base", "/models/base");
  models.add("sql", "/adapters/sql");
  const auto list = models.list();
  ASSERT_EQ(list["data"].size(), 2U);
  EXPECT_EQ(list["data"][0]["id"], "base");
  EXPECT_TRUE(list["data"][0]["parent"].is_null());
  EXPECT_EQ(list["data"][1]["root"], "/adapters/sql");
  EXPECT_EQ(list["data"][1]["parent"], "base");
  EXPECT_EQ(models.describe("sql"), list["data"][1]);
  EXPECT_EQ(status_of_refusal([&] { models.describe("no"); }), 404);
}

TEST(ServedModels, HaveOneNameEach) {
  ServedModels models("base", "b");
  models.add("a", "x");
  EXPECT_EQ(status_of_refusal([&] { models.add("a", "y"); }), 400);
  EXPECT_EQ(status_of_refusal([&] { models.add("base", "y"); }), 400);
  for (const char* name : {"", "a b", "a\n", "\xc3\xa9", "a\"b"}) {
    EXPECT_EQ(status_of_refusal([&] { models.add(name, "y"); }), 400) << name;
  }
  EXPECT_EQ(status_of_refusal([&] { models.add(std::string(129, 'a'), "y"); }), 400);
  models.remove("a");
  EXPECT_EQ(status_of_refusal([&] { models.remove("a"); }), 404);
  EXPECT_EQ(status_of_refusal([&] { models.uses_of("a", {}); }), 404);
  models.add("a", "y");
  EXPECT_EQ(models.uses_of("a", {})[0].name, "a");
  EXPECT_TRUE(models.uses_of("", {}).empty());
  EXPECT_TRUE(models.uses_of("base", {}).empty());
}

TEST(AdapterFolders, AreThoseBelowTheAllowedOneOnly) {
  const test::TemporaryFolder folder;
  fs::create_directories(folder / "adapters/sql/v2");
  fs::create_directories(folder / "adapters-secret");
  fs::create_directories(folder / "other");
  test::write_file(folder / "adapters/file", "x");
  test::write_file(folder / "adapters/sql.gguf", "x");
  fs::create_directory_symlink(folder / "other", folder / "adapters/link");
  const fs::path allowed = folder / "adapters";
  const auto status = [&](const std::string& path) {
    return status_of_refusal([&] { adapter_path_below(allowed, path); });
  };
  EXPECT_EQ(adapter_path_below(allowed, "sql"), fs::canonical(allowed / "sql"));
  EXPECT_EQ(adapter_path_below(allowed, "sql/../sql/v2"), fs::canonical(allowed / "sql/v2"));
  EXPECT_EQ(adapter_path_below(allowed, (allowed / "sql").string()),
            fs::canonical(allowed / "sql"));
  EXPECT_EQ(adapter_path_below(allowed, "sql.gguf"), fs::canonical(allowed / "sql.gguf"));
  EXPECT_EQ(status("link"), 403);
  EXPECT_EQ(status("../other"), 403);
  EXPECT_EQ(status("../adapters-secret"), 403);
  EXPECT_EQ(status((folder / "other").string()), 403);
  EXPECT_EQ(status("/no/such/folder"), 403) << "as for a folder that exists";
  EXPECT_EQ(status("."), 403);
  EXPECT_EQ(status(""), 403);
  EXPECT_EQ(status(std::string("sql\0x", 5)), 403);
  EXPECT_EQ(status("no"), 400);
  EXPECT_EQ(status("file"), 400);
}

}  // namespace
}  // namespace clora

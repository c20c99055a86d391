// Files for tests: the paths of the real ones, a folder that cleans up after itself, and small
// helpers to read and write files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clora/runtime/error.hpp"

namespace clora::test {

// The path `relative` below the test data ($CLORA_TEST_DATA). See CLORA_REQUIRE_TEST_DATA.
std::filesystem::path test_data(std::string_view relative);

// The model of this name in the model cache ($CLORA_MODEL_CACHE, else $XDG_CACHE_HOME/clora/models,
// else ~/.cache/clora/models); nothing if it is absent. See CLORA_CACHED_MODEL_OR_SKIP.
std::optional<std::filesystem::path> cached_model(std::string_view file);
std::optional<std::filesystem::path> demo_model();

// An empty folder, which is removed with all its contents.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, std::string_view content);

// The code and message of the Error that `action` throws; nothing if it throws none.
struct Caught {
  ErrorCode code;
  std::string message;
};
std::optional<Caught> caught(const std::function<void()>& action);

}  // namespace clora::test

// `variable` names a path of the test data. The test fails if it is absent.
#define CLORA_REQUIRE_TEST_DATA(variable, relative)                          \
  const std::filesystem::path variable = ::clora::test::test_data(relative); \
  if (!std::filesystem::exists(variable))                                    \
  FAIL() << "test data: " << variable                                        \
         << " is absent; pass -DCLORA_TEST_DATA=FOLDER, the folder "         \
            "of models and reference values, to cmake"

// `variable` names a model that tools/`script` downloads; `found` is its optional path. The test is
// skipped if it is absent.
#define CLORA_CACHED_MODEL_OR_SKIP(variable, found, name, script)                     \
  const std::optional<std::filesystem::path> variable##_or_none = found;              \
  if (!variable##_or_none)                                                            \
    GTEST_SKIP() << name " is not in the model cache; tools/" script " downloads it"; \
  const std::filesystem::path& variable = *variable##_or_none

#define CLORA_DEMO_MODEL_OR_SKIP(variable)                                            \
  CLORA_CACHED_MODEL_OR_SKIP(variable, ::clora::test::demo_model(), "the demo model", \
                             "fetch_demo_model")

// Expects an Error of `expected_code` whose message contains `part`.
#define CLORA_EXPECT_ERROR(action, expected_code, part)                                      \
  do {                                                                                       \
    const auto clora_caught = ::clora::test::caught([&] { (void)(action); });                \
    ASSERT_TRUE(clora_caught.has_value()) << "no error from " #action;                       \
    EXPECT_EQ(clora_caught->code, (expected_code)) << clora_caught->message;                 \
    EXPECT_NE(clora_caught->message.find(part), std::string::npos) << clora_caught->message; \
  } while (false)

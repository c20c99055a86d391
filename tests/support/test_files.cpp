#include "tests/support/test_files.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "runtime/fail.hpp"

namespace clora::test {
namespace {

std::optional<std::filesystem::path> environment_path(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::filesystem::path(value);
}

std::filesystem::path model_cache() {
  if (const auto cache = environment_path("CLORA_MODEL_CACHE")) return *cache;
  if (const auto cache = environment_path("XDG_CACHE_HOME")) return *cache / "clora/models";
  return environment_path("HOME").value_or("") / ".cache/clora/models";
}

}  // namespace

std::filesystem::path test_data(std::string_view relative) {
  return environment_path("CLORA_TEST_DATA").value_or("../shared/data") / relative;
}

std::optional<std::filesystem::path> cached_model(std::string_view file) {
  const std::filesystem::path path = model_cache() / file;
  return std::filesystem::exists(path) ? std::optional(path) : std::nullopt;
}

std::optional<std::filesystem::path> demo_model() {
  return cached_model("SmolLM2-135M-Instruct.Q4_1.gguf");
}

TemporaryFolder::TemporaryFolder() {
  static std::atomic<unsigned> counter{0};
  path_ = std::filesystem::temp_directory_path() /
          fmt::format("clora-test-{}-{}", ::getpid(), counter.fetch_add(1));
  std::filesystem::create_directory(path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail(ErrorCode::not_found, "{}: cannot be read by the test", path.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(content.data(), static_cast<std::streamsize>(content.size()));
  if (!stream.flush()) fail(ErrorCode::io, "{}: cannot be written by the test", path.string());
}

std::optional<Caught> caught(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return Caught{error.code(), error.what()};
  }
  return std::nullopt;
}

}  // namespace clora::test

// Contexts on a copy of cl/. A test may break the kernels there to simulate a driver that
// miscompiles them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "clora/runtime/context.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "tests/support/test_files.hpp"

namespace clora::test {

namespace fs = std::filesystem;

// A copy of cl/ and a separate cache folder.
class Folders {
 public:
  Folders() {
    const char* source = std::getenv("CLORA_SOURCE_DIR");
    fs::copy(fs::path(source == nullptr ? "." : source) / "cl", kernels(),
             fs::copy_options::recursive);
  }

  fs::path kernels() const { return folder_ / "cl"; }
  fs::path cache() const { return folder_ / "cache"; }
  // The files of outcomes, in unspecified order.
  std::vector<fs::path> outcomes() const {
    std::vector<fs::path> files;
    if (!fs::exists(cache() / "self_tests")) return files;
    for (const auto& entry : fs::directory_iterator(cache() / "self_tests")) {
      files.push_back(entry.path());
    }
    return files;
  }
  // The path of a kernel file of that name.
  fs::path kernel(const std::string& file) const {
    for (const auto& entry : fs::recursive_directory_iterator(kernels())) {
      if (entry.path().filename() == file) return entry.path();
    }
    return kernels() / file;
  }
  void replace(const std::string& file, const std::string& what, const std::string& by) const {
    std::string text = read_file(kernel(file));
    ASSERT_NE(text.find(what), std::string::npos) << what << " is not in " << file;
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
      text.replace(at, what.size(), by);
    }
    write_file(kernel(file), text);
  }

 private:
  TemporaryFolder folder_;
};

// A Context on the copied kernels, and its log: warnings of self-tests, and the rows that are
// missing from the table of sums (ops/dispatch/self_test_sums.hpp). The missing rows are also
// written to the file $CLORA_SELF_TEST_SUMS.
struct Observed {
  using Lines = std::shared_ptr<std::vector<std::string>>;
  Lines warnings = std::make_shared<std::vector<std::string>>();
  Lines missing_sums = std::make_shared<std::vector<std::string>>();
  std::unique_ptr<Context> context;

  explicit Observed(const Folders& folders, Variant variant = Variant::cpu, bool self_test = true) {
    ContextConfig config = config_from_environment();
    config.kernel_folders = {folders.kernels()};
    config.cache_folder = folders.cache();
    config.variant = variant;
    config.self_test = self_test;
    config.hooks.log = [log = warnings, sums = missing_sums](LogLevel level,
                                                             std::string_view message) {
      if (level == LogLevel::warning && message.find("self-test") != std::string_view::npos) {
        log->emplace_back(message);
      }
      constexpr std::string_view kSums = "self-test sums: ";
      if (level != LogLevel::debug || !message.starts_with(kSums)) return;
      sums->emplace_back(message.substr(kSums.size()));
      const char* file = std::getenv("CLORA_SELF_TEST_SUMS");
      if (file != nullptr) std::ofstream(file, std::ios::app) << "    " << sums->back() << '\n';
    };
    context = std::make_unique<Context>(config);
  }
  std::vector<SelfTest::Result> run(const SelfTestRecord& record) const {
    SelfTest test(*context);
    record(test);
    return test.run();
  }
};

// The tolerance allows for the other kernels, which are the fast ones and round differently.
inline bool same(const SelfTest::Result& a, const SelfTest::Result& b, double tolerance = 1e-4) {
  if (a.type != DType::f32) return a.bytes == b.bytes;
  std::vector<float> x(a.bytes.size() / sizeof(float)), y(x.size());
  std::memcpy(x.data(), a.bytes.data(), a.bytes.size());
  std::memcpy(y.data(), b.bytes.data(), b.bytes.size());
  return std::ranges::equal(x, y, [&](float u, float v) { return std::abs(u - v) < tolerance; });
}
inline bool same(const std::vector<SelfTest::Result>& a, const std::vector<SelfTest::Result>& b,
                 double tolerance = 1e-4) {
  return std::ranges::equal(a, b,
                            [&](const auto& u, const auto& v) { return same(u, v, tolerance); });
}

}  // namespace clora::test

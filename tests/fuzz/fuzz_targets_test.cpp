// The fuzz targets (tests/fuzz) in this build: seeds, truncated and damaged seeds, and inputs that
// fuzzing has found.
#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <random>

#include "tests/fuzz/target.hpp"

namespace clora {
namespace {

using fuzz::Target;

void expect_an_end(std::string_view name, std::string_view input) {
  const Target* target = fuzz::find_target(name);
  ASSERT_NE(target, nullptr);
  try {
    fuzz::feed(*target, input);
  } catch (const std::exception& error) {
    ADD_FAILURE() << name << ": " << error.what() << "\nfor the input\n"
                  << testing::PrintToString(input.substr(0, 2000));
  }
}

class FuzzTargets : public testing::TestWithParam<std::string_view> {
 protected:
  void read(std::string_view input) const { expect_an_end(GetParam(), input); }
  std::vector<std::string> seeds() const { return fuzz::find_target(GetParam())->seeds(); }
};

TEST_P(FuzzTargets, ReadTheirSeedsAndNothing) {
  for (const std::string& seed : seeds()) read(seed);
  read("");
}

TEST_P(FuzzTargets, ReadSeedsThatEndEarly) {
  for (const std::string& seed : seeds()) {
    const std::size_t step = 1 + seed.size() / 40;
    for (std::size_t size = 0; size < seed.size(); size += step) read(seed.substr(0, size));
  }
}

TEST_P(FuzzTargets, ReadDamagedSeeds) {
  std::mt19937 random(20);
  constexpr std::string_view kDamage("\x00\xff\"[{-9\x7f", 8);
  for (const std::string& seed : seeds()) {
    for (int turn = 0; turn < 60; ++turn) {
      std::string damaged = seed;
      for (int i = 0; i < 1 + turn % 3 && !damaged.empty(); ++i)
        damaged[random() % damaged.size()] = kDamage[random() % kDamage.size()];
      read(damaged);
    }
  }
}

TEST_P(FuzzTargets, ReadDeepNesting) {
  for (const std::string_view level : {"[", "{\"a\":", "{\"model\":"}) {
    std::string nested;
    for (int i = 0; i < 50'000; ++i) nested += level;
    read(nested);
  }
}

// Inputs that fuzzing has found, reduced to the relevant bytes.
TEST(FuzzFindings, EndWithAnError) {
  // Writing a value that is not UTF-8 as JSON threw an exception.
  expect_an_end("run_config", "[train]\ntarget-modules = [\"q_\xff\"]\n");
  // The TOML parser uses assertions in place of checks. They failed for a key that begins like this
  // one, and for a letter of another alphabet in the position of white space.
  expect_an_end("run_config", "[^R#!n#tr\n");
  expect_an_end("run_config", "[\x12#!n#tr\n");
  expect_an_end("run_config", "a = ''\xef\xbb\x84");
  expect_an_end("run_config",
                "\xef\xbb\x84"
                "D'");
  // The message contained the text of the JSON library.
  expect_an_end("tokenizer", "");
  expect_an_end("tokenizer", R"({"model":{"type":5}})");
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> all;
  for (const Target& target : fuzz::targets()) all.push_back(target.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, FuzzTargets, testing::ValuesIn(names()),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace clora

#include "clora/runtime/hooks.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "clora/runtime/context.hpp"
#include "clora/runtime/error.hpp"

namespace clora {
namespace {

TEST(Hooks, PassOnWhatTheyReceiveIfTheyAreSet) {
  std::vector<std::string> seen;
  Hooks hooks;
  hooks.log = [&](LogLevel level, std::string_view message) {
    seen.push_back(fmt::format("{}: {}", name_of(level), message));
  };
  hooks.allocation = [&](const AllocationEvent& event) {
    seen.push_back(fmt::format("{} of {}, {} in use", event.bytes, event.tag, event.in_use_bytes));
  };
  hooks.metric = [&](std::string_view name, double value) {
    seen.push_back(fmt::format("{} {}", name, value));
  };
  hooks.build = [&](const ProgramBuild& build) {
    seen.push_back(fmt::format("{} {} {}", build.number, build.file, build.finished));
  };
  hooks.log_message(LogLevel::warning, "a cache that cannot be written");
  hooks.count({.bytes = -8, .tag = "weights", .in_use_bytes = 16});
  hooks.measure("builds", 2);
  hooks.report({.file = "rope.cl", .number = 3, .finished = true});
  EXPECT_EQ(seen,
            (std::vector<std::string>{"warning: a cache that cannot be written",
                                      "-8 of weights, 16 in use", "builds 2", "3 rope.cl true"}));
}

TEST(Hooks, DoNothingIfTheyAreNotSet) {
  const Hooks hooks;
  EXPECT_NO_THROW(hooks.log_message(LogLevel::error, "not logged"));
  EXPECT_NO_THROW(hooks.count({}));
  EXPECT_NO_THROW(hooks.measure("nothing", 0));
  EXPECT_NO_THROW(hooks.report({}));
}

TEST(Hooks, LetNothingOutThatTheirCallbackThrows) {
  Hooks hooks;
  int calls = 0;
  const auto fail_with = [&](const auto& what) {
    ++calls;
    throw what;
  };
  hooks.log = [&](LogLevel, std::string_view) { fail_with(std::runtime_error("a full disk")); };
  hooks.allocation = [&](const AllocationEvent&) { fail_with(1); };
  hooks.metric = [&](std::string_view, double) { fail_with(std::string("no exception class")); };
  hooks.build = [&](const ProgramBuild&) { fail_with(2); };
  hooks.log_message(LogLevel::info, "");
  hooks.count({});
  hooks.measure("", 0);
  hooks.report({});
  EXPECT_EQ(calls, 4);
}

constexpr std::int64_t kMiB = std::int64_t{1} << 20U;

// Tracks a Context's memory by its allocation hook alone.
class Counted : public testing::Test {
 protected:
  static Context opened(std::int64_t& sum, std::size_t& in_use) {
    ContextConfig config = config_from_environment();
    config.hooks.allocation = [&](const AllocationEvent& event) {
      sum += event.bytes;
      in_use = event.in_use_bytes;
    };
    return Context(config);
  }
  Tensor allocate(std::int64_t bytes) {
    return context_.allocate({bytes}, DType::u8, MemoryTag::cache);
  }
  void expect_equal_books(const char* when) {
    const std::size_t in_use = context_.pool().statistics().in_use_bytes;
    EXPECT_EQ(sum_, static_cast<std::int64_t>(in_use)) << when;
    EXPECT_EQ(reported_bytes_, in_use) << when;
  }

  std::int64_t sum_ = 0;
  std::size_t reported_bytes_ = 0;
  Context context_ = opened(sum_, reported_bytes_);
};

TEST_F(Counted, AddUpToWhatThePoolHasInUse) {
  expect_equal_books("a new context");
  std::optional<Tensor> piece = allocate(5000);
  std::optional<Tensor> block = allocate(40 * kMiB + 3);
  EXPECT_GE(sum_, 40 * kMiB + 5003);
  expect_equal_books("a piece of a slab and a separate block");
  const Tensor view = piece->slice(0, {1000}, DType::u8);
  Tensor moved = std::move(*block);
  block.reset();
  expect_equal_books("a view and a move");
  piece.reset();
  EXPECT_GE(sum_, 40 * kMiB + 5003);
  expect_equal_books("a view keeps its memory");
  moved = allocate(40 * kMiB);
  moved = {};
  moved = allocate(40 * kMiB);  // from the cache
  expect_equal_books("a cached block again");
  EXPECT_THROW(allocate(std::int64_t{1} << 60U), Error);
  expect_equal_books("a refused allocation");
}

TEST_F(Counted, ComeToNothingOnceAllIsFreedAndTrimmed) {
  {
    const Tensor piece = allocate(5000);
    const Tensor block = allocate(40 * kMiB);
    context_.write(piece, std::vector<std::byte>(5000));
    context_.commit(block, MemoryTag::cache);
    EXPECT_GT(sum_, 40 * kMiB);
  }
  EXPECT_EQ(sum_, 0);
  context_.pool().trim();
  EXPECT_EQ(sum_, 0);
  EXPECT_EQ(reported_bytes_, 0U);
  EXPECT_EQ(context_.pool().statistics().cached_bytes, 0U);
}

TEST_F(Counted, AreOfTheirOwnContextOnly) {
  const Tensor mine = allocate(4000);
  const std::int64_t before = sum_;
  Context other(config_from_environment());
  const Tensor others = other.allocate({4000}, DType::u8, MemoryTag::cache);
  EXPECT_EQ(sum_, before);
  expect_equal_books("another context's allocation");
}

}  // namespace
}  // namespace clora

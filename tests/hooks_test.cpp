#include "runtime/hooks.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace clora {
namespace {

TEST(Hooks, PassOnWhatTheyAreToldWhereTheyAreSet) {
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
  hooks.tell(LogLevel::warning, "a cache that cannot be written");
  hooks.count({.bytes = -8, .tag = "weights", .in_use_bytes = 16});
  hooks.measure("builds", 2);
  EXPECT_EQ(seen, (std::vector<std::string>{"warning: a cache that cannot be written",
                                            "-8 of weights, 16 in use", "builds 2"}));
}

TEST(Hooks, AreQuietWhereTheyAreNotSet) {
  const Hooks hooks;
  hooks.tell(LogLevel::error, "nobody hears");
  hooks.count({});
  hooks.measure("nothing", 0);
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
  hooks.tell(LogLevel::info, "");
  hooks.count({});
  hooks.measure("", 0);
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace clora

// Generation in which each OpenCL call fails in turn.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "clora/model/generation/generator.hpp"
#include "tests/support/engine_results.hpp"
#include "tests/support/fault_walk.hpp"
#include "tests/support/tiny_training.hpp"

namespace clora {
namespace {

using test::CallKind;
using test::FaultyModel;

TEST(GenerationWithFaults, EndsInOneErrorWithoutLeaks) {
  FaultyModel open;
  report(walk_faults(
      open.work("generation", [&] { return test::generate_tiny(open.model(), nullptr); })));
}

// The Generator is reused: generation is repeated after a failure.
TEST(GenerationWithFaults, SucceedsWhenRequestedAgain) {
  FaultyModel open;
  open.renew();
  const std::vector<std::int32_t> prompt{5, 6, 7};
  const GenerationConfig config{.max_tokens = 3, .sampling = {.top_logprobs = 2}};
  const std::vector<std::int32_t> want =
      Generator(open.model(), nullptr, 32).generate(prompt, config).ids;
  for (const CallKind kind : {CallKind::kernel, CallKind::argument, CallKind::allocation,
                              CallKind::write, CallKind::launch, CallKind::read}) {
    for (const int n : {1, 2, 3, 5, 8, 13, 21}) {
      SCOPED_TRACE(fmt::format("{} call {}", test::name_of(kind), n));
      open.renew();
      open.context().pool().trim();
      Generator generator(open.model(), nullptr, 32);
      test::clear_faults();
      test::inject({.kind = kind, .nth = n, .lasting = true});
      const bool failed = test::caught([&] { generator.generate(prompt, config); }).has_value();
      const bool reached = test::failed_calls() > 0;
      test::clear_faults();
      EXPECT_EQ(failed, reached);
      if (open.context().health()->lost()) continue;
      EXPECT_EQ(generator.generate(prompt, config).ids, want);
    }
  }
}

// A page whose rows were not all written must not be found.
TEST(SavedPrefixWithFaults, IsLoadedWholeOrNotAtAll) {
  FaultyModel open;
  open.renew();
  const test::TemporaryFolder folder;
  const auto file = folder / "prefix.safetensors";
  const EngineConfig config{.max_sequences = 1, .max_positions = 64};
  const test::Ids prompt = test::some_ids(40, 2);
  const auto reply = [&](Engine& engine) {
    engine.submit(test::request_of(prompt, 8));
    return test::run(engine).begin()->second;
  };
  test::Ids want;
  {
    Engine first(open.model(), config);
    want = reply(first).ids;
    first.save_prefix(file, prompt);
  }
  for (const CallKind kind : {CallKind::write, CallKind::map}) {
    for (int n = 1; n <= 4; ++n) {
      SCOPED_TRACE(fmt::format("{} call {}", test::name_of(kind), n));
      open.renew();
      Engine engine(open.model(), config);
      test::clear_faults();
      test::inject({.kind = kind, .nth = n, .lasting = true});
      const bool failed = test::caught([&] { engine.load_prefix(file); }).has_value();
      const bool reached = test::failed_calls() > 0;
      test::clear_faults();
      EXPECT_EQ(failed, reached);
      if (open.context().health()->lost()) continue;
      const test::Result result = reply(engine);
      EXPECT_EQ(result.cached_tokens, failed ? 0 : 32);
      EXPECT_EQ(result.ids, want);
      EXPECT_EQ(engine.statistics().used_pages, 0);
      EXPECT_EQ(engine.load_prefix(file), 32);
    }
  }
}

TEST(Generator, ReportsAsManyAlternativesAsEachGenerationRequests) {
  FaultyModel open;
  open.renew();
  Generator generator(open.model(), nullptr, 32);
  const std::vector<std::int32_t> prompt{5, 6, 7};
  const auto alternatives = [&](std::int64_t count) {
    return generator.generate(prompt, {.max_tokens = 1, .sampling = {.top_logprobs = count}})
        .top_logprobs.at(0);
  };
  const auto two = alternatives(2);
  ASSERT_EQ(alternatives(3).size(), 3U);
  const auto again = alternatives(2);
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[1].id, two[1].id);
}

}  // namespace
}  // namespace clora

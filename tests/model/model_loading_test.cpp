// Loads and prompts that the caller observes and stops.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "clora/model/generation/generator.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

class ModelLoading : public testing::Test {
 protected:
  ModelLoading() {
    test::write_tiny_model(folder_.path(), test::tiny_models().front().config);
    files_ = std::make_unique<WeightFiles>(WeightFiles::open(folder_.path()));
  }

  std::vector<double> fractions_of_a_load() {
    std::vector<double> fractions;
    const LanguageModel model(context_, *files_, {.progress = [&](double fraction) {
                                fractions.push_back(fraction);
                                return true;
                              }});
    return fractions;
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<WeightFiles> files_;
  Context context_{config_from_environment()};
};

TEST_F(ModelLoading, ReportsItsProgressFromNothingToAll) {
  const std::vector<double> fractions = fractions_of_a_load();
  EXPECT_EQ(fractions.size(), files_->all().size() + 1);
  EXPECT_EQ(fractions.front(), 0);
  EXPECT_EQ(fractions.back(), 1);
  EXPECT_TRUE(std::ranges::is_sorted(fractions));
}

TEST_F(ModelLoading, StopsAtItsCallersRequestAndFreesItsMemory) {
  const std::size_t calls = fractions_of_a_load().size();
  for (std::size_t stop = 1; stop <= calls; ++stop) {
    std::size_t call = 0;
    const LoadOptions options{.progress = [&](double) { return ++call < stop; }};
    CLORA_EXPECT_ERROR(LanguageModel(context_, *files_, options), ErrorCode::cancelled,
                       "loading was cancelled at");
    EXPECT_EQ(call, stop);
    EXPECT_EQ(context_.pool().statistics().in_use_bytes, 0U);
  }
  EXPECT_NO_THROW(LanguageModel(context_, *files_));
}

TEST_F(ModelLoading, LetsAnExceptionOfItsCallerThrough) {
  const LoadOptions options{.progress = [](double) -> bool { throw std::runtime_error("mine"); }};
  EXPECT_THROW(LanguageModel(context_, *files_, options), std::runtime_error);
  EXPECT_EQ(context_.pool().statistics().in_use_bytes, 0U);
}

TEST_F(ModelLoading, StopsALongPromptBetweenItsChunks) {
  LanguageModel model(context_, *files_);
  Generator generator(model, nullptr, 700);
  std::vector<std::int32_t> prompt(600, 3);
  std::vector<std::int64_t> seen;
  GenerationConfig config{.max_tokens = 2};
  config.on_prompt = [&](std::int64_t done) {
    seen.push_back(done);
    return done < 512;
  };
  const Generation stopped = generator.generate(prompt, config);
  EXPECT_EQ(stopped.finish_reason, FinishReason::cancelled);
  EXPECT_TRUE(stopped.ids.empty());
  EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 256, 512}));
  // The stopped prompt does not affect the next one.
  const std::vector<std::int32_t> next{1, 2, 3};
  Generator fresh(model, nullptr, 700);
  EXPECT_EQ(generator.generate(next, {.max_tokens = 4}).ids,
            fresh.generate(next, {.max_tokens = 4}).ids);
}

}  // namespace
}  // namespace clora

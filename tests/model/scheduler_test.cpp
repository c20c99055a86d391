// The scheduler and the layout of its steps, without a device.
#include "model/generation/scheduler.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "model/generation/prompt_lookup.hpp"
#include "model/generation/step_layout.hpp"
#include "tests/support/scheduled_step.hpp"

namespace clora {
namespace {

using Ids = std::vector<std::int32_t>;

class SchedulerTest : public testing::Test {
 protected:
  void open(std::int64_t pages, std::int64_t sequences = 3, std::int64_t step_tokens = 20) {
    pool_.emplace(pages, 4);
    SchedulerConfig config{
        .max_sequences = sequences, .max_positions = 64, .step_tokens = step_tokens};
    config.prompt_rows = [this](std::int64_t rows) { return std::min(rows, prompt_rows_); };
    scheduler_.emplace(config, *pool_);
  }
  Sequence& add(std::size_t prompt, std::int64_t max_tokens = 10) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = ++next_;
    sequence->request.max_tokens = max_tokens;
    sequence->request.prompt.assign(prompt, static_cast<std::int32_t>(next_));
    sequence->tokens = sequence->request.prompt;
    return scheduler_->add(std::move(sequence));
  }
  StepPlan step() { return test::scheduled_step(*scheduler_); }

  std::optional<PagePool> pool_;
  std::optional<Scheduler> scheduler_;
  std::int64_t prompt_rows_ = 1000;
  RequestId next_ = 0;
};

TEST_F(SchedulerTest, AdmitsInTheOrderOfArrivalWithinTheBudget) {
  open(40);
  Sequence &first = add(8), &second = add(16), &third = add(4);
  const StepPlan plan = step();
  ASSERT_EQ(plan.prompts.size(), 2U);
  EXPECT_EQ(plan.prompts[0].sequence, &first);
  EXPECT_TRUE(plan.prompts[0].draws);
  EXPECT_EQ(plan.prompts[1].sequence, &second);
  EXPECT_EQ(plan.prompts[1].count, 12) << "the rest of the budget of 20";
  EXPECT_FALSE(plan.prompts[1].draws);
  EXPECT_FALSE(third.is_running());
}

TEST_F(SchedulerTest, DecodesBesideTheRestOfAPrompt) {
  open(40);
  Sequence &first = add(8), &second = add(16), &third = add(4);
  step();
  const StepPlan plan = step();
  ASSERT_EQ(plan.decoding.size(), 1U);
  EXPECT_EQ(plan.decoding[0].sequence, &first);
  EXPECT_EQ(plan.decoding[0].begin, 8);
  ASSERT_EQ(plan.prompts.size(), 2U);
  EXPECT_EQ(plan.prompts[0].sequence, &second);
  EXPECT_EQ(plan.prompts[0].begin, 12);
  EXPECT_EQ(plan.prompts[0].count, 4);
  EXPECT_EQ(plan.prompts[1].sequence, &third);
}

TEST_F(SchedulerTest, CutsPromptsToTheRowsOfARecordedStep) {
  open(40);
  Sequence &first = add(8), &second = add(10);
  prompt_rows_ = 11;
  const StepPlan plan = step();
  ASSERT_EQ(plan.prompts.size(), 2U);
  EXPECT_EQ(plan.prompts[1].count, 3);
  EXPECT_FALSE(plan.prompts[1].draws);
  EXPECT_EQ(first.remaining(), 1);
  EXPECT_EQ(second.remaining(), 7);
}

TEST_F(SchedulerTest, LetsNothingOvertakeARequestThatWaitsForPages) {
  open(6);
  add(16);
  Sequence &large = add(12), &small = add(1);
  step();
  EXPECT_FALSE(large.is_running());
  EXPECT_FALSE(small.is_running());
  scheduler_->remove(*scheduler_->sequences().front());
  step();
  EXPECT_TRUE(large.is_running());
  EXPECT_TRUE(small.is_running());
}

TEST_F(SchedulerTest, WaitsForAPrefixThatAnEarlierRequestComputes) {
  open(40);
  add(17);
  Sequence &second = add(17), &third = add(3);
  second.tokens = scheduler_->sequences().front()->tokens;
  second.tokens.back() = 9;
  step();
  EXPECT_FALSE(second.is_running()) << "it would compute its first three tokens";
  EXPECT_FALSE(third.is_running());
  const StepPlan plan = step();
  ASSERT_EQ(plan.prompts.size(), 2U);
  EXPECT_EQ(plan.prompts[0].sequence, &second);
  EXPECT_EQ(plan.prompts[0].begin, 16);
  EXPECT_EQ(plan.prompts[0].count, 1);
  EXPECT_EQ(plan.prompts[1].sequence, &third);
}

TEST_F(SchedulerTest, WaitsUntilAllPagesThatAreTheSameAreComputed) {
  open(40);
  Sequence &first = add(26), &second = add(26);
  second.tokens = first.tokens;
  second.tokens.back() = 9;  // after six pages, and a token more
  step();
  step();
  EXPECT_EQ(first.remaining(), 1);
  EXPECT_FALSE(second.is_running()) << "five pages had been computed before that step";
  step();
  EXPECT_TRUE(second.is_running());
  EXPECT_EQ(second.cached_tokens, 24);
}

TEST_F(SchedulerTest, DoesNotWaitForKeysThatItCannotUse) {
  for (const bool of_other_adapter : {false, true}) {
    open(40);
    add(17);
    Sequence& second = add(17);
    if (of_other_adapter) {
      second.tokens = scheduler_->sequences().front()->tokens;
      second.adapters.content = {.low = 1};
    } else {
      second.tokens[0] = 9;
    }
    step();
    EXPECT_EQ(second.computed, 3) << of_other_adapter;
  }
}

TEST_F(SchedulerTest, TakesPagesFromTheLatestRequestAndRunsItAgainFromItsTokens) {
  open(4);
  Sequence &first = add(7, 30), &second = add(6, 30);
  step();
  EXPECT_TRUE(second.is_running());
  while (second.is_running()) step();
  EXPECT_EQ(scheduler_->preemptions(), 1U);
  EXPECT_TRUE(first.is_running());
  EXPECT_EQ(second.computed, 0);
  EXPECT_GT(second.known(), 6);
  const std::int64_t known = second.known();
  scheduler_->remove(first);
  const StepPlan plan = step();
  ASSERT_EQ(plan.prompts.size(), 1U);
  EXPECT_EQ(plan.prompts[0].begin + plan.prompts[0].count, known);
  EXPECT_TRUE(plan.prompts[0].draws);
}

TEST_F(SchedulerTest, WaitsForPendingTokensBeforeItTakesTheirPages) {
  open(4);
  add(7, 30);
  Sequence& second = add(7, 30);
  step();
  ++second.pending;
  while (const auto plan = scheduler_->plan()) {
    for (const Chunk& chunk : plan->decoding) {
      if (chunk.sequence == &second) continue;
      chunk.sequence->pending = 0;
      chunk.sequence->tokens.push_back(1);
    }
    ASSERT_FALSE(plan->empty());
  }
  EXPECT_TRUE(second.is_running());
  EXPECT_EQ(scheduler_->preemptions(), 0U);
}

// On a GPU the token of a step is still pending when the next one is planned.
TEST_F(SchedulerTest, PublishesAPageWhoseLastTokenWasPendingWhenItWasComputed) {
  open(40);
  Sequence& first = add(3);
  for (int step = 0; step < 2; ++step) {  // the prompt, and the token drawn from it
    ASSERT_TRUE(scheduler_->plan());
  }
  ASSERT_EQ(first.computed, 4);
  first.tokens.push_back(1);
  first.pending = 1;
  const Ids tokens = first.tokens;
  scheduler_->remove(first);
  Digest none;
  EXPECT_EQ(pool_->acquire_prefix(none, tokens, tokens.size()).size(), 1U);
}

TEST_F(SchedulerTest, DrawsNoMoreThanARequestWants) {
  open(40);
  Sequence& sequence = add(4, 2);
  step();
  step();
  EXPECT_EQ(sequence.drawn(), 2);
  EXPECT_TRUE(step().empty());
}

using Rows = std::map<std::int64_t, std::int64_t>;  // given rows, and those that are recorded

TEST(StepLayout, RoundsRowsUpToFewShapes) {
  const ShapeRules cpu{}, gpu{.pads_to_powers_of_two = true};
  for (const auto& [rows, rounded] : Rows{{5, 5}, {9, 12}, {40, 48}, {65, 128}}) {
    EXPECT_EQ(cpu.rounded(rows), rounded) << rows;
  }
  for (const auto& [rows, rounded] : Rows{{0, 0}, {5, 8}, {64, 64}, {65, 128}}) {
    EXPECT_EQ(gpu.rounded(rows), rounded) << rows;
  }
}

TEST(StepLayout, FillsRecordedStepsOfPromptsByMoreThanAHalf) {
  const Rows filled{{7, 7}, {20, 16}, {40, 40}, {100, 64}, {200, 200}, {600, 600}};
  for (const auto& [rows, taken] : filled) EXPECT_EQ(ShapeRules{}.prompt_rows(rows), taken) << rows;
}

TEST(PromptLookup, GivesWhatFollowedTheLatestOccurrenceOfTheLastTokens) {
  EXPECT_EQ(look_up_continuation(Ids{1, 2, 3, 9, 1, 2, 3, 4, 5, 1, 2, 3}, 2), (Ids{4, 5}));
  EXPECT_EQ(look_up_continuation(Ids{7, 1, 2, 8, 9, 1, 2}, 9), (Ids{8, 9, 1, 2}));
  EXPECT_EQ(look_up_continuation(Ids{1, 2, 3}, 4), Ids{});
  EXPECT_EQ(look_up_continuation(Ids{1, 2, 1, 2}, 0), Ids{});
  EXPECT_EQ(look_up_continuation(Ids{}, 4), Ids{});
}

}  // namespace
}  // namespace clora

// The plan of a run's memory against the run.
#include "clora/model/training/memory_planner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clora/model/generation/generator.hpp"
#include "clora/model/training/evaluator.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora::test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kRows = 1024;

class Plans : public testing::Test {
 protected:
  Plans() {
    ModelConfig config = tiny_config("Llama");
    config.layers = 5;
    config.intermediate_size = 512;
    write_tiny_model(folder_.path(), config);
    files_.emplace(WeightFiles::open(folder_.path()));
    run_.context = config_from_environment();
    run_.files = &*files_;
    run_.make_adapter = [](Context& context, const ModelConfig& model) {
      return Adapter(context, adapter_sites(model), {.rank = 4});
    };
  }

  PackedRows document(std::int64_t rows) const {
    Record record;
    for (std::int64_t i = 0; i < rows; ++i) {
      record.ids.push_back(static_cast<std::int32_t>(i * 7 % 60));
      record.is_target.push_back(i > 0);
    }
    const std::vector<Record> records{record};
    return pack_rows(records, static_cast<std::size_t>(rows));
  }

  // Of a run that takes a step; its context has this limit, if it is not 0.
  std::size_t measured_peak(const MemoryPolicy& policy, std::size_t limit_bytes = 0) {
    ContextConfig config = run_.context;
    if (limit_bytes > 0) config.memory_limit_bytes = limit_bytes;
    Context context(config);
    LanguageModel model(context, *files_);
    Adapter adapter = run_.make_adapter(context, model.config());
    Trainer trainer(model, adapter, {.policy = policy});
    const std::vector<PackedRows> rows{document(kRows)};
    (void)trainer.step(rows, 1e-3);
    (void)trainer.drain();
    return context.pool().statistics().high_water_bytes;
  }

  TemporaryFolder folder_;
  std::optional<WeightFiles> files_;
  PlannedRun run_;
};

TEST_F(Plans, AreTheMemoryOfTheRun) {
  MemoryPlanner planner(run_);
  for (const MemoryPolicy& policy : candidate_policies(planner.model(), kRows)) {
    const PolicyPlan plan = planner.plan(policy, rows_of_document(kRows));
    EXPECT_EQ(plan.peak_bytes, measured_peak(policy)) << text_of(policy);
    EXPECT_LE(measured_peak(policy, plan.limit_bytes), plan.limit_bytes) << text_of(policy);
    EXPECT_GT(plan.peak_bytes, planner.fixed_bytes());
  }
}

// Replies have a cache, and choices steps, beside the memory of the training steps.
TEST_F(Plans, CountWhatValidationsTake) {
  const std::size_t without = MemoryPlanner(run_).plan({}, rows_of_document(64)).peak_bytes;
  constexpr std::int64_t kPositions = 3000;
  const auto measured = [&](bool replies) {
    Context context(run_.context);
    LanguageModel model(context, *files_);
    Adapter adapter = run_.make_adapter(context, model.config());
    Trainer trainer(model, adapter, {});
    trainer.prepare(rows_of_document(64));
    if (replies) {
      Generator generator(model, &adapter, kPositions);
      const std::vector<std::int32_t> prompt(700, 5);
      (void)generator.generate(prompt, {.max_tokens = 3});
    } else {
      (void)Evaluator(model, &adapter).loss_sum(document(kRows));
    }
    return context.pool().statistics().high_water_bytes;
  };
  const auto expect_plan = [&](bool replies) {
    const std::size_t planned = MemoryPlanner(run_).plan({}, rows_of_document(64)).peak_bytes;
    EXPECT_GT(planned, without + (replies ? 100'000U : 1'000'000U));
    EXPECT_GE(planned, measured(replies));
    EXPECT_LT(static_cast<double>(planned), 1.2 * static_cast<double>(measured(replies)));
  };
  run_.reply_positions = kPositions;
  expect_plan(true);
  run_.reply_positions = 0;
  run_.scored = rows_of_document(kRows);
  expect_plan(false);
}

TEST_F(Plans, FailAsTheRunDoesBelowTheirLimit) {
  const MemoryPolicy policy{.blocks_per_checkpoint = 1};
  const PolicyPlan plan = MemoryPlanner(run_).plan(policy, rows_of_document(kRows));
  CLORA_EXPECT_ERROR(measured_peak(policy, plan.peak_bytes / 10 * 9), ErrorCode::out_of_memory,
                     "buffer pool: ");
}

TEST_F(Plans, ReadNoWeightsAndAllocateNothing) {
  std::size_t allocated = 0;
  run_.context.hooks.allocation = [&](const AllocationEvent&) { ++allocated; };
  MemoryPlanner planner(run_);
  (void)planner.plan({}, rows_of_document(std::int64_t{1} << 20U));  // would not fit
  EXPECT_EQ(allocated, 0U);
}

TEST_F(Plans, ChooseTheFastestPolicyThatFits) {
  MemoryPlanner planner(run_);
  const WantedRows wanted = rows_of_document(kRows);
  EXPECT_EQ(choose_policy(run_, wanted).policy, MemoryPolicy{});
  for (const MemoryPolicy& policy :
       {MemoryPolicy{.blocks_per_checkpoint = 1}, MemoryPolicy{.blocks_per_checkpoint = 2}}) {
    run_.context.memory_limit_bytes = planner.plan(policy, wanted).peak_bytes + (4U << 20U);
    const PolicyPlan chosen = choose_policy(run_, wanted);
    EXPECT_LE(chosen.policy.blocks_per_checkpoint, policy.blocks_per_checkpoint);
    EXPECT_NE(chosen.policy, MemoryPolicy{});
    EXPECT_LE(measured_peak(chosen.policy, run_.context.memory_limit_bytes), chosen.limit_bytes);
  }
}

TEST_F(Plans, RefuseWhatCannotFitWithWhatWould) {
  run_.context.memory_limit_bytes = MemoryPlanner(run_).fixed_bytes() + (std::size_t{8} << 20U);
  const std::string error = error_of([&] { choose_policy(run_, rows_of_document(16 * kRows)); });
  EXPECT_THAT(error, HasSubstr("memory plan: a step of 16384 rows needs "));
  EXPECT_THAT(error, HasSubstr("use at most "));
  const std::int64_t longest =
      MemoryPlanner(run_).longest_document({.blocks_per_checkpoint = 1, .saved = SavedType::q8});
  ASSERT_GT(longest, 0);
  EXPECT_NO_THROW(choose_policy(run_, rows_of_document(longest)));
  CLORA_EXPECT_ERROR(plan_policy(run_, {}, rows_of_document(16 * kRows)), ErrorCode::out_of_memory,
                     "with everything kept");
}

TEST_F(Plans, DoNotDependOnEarlierOnes) {
  MemoryPlanner planner(run_);
  const std::size_t bytes = planner.plan({}, rows_of_document(kRows)).peak_bytes;
  (void)planner.plan({}, rows_of_document(50 * kRows));
  EXPECT_EQ(planner.plan({}, rows_of_document(kRows)).peak_bytes, bytes);
}

TEST_F(Plans, TakeLongerForWhatIsRecomputed) {
  run_.peaks = {.copy_bytes_per_second = 1e10, .f32_flops_per_second = 1e11};
  MemoryPlanner planner(run_);
  const auto seconds = [&](const MemoryPolicy& policy) {
    return planner.plan(policy, rows_of_document(kRows)).roofline_seconds;
  };
  const double kept = seconds({}), once = seconds({.blocks_per_checkpoint = 1});
  const double twice = seconds({.blocks_per_checkpoint = 2});
  EXPECT_GT(kept, 0);
  EXPECT_GT(once, kept * 1.1);
  EXPECT_LT(once, kept * 1.5);
  EXPECT_GT(twice, once);
}

}  // namespace
}  // namespace clora::test

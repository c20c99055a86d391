#include "model/training_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lora/peft_files.hpp"
#include "model/fuse.hpp"
#include "model/generator.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_models.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

using test::error_of;
using testing::HasSubstr;

Records some_records(std::size_t count, std::int64_t vocabulary) {
  Records records;
  for (std::size_t i = 0; i < count; ++i) {
    Record record;
    for (std::size_t t = 0; t < 5 + i % 7; ++t) {
      record.ids.push_back(
          static_cast<std::int32_t>((i * 31 + t * 17) % static_cast<std::size_t>(vocabulary)));
      record.is_target.push_back(t == 0 ? 0 : 1);
    }
    records.records.push_back(std::move(record));
  }
  return records;
}

class TrainingRun : public testing::Test {
 protected:
  TrainingRun() {
    test::write_tiny_model(folder_ / "model", test::tiny_models().front().config);
    open_ = std::make_unique<test::OpenModel>(folder_ / "model");
    records_ = some_records(22, open_->model.config().vocabulary);
  }

  Adapter new_adapter(double dropout = 0) {
    Adapter adapter(open_->model.context(), adapter_sites(open_->model.config()),
                    {.rank = 4, .dropout = dropout});
    adapter.initialise(11);
    return adapter;
  }

  TrainingRunConfig config(const std::string& out) {
    TrainingRunConfig c;
    c.batch_size = 4;
    c.steps = 9;
    c.learning_rate = 1e-2;
    c.seed = 5;
    c.adapter_out = folder_ / out;
    return c;
  }

  std::vector<float> parameters(const Adapter& adapter) {
    return open_->model.context().read<float>(adapter.parameters());
  }

  // Losses of all steps.
  std::vector<double> run(Adapter& adapter, const TrainingRunConfig& c,
                          const std::filesystem::path& resume = {}) {
    std::vector<double> losses;
    const TrainingCallbacks callbacks{
        .on_step = [&](const StepResult& step, double) { losses.push_back(step.loss); },
        .on_eval = {},
        .on_save = {},
        .should_stop = {}};
    run_training(open_->model, adapter, records_, nullptr, c, resume, callbacks);
    return losses;
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<test::OpenModel> open_;
  Records records_;
};

TEST_F(TrainingRun, LowersTheLoss) {
  Adapter adapter = new_adapter();
  TrainingRunConfig c = config("out");
  c.steps = 40;
  c.shuffle = false;
  const std::vector<double> losses = run(adapter, c);
  ASSERT_EQ(losses.size(), 40U);
  EXPECT_LT(losses.back(), 0.8 * losses.front());
}

TEST_F(TrainingRun, GivesTheSameBitsForTheSameSeedAndOthersForAnother) {
  const auto trained = [&](std::uint64_t seed) {
    Adapter adapter = new_adapter(0.2);
    TrainingRunConfig c = config("out");
    c.seed = seed;
    run(adapter, c);
    return parameters(adapter);
  };
  const std::vector<float> first = trained(5);
  EXPECT_EQ(first, trained(5));
  EXPECT_NE(first, trained(6));
}

TEST_F(TrainingRun, ResumedGoesOnBitForBitAsIfUnbroken) {
  Adapter unbroken = new_adapter(0.1);
  TrainingRunConfig c = config("unbroken");
  c.schedule = Schedule::cosine;
  c.warmup_steps = 2;
  c.clip_norm = 1;
  c.weight_decay = 0.01;
  c.save_every = 4;
  const std::vector<double> losses = run(unbroken, c);
  for (const char* from : {"checkpoint-4", "checkpoint-8"}) {
    Adapter resumed = new_adapter(0.1);
    TrainingRunConfig again = c;
    again.adapter_out = folder_ / "resumed";
    const std::vector<double> rest = run(resumed, again, folder_ / "unbroken" / from);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(),
                           losses.end() - static_cast<std::ptrdiff_t>(rest.size())));
    EXPECT_EQ(parameters(resumed), parameters(unbroken)) << from;
  }
}

TEST_F(TrainingRun, RefusesACheckpointOfOtherSettings) {
  Adapter adapter = new_adapter();
  TrainingRunConfig c = config("out");
  c.save_every = 4;
  run(adapter, c);
  c.learning_rate = 5e-3;
  EXPECT_THAT(error_of([&] { run(adapter, c, folder_ / "out" / "checkpoint-4"); }),
              HasSubstr("other settings"));
}

TEST_F(TrainingRun, WeighsAccumulatedBatchesByTheirTokens) {
  // Micro-batches of 2 and 2 records with different numbers of tokens, against one batch of 4.
  Adapter whole = new_adapter();
  TrainingRunConfig c = config("whole");
  c.shuffle = false;
  c.steps = 3;
  const std::vector<double> losses = run(whole, c);
  Adapter parts = new_adapter();
  c.batch_size = 2;
  c.grad_accumulation = 2;
  c.adapter_out = folder_ / "parts";
  const std::vector<double> accumulated = run(parts, c);
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(accumulated[i], losses[i], 1e-5);
  const std::vector<float> a = parameters(whole);
  const std::vector<float> b = parameters(parts);
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-3);
}

TEST_F(TrainingRun, StopsWithACheckpointWhenAsked) {
  Adapter adapter = new_adapter();
  int steps = 0;
  std::filesystem::path saved;
  const TrainingCallbacks callbacks{
      .on_step = {},
      .on_eval = {},
      .on_save = [&](std::int64_t, const std::filesystem::path& path) { saved = path; },
      .should_stop = [&] { return ++steps == 3; }};
  const TrainingSummary summary =
      run_training(open_->model, adapter, records_, nullptr, config("out"), {}, callbacks);
  EXPECT_TRUE(summary.stopped);
  EXPECT_EQ(summary.steps, 3);
  EXPECT_EQ(saved, folder_ / "out" / "checkpoint-3");
  Adapter unbroken = new_adapter();
  run(unbroken, config("unbroken"));
  Adapter resumed = new_adapter();
  run(resumed, config("out"), saved);
  EXPECT_EQ(parameters(resumed), parameters(unbroken));
}

TEST_F(TrainingRun, ThatDivergesNamesTheStepAndLeavesWhatWasSaved) {
  Adapter adapter = new_adapter();
  TrainingRunConfig c = config("out");
  c.save_every = 1;
  c.learning_rate = 1e30;
  const std::string message = error_of([&] { run(adapter, c); });
  EXPECT_THAT(message, HasSubstr("training: step"));
  EXPECT_THAT(message, HasSubstr("lower --lr"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / "adapter_config.json"));
}

TEST_F(TrainingRun, EvaluatesOnTheValidSetWhenDue) {
  Adapter adapter = new_adapter();
  const Records valid = some_records(3, 50);
  std::vector<std::int64_t> at;
  TrainingRunConfig c = config("out");
  c.eval_every = 4;
  const TrainingCallbacks callbacks{.on_step = {},
                                    .on_eval = [&](const EvalResult& e) { at.push_back(e.step); },
                                    .on_save = {},
                                    .should_stop = {}};
  run_training(open_->model, adapter, records_, &valid, c, {}, callbacks);
  EXPECT_THAT(at, testing::ElementsAre(4, 8, 9));
}

TEST_F(TrainingRun, ChangesTheLogitsAndMergedAgreesWithUnmerged) {
  Adapter adapter = new_adapter();
  run(adapter, config("out"));
  const std::vector<std::int32_t> prompt{3, 20, 37, 54, 4};
  const std::vector<float> base = Generator(open_->model, nullptr, 32).logits(prompt);
  const std::vector<float> adapted = Generator(open_->model, &adapter, 32).logits(prompt);
  double largest = 0;
  for (std::size_t i = 0; i < base.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(base[i]) - adapted[i]));
  }
  EXPECT_GT(largest, 1e-2);

  write_fused_model(open_->files, adapter, folder_ / "fused");
  test::OpenModel fused(folder_ / "fused");
  test::expect_logits(Generator(fused.model, nullptr, 32).logits(prompt), test::to_double(adapted),
                      1e-5);
}

TEST_F(TrainingRun, GivesTheSameLossPackedOrOneRecordAtATime) {
  Evaluator evaluator(open_->model, nullptr);
  const EvalResult packed = evaluator.evaluate(records_);
  double alone = 0;
  for (std::size_t i = 0; i < records_.records.size(); ++i) {
    alone += evaluator.loss_sum(pack_records(records_, std::array{i}, 0));
  }
  EXPECT_NEAR(packed.loss, alone / static_cast<double>(packed.tokens), 1e-6);
}

TEST_F(TrainingRun, LetsNoTokenSeeAnotherDocument) {
  Evaluator evaluator(open_->model, nullptr);
  Records pair;
  pair.records = {records_.records[3], records_.records[5]};
  PackedRows rows = pack_records(pair, std::array<std::size_t, 2>{0, 1}, 0);
  // Only the second document counts; the first one's ids then must not matter.
  const std::size_t border = pair.records[0].ids.size();
  for (std::size_t t = 0; t < border; ++t) rows.targets[t] = -1;
  const double loss = evaluator.loss_sum(rows);
  for (std::size_t t = 0; t < border; ++t) rows.ids[t] = 60 - static_cast<std::int32_t>(t);
  EXPECT_EQ(evaluator.loss_sum(rows), loss);
}

TEST(LearningRate, WarmsUpThenFollowsItsSchedule) {
  TrainingRunConfig c;
  c.learning_rate = 1;
  c.warmup_steps = 4;
  EXPECT_DOUBLE_EQ(learning_rate_at(c, 1, 12), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate_at(c, 4, 12), 1);
  EXPECT_DOUBLE_EQ(learning_rate_at(c, 12, 12), 1);
  c.schedule = Schedule::linear;
  EXPECT_DOUBLE_EQ(learning_rate_at(c, 5, 12), 1);
  EXPECT_DOUBLE_EQ(learning_rate_at(c, 9, 12), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(c, 12, 12), 0.125);
  c.schedule = Schedule::cosine;
  EXPECT_DOUBLE_EQ(learning_rate_at(c, 9, 12), 0.5);
}

TEST(TotalSteps, AreCountedFromEpochsOrGiven) {
  TrainingRunConfig c;
  c.batch_size = 4;
  c.epochs = 2.5;
  EXPECT_EQ(total_steps(c, 22), 15);  // 6 steps an epoch
  c.steps = 7;
  EXPECT_EQ(total_steps(c, 22), 7);
}

}  // namespace
}  // namespace clora

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "clora/model/generation/generator.hpp"
#include "clora/model/weights/fuse.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/owned_records.hpp"
#include "tests/support/training_runs.hpp"

namespace clora {
namespace {

using test::error_of;
using testing::HasSubstr;

using test::some_records;

class TrainingRun : public test::TrainingRunTest {};

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

TEST_F(TrainingRun, ResumedContinuesBitForBit) {
  TrainingRunConfig c = config("unbroken");
  c.batch_size = 2;  // 11 micro-batches per epoch: its last step has one
  c.grad_accumulation = 2;
  c.schedule = Schedule::cosine;
  c.warmup_steps = 2;
  c.clip_norm = 1;
  c.weight_decay = 0.01;
  c.save_every = 4;
  expect_resumed_runs_continue_bit_for_bit(c);
}

TEST_F(TrainingRun, RefusesACheckpointOfOtherSettings) {
  Adapter adapter = new_adapter();
  TrainingRunConfig c = config("out");
  c.save_every = 4;
  run(adapter, c);
  c.learning_rate = 5e-3;
  EXPECT_THAT(error_of([&] { run(adapter, c, folder_ / "out" / "checkpoint-4"); }),
              HasSubstr("different settings"));
}

TEST_F(TrainingRun, WeighsAccumulatedBatchesByTheirTokens) {
  // Micro-batches of 2 and 2 records with different numbers of tokens, compared with one batch of
  // 4.
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

TEST_F(TrainingRun, StopsWithACheckpointOnRequest) {
  Adapter adapter = new_adapter();
  int steps = 0;
  std::filesystem::path saved;
  const TrainingCallbacks callbacks{
      .on_step = {},
      .on_eval = {},
      .on_save = [&](std::int64_t, const std::filesystem::path& path) { saved = path; },
      .should_stop = [&] { return steps++ == 3; }};  // also called before the first step
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

TEST_F(TrainingRun, StoppedBeforeItsFirstStepWritesNothing) {
  Adapter adapter = new_adapter();
  const std::vector<float> before = parameters(adapter);
  const TrainingCallbacks callbacks{
      .on_step = {}, .on_eval = {}, .on_save = {}, .should_stop = [] { return true; }};
  const TrainingSummary summary =
      run_training(open_->model, adapter, records_, nullptr, config("out"), {}, callbacks);
  EXPECT_TRUE(summary.stopped);
  EXPECT_EQ(summary.steps, 0);
  EXPECT_EQ(parameters(adapter), before);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(TrainingRun, ThatDivergesNamesTheStepAndLeavesWhatWasSaved) {
  Adapter adapter = new_adapter();
  TrainingRunConfig c = config("out");
  c.save_every = 1;
  c.learning_rate = 1e30;
  const std::string message = error_of([&] { run(adapter, c); });
  EXPECT_THAT(message, HasSubstr("training: step"));
  EXPECT_THAT(message, HasSubstr("lower `learning_rate`"));
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

TEST_F(TrainingRun, WithoutAFolderSavesNothing) {
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::create_directory(folder_ / "empty");
  std::filesystem::current_path(folder_ / "empty");
  Adapter adapter = new_adapter();
  const std::vector<float> first = parameters(adapter);
  TrainingRunConfig c = config("");
  c.adapter_out.clear();
  run(adapter, c);
  EXPECT_NE(parameters(adapter), first);
  const TrainingSummary stopped =
      run_training(open_->model, adapter, records_, nullptr, c, {},
                   {.should_stop = [n = 0]() mutable { return ++n > 3; }});
  EXPECT_TRUE(stopped.stopped);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "empty"));
  c.save_every = 2;
  EXPECT_THAT(error_of([&] { run(adapter, c); }), HasSubstr("`adapter_out`, which is empty"));
  std::filesystem::current_path(here);
}

TEST_F(TrainingRun, GivesTheSameLossPackedOrOneRecordAtATime) {
  Evaluator evaluator(open_->model, nullptr);
  const EvalResult packed = evaluator.evaluate(records_);
  double alone = 0;
  for (std::size_t i = 0; i < records_.records.size(); ++i) {
    alone += evaluator.loss_sum(pack_records(records_, std::array{i}));
  }
  EXPECT_NEAR(packed.loss, alone / static_cast<double>(packed.tokens), 1e-6);
}

TEST_F(TrainingRun, LetsNoTokenSeeAnotherDocument) {
  Evaluator evaluator(open_->model, nullptr);
  Records pair;
  pair.records = {records_.records[3], records_.records[5]};
  PackedRows rows = pack_records(pair, std::array<std::size_t, 2>{0, 1});
  // Only the second document is labelled, so the ids of the first must not matter.
  const std::size_t border = pair.records[0].ids.size();
  for (std::size_t t = 0; t < border; ++t) rows.targets[t] = -1;
  const double loss = evaluator.loss_sum(rows);
  for (std::size_t t = 0; t < border; ++t) rows.ids[t] = 60 - static_cast<std::int32_t>(t);
  EXPECT_EQ(evaluator.loss_sum(rows), loss);
}

TEST_F(TrainingRun, ThatEndsWithAnInfiniteAdapterSavesNothing) {
  Adapter adapter = new_adapter();
  TrainingRunConfig c = config("out");
  c.steps = 1;  // the loss is finite
  c.learning_rate = 1e39;
  CLORA_EXPECT_ERROR(run(adapter, c), ErrorCode::diverged, "after step 1 the adapter's lora_A");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(TrainingRun, SavesTheAdapterBeforeTheLastEvaluation) {
  Adapter adapter = new_adapter();
  const Records valid = some_records(3, 50);
  const TrainingCallbacks callbacks{
      .on_step = {},
      .on_eval = [](const EvalResult&) { throw Error(ErrorCode::cancelled, "stop"); },
      .on_save = {},
      .should_stop = {}};
  CLORA_EXPECT_ERROR(
      run_training(open_->model, adapter, records_, &valid, config("out"), {}, callbacks),
      ErrorCode::cancelled, "stop");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out" / "adapter_config.json"));
}

// Some of these steps have fewer micro-batches than the others, as the last step of an epoch may.
TEST_F(TrainingRun, DrawsAMaskOfItsOwnForEachMicroBatchOfTheRun) {
  Adapter adapter = new_adapter(0.5);
  const std::vector<float> values =
      test::random_values(static_cast<std::size_t>(adapter.parameters().elements()), 1);
  open_->model.context().write(adapter.parameters(), std::as_bytes(std::span(values)));
  const PackedRows rows = pack_records(records_, std::array<std::size_t, 2>{1, 2});
  const auto losses = [&](const std::vector<std::size_t>& micro_batches) {
    Trainer trainer(open_->model, adapter, {.dropout_seed = 7});
    std::vector<double> all;
    for (const std::size_t count : micro_batches) {
      trainer.step(std::vector<PackedRows>(count, rows), 0);  // the adapter stays unchanged
      all.push_back(trainer.drain().value().loss);
    }
    return all;
  };
  const std::vector<double> alone = losses(std::vector<std::size_t>(13, 1));
  EXPECT_EQ(std::set<double>(alone.begin(), alone.end()).size(), 13U);
  const std::vector<std::size_t> micro_batches{3, 3, 1, 3, 2, 1};
  const std::vector<double> together = losses(micro_batches);
  std::size_t draw = 0;
  for (std::size_t step = 0; step < micro_batches.size(); ++step) {
    double mean = 0;
    for (std::size_t i = 0; i < micro_batches[step]; ++i) mean += alone[draw++];
    mean /= static_cast<double>(micro_batches[step]);
    EXPECT_NEAR(together[step], mean, 1e-5 * mean) << "step " << step + 1;
  }
}

TEST_F(TrainingRun, RefusesRecordsWithoutATokenThatCountsBeforeTheFirstStep) {
  Adapter adapter = new_adapter();
  const auto masked = [](const Records& records, std::size_t begin) {
    std::vector<Record> all = test::owned(records.records);
    for (std::size_t i = begin; i < all.size(); ++i) {
      std::ranges::fill(all[i].is_target, std::uint8_t{0});
      all[i].is_target.front() = 1;  // nothing predicts it
    }
    return Records{.records = test::store_of(all)};
  };
  const auto train = [&](const Records& records, const Records* valid) {
    run_training(open_->model, adapter, records, valid, config("out"), {}, {});
  };
  CLORA_EXPECT_ERROR(train(masked(records_, 20), nullptr), ErrorCode::invalid_data,
                     "record 21 has no token that counts");
  const Records valid = masked(records_, 0);
  CLORA_EXPECT_ERROR(train(records_, &valid), ErrorCode::invalid_data,
                     "the held-out records: at least one token must count towards the loss");
  CLORA_EXPECT_ERROR(train(Records{}, nullptr), ErrorCode::invalid_data, "got none");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST(TotalSteps, AreCountedFromEpochsOrGiven) {
  TrainingRunConfig c;
  c.batch_size = 4;
  c.epochs = 2.5;
  EXPECT_EQ(total_steps(c, 22), 15);  // 6 steps per epoch
  c.steps = 7;
  EXPECT_EQ(total_steps(c, 22), 7);
}

TEST(TotalSteps, AreBounded) {
  TrainingRunConfig c;
  c.steps = kMaxSteps;
  EXPECT_EQ(total_steps(c, 22), kMaxSteps);
  c.steps = kMaxSteps + 1;
  CLORA_EXPECT_ERROR(total_steps(c, 22), ErrorCode::invalid_argument, "to 1000000000, got");
  c.steps = 0;
  for (const double epochs : {1e9, 1e300}) {
    c.epochs = epochs;
    CLORA_EXPECT_ERROR(total_steps(c, 22), ErrorCode::invalid_argument,
                       "exceed the limit of 1000000000");
  }
  for (const double epochs : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    c.epochs = epochs;
    CLORA_EXPECT_ERROR(total_steps(c, 22), ErrorCode::invalid_argument, "number of epochs");
  }
}

TEST(TrainingSettings, AreRefusedIfNoRunCanHaveThem) {
  const auto expect_refused = [](auto change, const char* part) {
    TrainingRunConfig c;
    change(c);
    CLORA_EXPECT_ERROR(check(c), ErrorCode::invalid_argument, part);
  };
  expect_refused([](auto& c) { c.learning_rate = std::nan(""); }, "learning rate must be finite");
  expect_refused([](auto& c) { c.weight_decay = -1; }, "weight decay must be");
  expect_refused([](auto& c) { c.clip_norm = HUGE_VAL; }, "norm of the gradient must be");
  expect_refused([](auto& c) { c.router_aux_loss_coef = -1; }, "balances experts must be");
  expect_refused([](auto& c) { c.batch_size = 0; }, "batch size must be at least 1");
  expect_refused([](auto& c) { c.grad_accumulation = -3; }, "accumulation must be at least 1");
  expect_refused([](auto& c) { c.warmup_steps = -1; }, "warm-up steps must be from 0");
  expect_refused([](auto& c) { c.eval_every = -1; }, "between evaluations must be at least 0");
  expect_refused([](auto& c) { c.patience = -1; }, "without an improvement must be at least 0");
  expect_refused([](auto& c) { c.min_improvement = -1; }, "minimum improvement must be");
  expect_refused([](auto& c) { c.patience = 1; }, "requires evaluations during the run");
  expect_refused([](auto& c) { c.save_every = -1; }, "between checkpoints must be at least 0");
}

}  // namespace
}  // namespace clora

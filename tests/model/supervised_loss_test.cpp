// Training with weights of records, label smoothing, the z-loss, NEFTune and the noise scale of the
// gradient.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/thread_ranks.hpp"
#include "clora/model/transformer/recorded_rows.hpp"
#include "model/training/gradient_noise.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/own_model.hpp"
#include "tests/support/owned_records.hpp"
#include "tests/support/training_runs.hpp"

namespace clora {
namespace {

using test::error_of;
using testing::HasSubstr;

class SupervisedTraining : public test::TrainingRunTest {
 protected:
  using Change = std::function<void(TrainerConfig&)>;

  // The result of one step from a new adapter, over micro-batches of these records.
  StepResult step_of(const std::vector<std::vector<std::size_t>>& micro_batches,
                     const Change& change = {}) {
    TrainerConfig c{.dropout_seed = 3};
    if (change) change(c);
    Adapter adapter = new_adapter();
    Trainer trainer(open_->model, adapter, c);
    std::vector<PackedRows> packed;
    for (const auto& indices : micro_batches) packed.push_back(pack_records(records_, indices));
    trainer.step(packed, 0);
    return trainer.drain().value();
  }

  void weigh(std::size_t record, float weight) {
    std::vector<Record> all = test::owned(records_.records);
    all.at(record).weight = weight;
    records_.records = test::store_of(all);
  }
};

// Twice the weight is as if the record were there twice.
TEST_F(SupervisedTraining, WeighsTheLossesOfARecord) {
  const StepResult twice = step_of({{0, 1, 1, 2}});
  const StepResult plain = step_of({{0, 1, 2}});
  weigh(1, 2);
  const StepResult weighted = step_of({{0, 1, 2}});
  EXPECT_NEAR(weighted.loss, twice.loss, 1e-6);
  EXPECT_NEAR(weighted.grad_norm, twice.grad_norm, 1e-5 * twice.grad_norm);
  EXPECT_EQ(weighted.tokens, plain.tokens);
  EXPECT_GT(std::abs(weighted.loss - plain.loss), 1e-4);
  const StepResult accumulated = step_of({{0}, {1, 2}});
  EXPECT_NEAR(accumulated.loss, twice.loss, 1e-6);
  EXPECT_NEAR(accumulated.grad_norm, twice.grad_norm, 1e-5 * twice.grad_norm);
}

TEST_F(SupervisedTraining, IsNotChangedByACommonWeight) {
  const StepResult plain = step_of({{0, 1}, {2}});
  for (std::size_t i = 0; i < 3; ++i) weigh(i, 3e38F);
  const StepResult scaled = step_of({{0, 1}, {2}});
  EXPECT_NEAR(scaled.loss, plain.loss, 1e-6);
  EXPECT_NEAR(scaled.grad_norm, plain.grad_norm, 1e-5 * plain.grad_norm);
}

TEST_F(SupervisedTraining, ReportsTheLossWithoutItsTermsToo) {
  const StepResult plain = step_of({{0, 1}, {2}});
  EXPECT_FALSE(plain.nll.has_value());
  const StepResult smoothed =
      step_of({{0, 1}, {2}}, [](TrainerConfig& c) { c.supervised.label_smoothing = 0.2; });
  EXPECT_NEAR(smoothed.nll.value(), plain.loss, 1e-6);
  EXPECT_GT(std::abs(smoothed.loss - plain.loss), 1e-4);
  EXPECT_LT(smoothed.grad_norm, plain.grad_norm);  // the targets are nearer to the first answers
  const StepResult with_z =
      step_of({{0, 1}, {2}}, [](TrainerConfig& c) { c.supervised.z_loss = 0.01; });
  EXPECT_NEAR(with_z.nll.value(), plain.loss, 1e-6);
  EXPECT_GT(with_z.loss, plain.loss + 1e-3);
  EXPECT_NE(with_z.grad_norm, plain.grad_norm);
}

// Documents of 3 and 2 tokens and 3 rows of padding.
TEST_F(SupervisedTraining, UploadsTheWeightAndTheNoiseOfEachRow) {
  std::vector<Record> records{{{7, 8, 9}, {0, 1, 1}}, {{4, 5}, {0, 1}}};
  records[1].weight = 4;
  PackedRows packed = pack_rows(records, 5);
  pad_rows(packed, 8);
  Context& context = open_->model.context();
  const RecordedRows rows(context, 8, 5);
  std::vector<std::int32_t> staging;
  rows.upload(context, packed, {.weight = 0.5, .rows = 5, .noise = 6}, staging).wait();
  EXPECT_EQ(context.read<float>(rows.weights()), (std::vector<float>{0.5F, 0.5F, 2, 0, 0}));
  const float three = 6 / std::sqrt(3.0F), two = 6 / std::sqrt(2.0F);
  EXPECT_EQ(context.read<float>(rows.noise()),
            (std::vector<float>{three, three, three, two, two, 0, 0, 0}));
  rows.upload(context, packed, {.rows = 5}, staging).wait();
  EXPECT_EQ(context.read<float>(rows.noise()), std::vector<float>(8, 0.0F));
}

TEST_F(SupervisedTraining, AddsNoiseToEmbeddingsByTheSeed) {
  const auto with = [](double alpha, std::uint32_t seed) {
    return [=](TrainerConfig& c) {
      c.supervised.neftune_alpha = alpha;
      c.dropout_seed = seed;
    };
  };
  const StepResult plain = step_of({{0, 1}}), noisy = step_of({{0, 1}}, with(5, 3));
  EXPECT_NE(noisy.loss, plain.loss);
  EXPECT_EQ(step_of({{0, 1}}, with(5, 3)).loss, noisy.loss);
  EXPECT_NE(step_of({{0, 1}}, with(5, 4)).loss, noisy.loss);
  EXPECT_EQ(step_of({{0, 1}}, with(0, 4)).loss, plain.loss);
}

// Losses and parameters of a resumed run are the same only if all draws are, and held-out losses
// have neither noise nor other terms.
TEST_F(SupervisedTraining, ResumedContinuesBitForBit) {
  weigh(2, 4);
  TrainingRunConfig c = config("unbroken");
  c.batch_size = 2;
  c.grad_accumulation = 2;
  c.save_every = 4;
  c.supervised = {.label_smoothing = 0.1, .z_loss = 1e-3, .neftune_alpha = 5};
  c.gradient_noise = true;
  expect_resumed_runs_continue_bit_for_bit(c);
  Adapter adapter = new_adapter(0.1);
  for (const auto& [name, change] : std::vector<std::pair<const char*, SupervisedLoss>>{
           {"label smoothing was 0.1 and is 0.2", {0.2, 1e-3, 5}},
           {"weight of the z-loss was 0.001 and is 0.1", {0.1, 0.1, 5}},
           {"NEFTune alpha was 5 and is 6", {0.1, 1e-3, 6}}}) {
    TrainingRunConfig other = c;
    other.supervised = change;
    EXPECT_THAT(error_of([&] { run(adapter, other, folder_ / "unbroken/checkpoint-4"); }),
                HasSubstr(name));
  }
  weigh(2, 5);
  EXPECT_THAT(error_of([&] { run(adapter, c, folder_ / "unbroken/checkpoint-4"); }),
              HasSubstr("contents of the records"));
}

TEST_F(SupervisedTraining, LeavesTheHeldOutLossPlain) {
  const auto held_out = [&](const TrainingRunConfig& c) {
    double loss = 0;
    Adapter adapter = new_adapter();
    const TrainingCallbacks callbacks{
        .on_step = {},
        .on_eval = [&](const EvalResult& result) { loss = result.loss; },
        .on_save = {},
        .should_stop = {}};
    run_training(open_->model, adapter, records_, &records_, c, {}, callbacks);
    return loss;
  };
  TrainingRunConfig c = config("out");
  c.learning_rate = 0;
  const double plain = held_out(c);
  c.supervised = {.label_smoothing = 0.3, .z_loss = 1, .neftune_alpha = 50};
  weigh(0, 7);
  EXPECT_EQ(held_out(c), plain);
}

// By the gradients of the first micro-batch and of the whole step, from steps of their own.
TEST_F(SupervisedTraining, EstimatesTheNoiseScaleOfTheGradient) {
  const std::vector<std::vector<std::size_t>> batches{{0, 1}, {2, 3}, {4}};
  const auto estimates = [](TrainerConfig& c) { c.gradient_noise = true; };
  const StepResult first = step_of({batches[0]}), all = step_of(batches);
  const StepResult got = step_of(batches, estimates);
  EXPECT_EQ(got.loss, all.loss);
  EXPECT_EQ(got.grad_norm, all.grad_norm);
  const auto b = static_cast<double>(first.tokens), B = static_cast<double>(all.tokens);
  const double small = first.grad_norm * first.grad_norm, large = all.grad_norm * all.grad_norm;
  const double gradient = (B * large - b * small) / (B - b);
  const double noise = (small - large) / (1 / b - 1 / B);
  ASSERT_GT(gradient, 0);
  ASSERT_GT(noise, 0);
  EXPECT_NEAR(got.noise_scale.value(), noise / gradient, 1e-3 * noise / gradient);
  EXPECT_FALSE(all.noise_scale.has_value());
  EXPECT_FALSE(step_of({batches[0]}, estimates).noise_scale.has_value());
}

TEST_F(SupervisedTraining, GivesTheSameOnSeveralRanks) {
  weigh(3, 4);
  weigh(8, 0.25);
  TrainingRunConfig c = config("ranks");
  c.batch_size = 2;
  c.grad_accumulation = 4;
  c.supervised = {.label_smoothing = 0.1, .z_loss = 1e-3, .neftune_alpha = 5};
  c.gradient_noise = true;
  const auto train = [&](int ranks) {
    std::vector<StepResult> results;
    run_thread_ranks(ranks, [&](Communicator& communicator) {
      test::OwnModel own(folder_ / "model");
      Adapter adapter(own.model.context(), adapter_sites(own.model.config()), {.rank = 4});
      adapter.initialise(11);
      TrainingRunConfig of_rank = c;
      if (ranks > 1) of_rank.ranks = &communicator;
      TrainingCallbacks callbacks;
      callbacks.on_step = [&](const StepResult& step, double) {
        if (communicator.rank() == 0) results.push_back(step);
      };
      run_training(own.model, adapter, records_, nullptr, of_rank, {}, callbacks);
    });
    return results;
  };
  const std::vector<StepResult> one = train(1), four = train(4);  // one micro-batch for each rank
  ASSERT_EQ(one.size(), four.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(four[i].loss, one[i].loss, 1e-5) << i;
    EXPECT_NEAR(four[i].nll.value(), one[i].nll.value(), 1e-5) << i;
    EXPECT_NEAR(four[i].grad_norm, one[i].grad_norm, 1e-4 * one[i].grad_norm) << i;
    ASSERT_EQ(four[i].noise_scale.has_value(), one[i].noise_scale.has_value()) << i;
    if (!one[i].noise_scale) continue;
    EXPECT_NEAR(*four[i].noise_scale, *one[i].noise_scale, 1e-2 * *one[i].noise_scale) << i;
  }
  const auto is_known = [](const StepResult& step) { return step.noise_scale.has_value(); };
  EXPECT_GE(std::ranges::count_if(one, is_known), 3);
}

TEST_F(SupervisedTraining, RefusesOptionsThatHaveNoMeaning) {
  const auto message = [&](const std::function<void(TrainingRunConfig&)>& change) {
    TrainingRunConfig c = config("out");
    change(c);
    return error_of([&] { check(c); });
  };
  EXPECT_NO_THROW(check(config("out")));
  EXPECT_THAT(message([](auto& c) { c.supervised.label_smoothing = 1; }),
              HasSubstr("label smoothing must be at least 0 and below 1, got 1"));
  EXPECT_THAT(message([](auto& c) { c.supervised.z_loss = -1; }),
              HasSubstr("weight of the z-loss must be finite and at least 0, got -1"));
  EXPECT_THAT(message([](auto& c) { c.supervised.neftune_alpha = std::nan(""); }),
              HasSubstr("alpha of NEFTune must be finite"));
  EXPECT_THAT(message([](auto& c) { c.gradient_noise = true; }),
              HasSubstr("micro-batches, of which a step must have several, got 1"));
  for (const SupervisedLoss& loss :
       {SupervisedLoss{.label_smoothing = 0.1}, SupervisedLoss{.z_loss = 0.1},
        SupervisedLoss{.neftune_alpha = 1}}) {
    EXPECT_THAT(message([&](auto& c) {
                  c.supervised = loss;
                  c.preference = PreferenceLoss();
                }),
                HasSubstr("but the run has a preference loss; leave them out"));
    EXPECT_THAT(message([&](auto& c) {
                  c.supervised = loss;
                  c.contrastive = ContrastiveLoss();
                }),
                HasSubstr("but the run has a contrastive loss; leave them out"));
  }
}

// The expected squares for |G|^2 = 2 and tr(S) = 600, and some deviation that averages to zero.
TEST(GradientNoise, DividesTheAveragesOfItsEstimates) {
  GradientNoise noise;
  EXPECT_FALSE(noise.scale().has_value());
  noise.add({2 + 600.0 / 100, 100}, {2 + 600.0 / 400, 400});
  EXPECT_NEAR(noise.scale().value(), 300, 1e-9);
  for (int i = 0; i < 4000; ++i) {
    const double deviation = i % 2 == 0 ? 3 : -3;
    noise.add({2 + 600.0 / 100 + deviation, 100}, {2 + 600.0 / 400, 400});
  }
  EXPECT_NEAR(noise.scale().value(), 300, 10);
}

TEST(GradientNoise, IsUnknownWhileAnEstimateIsNotPositive) {
  GradientNoise noise;
  noise.add({1, 100}, {2, 400});  // no noise
  EXPECT_FALSE(noise.scale().has_value());
  noise.add({200, 100}, {1, 400});  // no gradient
  EXPECT_FALSE(noise.scale().has_value());
}

TEST(GradientNoise, IgnoresStepsThatTellNothing) {
  GradientNoise noise;
  noise.add({8, 100}, {3.5, 400});
  for (const GradientNoise::Gradient& part :
       {GradientNoise::Gradient{1, 400}, GradientNoise::Gradient{1, 0},
        GradientNoise::Gradient{std::nan(""), 100}}) {
    noise.add(part, {3.5, 400});
  }
  EXPECT_NEAR(noise.scale().value(), 300, 1e-9);
}

}  // namespace
}  // namespace clora

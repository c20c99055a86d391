// Training with optimizers besides AdamW: losses, state in checkpoints, rates of groups.
#include <gmock/gmock.h>

#include "clora/lora/peft_files.hpp"
#include "clora/model/training/checkpoint.hpp"
#include "model/training/device_optimizer.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/training_runs.hpp"

namespace clora {
namespace {

using testing::HasSubstr;

class TrainingOptimizers : public test::TrainingRunTest {
 protected:
  TrainingRunConfig config_of(const OptimizerConfig& optimizer, const std::string& out) {
    TrainingRunConfig c = config(out);
    c.optimizer = optimizer;
    c.clip_norm = 1;
    if (optimizer.kind == OptimizerKind::lion) c.learning_rate = 2e-3;
    if (optimizer.kind == OptimizerKind::sgd) c.learning_rate = 0.3;
    return c;
  }
};

TEST_F(TrainingOptimizers, AllLowerTheLoss) {
  for (const OptimizerKind kind : kOptimizers) {
    TrainingRunConfig c = config_of({.kind = kind}, "out");
    c.steps = 30;
    Adapter adapter = new_adapter();
    const std::vector<double> losses = run(adapter, c);
    double last = 0;
    for (std::size_t i = 24; i < 30; ++i) last += losses[i] / 6;
    EXPECT_LT(last, 0.9 * losses.front()) << name_of(kind);
  }
}

TEST_F(TrainingOptimizers, AllResumeBitForBit) {
  for (const OptimizerConfig& optimizer :
       {OptimizerConfig{.kind = OptimizerKind::adamw, .loraplus_lr_ratio = 4},
        OptimizerConfig{.kind = OptimizerKind::lion, .beta1 = 0.95},
        OptimizerConfig{.kind = OptimizerKind::sgd, .nesterov = true},
        OptimizerConfig{.kind = OptimizerKind::muon, .loraplus_lr_ratio = 2}}) {
    TrainingRunConfig c = config_of(optimizer, "unbroken");
    c.grad_accumulation = 2;
    c.weight_decay = 0.01;
    c.save_every = 4;
    c.average_decay = 0.9;
    expect_resumed_runs_continue_bit_for_bit(c);
    const Trainer::State state = read_checkpoint(folder_ / "resumed" / "checkpoint-9").state;
    EXPECT_EQ(state, read_checkpoint(folder_ / "unbroken" / "checkpoint-9").state);
    EXPECT_EQ(state.optimizer.kind, optimizer.kind);
    EXPECT_FALSE(state.average.empty());
    std::filesystem::remove_all(folder_ / "resumed");
    std::filesystem::remove_all(folder_ / "unbroken");
  }
}

TEST_F(TrainingOptimizers, OfARunAreThoseOfItsCheckpoint) {
  TrainingRunConfig c = config_of({.kind = OptimizerKind::sgd, .momentum = 0.8}, "saved");
  c.save_every = 4;
  Adapter adapter = new_adapter();
  run(adapter, c);
  const auto refused = [&](const OptimizerConfig& optimizer, const char* named) {
    TrainingRunConfig other = c;
    other.optimizer = optimizer;
    CLORA_EXPECT_ERROR(run(adapter, other, folder_ / "saved" / "checkpoint-4"),
                       ErrorCode::invalid_argument, named);
  };
  refused({.kind = OptimizerKind::muon, .momentum = 0.8}, "optimizer was sgd and is muon");
  refused({.kind = OptimizerKind::adamw}, "optimizer was sgd and is absent");
  refused({.kind = OptimizerKind::sgd}, "momentum was 0.8 and is absent");
  refused({.kind = OptimizerKind::sgd, .momentum = 0.8, .nesterov = true}, "Nesterov's momentum");
  refused({.kind = OptimizerKind::sgd, .momentum = 0.8, .loraplus_lr_ratio = 2},
          "LoRA+ ratio was absent and is 2");
}

// With plain gradient descent the first step of B, which is 0 before, is the gradient times its
// rate; the gradient of A is 0.
TEST_F(TrainingOptimizers, LoraPlusScalesTheStepsOfB) {
  const auto after_a_step = [&](double ratio) {
    TrainingRunConfig c = config("out");
    c.optimizer = {.kind = OptimizerKind::sgd, .momentum = 0, .loraplus_lr_ratio = ratio};
    c.steps = 1;
    Adapter adapter = new_adapter();
    run(adapter, c);
    return parameters(adapter);
  };
  const std::vector<float> plain = after_a_step(1), plus = after_a_step(16);
  const Adapter adapter = new_adapter();
  const ParameterSet& set = adapter.parameter_set();
  float largest = 0;
  for (const ParameterSlice& slice : set.slices()) {
    const bool is_b = set.groups()[slice.group].name == Adapter::kLoraB;
    for (std::size_t i = 0; i < static_cast<std::size_t>(slice.shape.elements()); ++i) {
      const float value = plain[slice.offset + i];
      ASSERT_FLOAT_EQ(plus[slice.offset + i], is_b ? 16 * value : value) << slice.name << i;
      if (is_b) largest = std::max(largest, std::abs(value));
    }
  }
  EXPECT_GT(largest, 0);
}

TEST_F(TrainingOptimizers, TheAverageIsKeptAndSavedAsAnAdapter) {
  TrainingRunConfig c = config("out");
  c.average_decay = 0.75;
  c.steps = 2;
  c.save_every = 1;
  Adapter adapter = new_adapter();
  std::vector<float> want = parameters(adapter);
  run(adapter, c);
  for (const char* step : {"checkpoint-1", "checkpoint-2"}) {
    const std::vector<float> after = read_checkpoint(folder_ / "out" / step).parameters;
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += 0.25F * (after[i] - want[i]);
  }
  const Adapter averaged = load_adapter(open_->model.context(), folder_ / "out" / "ema",
                                        adapter_sites(open_->model.config()));
  const std::vector<float> got = parameters(averaged);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-6) << i;
  EXPECT_NE(got, parameters(adapter));

  c.average_decay = 0.5;
  CLORA_EXPECT_ERROR(run(adapter, c, folder_ / "out" / "checkpoint-1"), ErrorCode::invalid_argument,
                     "decay of the average was 0.75 and is 0.5");
  Trainer plain(open_->model, adapter, {});
  Trainer::State state = plain.state();
  state.average = want;
  CLORA_EXPECT_ERROR((plain.restore(state), 0), ErrorCode::invalid_argument,
                     "must have an average of 0 parameters");
  CLORA_EXPECT_ERROR(plain.average(), ErrorCode::invalid_argument, "there is no average");
}

// Of muon's parameters the vectors are updated by AdamW, with the norm of all gradients.
TEST_F(TrainingOptimizers, MuonUpdatesVectorsAsAdamwDoes) {
  Context& context = open_->model.context();
  const auto updated = [&](OptimizerKind kind) {
    ParameterSet set(context);
    const std::size_t matrices = set.add_group({.name = "matrices"});
    const std::size_t norms = set.add_group({.name = "norms", .rate = 2, .decay = 0});
    set.add({"norm.0", {70}, norms});
    set.add({"a", {4, 50}, matrices});
    set.add({"norm.1", {5}, norms});
    set.add({"norm.2", {5}, norms});
    set.allocate("test");
    set.allocate_gradients();
    const auto n = static_cast<std::size_t>(set.parameters().elements());
    const std::vector<float> values_of_parameters = test::random_values(n, 1);
    const std::vector<float> gradients = test::random_values(n, 2);
    context.write(set.parameters(), std::as_bytes(std::span(values_of_parameters)));
    context.write(set.gradients(), std::as_bytes(std::span(gradients)));
    DeviceOptimizer optimizer(context, {.kind = kind}, set);
    UpdateSettings settings = optimizer.settings_of(1);
    settings.learning_rate = 0.1F;
    settings.weight_decay = 0.3F;
    settings.clip_norm = 1;
    const Tensor on_device = context.upload<float>(
        {8}, DType::f32, std::span(reinterpret_cast<const float*>(&settings), 8),
        MemoryTag::scratch);
    const Tensor norm = context.allocate({1}, DType::f32, MemoryTag::scratch);
    Batch batch(context);
    optimizer.record(batch, on_device, norm);
    batch.submit().wait();
    if (kind == OptimizerKind::muon) {
      const OptimizerState state = optimizer.read();
      EXPECT_EQ(state.arrays.size(), 3U) << "moments of the vectors, momentum of all";
      optimizer.write(state);
      EXPECT_EQ(optimizer.read(), state);
    }
    std::vector<std::vector<float>> values;
    for (const ParameterSlice& slice : set.slices()) {
      values.push_back(
          context.read<float>(ParameterSet::view(set.parameters(), slice.offset, slice.shape)));
    }
    values.push_back(context.read<float>(norm));
    return values;
  };
  const auto muon = updated(OptimizerKind::muon), adamw = updated(OptimizerKind::adamw);
  for (const std::size_t vector : {0U, 2U, 3U}) {
    for (std::size_t i = 0; i < muon[vector].size(); ++i) {
      ASSERT_NEAR(muon[vector][i], adamw[vector][i], 1e-5) << vector << ' ' << i;
    }
  }
  EXPECT_NE(muon[1], adamw[1]) << "the matrix";
  EXPECT_FLOAT_EQ(muon[4][0], adamw[4][0]) << "the norm";
}

TEST_F(TrainingOptimizers, HaveOnlyTheirOwnSettings) {
  const auto message = [](const OptimizerConfig& config) {
    return test::error_of([&] { check(config); });
  };
  EXPECT_THAT(message({.kind = OptimizerKind::lion, .momentum = 0.5}),
              HasSubstr("optimizer: lion has no momentum; leave it out"));
  EXPECT_THAT(message({.kind = OptimizerKind::sgd, .beta1 = 0.5}), HasSubstr("sgd has no beta1"));
  EXPECT_THAT(message({.kind = OptimizerKind::sgd, .beta2 = 0.5}), HasSubstr("sgd has no beta2"));
  EXPECT_THAT(message({.kind = OptimizerKind::lion, .epsilon = 1e-6}),
              HasSubstr("lion has no epsilon"));
  EXPECT_THAT(message({.kind = OptimizerKind::muon, .nesterov = true}),
              HasSubstr("Nesterov's momentum is a setting of sgd, the optimizer is muon"));
  EXPECT_THAT(message({.beta2 = 1}), HasSubstr("beta2 must be in [0, 1), got 1"));
  EXPECT_THAT(message({.epsilon = 0}), HasSubstr("epsilon must be finite and above 0"));
  EXPECT_THAT(message({.loraplus_lr_ratio = 0}), HasSubstr("finite and above 0, got 0"));
  EXPECT_THAT(test::error_of([] { (void)named_optimizer("adagrad"); }),
              HasSubstr("must be one of adamw, adamw-8bit, lion, sgd, muon, got 'adagrad'"));
}

}  // namespace
}  // namespace clora

// Training with moments in 8 bits: losses, memory, checkpoints.
#include <gmock/gmock.h>

#include <cmath>

#include "clora/lora/safetensors.hpp"
#include "clora/model/training/checkpoint.hpp"
#include "clora/model/training/memory_planner.hpp"
#include "clora/ops/optimizers/adamw_q8.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/poisoned_file.hpp"
#include "tests/support/training_runs.hpp"

namespace clora {
namespace {

using testing::HasSubstr;

class EightBitMoments : public test::TrainingRunTest {
 protected:
  TrainingRunConfig config_q8(const std::string& out) {
    TrainingRunConfig c = config(out);
    c.optimizer.kind = OptimizerKind::adamw_8bit;
    return c;
  }
  std::vector<double> losses_of(TrainingRunConfig c, OptimizerKind type) {
    Adapter adapter = new_adapter();
    c.optimizer.kind = type;
    return run(adapter, c);
  }
  // checkpoint-4 of a run of 9 steps.
  std::filesystem::path checkpoint(OptimizerKind type) {
    Adapter adapter = new_adapter();
    TrainingRunConfig c = config("saved");
    c.optimizer.kind = type;
    c.save_every = 4;
    run(adapter, c);
    return folder_ / "saved" / "checkpoint-4";
  }
  std::size_t adapter_bytes() const {
    const MemoryStatistics memory = open_->model.context().pool().statistics();
    return memory.by_tag.at(static_cast<std::size_t>(MemoryTag::adapters));
  }
};

TEST_F(EightBitMoments, LowerTheLossAsThoseInF32Do) {
  TrainingRunConfig c = config("out");
  c.steps = 50;
  c.clip_norm = 1;
  const std::vector<double> f32 = losses_of(c, OptimizerKind::adamw);
  const std::vector<double> q8 = losses_of(c, OptimizerKind::adamw_8bit);
  ASSERT_EQ(q8.size(), 50U);
  EXPECT_EQ(q8.front(), f32.front()) << "the first loss is before any update";
  EXPECT_NE(q8.back(), f32.back());
  double sum_f32 = 0, sum_q8 = 0;
  for (std::size_t i = 40; i < 50; ++i) {
    sum_f32 += f32[i];
    sum_q8 += q8[i];
  }
  EXPECT_LT(sum_f32, 0.8 * 10 * f32.front());
  EXPECT_NEAR(sum_q8, sum_f32, 0.02 * sum_f32) << "the mean of the last ten steps";
  for (std::size_t i = 0; i < 50; ++i) EXPECT_NEAR(q8[i], f32[i], 0.1 * f32[i]) << i;
}

TEST_F(EightBitMoments, TakeAQuarterOfTheMemoryOfThoseInF32) {
  Adapter adapter = new_adapter();
  const std::int64_t n = adapter.parameters().elements();
  const auto bytes_of = [&](OptimizerKind type) {
    const std::size_t before = adapter_bytes();
    const Trainer trainer(open_->model, adapter, {.optimizer = {.kind = type}});
    return static_cast<std::int64_t>(adapter_bytes() - before);
  };
  (void)bytes_of(OptimizerKind::adamw);  // allocates the gradients, which the adapter keeps
  const std::int64_t saved = bytes_of(OptimizerKind::adamw) - bytes_of(OptimizerKind::adamw_8bit);
  const std::int64_t want = 8 * n - 2 * (n + 4 * moment_blocks(n));
  EXPECT_NEAR(static_cast<double>(saved), static_cast<double>(want), 4 * 4096)
      << "allocations are rounded up";
}

TEST_F(EightBitMoments, AreInThePlanOfARunsMemory) {
  const WeightFiles files = WeightFiles::open(folder_ / "model");
  ContextConfig exact;
  exact.sub_allocate = false;
  const auto fixed_bytes = [&](OptimizerKind type) {
    const auto adapter_of = [](Context& context, const ModelConfig& model) {
      return Adapter(context, adapter_sites(model), {.rank = 64});
    };
    MemoryPlanner planner({.context = exact,
                           .files = &files,
                           .context_length = 0,
                           .make_adapter = adapter_of,
                           .trainer = {.optimizer = {.kind = type}}});
    return static_cast<double>(planner.fixed_bytes());
  };
  const Adapter adapter = new_adapter({.rank = 64}, adapter_sites(open_->model.config()));
  const auto n = static_cast<double>(adapter.parameters().elements());
  EXPECT_NEAR(fixed_bytes(OptimizerKind::adamw) - fixed_bytes(OptimizerKind::adamw_8bit), 6 * n,
              0.05 * 6 * n);
}

TEST_F(EightBitMoments, ResumedContinueBitForBit) {
  TrainingRunConfig c = config_q8("unbroken");
  c.grad_accumulation = 2;
  c.clip_norm = 1;
  c.weight_decay = 0.01;
  c.save_every = 4;
  expect_resumed_runs_continue_bit_for_bit(c);
  EXPECT_EQ(read_checkpoint(folder_ / "resumed" / "checkpoint-9").state,
            read_checkpoint(folder_ / "unbroken" / "checkpoint-9").state);
}

TEST_F(EightBitMoments, AreStoredAsTheyAre) {
  const auto folder = checkpoint(OptimizerKind::adamw_8bit);
  const SafetensorsFile file = SafetensorsFile::open(folder / "training_state.safetensors");
  EXPECT_THAT(file.names(), testing::UnorderedElementsAre(
                                "first_moment_codes", "first_moment_scales", "parameters",
                                "second_moment_root_codes", "second_moment_root_scales"));
  EXPECT_EQ(file.find("first_moment_codes")->type, DType::u8);
  EXPECT_EQ(file.find("first_moment_scales")->type, DType::f32);
  const Checkpoint saved = read_checkpoint(folder);
  Adapter adapter = new_adapter();
  Trainer trainer(open_->model, adapter, {.optimizer = {.kind = OptimizerKind::adamw_8bit}});
  EXPECT_NE(trainer.state(), saved.state);
  trainer.restore(saved.state);
  EXPECT_EQ(trainer.state(), saved.state);
}

TEST_F(EightBitMoments, AreNotResumedInAnotherTypeNorThoseInF32) {
  for (const auto& [saved, now, named] :
       {std::tuple(OptimizerKind::adamw, OptimizerKind::adamw_8bit,
                   "optimizer was absent and is adamw-8bit"),
        std::tuple(OptimizerKind::adamw_8bit, OptimizerKind::adamw,
                   "optimizer was adamw-8bit and is absent")}) {
    const auto folder = checkpoint(saved);
    Adapter adapter = new_adapter();
    TrainingRunConfig c = config("again");
    c.optimizer.kind = now;
    CLORA_EXPECT_ERROR(run(adapter, c, folder), ErrorCode::invalid_argument, named);
  }
}

TEST_F(EightBitMoments, AreRestoredOnlyFromTheSameTypeAndSize) {
  Adapter adapter = new_adapter();
  Trainer f32(open_->model, adapter, {});
  Trainer q8(open_->model, adapter, {.optimizer = {.kind = OptimizerKind::adamw_8bit}});
  CLORA_EXPECT_ERROR(
      (q8.restore(f32.state()), 0), ErrorCode::invalid_argument,
      "is that of the optimizer adamw, but this trainer has adamw-8bit; create it with "
      "the same `optimizer`");
  CLORA_EXPECT_ERROR((f32.restore(q8.state()), 0), ErrorCode::invalid_argument,
                     "is that of the optimizer adamw-8bit, but this trainer has adamw;");
  const auto refused = [](Trainer& trainer, std::size_t array, auto change, const char* part) {
    Trainer::State state = trainer.state();
    std::visit(change, state.optimizer.arrays.at(array).values);
    CLORA_EXPECT_ERROR((trainer.restore(state), 0), ErrorCode::invalid_argument, part);
  };
  const auto shorter = [](auto& values) { values.pop_back(); };
  const auto longer = [](auto& values) { values.push_back(0); };
  refused(f32, 0, shorter, " bytes of first_moment, got");
  refused(f32, 1, longer, " bytes of second_moment, got");
  refused(q8, 0, shorter, " bytes of first_moment_codes, got");
  refused(q8, 1, shorter, " bytes of first_moment_scales, got");
  refused(q8, 2, longer, " bytes of second_moment_root_codes, got");
  refused(
      q8, 3, [](auto& values) { values.clear(); }, " of second_moment_root_scales, got 0");
  Trainer::State state = f32.state();
  state.optimizer.arrays.pop_back();
  CLORA_EXPECT_ERROR((f32.restore(state), 0), ErrorCode::invalid_argument,
                     "must have 2 arrays of adamw, got 1");
}

TEST_F(EightBitMoments, ThatAreNotFiniteAreNeitherWrittenNorRead) {
  Adapter adapter = new_adapter();
  Trainer trainer(open_->model, adapter, {.optimizer = {.kind = OptimizerKind::adamw_8bit}});
  Trainer::State state = trainer.state();
  std::get<std::vector<float>>(state.optimizer.arrays.at(3).values)[1] = HUGE_VALF;
  trainer.restore(state);
  CLORA_EXPECT_ERROR((save_checkpoint(folder_ / "out", adapter, trainer, {}), 0),
                     ErrorCode::diverged,
                     "the optimizer's second_moment_root_scales is not finite");
  const auto folder = checkpoint(OptimizerKind::adamw_8bit);
  test::poison(folder / "training_state.safetensors", "first_moment_scales", 1);
  CLORA_EXPECT_ERROR(read_checkpoint(folder), ErrorCode::invalid_file,
                     "the tensor 'first_moment_scales' of '");
}

TEST_F(EightBitMoments, WithAChangedCodeAreRefused) {
  const auto folder = checkpoint(OptimizerKind::adamw_8bit);
  const std::filesystem::path path = folder / "training_state.safetensors";
  const std::size_t at = test::offset_in_file(path, "second_moment_root_codes") + 17;
  std::string bytes = test::read_file(path);
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
  test::write_file(path, bytes);
  CLORA_EXPECT_ERROR(read_checkpoint(folder), ErrorCode::invalid_file,
                     "'second_moment_root_codes' of '");
}

}  // namespace
}  // namespace clora

// Training with OpenCL calls that fail, one after another.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "clora/model/training/checkpoint.hpp"
#include "clora/model/training/trainer.hpp"
#include "tests/support/fault_walk.hpp"
#include "tests/support/tiny_training.hpp"

namespace clora {
namespace {

using test::CallKind;
using test::FaultyModel;

TEST(TrainingWithFaults, EndsInOneErrorWithoutLeaks) {
  FaultyModel open;
  report(walk_faults(
      open.work("training", [&] { return test::train_tiny(open.model(), open.fresh_out()); })));
}

// Steps of one run that is disturbed in its second step.
class DisturbedTraining : public testing::Test {
 protected:
  DisturbedTraining() { open_.renew(); }

  // The losses of three steps and the parameters after them. The second step fails once with the
  // fault and recovers as `recover` says.
  std::string run(const std::function<void()>& disturb,
                  const std::function<void(Trainer&, Adapter&)>& recover) {
    Adapter adapter = test::tiny_adapter(open_.model());
    Trainer trainer(open_.model(), adapter, {});
    const auto batches = test::tiny_micro_batches();
    std::string losses;
    const auto step = [&] {
      const auto result = trainer.step(batches, 1e-2);
      if (result.has_value()) losses += fmt::format("{} ", result->loss);
    };
    step();
    const auto before_it = trainer.drain();
    losses += fmt::format("{} ", before_it.value().loss);
    save_checkpoint(open_.out(), adapter, trainer, {{"run", "a run"}});
    test::clear_faults();
    disturb();
    try {
      step();
    } catch (const Error&) {
      failed_ = true;
      test::clear_faults();
      if (open_.context().health()->lost()) return "lost";
      recover(trainer, adapter);
      step();
    }
    test::clear_faults();
    step();
    losses += fmt::format("{} ", trainer.drain().value().loss);
    const auto values = open_.context().read<float>(adapter.parameters());
    return losses + fmt::format("{}", fmt::join(values, " "));
  }

  FaultyModel open_;
  bool failed_ = false;
};

TEST_F(DisturbedTraining, ContinuesUnchangedAfterAnErrorBeforeTheUpdate) {
  const std::string want = run([] {}, [](Trainer&, Adapter&) {});
  ASSERT_FALSE(failed_);
  test::clear_faults();
  run([] {}, [](Trainer&, Adapter&) {});
  const auto nothing = [](Trainer& trainer, Adapter&) { EXPECT_EQ(trainer.steps(), 1); };
  for (const CallKind kind : {CallKind::launch, CallKind::write, CallKind::fill}) {
    for (const int n : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} call {}", test::name_of(kind), n));
      failed_ = false;
      EXPECT_EQ(run([&] { test::inject({.kind = kind, .nth = n}); }, nothing), want);
      EXPECT_TRUE(failed_);
    }
  }
}

TEST_F(DisturbedTraining, RefusesToContinueAfterAHalfUpdateUntilItIsRestored) {
  const std::string want = run([] {}, [](Trainer&, Adapter&) {});
  test::clear_faults();
  const auto restored = [&](Trainer& trainer, Adapter& adapter) {
    const auto batches = test::tiny_micro_batches();
    CLORA_EXPECT_ERROR(trainer.step(batches, 1e-2), ErrorCode::invalid_argument,
                       "step 2 failed midway");
    restore_checkpoint(open_.out(), adapter, trainer, {{"run", "a run"}});
  };
  // The first read of a step is after its update.
  EXPECT_EQ(run([] { test::inject({.kind = CallKind::read}); }, restored), want);
  EXPECT_TRUE(failed_);
}

}  // namespace
}  // namespace clora

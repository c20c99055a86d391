// Devices that vanish or stall during work: the Context is lost and reports it, nothing hangs,
// nothing leaks, and a new Context works.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "clora/model/training/trainer.hpp"
#include "tests/support/fault_walk.hpp"
#include "tests/support/leaks_on_purpose.hpp"
#include "tests/support/tiny_training.hpp"

namespace clora {
namespace {

using test::CallKind;
using test::FaultyModel;

TEST(AVanishingDevice, EndsTrainingWithOneErrorWhereverItHappens) {
  FaultyModel open;
  report(walk_losses(
      open.work("training", [&] { return test::train_tiny(open.model(), open.fresh_out()); }),
      {.dense = 15, .later = 15}));
}

TEST(AVanishingDevice, EndsAGenerationWithOneErrorWhereverItHappens) {
  FaultyModel open;
  report(walk_losses(
      open.work("generation", [&] { return test::generate_tiny(open.model(), nullptr); }),
      {.dense = 15, .later = 15}));
}

TEST(AVanishingDevice, EndsALoadWithOneErrorWhereverItHappens) {
  FaultyModel open;
  const auto load = [&] {
    Context context(test::faulty_config());
    const WeightFiles files = WeightFiles::open(open.folder());
    const LanguageModel model(context, files);
    return fmt::format("{} bytes", model.weight_bytes());
  };
  report(walk_losses(open.work_from_nothing("load", load), {.dense = 60, .later = 20}));
}

// Each of these statuses means that the device is gone.
TEST(AVanishingDevice, LosesTheContextAtTheFirstCommandThatReportsIt) {
  for (const CallKind kind : {CallKind::launch, CallKind::write, CallKind::read, CallKind::fill}) {
    FaultyModel open;
    open.renew();
    SCOPED_TRACE(test::name_of(kind));
    test::clear_faults();
    test::inject({.kind = kind, .status = -2});  // CL_DEVICE_NOT_AVAILABLE
    const auto caught = test::caught([&] { test::train_tiny(open.model(), open.fresh_out()); });
    test::clear_faults();
    ASSERT_TRUE(caught.has_value());
    EXPECT_EQ(caught->code, ErrorCode::device_lost) << caught->message;
    EXPECT_TRUE(open.context().health()->lost());
    CLORA_EXPECT_ERROR(open.context().flush(), ErrorCode::device_lost, "create a new Context");
    open.renew();
    test::expect_usable(open.context());
  }
}

TEST(AVanishingDevice, LosesTheContextAtAnAllocationThatReportsIt) {
  Context context(test::faulty_config());
  test::clear_faults();
  test::inject({.kind = CallKind::allocation, .status = -2});
  const auto allocate = [&] { return context.allocate({1 << 20}, DType::f32, MemoryTag::scratch); };
  CLORA_EXPECT_ERROR(allocate(), ErrorCode::device_lost, "buffer pool");
  test::clear_faults();
  EXPECT_TRUE(context.health()->lost());
  CLORA_EXPECT_ERROR(allocate(), ErrorCode::device_lost, "create a new Context");
}

// A step that never ends. The memory that the device may still access is leaked on purpose.
TEST(AStuckDevice, EndsTrainingWithOneErrorAndLeavesItsMemoryAlone) {
  const test::LeaksOnPurpose scope;
  FaultyModel other;
  other.renew();
  test::train_tiny(other.model(), other.fresh_out());  // compiles the kernels, without the limit
  ContextConfig config = test::faulty_config();
  config.stuck_after_seconds = 3;
  FaultyModel open(config);
  open.renew();
  {
    Adapter adapter = test::tiny_adapter(open.model());
    Trainer trainer(open.model(), adapter, {});
    trainer.step(test::tiny_micro_batches(), 1e-2);  // recorded, and the self-tests are done
    trainer.drain();
    test::clear_faults();
    test::hold_launch(3);
    trainer.step(test::tiny_micro_batches(), 1e-2);
    CLORA_EXPECT_ERROR(trainer.drain(), ErrorCode::device_lost, "no progress for 3 s");
    CLORA_EXPECT_ERROR(trainer.step(test::tiny_micro_batches(), 1e-2), ErrorCode::device_lost,
                       "lost");
  }
  EXPECT_TRUE(open.context().health()->stuck());
  test::expect_usable(other.context());  // the process continues
  test::release_held_launch();  // the later transfers run now, into memory that still exists
  test::expect_usable(other.context());
}

}  // namespace
}  // namespace clora

// Counts the OpenCL calls of a replayed training step.

#include <gtest/gtest.h>

#include "clora/model/training/trainer.hpp"
#include "tests/support/opencl_faults.hpp"
#include "tests/support/test_models.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

using test::CallKind;

TEST(ReplayedStep, OnlyEnqueues) {
  const test::TemporaryFolder folder;
  test::write_tiny_model(folder.path(), test::tiny_models().front().config);
  test::OpenModel open(folder.path());
  Adapter adapter(open.model.context(), adapter_sites(open.model.config()), {});
  adapter.initialise(1);
  Trainer trainer(open.model, adapter, {});
  const Record record{.ids = {1, 2, 3, 4, 5}, .is_target = {0, 1, 1, 1, 1}};
  const PackedRows rows = pack_rows(std::span(&record, 1), 5);
  trainer.step(std::span(&rows, 1), 1e-3);
  trainer.step(std::span(&rows, 1), 1e-3);

  test::clear_faults();
  const std::size_t bytes = open.model.context().pool().statistics().in_use_bytes;
  for (int i = 0; i < 5; ++i) trainer.step(std::span(&rows, 1), 1e-3);
  EXPECT_GT(test::calls(CallKind::launch), 5 * 2 * 20);  // two blocks, both directions
  for (const CallKind kind : {CallKind::allocation, CallKind::sub_buffer, CallKind::program,
                              CallKind::kernel, CallKind::argument, CallKind::finish}) {
    EXPECT_EQ(test::calls(kind), 0) << test::name_of(kind);
  }
  EXPECT_EQ(test::blocking_transfers(), 0);
  EXPECT_EQ(open.model.context().pool().statistics().in_use_bytes, bytes);
}

}  // namespace
}  // namespace clora

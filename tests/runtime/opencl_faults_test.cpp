// The fault layer itself: the calls that it counts, fails, and leaves alone.

#include "tests/support/opencl_faults.hpp"

#include <gtest/gtest.h>

#include "tests/support/fault_walk.hpp"

namespace clora {
namespace {

using test::CallKind;

class OpenclFaults : public testing::Test {
 protected:
  OpenclFaults() { test::clear_faults(); }
  ~OpenclFaults() override { test::clear_faults(); }

  // Whether an allocation succeeds that no cached block can serve.
  bool allocates() {
    context_.pool().trim();
    return !test::caught([&] {
              context_.allocate({64}, DType::f32, MemoryTag::scratch);
            }).has_value();
  }

  Context context_{test::faulty_config()};
};

TEST_F(OpenclFaults, FailOnlyTheRequestedCall) {
  const test::Fault twice{.kind = CallKind::allocation, .nth = 2, .lasting = true};
  test::inject(twice);
  EXPECT_TRUE(allocates());
  EXPECT_FALSE(allocates());
  EXPECT_FALSE(allocates());
  EXPECT_GE(test::failed_calls(), 2);
  test::clear_faults();
  EXPECT_TRUE(allocates());
  EXPECT_EQ(test::failed_calls(), 0);
}

TEST_F(OpenclFaults, CountCallsByKind) {
  context_.flush();
  context_.flush();
  EXPECT_EQ(test::calls(CallKind::flush), 2);
  EXPECT_EQ(test::calls(CallKind::launch), 0);
  EXPECT_EQ(test::all_calls(), 2);
}

TEST_F(OpenclFaults, CountWhatIsAlive) {
  const test::LiveObjects before = test::live_objects();
  {
    Context another(test::faulty_config());
    const Tensor tensor = another.allocate({64}, DType::f32, MemoryTag::scratch);
    const test::LiveObjects during = test::live_objects();
    EXPECT_GT(during.contexts, before.contexts);
    EXPECT_EQ(during.queues, before.queues + 1);
    EXPECT_EQ(during.buffers, before.buffers + 1);
  }
  EXPECT_EQ(test::live_objects(), before) << test::live_objects().text();
}

TEST_F(OpenclFaults, LoseTheEntireDevice) {
  test::lose_device_at(1);
  EXPECT_FALSE(allocates());
  EXPECT_TRUE(test::caught([&] { context_.finish(); }).has_value());
}

TEST(OpenclFaultKinds, HaveNamesAndStatuses) {
  for (const CallKind kind : test::all_call_kinds()) {
    EXPECT_FALSE(test::name_of(kind).empty());
    EXPECT_LT(test::usual_status(kind), 0) << test::name_of(kind);
  }
}

}  // namespace
}  // namespace clora

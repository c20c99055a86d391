#include "runtime/commands/in_flight.hpp"

#include <gtest/gtest.h>

#include <deque>

#include "runtime/device/opencl.hpp"
#include "tests/support/leaks_on_purpose.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

// A Context whose device has not progressed yet. User events stand for its segments.
class InFlight : public testing::Test {
 protected:
  InFlightLedger ledger(InFlightLimits limits) {
    return InFlightLedger(context_.device(), health_, limits);
  }
  // A segment that is complete once the test completes the event.
  cl_event event() {
    events_.emplace_back(clCreateUserEvent(context_.opencl_context(), nullptr));
    return events_.back().get();
  }
  static void complete(cl_event event) { clSetUserEventStatus(event, CL_COMPLETE); }

  Context& context_ = test::context_of(Variant::automatic);
  std::shared_ptr<DeviceHealth> health_ = std::make_shared<DeviceHealth>("test", 20);
  std::deque<OwnedEvent> events_;
};

TEST_F(InFlight, CountsWorkUntilItsCompletionIsObserved) {
  InFlightLedger in_flight = ledger({.commands = 80, .seconds = 0});
  const cl_event first = event();
  const cl_event second = event();
  in_flight.add({.commands = 10, .seconds = 0.5}, first);
  in_flight.add({.commands = 10, .seconds = 0.25}, second);
  EXPECT_EQ(in_flight.work().commands, 20U);
  EXPECT_FALSE(in_flight.reclaim());
  complete(first);
  EXPECT_TRUE(in_flight.reclaim());
  EXPECT_EQ(in_flight.work().commands, 10U);
  EXPECT_EQ(in_flight.work().seconds, 0.25);
  complete(second);
  EXPECT_TRUE(in_flight.reclaim());
  EXPECT_EQ(in_flight.work().commands, 0U);
  EXPECT_EQ(in_flight.work().seconds, 0);
}

TEST_F(InFlight, FillsASegmentWithAnEighthOfEitherLimit) {
  InFlightLedger in_flight = ledger({.commands = 80, .seconds = 4});
  EXPECT_FALSE(in_flight.fills_segment({.commands = 9, .seconds = 0.4}));
  EXPECT_TRUE(in_flight.fills_segment({.commands = 10, .seconds = 0}));
  EXPECT_TRUE(in_flight.fills_segment({.commands = 1, .seconds = 0.5}));
  EXPECT_FALSE(ledger({}).fills_segment({.commands = 1 << 20, .seconds = 1e6}));
  EXPECT_TRUE(ledger({.commands = 1, .seconds = 0}).fills_segment({.commands = 1, .seconds = 0}));
}

TEST_F(InFlight, JoinsSmallPiecesSoThatManyBatchesTakeFewSegments) {
  InFlightLedger in_flight = ledger({.commands = 80, .seconds = 0});
  for (int i = 0; i < 8; ++i) {  // consecutive pieces: two of 4 commands make a segment
    in_flight.add({.commands = 4, .seconds = 0}, event());
  }
  EXPECT_EQ(in_flight.work().commands, 32U);
  complete(events_[0].get());  // the first segment ends with the second piece
  EXPECT_FALSE(in_flight.reclaim());
  complete(events_[1].get());
  EXPECT_TRUE(in_flight.reclaim());
  EXPECT_EQ(in_flight.work().commands, 24U);
  for (const OwnedEvent& e : events_) complete(e.get());
}

TEST_F(InFlight, MakesSpaceByWaitingForTheOldest) {
  InFlightLedger in_flight = ledger({.commands = 20, .seconds = 0});
  for (int i = 0; i < 2; ++i) in_flight.add({.commands = 10, .seconds = 0}, event());
  complete(events_[0].get());
  in_flight.make_space({.commands = 10, .seconds = 0});  // would hang if it waited for the second
  EXPECT_EQ(in_flight.work().commands, 10U);
  complete(events_[1].get());
  in_flight.make_space({.commands = 100, .seconds = 0});  // beyond the limit, so it runs alone
  EXPECT_EQ(in_flight.work().commands, 0U);
}

TEST_F(InFlight, WaitsWithTheContextsLimit) {
  const test::LeaksOnPurpose leaks;
  const auto impatient = std::make_shared<DeviceHealth>("test", 0.05);
  const cl_event never = event();
  {
    InFlightLedger in_flight(context_.device(), impatient, {.commands = 10, .seconds = 0});
    in_flight.add({.commands = 10, .seconds = 0}, never);
    EXPECT_THROW(in_flight.make_space({.commands = 1, .seconds = 0}), Error);
    EXPECT_TRUE(impatient->stuck());
  }
  complete(never);
  // The wait that gave up, and the ledger, left their references to the driver. One remains.
  clReleaseEvent(never);
}

TEST_F(InFlight, CountsAsProgressForAWaitAtItsLimit) {
  const test::LeaksOnPurpose leaks;
  const auto health = std::make_shared<DeviceHealth>("test", 0.05);
  InFlightLedger in_flight(context_.device(), health, {.commands = 80, .seconds = 0});
  for (int i = 0; i < 3; ++i) in_flight.add({.commands = 10, .seconds = 0}, event());
  int calls = 0;
  // One more segment completes each time the wait reaches its limit.
  health->set_progress([&] {
    if (calls < 3) complete(events_[static_cast<std::size_t>(calls++)].get());
    return in_flight.reclaim();
  });
  const cl_event never = event();
  EXPECT_THROW(health->wait(never, "test"), Error);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(in_flight.work().commands, 0U);
  complete(never);
}

TEST_F(InFlight, EstimatesMoreForMoreWork) {
  InFlightLedger in_flight = ledger({});
  EXPECT_GT(in_flight.estimate({}), 0);
  EXPECT_GT(in_flight.estimate({.flops = 1e12, .bytes = 0}), in_flight.estimate({}));
  EXPECT_GT(in_flight.estimate({.flops = 0, .bytes = 1e12}), in_flight.estimate({}));
}

// The number of commands that are enqueued and not complete never exceeds the Context's limit.
TEST(Batch, IsCutIntoSegmentsWithinTheContextsLimit) {
  ContextConfig config = config_from_environment();
  config.max_commands_in_flight = 16;
  Context context(config);
  const Tensor tensor = test::upload(context, {4}, std::vector<float>{1, 2, 3, 4});
  Batch batch(context);
  std::size_t most = 0;
  for (int i = 0; i < 40; ++i) {
    batch.fill_zero(tensor);
    batch.call("look", {}, [&](cl_command_queue, std::span<const MemoryRegion>) {
      most = std::max(most, context.in_flight().work().commands);
    });
  }
  for (int i = 0; i < 5; ++i) batch.submit();
  EXPECT_LE(context.in_flight().work().commands, 16U);
  EXPECT_LE(most, 14U);  // the segment of two that holds the call is not counted yet
  context.finish();
  EXPECT_EQ(context.in_flight().work().commands, 0U);
}

TEST(Batch, CountsItsCommandsAsInFlightUntilTheDeviceCompletesThem) {
  Context context(config_from_environment());
  const Tensor tensor = test::upload(context, {4}, std::vector<float>{1, 2, 3, 4});
  // What follows the gate in the queue cannot run before the test completes it.
  const OwnedEvent gate(clCreateUserEvent(context.opencl_context(), nullptr));
  Batch batch(context);
  batch.call("gate", {}, [&](cl_command_queue queue, std::span<const MemoryRegion>) {
    const cl_event event = gate.get();
    ASSERT_EQ(clEnqueueBarrierWithWaitList(queue, 1, &event, nullptr), CL_SUCCESS);
  });
  batch.fill_zero(tensor);
  batch.submit();
  EXPECT_EQ(context.in_flight().work().commands, 2U);
  clSetUserEventStatus(gate.get(), CL_COMPLETE);
  context.finish();
  EXPECT_EQ(context.in_flight().work().commands, 0U);
}

}  // namespace
}  // namespace clora

// A device that stops responding: a user event that is never completed blocks the queue.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "clora/runtime/commands/batch.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/leaks_on_purpose.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/opencl_faults.hpp"

namespace clora {
namespace {

using test::Gate;
using test::LeaksOnPurpose;
using testing::HasSubstr;

ContextConfig config_of(double stuck_after_seconds) {
  ContextConfig config = config_from_environment();
  config.stuck_after_seconds = stuck_after_seconds;
  return config;
}

// The code and message of the Error that f throws.
std::pair<ErrorCode, std::string> thrown_by(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

// Tensors, a recorded batch and a fence of one Context.
struct Guest {
  explicit Guest(const ContextConfig& config) : context(config) {
    source = test::upload(context, {4}, std::vector<float>{1, 2, 3, 4});
    target = test::upload(context, {4}, std::vector<float>(4));
    batch = std::make_unique<Batch>(context);
    batch->copy(target, source);
  }
  Context context;
  Tensor source, target;
  std::unique_ptr<Batch> batch;
};

void expect_refused(const std::function<void()>& call) {
  const auto [code, message] = thrown_by(call);
  EXPECT_EQ(code, ErrorCode::device_lost) << message;
  EXPECT_THAT(message, HasSubstr("is lost (no progress for 0.2 s); create a new Context"));
}

// Every call of a lost Context fails at once and enqueues nothing: a resumed device would otherwise
// access the caller's memory.
void expect_all_refused(Guest& guest, const Fence& fence) {
  Context& context = guest.context;
  std::vector<float> values(4);
  test::clear_faults();
  expect_refused([&] { fence.wait(); });
  expect_refused([&] { (void)fence.passed(); });
  expect_refused([&] { guest.batch->submit(); });
  expect_refused([&] { Batch(context).seal(); });
  expect_refused([&] { context.finish(); });
  expect_refused([&] { context.flush(); });
  expect_refused([&] { (void)context.allocate({1}, DType::f32, MemoryTag::scratch); });
  expect_refused([&] { context.write(guest.source, std::as_bytes(std::span(values))); });
  expect_refused([&] { context.read(guest.source, std::as_writable_bytes(std::span(values))); });
  expect_refused([&] { (void)context.kernel("softmax.cl", "softmax"); });
  expect_refused([&] { context.wait_for({}); });
  expect_refused(
      [&] { (void)context.write_async(guest.source, std::as_bytes(std::span(values))); });
  EXPECT_EQ(test::all_calls(), 0);
}

TEST(StuckDevice, BecomesAnErrorAndEveryLaterCallRefusesAtOnce) {
  const LeaksOnPurpose leaks;
  auto guest = std::make_unique<Guest>(config_of(0.2));
  Gate gate(guest->context);
  {
    const Fence fence = guest->batch->submit(std::span(&gate.event(), 1));
    EXPECT_FALSE(fence.passed());
    const auto [code, message] = thrown_by([&] { fence.wait(); });
    EXPECT_EQ(code, ErrorCode::device_lost);
    EXPECT_THAT(message, HasSubstr("made no progress for 0.2 s"));
    EXPECT_TRUE(guest->context.health()->lost());
    expect_all_refused(*guest, fence);

    Guest other(config_of(0.2));  // the process continues
    other.batch->submit().wait();
    EXPECT_EQ(other.context.read<float>(other.target), (std::vector<float>{1, 2, 3, 4}));
  }
  guest.reset();  // none of the destructors waits
}

TEST(StuckDevice, IsSeenByEveryWait) {
  const LeaksOnPurpose leaks;
  const std::vector<std::function<void(Guest&)>> waits{
      [](Guest& guest) { guest.context.finish(); },
      [](Guest& guest) { (void)guest.context.read<float>(guest.source); },
      [](Guest& guest) { guest.batch->submit().wait(); },
      [](Guest& guest) {
        for (int i = 0; i < 100; ++i) guest.batch->submit();
      }};
  for (const auto& wait : waits) {
    ContextConfig config = config_of(0.2);
    config.max_commands_in_flight = 16;
    Guest guest(config);
    Gate gate(guest.context);
    guest.context.wait_for(std::span(&gate.event(), 1));
    const auto [code, message] = thrown_by([&] { wait(guest); });
    EXPECT_EQ(code, ErrorCode::device_lost) << message;
    EXPECT_TRUE(guest.context.health()->stuck());
  }
}

TEST(StuckDevice, IsSeenByTheContextsDestructorWhichThenLeavesItsObjects) {
  const LeaksOnPurpose leaks;
  std::shared_ptr<DeviceHealth> health;
  auto gate = std::unique_ptr<Gate>();
  {
    Guest guest(config_of(0.2));
    health = guest.context.health();
    gate = std::make_unique<Gate>(guest.context);
    guest.batch->submit(std::span(&gate->event(), 1));
  }
  EXPECT_TRUE(health->stuck());
}

// Tests only the wait: pocl 3.1 aborts the process if commands depend on a user event that failed.
TEST(DeviceHealth, IsLostWithTheStatusOfACommandThatFailed) {
  const LeaksOnPurpose leaks;  // for drivers that do not call back on failure
  Context& context = test::context_of(Variant::portable);
  using enum DeviceHealth::Waiting;
  for (const auto& [before, waiting] :
       {std::pair{true, asleep}, {false, asleep}, {true, looking}, {false, looking}}) {
    DeviceHealth health("test", 20, waiting);
    Gate gate(context);
    if (before) gate.open(CL_OUT_OF_RESOURCES);
    std::thread later([&] { gate.open(CL_OUT_OF_RESOURCES); });
    const auto [code, message] = thrown_by([&] { health.wait(gate.event(), "fence"); });
    later.join();
    EXPECT_EQ(code, ErrorCode::device_lost);
    EXPECT_THAT(message, HasSubstr("fence: a command failed: CL_OUT_OF_RESOURCES on 'test'"));
    EXPECT_TRUE(health.lost());
    EXPECT_FALSE(health.stuck());
    EXPECT_THAT(thrown_by([&] { (void)health.passed(gate.event(), "fence"); }).second,
                HasSubstr("is lost (a command failed: CL_OUT_OF_RESOURCES)"));
  }
}

TEST(DeviceHealth, PollReportsAFailureToo) {
  DeviceHealth health("test", 20);
  Gate gate(test::context_of(Variant::portable));
  EXPECT_FALSE(health.passed(gate.event(), "fence"));
  gate.open(CL_OUT_OF_RESOURCES);
  EXPECT_EQ(thrown_by([&] { (void)health.passed(gate.event(), "fence"); }).first,
            ErrorCode::device_lost);
  EXPECT_TRUE(health.lost());
}

// The caller of drain() frees memory afterwards.
TEST(DeviceHealth, DrainsThoughTheDriverRefusesMarkersOrTheirStatus) {
  Guest guest(config_of(20));
  using enum DeviceHealth::Waiting;
  for (const auto& [refused, waiting] : {std::pair{test::CallKind::marker, asleep},
                                         {test::CallKind::event_status, asleep},
                                         {test::CallKind::event_status, looking}}) {
    DeviceHealth health("test", 20, waiting);
    health.watch(guest.context.opencl_queue());
    Gate gate(guest.context);
    static_cast<void>(guest.batch->submit(std::span(&gate.event(), 1)));
    test::clear_faults();
    test::inject({.kind = refused, .lasting = true});
    std::atomic<bool> opened = false;
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      opened = true;
      gate.open();
    });
    EXPECT_TRUE(health.drain());
    EXPECT_TRUE(opened);
    later.join();
    test::clear_faults();
  }
}

TEST(DeviceHealth, WaitsIndefinitelyWithoutALimit) {
  DeviceHealth health("test", 0);
  Gate gate(test::context_of(Variant::portable));
  std::thread later([&] { gate.open(); });
  health.wait(gate.event(), "fence");
  later.join();
  EXPECT_TRUE(health.passed(gate.event(), "fence"));
}

}  // namespace
}  // namespace clora

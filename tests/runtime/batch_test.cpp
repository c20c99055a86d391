#include "clora/runtime/commands/batch.hpp"
#include "runtime/fail.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clora/ops/rowwise/rms_norm.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::context_of;
using test::Gate;

TEST(Batch, CopiesThroughATemporaryAndReplays) {
  Context& context = context_of(Variant::portable);
  const std::vector<float> values = test::random_values(1000, 1);
  const Tensor source = test::upload(context, {1000}, values);
  const test::Output target(context, {1000});
  Batch batch(context);
  const Tensor between = batch.temporary({1000}, DType::f32, "between");
  batch.copy(between, source);
  batch.copy(target.tensor(), between);
  batch.submit().wait();
  EXPECT_EQ(target.values(), values);
  const std::vector<float> other = test::random_values(1000, 2);
  context.write(source, std::as_bytes(std::span(other)));
  batch.submit().wait();
  EXPECT_EQ(target.values(), other);
}

TEST(Batch, DescribesItsLaunchesWithoutTheirMemory) {
  Context& context = context_of(Variant::portable);
  const auto text = [&](std::int64_t rows, float eps) {
    const test::Output y(context, {rows, 8});
    Batch batch(context);
    record_rms_norm(
        batch, y.tensor(),
        test::upload(context, {rows, 8}, std::vector<float>(8 * static_cast<std::size_t>(rows))),
        test::upload(context, {8}, std::vector<float>(8)), eps);
    return batch.launches_text();
  };
  EXPECT_THAT(text(2, 0.5F), testing::HasSubstr("rms_norm.cl rms_norm_forward"));
  EXPECT_THAT(text(2, 0.5F), testing::HasSubstr("f32[2, 8]"));
  EXPECT_EQ(text(2, 0.5F), text(2, 0.5F));
  EXPECT_NE(text(2, 0.5F), text(2, 0.25F));
  EXPECT_NE(text(2, 0.5F), text(3, 0.5F));
}

TEST(Batch, MakesALibraryCallWithThePlacesOfItsTensorsAtEverySubmit) {
  Context& context = context_of(Variant::portable);
  const Tensor tensor = test::upload(context, {4}, std::vector<float>{1, 2, 3, 4});
  int created = 0;
  MemoryRegion place;
  Batch batch(context);
  const Tensor between = batch.temporary({4}, DType::f32, "between");
  batch.call("count", {tensor, between},
             [&](cl_command_queue queue, std::span<const MemoryRegion> all) {
               EXPECT_EQ(queue, context.opencl_queue());
               EXPECT_EQ(all.size(), 2U);
               EXPECT_NE(all[1].mem, nullptr);  // the plan exists by now
               place = all[0];
               ++created;
             });
  batch.submit().wait();
  batch.submit().wait();
  EXPECT_EQ(created, 2);
  EXPECT_EQ(place.mem, tensor.storage()->mem);
}

TEST(Batch, APreparationRunsOnceBeforeTheFirstCommand) {
  Context& context = context_of(Variant::portable);
  const std::vector<float> values = test::random_values(64, 1);
  const Tensor term = test::upload(context, {64}, values);
  const Tensor sum = test::upload(context, {64}, std::vector<float>(64));
  const test::Output seen(context, {64});
  Batch batch(context);
  batch.copy(seen.tensor(), sum);
  Launch launch;
  launch.kernel = context.kernel("lora_linear.cl", "lora_gradient_sum",
                                 Defines()
                                     .set("ITEMS", 1)
                                     .set("VEC_SIZE", 1)
                                     .set("RANKS", 1)
                                     .set("STEPS", 8)
                                     .set("X_TYPE", "f32")
                                     .set("S_TYPE", "f32"));
  launch.grid = {{64, 1, 1}, {64, 1, 1}};
  batch.prepare(launch, {sum, term, std::uint32_t{1}, std::uint32_t{64}, std::uint32_t{1}, 1.0F});
  for (int turn = 0; turn < 2; ++turn) {
    batch.submit().wait();
    EXPECT_EQ(seen.values(), values);
  }
  EXPECT_THROW(batch.prepare(launch, {}), Error);  // sealed
}

TEST(Batch, ExactModeGivesEachTemporaryAMemoryObjectOfItsSize) {
  ContextConfig config = config_from_environment();
  config.sub_allocate = false;
  Context context(config);
  const auto arena = std::make_shared<Arena>();
  const auto plan_of = [&](std::int64_t first, std::int64_t second) {
    Batch batch(context, arena);  // the lifetimes of a and b do not overlap
    const Tensor a = batch.temporary({first}, DType::f32, "a");
    const Tensor b = batch.temporary({second}, DType::f32, "b");
    batch.fill_zero(a);
    batch.fill_zero(b);
    batch.seal();
    EXPECT_NE(a.storage()->mem, b.storage()->mem);
    EXPECT_EQ(a.storage()->buffer->bytes(), static_cast<std::size_t>(first) * 4);
    EXPECT_EQ(b.storage()->buffer->bytes(), static_cast<std::size_t>(second) * 4);
    EXPECT_EQ(a.storage()->origin + b.storage()->origin, 0U);
  };
  plan_of(7, 1001);
  plan_of(5, 1001);  // the larger block in the arena is not reused
}

TEST(Batch, RefusesToRecordOnceSealed) {
  Context& context = context_of(Variant::portable);
  Batch batch(context);
  batch.seal();
  EXPECT_THAT(test::error_of([&] { batch.temporary({1}, DType::f32, "late"); }),
              testing::HasSubstr("sealed"));
}

TEST(Batch, UploadsWhatTheHostMemoryHoldsWhenItIsSubmitted) {
  Context& context = context_of(Variant::portable);
  std::vector<float> values{1, 2, 3};
  const test::Output target(context, {3});
  Batch batch(context);
  batch.upload(target.tensor(), std::as_bytes(std::span(values)));
  batch.submit().wait();
  EXPECT_EQ(target.values(), values);
  values = {4, 5, 6};
  batch.submit().wait();
  EXPECT_EQ(target.values(), values);
}

TEST(Batch, RefusesAnUploadOfAnotherSize) {
  Context& context = context_of(Variant::portable);
  const std::vector<float> values(3);
  const Tensor target = test::upload(context, {4}, std::vector<float>(4));
  Batch batch(context);
  EXPECT_THAT(
      test::error_of([&] { batch.upload(target, std::as_bytes(std::span<const float>(values))); }),
      testing::HasSubstr("f32 [4] from 12 bytes"));
}

TEST(Batch, WaitsForForeignEventsOnTheDeviceOnly) {
  Context& context = context_of(Variant::portable);
  std::vector<float> values{1, 2, 3};
  const test::Output target(context, {3});
  Batch batch(context);
  batch.upload(target.tensor(), std::as_bytes(std::span(values)));
  Gate gate(context);
  const Fence fence = batch.submit(std::span(&gate.event(), 1));
  EXPECT_FALSE(fence.passed());
  values = {7, 8, 9};  // read once the event is complete
  gate.open();
  fence.wait();
  EXPECT_TRUE(fence.passed());
  EXPECT_EQ(target.values(), values);
}

TEST(Batch, OfNoCommandsPassesWithItsWaitList) {
  Context& context = context_of(Variant::portable);
  Batch batch(context);
  EXPECT_TRUE(batch.submit().passed());
  Gate gate(context);
  const Fence fence = batch.submit(std::span(&gate.event(), 1));
  EXPECT_FALSE(fence.passed());
  gate.open();
  fence.wait();
}

TEST(Batch, LetsAMarkPassBeforeTheCommandsAfterIt) {
  Context& context = context_of(Variant::portable);
  const Tensor tensor = test::upload(context, {4}, std::vector<float>{1, 2, 3, 4});
  Gate gate(context);
  Batch batch(context);
  batch.fill_zero(tensor);
  const std::size_t early = batch.mark("early");
  // Everything after this command waits for the gate.
  batch.call("hold", {}, [&](cl_command_queue queue, std::span<const MemoryRegion>) {
    ASSERT_EQ(clEnqueueBarrierWithWaitList(queue, 1, &gate.event(), nullptr), CL_SUCCESS);
  });
  const std::size_t late = batch.mark("late");
  EXPECT_THAT(test::error_of([&] { (void)batch.fence_at(early); }),
              testing::HasSubstr("before the first submit"));
  const Fence all = batch.submit();
  batch.fence_at(early).wait();
  EXPECT_FALSE(batch.fence_at(late).passed());
  EXPECT_FALSE(all.passed());
  gate.open();
  batch.fence_at(late).wait();
  all.wait();
  EXPECT_THAT(test::error_of([&] { (void)batch.fence_at(2); }),
              testing::HasSubstr("the mark must be below 2, got 2"));
}

// The temporary keeps its value across the pause, while another batch runs.
TEST(Batch, StopsAtAPauseAndGoesOnAtTheNextSubmit) {
  Context& context = context_of(Variant::portable);
  const std::vector<float> first{1, 2, 3, 4}, second{5, 6, 7, 8};
  const Tensor source = test::upload(context, {4}, first);
  const test::Output before(context, {4}), after(context, {4});
  Batch batch(context);
  const Tensor between = batch.temporary({4}, DType::f32, "between");
  batch.copy(between, source);
  batch.copy(before.tensor(), between);
  batch.pause();
  batch.copy(after.tensor(), between);
  const auto write = [&](const std::vector<float>& values) {
    context.write(source, std::as_bytes(std::span(values)));
  };
  batch.submit().wait();
  EXPECT_EQ(before.values(), first);
  EXPECT_NE(after.values(), first);
  write(second);
  batch.submit().wait();
  EXPECT_EQ(before.values(), first);
  EXPECT_EQ(after.values(), first);
  batch.submit().wait();  // from the beginning
  EXPECT_EQ(before.values(), second);
  EXPECT_EQ(after.values(), first);
  batch.submit().wait();
  EXPECT_EQ(after.values(), second);
}

TEST(Fence, HandsOutAnEventThatOutlivesItWhenRetained) {
  Context& context = context_of(Variant::portable);
  const Tensor tensor = test::upload(context, {4}, std::vector<float>{1, 2, 3, 4});
  Batch batch(context);
  batch.fill_zero(tensor);
  cl_event event = nullptr;
  {
    const Fence fence = batch.submit();
    event = fence.event();
    ASSERT_EQ(clRetainEvent(event), CL_SUCCESS);
  }
  EXPECT_EQ(clWaitForEvents(1, &event), CL_SUCCESS);
  cl_uint references = 0;
  context.finish();
  clGetEventInfo(event, CL_EVENT_REFERENCE_COUNT, sizeof references, &references, nullptr);
  EXPECT_GE(references, 1U);
  EXPECT_EQ(clReleaseEvent(event), CL_SUCCESS);
}

TEST(Batch, WaitsForWhatWentOutBeforeACommandThatFails) {
  Context& context = context_of(Variant::portable);
  const test::Output target(context, {3});
  std::vector<float> values{1, 2, 3};
  bool fails = true;
  Batch batch(context);
  batch.upload(target.tensor(), std::as_bytes(std::span(values)));
  batch.call("fail", {}, [&](cl_command_queue, std::span<const MemoryRegion>) {
    if (fails) fail(ErrorCode::device, "refused");
  });
  EXPECT_EQ(test::error_of([&] { batch.submit(); }), "refused");
  values = {0, 0, 0};  // no command reads them any more
  EXPECT_EQ(target.values(), (std::vector<float>{1, 2, 3}));
  fails = false;  // the Context is still usable
  batch.submit().wait();
  EXPECT_EQ(target.values(), values);
}

TEST(Context, ReportsHowMuchMemoryIsMissing) {
  ContextConfig config = config_from_environment();
  config.memory_limit_bytes = 1 << 20;
  Context context(config);
  const std::string message =
      test::error_of([&] { (void)context.allocate({1 << 20}, DType::f32, MemoryTag::weights); });
  EXPECT_THAT(message, testing::HasSubstr("4.0 MiB wanted for weights"));
  EXPECT_THAT(message, testing::HasSubstr("use a smaller model"));
}

TEST(Context, NamesAnAbsentDevice) {
  ContextConfig config;
  config.device = "no such device";
  EXPECT_THAT(test::error_of([&] { Context context(config); }),
              testing::HasSubstr("no device matches"));
}

}  // namespace
}  // namespace clora

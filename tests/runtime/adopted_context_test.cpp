// A Context on a caller's queue and buffers: the references that it retains and releases, the
// queues and buffers that it refuses, and that the caller's commands and ours run in the order of
// enqueueing without a wait in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "clora/ops/rowwise/rms_norm.hpp"
#include "tests/support/host_program.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::error_of;
using test::HostProgram;
using test::references;
using test::stable_references;
using testing::HasSubstr;

constexpr std::int64_t kRows = 3;
constexpr std::int64_t kWidth = 64;
constexpr std::size_t kCount = kRows * kWidth;

// rms_norm with unit weights of x * before, multiplied by `after`.
std::vector<double> expected(std::span<const float> x, double before, double after) {
  std::vector<double> y(x.size());
  for (std::size_t row = 0; row < kRows; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < kWidth; ++i)
      sum += std::pow(before * double{x[row * kWidth + i]}, 2);
    const double scale = after / std::sqrt(sum / kWidth + 1e-5);
    for (std::size_t i = 0; i < kWidth; ++i) {
      y[row * kWidth + i] = scale * before * double{x[row * kWidth + i]};
    }
  }
  return y;
}

Tensor unit_weights(Context& context) {
  return test::upload(context, {kWidth}, std::vector<float>(kWidth, 1));
}

TEST(AdoptedContext, RunsBetweenTheCallersKernelsWithoutAWait) {
  const HostProgram host;
  const OwnedMem input = host.buffer(kCount * sizeof(float));
  const OwnedMem x = host.buffer(kCount * sizeof(float));
  const OwnedMem y = host.buffer(kCount * sizeof(float));
  const OwnedMem output = host.buffer(kCount * sizeof(float));
  const std::vector<float> values = test::random_values(kCount, 1);
  host.write(input.get(), values);

  Context context(host.adopted());
  const Tensor w = unit_weights(context);
  Batch batch(context);
  record_rms_norm(batch, context.adopt(y.get(), {kRows, kWidth}, DType::f32),
                  context.adopt(x.get(), {kRows, kWidth}, DType::f32), w, 1e-5F);
  // Each replay reads the input that the caller's kernel has just written.
  for (const float after : {3.0F, 5.0F}) {
    host.enqueue_scale(x.get(), input.get(), after - 1, kCount);
    batch.submit();
    host.enqueue_scale(output.get(), y.get(), after, kCount);
    test::expect_close(host.read(output.get(), kCount), expected(values, after - 1, after), 1e-5,
                       "the caller's output");
  }
}

TEST(AdoptedContext, ReleasesWhatItRetained) {
  const HostProgram host;
  const OwnedMem x = host.buffer(kCount * sizeof(float));
  // pocl counts one more reference once a queue has run a command, because the last event holds the
  // queue.
  host.write(x.get(), std::vector<float>(kCount, 1));
  const cl_uint of_context = stable_references(host.context.get());
  const cl_uint of_queue = stable_references(host.queue.get());
  const cl_uint of_x = stable_references(x.get());
  {
    Context context(host.adopted());
    EXPECT_GT(stable_references(host.context.get()), of_context);
    EXPECT_EQ(stable_references(host.queue.get()), of_queue + 1);
    const Tensor view = context.adopt(x.get(), {kRows, kWidth}, DType::f32);
    EXPECT_EQ(stable_references(x.get()), of_x + 1);
    const Tensor row = context.adopt(x.get(), {kWidth}, DType::f32);
    EXPECT_EQ(stable_references(x.get()), of_x + 1) << "the views of one buffer share a reference";
    Batch batch(context);
    record_rms_norm(batch, view, view, unit_weights(context), 1e-5F);
    batch.submit().wait();
  }
  EXPECT_EQ(stable_references(x.get()), of_x);
  EXPECT_EQ(stable_references(host.queue.get()), of_queue);
  EXPECT_EQ(stable_references(host.context.get()), of_context);
}

TEST(AdoptedContext, LeavesAViewThatOutlivesItWithTheMemoryOnly) {
  const HostProgram host;
  const OwnedMem x = host.buffer(kCount * sizeof(float));
  const cl_uint of_x = stable_references(x.get());
  const cl_uint of_queue = stable_references(host.queue.get());
  {
    Tensor view;
    {
      Context context(host.adopted());
      view = context.adopt(x.get(), {kRows, kWidth}, DType::f32);
    }
    EXPECT_EQ(stable_references(host.queue.get()), of_queue);
    EXPECT_EQ(stable_references(x.get()), of_x + 1);
  }
  EXPECT_EQ(stable_references(x.get()), of_x);
}

TEST(AdoptedContext, KeepsABufferThatItsCallerReleasedWhileAViewLives) {
  const HostProgram host;
  Context context(host.adopted());
  OwnedMem x = host.buffer(kCount * sizeof(float));
  const std::vector<float> values = test::random_values(kCount, 2);
  host.write(x.get(), values);
  const Tensor view = context.adopt(x.get(), {kRows, kWidth}, DType::f32);
  x.reset();
  EXPECT_EQ(context.read<float>(view), values);
}

TEST(AdoptedContext, ReleasesARefusedQueueAndBuffer) {
  const HostProgram host;
  const OwnedMem x = host.buffer(64);
  const cl_uint of_context = stable_references(host.context.get());
  const cl_uint of_queue = stable_references(host.queue.get());
  ContextConfig profiled;
  profiled.profile = true;
  error_of([&] { const Context context(host.adopted(), profiled); });
  {
    Context context(host.adopted());
    error_of([&] { context.adopt(x.get(), {17}, DType::f32); });
    EXPECT_EQ(stable_references(x.get()), 1U);
  }
  EXPECT_EQ(stable_references(host.queue.get()), of_queue);
  EXPECT_EQ(stable_references(host.context.get()), of_context);
}

// The middle third of a buffer is passed as a sub-buffer and viewed from its second row on.
TEST(AdoptedContext, TakesASubBufferAndCutsItsPartsFromTheRoot) {
  const HostProgram host;
  const std::size_t row =
      (kWidth * sizeof(float) + host.alignment - 1) / host.alignment * host.alignment;
  const OwnedMem root = host.buffer(3 * kRows * row);
  const OwnedMem third = host.sub_buffer(root.get(), kRows * row, kRows * row);
  const std::vector<float> values = test::random_values(3 * kRows * row / sizeof(float), 3);
  host.write(root.get(), values);
  const cl_uint of_root = stable_references(root.get());
  {
    Context context(host.adopted());
    const Tensor second = context.adopt(third.get(), {1, kWidth}, DType::f32, row);
    EXPECT_GT(stable_references(root.get()), of_root);
    EXPECT_EQ(stable_references(third.get()), 2U);
    Batch batch(context);
    record_rms_norm(batch, second, second, unit_weights(context), 1e-5F);
    batch.submit().wait();
  }
  EXPECT_EQ(stable_references(third.get()), 1U);
  EXPECT_EQ(stable_references(root.get()), of_root);

  const std::vector<float> after = host.read(root.get(), values.size());
  const std::size_t begin = (kRows + 1) * row / sizeof(float);
  double sum = 0;
  for (std::size_t i = 0; i < kWidth; ++i) sum += std::pow(double{values[begin + i]}, 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool normed = i >= begin && i < begin + kWidth;
    const double want = double{values[i]} / (normed ? std::sqrt(sum / kWidth + 1e-5) : 1);
    ASSERT_NEAR(double{after[i]}, want, 1e-5) << i;
  }
}

TEST(AdoptedContext, SharesOneRootBetweenABufferAndItsSubBuffers) {
  const HostProgram host;
  const OwnedMem root = host.buffer(2 * host.alignment);
  const OwnedMem half = host.sub_buffer(root.get(), host.alignment, host.alignment);
  Context context(host.adopted());
  const Tensor whole = context.adopt(root.get(), {4}, DType::f32);
  const cl_uint of_root = stable_references(root.get());
  const Tensor part = context.adopt(half.get(), {4}, DType::f32);
  const Tensor again = context.adopt(half.get(), {4}, DType::f32);
  EXPECT_EQ(part.storage()->mem, root.get());
  EXPECT_EQ(stable_references(root.get()), of_root);
  EXPECT_EQ(stable_references(half.get()), 2U);
}

TEST(AdoptedContext, CountsNoAdoptedMemoryAgainstItsLimit) {
  const HostProgram host;
  const OwnedMem x = host.buffer(1 << 21);
  ContextConfig config;
  config.memory_limit_bytes = 1 << 20;
  Context context(host.adopted(), config);
  const Tensor view = context.adopt(x.get(), {1 << 19}, DType::f32);
  EXPECT_EQ(context.pool().statistics().in_use_bytes, 0U);
}

TEST(AdoptedContext, WaitsForAForeignEventBeforeWhatComesAfter) {
  const HostProgram host;
  const OwnedQueue other = host.another_queue(0);
  const OwnedMem x = host.buffer(kCount * sizeof(float));
  const std::vector<float> values = test::random_values(kCount, 4);
  cl_int status = CL_SUCCESS;
  const OwnedEvent gate(clCreateUserEvent(host.context.get(), &status));
  check_opencl(status, "clCreateUserEvent");
  const cl_event gates[] = {gate.get()};
  cl_event written = nullptr;
  check_opencl(clEnqueueWriteBuffer(other.get(), x.get(), CL_FALSE, 0, kCount * sizeof(float),
                                    values.data(), 1, gates, &written),
               "clEnqueueWriteBuffer");
  const OwnedEvent owned(written);

  Context context(host.adopted());
  const Tensor view = context.adopt(x.get(), {kRows, kWidth}, DType::f32);
  std::vector<float> got(kCount);
  context.wait_for(std::span(&written, 1));
  const Fence fence = context.read_async(view, std::as_writable_bytes(std::span(got)));
  context.flush();
  EXPECT_FALSE(fence.passed());
  check_opencl(clSetUserEventStatus(gate.get(), CL_COMPLETE), "clSetUserEventStatus");
  fence.wait();
  EXPECT_EQ(got, values);
}

TEST(AdoptedContext, HandsOutAnEventThatTheCallerMayKeep) {
  const HostProgram host;
  const OwnedMem x = host.buffer(kCount * sizeof(float));
  Context context(host.adopted());
  const Tensor view = context.adopt(x.get(), {kRows, kWidth}, DType::f32);
  Batch batch(context);
  batch.fill_zero(view);
  cl_event event = nullptr;
  {
    const Fence fence = batch.submit();
    event = fence.event();
    check_opencl(clRetainEvent(event), "clRetainEvent");
  }
  const OwnedEvent owned_event(event);
  check_opencl(clWaitForEvents(1, &event), "clWaitForEvents");
  EXPECT_GE(references(event), 1U);
  EXPECT_EQ(host.read(x.get(), kCount), std::vector<float>(kCount, 0));
}

TEST(AdoptedContext, RefusesAQueueThatDoesNotFit) {
  const HostProgram host;
  const HostProgram other;
  const auto error = [&](AdoptedQueue adopted, bool profile = false) {
    ContextConfig config;
    config.profile = profile;
    return error_of([&] { const Context context(adopted, config); });
  };
  AdoptedQueue adopted = host.adopted();
  adopted.queue = other.queue.get();
  EXPECT_THAT(error(adopted), HasSubstr("must belong to the given context"));
  EXPECT_THAT(error(host.adopted(), true), HasSubstr("CL_QUEUE_PROFILING_ENABLE"));
  adopted.queue = nullptr;
  EXPECT_THAT(error(adopted), HasSubstr("got null"));
  const OwnedQueue disordered = host.another_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  adopted.queue = disordered.get();
  EXPECT_THAT(error(adopted), HasSubstr("must be in-order"));
}

TEST(AdoptedContext, ProfilesOnAQueueThatAllowsIt) {
  const HostProgram host(CL_QUEUE_PROFILING_ENABLE);
  ContextConfig config;
  config.profile = true;
  Context context(host.adopted(), config);
  const Tensor x = context.allocate({kRows, kWidth}, DType::f32, MemoryTag::scratch);
  Batch batch(context);
  batch.fill_zero(x);
  batch.submit().wait();
  EXPECT_EQ(context.profiler().times().at(0).count, 1U);
}

TEST(AdoptedContext, RefusesABufferThatDoesNotFit) {
  const HostProgram host;
  const HostProgram other;
  const OwnedMem x = host.buffer(kCount * sizeof(float));
  const OwnedMem foreign = other.buffer(kCount * sizeof(float));
  Context context(host.adopted());
  const auto error = [&](cl_mem mem, Shape shape, std::size_t offset) {
    return error_of([&] { context.adopt(mem, shape, DType::f32, offset); });
  };
  EXPECT_THAT(error(foreign.get(), {1}, 0), HasSubstr("own cl_context"));
  EXPECT_THAT(error(x.get(), {kCount + 1}, 0), HasSubstr("must fit into the buffer"));
  EXPECT_THAT(error(x.get(), {kCount}, host.alignment), HasSubstr("must fit into the buffer"));
  EXPECT_THAT(error(x.get(), {1}, 4 * kCount + host.alignment),
              HasSubstr("must fit into the buffer"));
  EXPECT_THAT(error(x.get(), {1}, 4), HasSubstr("must start at a multiple of"));
  EXPECT_THAT(error(nullptr, {1}, 0), HasSubstr("null cl_mem"));
}

}  // namespace
}  // namespace clora

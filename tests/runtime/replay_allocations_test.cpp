// Counts the host allocations of a replay: there are none. This program replaces operator new and
// interposes OpenCL's functions, so allocations inside the driver are not counted.

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "clora/model/training/recorded_step.hpp"
#include "clora/ops/rowwise/rms_norm.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_models.hpp"
#include "tests/support/tiny_models.hpp"

namespace {

thread_local bool counting = false;
thread_local int driver_calls = 0;  // nesting depth of this thread
thread_local int allocations = 0;

struct InDriver {
  InDriver() { ++driver_calls; }
  ~InDriver() { --driver_calls; }
};

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

void* allocate(std::size_t bytes) {
  if (counting && driver_calls == 0) ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

// The number of allocations of f() outside the driver.
template <class F>
int allocations_of(F f) {
  allocations = 0;
  counting = true;
  f();
  counting = false;
  return allocations;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

// The body of a function that interposes OpenCL's function of that name.
#define CLORA_PASS_ON(name, ...)                   \
  const InDriver in_driver;                        \
  static auto* real = next<decltype(name)>(#name); \
  return real(__VA_ARGS__)

extern "C" {

cl_int clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel kernel, cl_uint dimensions,
                              const size_t* offset, const size_t* global, const size_t* local,
                              cl_uint n, const cl_event* waits, cl_event* event) {
  CLORA_PASS_ON(clEnqueueNDRangeKernel, q, kernel, dimensions, offset, global, local, n, waits,
                event);
}

cl_int clEnqueueCopyBuffer(cl_command_queue q, cl_mem from, cl_mem to, size_t from_offset,
                           size_t to_offset, size_t bytes, cl_uint n, const cl_event* waits,
                           cl_event* event) {
  CLORA_PASS_ON(clEnqueueCopyBuffer, q, from, to, from_offset, to_offset, bytes, n, waits, event);
}

cl_int clEnqueueFillBuffer(cl_command_queue q, cl_mem to, const void* pattern, size_t pattern_bytes,
                           size_t offset, size_t bytes, cl_uint n, const cl_event* waits,
                           cl_event* event) {
  CLORA_PASS_ON(clEnqueueFillBuffer, q, to, pattern, pattern_bytes, offset, bytes, n, waits, event);
}

cl_int clEnqueueWriteBuffer(cl_command_queue q, cl_mem to, cl_bool blocking, size_t offset,
                            size_t bytes, const void* from, cl_uint n, const cl_event* waits,
                            cl_event* event) {
  CLORA_PASS_ON(clEnqueueWriteBuffer, q, to, blocking, offset, bytes, from, n, waits, event);
}

cl_int clEnqueueMarkerWithWaitList(cl_command_queue q, cl_uint n, const cl_event* waits,
                                   cl_event* event) {
  CLORA_PASS_ON(clEnqueueMarkerWithWaitList, q, n, waits, event);
}

cl_int clFlush(cl_command_queue q) { CLORA_PASS_ON(clFlush, q); }
cl_int clRetainEvent(cl_event event) { CLORA_PASS_ON(clRetainEvent, event); }
cl_int clReleaseEvent(cl_event event) { CLORA_PASS_ON(clReleaseEvent, event); }

cl_int clGetEventInfo(cl_event event, cl_event_info name, size_t bytes, void* value, size_t* size) {
  CLORA_PASS_ON(clGetEventInfo, event, name, bytes, value, size);
}

cl_int clSetEventCallback(cl_event event, cl_int state,
                          void(CL_CALLBACK* callback)(cl_event, cl_int, void*), void* data) {
  CLORA_PASS_ON(clSetEventCallback, event, state, callback, data);
}

}  // extern "C"

namespace clora {
namespace {

TEST(Replay, AllocatesNothingWhateverTheCommands) {
  ContextConfig config = config_from_environment();
  config.max_commands_in_flight = 24;  // so it is segmented and waits for its first segments
  Context context(config);
  const Tensor a = test::upload(context, {4, 16}, std::vector<float>(64, 1.0F));
  const Tensor weight = test::upload(context, {16}, std::vector<float>(16, 1.0F));
  const std::vector<float> values(64, 2.0F);
  Batch batch(context);
  for (int i = 0; i < 20; ++i) {
    const Tensor b = batch.temporary({4, 16}, DType::f32, "b");
    batch.upload(a, std::as_bytes(std::span(values)));
    record_rms_norm(batch, b, a, weight, 1e-5F);
    batch.mark("normed");
    batch.copy(a, b);
    batch.fill_zero(b);
    batch.call("nothing", {a}, [](cl_command_queue, std::span<const MemoryRegion>) {});
  }
  batch.submit().wait();
  EXPECT_EQ(allocations_of([] { delete new int(1); }), 1);  // checks the counter
  EXPECT_EQ(allocations_of([&] {
              for (int i = 0; i < 5; ++i) batch.submit();
            }),
            0);
  EXPECT_EQ(allocations_of([&] { batch.submit().wait(); }), 0);
}

TEST(Replay, OfATrainingStepAllocatesNothing) {
  const test::TemporaryFolder folder;
  test::write_tiny_model(folder.path(), test::tiny_models().front().config);
  test::OpenModel open(folder.path());
  Context& context = open.model.context();
  Adapter adapter(context, adapter_sites(open.model.config()), {});
  adapter.initialise(1);
  adapter.allocate_gradients();
  const Tensor loss =
      context.upload<float>({1}, DType::f32, std::vector<float>(1), MemoryTag::activations);
  const Record record{.ids = {1, 2, 3, 4, 5}, .is_target = {0, 1, 1, 1, 1}};
  RecordedStep step(open.model, &adapter, {StepKind::train, {}}, {.rows = 5, .labelled = 4}, {loss},
                    std::make_shared<Arena>());
  std::vector<std::int32_t> staging;
  step.inputs().upload(context, pack_rows(std::span(&record, 1), 5), {.weight = 0.25F}, staging);
  step.batch().submit().wait();
  EXPECT_GT(step.batch().commands(), 40U);
  EXPECT_EQ(allocations_of([&] { step.batch().submit(); }), 0);
  EXPECT_EQ(allocations_of([&] { step.batch().submit().wait(); }), 0);
}

}  // namespace
}  // namespace clora

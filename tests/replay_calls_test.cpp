// What a replayed training step asks of OpenCL, counted: this program puts its own functions in
// front of the loader's.

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>

#include "model/trainer.hpp"
#include "tests/support/test_models.hpp"
#include "tests/support/tiny_models.hpp"

namespace {

struct Calls {
  int buffers_made = 0;
  int arguments_set = 0;
  int kernels_made = 0;
  int blocking_transfers = 0;
  int finishes = 0;
  int launches = 0;
};
Calls calls;

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void* host,
                      cl_int* status) {
  ++calls.buffers_made;
  static auto* real = next<decltype(clCreateBuffer)>("clCreateBuffer");
  return real(context, flags, bytes, host, status);
}

cl_mem clCreateSubBuffer(cl_mem parent, cl_mem_flags flags, cl_buffer_create_type type,
                         const void* info, cl_int* status) {
  ++calls.buffers_made;
  static auto* real = next<decltype(clCreateSubBuffer)>("clCreateSubBuffer");
  return real(parent, flags, type, info, status);
}

cl_kernel clCreateKernel(cl_program program, const char* name, cl_int* status) {
  ++calls.kernels_made;
  static auto* real = next<decltype(clCreateKernel)>("clCreateKernel");
  return real(program, name, status);
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t bytes, const void* value) {
  ++calls.arguments_set;
  static auto* real = next<decltype(clSetKernelArg)>("clSetKernelArg");
  return real(kernel, index, bytes, value);
}

cl_int clFinish(cl_command_queue queue) {
  ++calls.finishes;
  static auto* real = next<decltype(clFinish)>("clFinish");
  return real(queue);
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                           size_t bytes, void* target, cl_uint waits, const cl_event* wait_list,
                           cl_event* event) {
  if (blocking == CL_TRUE) ++calls.blocking_transfers;
  static auto* real = next<decltype(clEnqueueReadBuffer)>("clEnqueueReadBuffer");
  return real(queue, buffer, blocking, offset, bytes, target, waits, wait_list, event);
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                            size_t bytes, const void* source, cl_uint waits,
                            const cl_event* wait_list, cl_event* event) {
  if (blocking == CL_TRUE) ++calls.blocking_transfers;
  static auto* real = next<decltype(clEnqueueWriteBuffer)>("clEnqueueWriteBuffer");
  return real(queue, buffer, blocking, offset, bytes, source, waits, wait_list, event);
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t* offset, const size_t* global, const size_t* local,
                              cl_uint waits, const cl_event* wait_list, cl_event* event) {
  ++calls.launches;
  static auto* real = next<decltype(clEnqueueNDRangeKernel)>("clEnqueueNDRangeKernel");
  return real(queue, kernel, dimensions, offset, global, local, waits, wait_list, event);
}

}  // extern "C"

namespace clora {
namespace {

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

  calls = {};
  const std::size_t bytes = open.model.context().pool().statistics().in_use_bytes;
  for (int i = 0; i < 5; ++i) trainer.step(std::span(&rows, 1), 1e-3);
  const Calls seen = calls;
  EXPECT_GT(seen.launches, 5 * 2 * 20);  // two blocks, forward and backward: it did run
  EXPECT_EQ(seen.buffers_made, 0);
  EXPECT_EQ(seen.kernels_made, 0);
  EXPECT_EQ(seen.arguments_set, 0);
  EXPECT_EQ(seen.blocking_transfers, 0);
  EXPECT_EQ(seen.finishes, 0);
  EXPECT_EQ(open.model.context().pool().statistics().in_use_bytes, bytes);
}

}  // namespace
}  // namespace clora

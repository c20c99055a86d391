// Makes oclgrind's check for unwritten values (--uninitialized) exact for global memory. A library
// to preload between a test program and oclgrind, as tools/check_kernels does.
//
// oclgrind 21.10 only tracks the host's last write to a buffer: each write, each pattern of a fill
// and each copy replaces the buffer's tracked state by a piece of its own size, and a buffer that
// the host has never written has no state. Writes of kernels beyond that piece are lost, so a
// temporary looks unwritten indefinitely. A memcpy in a kernel moves the state correctly. Hence:
//   a new buffer      is fully written, which gives it a state; then a kernel copies over it from a
//                     buffer that was never written, which marks every byte as unwritten;
//   write, fill, copy become a kernel's copy, from a buffer that was fully written or from the
//                     source itself, so that copying unwritten bytes leaves them unwritten.
// Commands run to completion here, one at a time. Not covered: CL_MEM_USE_HOST_PTR, rectangles,
// images, shared virtual memory.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

namespace {

constexpr std::size_t kUnwrittenBytes = std::size_t{1} << 22U;

constexpr const char* kSource =
    "__kernel void move_bytes(__global uchar* to, ulong to_at, __global const uchar* from,\n"
    "                         ulong from_at, ulong bytes) {\n"
    "  __builtin_memcpy(to + to_at, from + from_at, bytes);\n"
    "}\n";

// The simulator's own function of that name.
#define SIMULATED(name)                                                                \
  ([] {                                                                                \
    static auto* const f = reinterpret_cast<decltype(&name)>(dlsym(RTLD_NEXT, #name)); \
    return f;                                                                          \
  }())

void demand(cl_int status, const char* what) {
  if (status == CL_SUCCESS) return;
  std::fprintf(stderr, "written_memory: %s failed with %d\n", what, status);
  std::abort();
}

struct Wait {
  cl_uint count = 0;
  const cl_event* events = nullptr;
};

// The objects needed in a cl_context. They are created with its first buffer and never released.
// `unwritten` must be the first buffer, since oclgrind reuses the address of a freed buffer, and
// the state stored for it, for a later one.
class Simulator {
 public:
  explicit Simulator(cl_context context) : context_(context) {
    cl_int status = CL_SUCCESS;
    cl_device_id device = nullptr;
    demand(clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof device, &device, nullptr),
           "clGetContextInfo");
    unwritten_ = create(kUnwrittenBytes);
    queue_ = clCreateCommandQueue(context, device, 0, &status);
    demand(status, "clCreateCommandQueue");
    const char* source = kSource;
    cl_program program = clCreateProgramWithSource(context, 1, &source, nullptr, &status);
    demand(status, "clCreateProgramWithSource");
    demand(clBuildProgram(program, 1, &device, "", nullptr, nullptr), "clBuildProgram");
    kernel_ = clCreateKernel(program, "move_bytes", &status);
    demand(status, "clCreateKernel");
  }

  // Marks all `bytes` bytes of `mem` as unwritten for oclgrind.
  void forget(cl_mem mem, std::size_t bytes) {
    write_buffer(mem, std::vector<unsigned char>(bytes));
    for (std::size_t at = 0; at < bytes; at += kUnwrittenBytes) {
      move(queue_, mem, at, unwritten_, 0, std::min(bytes - at, kUnwrittenBytes), {}, nullptr);
    }
  }

  void put(cl_command_queue queue, cl_mem to, std::size_t at,
           const std::vector<unsigned char>& content, Wait wait, cl_event* event) {
    cl_mem staged = create(content.size());
    write_buffer(staged, content);
    move(queue, to, at, staged, 0, content.size(), wait, event);
    demand(clReleaseMemObject(staged), "clReleaseMemObject");
  }

  void move(cl_command_queue queue, cl_mem to, cl_ulong to_at, cl_mem from, cl_ulong from_at,
            cl_ulong bytes, Wait wait, cl_event* event) {
    demand(clSetKernelArg(kernel_, 0, sizeof to, &to), "clSetKernelArg");
    demand(clSetKernelArg(kernel_, 1, sizeof to_at, &to_at), "clSetKernelArg");
    demand(clSetKernelArg(kernel_, 2, sizeof from, &from), "clSetKernelArg");
    demand(clSetKernelArg(kernel_, 3, sizeof from_at, &from_at), "clSetKernelArg");
    demand(clSetKernelArg(kernel_, 4, sizeof bytes, &bytes), "clSetKernelArg");
    const std::size_t one = 1;
    demand(clEnqueueNDRangeKernel(queue, kernel_, 1, nullptr, &one, &one, wait.count, wait.events,
                                  event),
           "clEnqueueNDRangeKernel");
    demand(clFinish(queue), "clFinish");
  }

 private:
  cl_mem create(std::size_t bytes) {
    cl_int status = CL_SUCCESS;
    cl_mem mem = SIMULATED(clCreateBuffer)(context_, CL_MEM_READ_WRITE, bytes, nullptr, &status);
    demand(status, "clCreateBuffer");
    return mem;
  }

  void write_buffer(cl_mem mem, const std::vector<unsigned char>& content) {
    demand(SIMULATED(clEnqueueWriteBuffer)(queue_, mem, CL_TRUE, 0, content.size(), content.data(),
                                           0, nullptr, nullptr),
           "clEnqueueWriteBuffer");
  }

  cl_context context_;
  cl_mem unwritten_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_kernel kernel_ = nullptr;
};

std::recursive_mutex& mutex() {
  static std::recursive_mutex created;
  return created;
}

Simulator& simulator_of(cl_context context) {
  static auto& created = *new std::map<cl_context, Simulator>();  // outlives all users
  return created.try_emplace(context, context).first->second;
}

Simulator& simulator_of(cl_command_queue queue) {
  cl_context context = nullptr;
  demand(clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, nullptr),
         "clGetCommandQueueInfo");
  return simulator_of(context);
}

}  // namespace

extern "C" {

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void* host_ptr,
                      cl_int* status) {
  const std::scoped_lock lock(mutex());
  Simulator& simulator = simulator_of(context);
  cl_mem mem = SIMULATED(clCreateBuffer)(context, flags, size, host_ptr, status);
  if (mem != nullptr && host_ptr == nullptr) simulator.forget(mem, size);
  return mem;
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool, size_t offset,
                            size_t size, const void* ptr, cl_uint count, const cl_event* events,
                            cl_event* event) {
  const std::scoped_lock lock(mutex());
  const auto* bytes = static_cast<const unsigned char*>(ptr);
  simulator_of(queue).put(queue, buffer, offset, {bytes, bytes + size}, {count, events}, event);
  return CL_SUCCESS;
}

cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer, const void* pattern,
                           size_t pattern_size, size_t offset, size_t size, cl_uint count,
                           const cl_event* events, cl_event* event) {
  const std::scoped_lock lock(mutex());
  const auto* bytes = static_cast<const unsigned char*>(pattern);
  std::vector<unsigned char> content(size);
  for (std::size_t i = 0; i < size; ++i) content[i] = bytes[i % pattern_size];
  simulator_of(queue).put(queue, buffer, offset, content, {count, events}, event);
  return CL_SUCCESS;
}

cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem src, cl_mem dst, size_t src_offset,
                           size_t dst_offset, size_t size, cl_uint count, const cl_event* events,
                           cl_event* event) {
  const std::scoped_lock lock(mutex());
  simulator_of(queue).move(queue, dst, dst_offset, src, src_offset, size, {count, events}, event);
  return CL_SUCCESS;
}

// A region mapped for writing counts as written. oclgrind does not check maps that also read.
void* clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                         cl_map_flags flags, size_t offset, size_t size, cl_uint count,
                         const cl_event* events, cl_event* event, cl_int* status) {
  const std::scoped_lock lock(mutex());
  std::vector<unsigned char> content(size);
  demand(clEnqueueReadBuffer(queue, buffer, CL_TRUE, offset, size, content.data(), count, events,
                             nullptr),
         "clEnqueueReadBuffer");
  if (flags != CL_MAP_READ) simulator_of(queue).put(queue, buffer, offset, content, {}, nullptr);
  return SIMULATED(clEnqueueMapBuffer)(queue, buffer, blocking, CL_MAP_READ | CL_MAP_WRITE, offset,
                                       size, 0, nullptr, event, status);
}
}

#include "tests/support/opencl_faults.hpp"

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS  // clCreateCommandQueue, which OpenCL 1.2 drivers need
#include <CL/cl.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

// The loader's function of that name. It is opened by name, since a program whose OpenCL calls are
// all interposed need not be linked to the loader.
#define CLORA_NEXT(name)                                                                     \
  ([]() {                                                                                    \
    static auto* const real =                                                                \
        reinterpret_cast<decltype(&name)>(dlsym(dlopen("libOpenCL.so.1", RTLD_NOW), #name)); \
    return real;                                                                             \
  }())

namespace clora::test {
namespace {

struct KindFacts {
  CallKind kind;
  std::string_view name;
  int status;
};
constexpr std::array<KindFacts, kCallKinds> kKinds{{
    {CallKind::query, "query", CL_OUT_OF_HOST_MEMORY},
    {CallKind::context, "context", CL_OUT_OF_HOST_MEMORY},
    {CallKind::queue, "queue", CL_OUT_OF_HOST_MEMORY},
    {CallKind::allocation, "allocation", CL_MEM_OBJECT_ALLOCATION_FAILURE},
    {CallKind::sub_buffer, "sub_buffer", CL_OUT_OF_RESOURCES},
    {CallKind::program, "program", CL_OUT_OF_HOST_MEMORY},
    {CallKind::binary, "binary", CL_INVALID_BINARY},
    {CallKind::build, "build", CL_BUILD_PROGRAM_FAILURE},
    {CallKind::kernel, "kernel", CL_OUT_OF_RESOURCES},
    {CallKind::argument, "argument", CL_OUT_OF_RESOURCES},
    {CallKind::launch, "launch", CL_OUT_OF_RESOURCES},
    {CallKind::copy, "copy", CL_OUT_OF_RESOURCES},
    {CallKind::fill, "fill", CL_OUT_OF_RESOURCES},
    {CallKind::write, "write", CL_OUT_OF_RESOURCES},
    {CallKind::read, "read", CL_OUT_OF_RESOURCES},
    {CallKind::map, "map", CL_MAP_FAILURE},
    {CallKind::unmap, "unmap", CL_OUT_OF_RESOURCES},
    {CallKind::migrate, "migrate", CL_MEM_OBJECT_ALLOCATION_FAILURE},
    {CallKind::marker, "marker", CL_OUT_OF_HOST_MEMORY},
    {CallKind::wait, "wait", CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST},
    {CallKind::flush, "flush", CL_OUT_OF_RESOURCES},
    {CallKind::finish, "finish", CL_OUT_OF_RESOURCES},
    {CallKind::event_status, "event_status", CL_OUT_OF_RESOURCES},
    {CallKind::event_times, "event_times", CL_PROFILING_INFO_NOT_AVAILABLE},
    {CallKind::event_callback, "event_callback", CL_OUT_OF_HOST_MEMORY},
    {CallKind::user_event, "user_event", CL_OUT_OF_HOST_MEMORY},
}};

struct State {
  std::mutex mutex;  // guards everything except the live counts
  std::array<int, kCallKinds> calls{};
  int all = 0;
  int blocking = 0;
  int failed = 0;
  std::optional<Fault> fault;
  int lost_at = 0;       // 0: never
  bool drained = false;  // commands running when the device was lost have ended
  std::vector<cl_command_queue> queues;
  int held_at = 0;          // 0: never
  cl_event held = nullptr;  // the user event that a held launch waits for
};

State& state() {
  static State created;
  return created;
}

struct Live {
  std::atomic<int> contexts, queues, buffers, programs, kernels, events;
};
Live live;

// A lost device runs nothing. The real device completes its commands first, so it does not access
// memory that the library frees from now on.
void drain(State& s) {
  if (std::exchange(s.drained, true)) return;
  for (const cl_command_queue queue : s.queues) CLORA_NEXT(clFinish)(queue);
}

// Counts a call. Returns the status with which it must fail, or CL_SUCCESS.
cl_int arrive(CallKind kind) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const int nth = ++s.calls.at(static_cast<std::size_t>(kind));
  ++s.all;
  cl_int status = CL_SUCCESS;
  if (s.lost_at > 0 && s.all >= s.lost_at) {
    drain(s);
    status = CL_DEVICE_NOT_AVAILABLE;
  } else if (s.fault.has_value() && s.fault->kind == kind &&
             (nth == s.fault->nth || (s.fault->lasting && nth > s.fault->nth))) {
    status = s.fault->status == 0 ? usual_status(kind) : s.fault->status;
  }
  if (status != CL_SUCCESS) ++s.failed;
  return status;
}

// The same for calls that create an object and return their status by pointer.
bool refused(CallKind kind, cl_int* status) {
  const cl_int got = arrive(kind);
  if (got != CL_SUCCESS && status != nullptr) *status = got;
  return got != CL_SUCCESS;
}

void count_blocking(cl_bool blocking) {
  if (blocking == CL_FALSE) return;
  const std::lock_guard lock(state().mutex);
  ++state().blocking;
}

template <class Handle>
Handle counted(Handle handle, std::atomic<int>& count) {
  if (handle != nullptr) ++count;
  return handle;
}

cl_int with_event(cl_int status, const cl_event* event) {
  if (status == CL_SUCCESS && event != nullptr) ++live.events;
  return status;
}

cl_int retained(cl_int status, std::atomic<int>& count) {
  if (status == CL_SUCCESS) ++count;
  return status;
}

cl_int released(cl_int status, std::atomic<int>& count) {
  if (status == CL_SUCCESS) --count;
  return status;
}

// The user event that this launch must wait for, created if this is the launch to hold; else null.
cl_event event_to_hold(cl_command_queue queue) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.held_at == 0 || s.calls[static_cast<std::size_t>(CallKind::launch)] != s.held_at) {
    return nullptr;
  }
  cl_context context = nullptr;
  CLORA_NEXT(clGetCommandQueueInfo)(queue, CL_QUEUE_CONTEXT, sizeof context, &context, nullptr);
  cl_int status = CL_SUCCESS;
  s.held = CLORA_NEXT(clCreateUserEvent)(context, &status);
  return s.held;
}

}  // namespace

std::array<CallKind, kCallKinds> all_call_kinds() {
  std::array<CallKind, kCallKinds> kinds{};
  for (std::size_t i = 0; i < kCallKinds; ++i) kinds[i] = kKinds[i].kind;
  return kinds;
}

std::string_view name_of(CallKind kind) { return kKinds.at(static_cast<std::size_t>(kind)).name; }

int usual_status(CallKind kind) { return kKinds.at(static_cast<std::size_t>(kind)).status; }

void inject(const Fault& fault) {
  const std::lock_guard lock(state().mutex);
  state().fault = fault;
}

void lose_device_at(int nth) {
  const std::lock_guard lock(state().mutex);
  state().lost_at = nth;
}

void hold_launch(int nth) {
  const std::lock_guard lock(state().mutex);
  state().held_at = nth;
}

void release_held_launch(int status) {
  cl_event held = nullptr;
  {
    const std::lock_guard lock(state().mutex);
    state().held_at = 0;
    held = std::exchange(state().held, nullptr);
  }
  if (held == nullptr) return;
  CLORA_NEXT(clSetUserEventStatus)(held, status < 0 ? status : CL_COMPLETE);
  CLORA_NEXT(clReleaseEvent)(held);
}

void clear_faults() {
  release_held_launch();
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.calls = {};
  s.all = s.blocking = s.failed = s.lost_at = 0;
  s.drained = false;
  s.fault.reset();
}

int calls(CallKind kind) {
  const std::lock_guard lock(state().mutex);
  return state().calls.at(static_cast<std::size_t>(kind));
}

int all_calls() {
  const std::lock_guard lock(state().mutex);
  return state().all;
}

int blocking_transfers() {
  const std::lock_guard lock(state().mutex);
  return state().blocking;
}

int failed_calls() {
  const std::lock_guard lock(state().mutex);
  return state().failed;
}

std::string LiveObjects::text() const {
  return fmt::format("{} contexts, {} queues, {} buffers, {} programs, {} kernels, {} events",
                     contexts, queues, buffers, programs, kernels, events);
}

LiveObjects live_objects() {
  return {live.contexts, live.queues, live.buffers, live.programs, live.kernels, live.events};
}

cl_command_queue with_queue(cl_command_queue created) {
  const std::lock_guard lock(state().mutex);
  if (created != nullptr) state().queues.push_back(created);
  return counted(created, live.queues);
}

}  // namespace clora::test

using namespace clora::test;  // the functions below are OpenCL's own, outside of any namespace

#define CLORA_REFUSE(kind) \
  if (const cl_int status_of_fault = arrive(CallKind::kind)) return status_of_fault

extern "C" {

// ---- queries

cl_int clGetPlatformIDs(cl_uint count, cl_platform_id* platforms, cl_uint* found) {
  CLORA_REFUSE(query);
  return CLORA_NEXT(clGetPlatformIDs)(count, platforms, found);
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint count,
                      cl_device_id* devices, cl_uint* found) {
  CLORA_REFUSE(query);
  return CLORA_NEXT(clGetDeviceIDs)(platform, type, count, devices, found);
}

#define CLORA_INFO(Name, Object, What)                                               \
  cl_int Name(Object object, What what, size_t bytes, void* value, size_t* needed) { \
    CLORA_REFUSE(query);                                                             \
    return CLORA_NEXT(Name)(object, what, bytes, value, needed);                     \
  }
CLORA_INFO(clGetPlatformInfo, cl_platform_id, cl_platform_info)
CLORA_INFO(clGetDeviceInfo, cl_device_id, cl_device_info)
CLORA_INFO(clGetContextInfo, cl_context, cl_context_info)
CLORA_INFO(clGetCommandQueueInfo, cl_command_queue, cl_command_queue_info)
CLORA_INFO(clGetMemObjectInfo, cl_mem, cl_mem_info)
CLORA_INFO(clGetProgramInfo, cl_program, cl_program_info)

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_program_build_info what,
                             size_t bytes, void* value, size_t* needed) {
  CLORA_REFUSE(query);
  return CLORA_NEXT(clGetProgramBuildInfo)(program, device, what, bytes, value, needed);
}

cl_int clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                cl_kernel_work_group_info what, size_t bytes, void* value,
                                size_t* needed) {
  CLORA_REFUSE(query);
  return CLORA_NEXT(clGetKernelWorkGroupInfo)(kernel, device, what, bytes, value, needed);
}

// ---- objects

cl_context clCreateContext(const cl_context_properties* properties, cl_uint count,
                           const cl_device_id* devices,
                           void(CL_CALLBACK* notify)(const char*, const void*, size_t, void*),
                           void* data, cl_int* status) {
  if (refused(CallKind::context, status)) return nullptr;
  return counted(CLORA_NEXT(clCreateContext)(properties, count, devices, notify, data, status),
                 live.contexts);
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device,
                                      cl_command_queue_properties properties, cl_int* status) {
  if (refused(CallKind::queue, status)) return nullptr;
  return with_queue(CLORA_NEXT(clCreateCommandQueue)(context, device, properties, status));
}

cl_command_queue clCreateCommandQueueWithProperties(cl_context context, cl_device_id device,
                                                    const cl_queue_properties* properties,
                                                    cl_int* status) {
  if (refused(CallKind::queue, status)) return nullptr;
  return with_queue(
      CLORA_NEXT(clCreateCommandQueueWithProperties)(context, device, properties, status));
}

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void* host,
                      cl_int* status) {
  if (refused(CallKind::allocation, status)) return nullptr;
  return counted(CLORA_NEXT(clCreateBuffer)(context, flags, bytes, host, status), live.buffers);
}

cl_mem clCreateSubBuffer(cl_mem parent, cl_mem_flags flags, cl_buffer_create_type type,
                         const void* info, cl_int* status) {
  if (refused(CallKind::sub_buffer, status)) return nullptr;
  return counted(CLORA_NEXT(clCreateSubBuffer)(parent, flags, type, info, status), live.buffers);
}

cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char** texts,
                                     const size_t* lengths, cl_int* status) {
  if (refused(CallKind::program, status)) return nullptr;
  return counted(CLORA_NEXT(clCreateProgramWithSource)(context, count, texts, lengths, status),
                 live.programs);
}

cl_program clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id* devices,
                                     const size_t* lengths, const unsigned char** binaries,
                                     cl_int* binary_status, cl_int* status) {
  if (refused(CallKind::binary, status)) return nullptr;
  return counted(CLORA_NEXT(clCreateProgramWithBinary)(context, count, devices, lengths, binaries,
                                                       binary_status, status),
                 live.programs);
}

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id* devices,
                      const char* options, void(CL_CALLBACK* notify)(cl_program, void*),
                      void* data) {
  CLORA_REFUSE(build);
  return CLORA_NEXT(clBuildProgram)(program, count, devices, options, notify, data);
}

cl_kernel clCreateKernel(cl_program program, const char* name, cl_int* status) {
  if (refused(CallKind::kernel, status)) return nullptr;
  return counted(CLORA_NEXT(clCreateKernel)(program, name, status), live.kernels);
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t bytes, const void* value) {
  CLORA_REFUSE(argument);
  return CLORA_NEXT(clSetKernelArg)(kernel, index, bytes, value);
}

cl_int clSetKernelArgSVMPointer(cl_kernel kernel, cl_uint index, const void* value) {
  CLORA_REFUSE(argument);
  return CLORA_NEXT(clSetKernelArgSVMPointer)(kernel, index, value);
}

cl_event clCreateUserEvent(cl_context context, cl_int* status) {
  if (refused(CallKind::user_event, status)) return nullptr;
  return counted(CLORA_NEXT(clCreateUserEvent)(context, status), live.events);
}

cl_int clSetUserEventStatus(cl_event event, cl_int status) {
  CLORA_REFUSE(user_event);
  return CLORA_NEXT(clSetUserEventStatus)(event, status);
}

// Retain and release calls always reach the driver.
#define CLORA_COUNT_REFERENCES(Retain, Release, Handle, count)                         \
  cl_int Retain(Handle handle) { return retained(CLORA_NEXT(Retain)(handle), count); } \
  cl_int Release(Handle handle) { return released(CLORA_NEXT(Release)(handle), count); }
CLORA_COUNT_REFERENCES(clRetainContext, clReleaseContext, cl_context, live.contexts)
CLORA_COUNT_REFERENCES(clRetainMemObject, clReleaseMemObject, cl_mem, live.buffers)
CLORA_COUNT_REFERENCES(clRetainProgram, clReleaseProgram, cl_program, live.programs)
CLORA_COUNT_REFERENCES(clRetainKernel, clReleaseKernel, cl_kernel, live.kernels)
CLORA_COUNT_REFERENCES(clRetainEvent, clReleaseEvent, cl_event, live.events)

cl_int clRetainCommandQueue(cl_command_queue queue) {
  const std::lock_guard lock(state().mutex);
  state().queues.push_back(queue);
  return retained(CLORA_NEXT(clRetainCommandQueue)(queue), live.queues);
}

cl_int clReleaseCommandQueue(cl_command_queue queue) {
  {
    const std::lock_guard lock(state().mutex);
    const auto one = std::ranges::find(state().queues, queue);
    if (one != state().queues.end()) state().queues.erase(one);
  }
  return released(CLORA_NEXT(clReleaseCommandQueue)(queue), live.queues);
}

// ---- commands

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t* offset, const size_t* global, const size_t* local,
                              cl_uint waits, const cl_event* wait_list, cl_event* event) {
  CLORA_REFUSE(launch);
  std::vector<cl_event> all(wait_list, wait_list + waits);
  if (const cl_event held = event_to_hold(queue)) all.push_back(held);
  return with_event(CLORA_NEXT(clEnqueueNDRangeKernel)(queue, kernel, dimensions, offset, global,
                                                       local, static_cast<cl_uint>(all.size()),
                                                       all.empty() ? nullptr : all.data(), event),
                    event);
}

cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem source, cl_mem target,
                           size_t source_offset, size_t target_offset, size_t bytes, cl_uint waits,
                           const cl_event* wait_list, cl_event* event) {
  CLORA_REFUSE(copy);
  return with_event(CLORA_NEXT(clEnqueueCopyBuffer)(queue, source, target, source_offset,
                                                    target_offset, bytes, waits, wait_list, event),
                    event);
}

cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer, const void* pattern,
                           size_t pattern_bytes, size_t offset, size_t bytes, cl_uint waits,
                           const cl_event* wait_list, cl_event* event) {
  CLORA_REFUSE(fill);
  return with_event(CLORA_NEXT(clEnqueueFillBuffer)(queue, buffer, pattern, pattern_bytes, offset,
                                                    bytes, waits, wait_list, event),
                    event);
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                            size_t bytes, const void* source, cl_uint waits,
                            const cl_event* wait_list, cl_event* event) {
  count_blocking(blocking);
  CLORA_REFUSE(write);
  return with_event(CLORA_NEXT(clEnqueueWriteBuffer)(queue, buffer, blocking, offset, bytes, source,
                                                     waits, wait_list, event),
                    event);
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                           size_t bytes, void* target, cl_uint waits, const cl_event* wait_list,
                           cl_event* event) {
  count_blocking(blocking);
  CLORA_REFUSE(read);
  return with_event(CLORA_NEXT(clEnqueueReadBuffer)(queue, buffer, blocking, offset, bytes, target,
                                                    waits, wait_list, event),
                    event);
}

void* clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                         cl_map_flags flags, size_t offset, size_t bytes, cl_uint waits,
                         const cl_event* wait_list, cl_event* event, cl_int* status) {
  count_blocking(blocking);
  if (refused(CallKind::map, status)) return nullptr;
  void* mapped = CLORA_NEXT(clEnqueueMapBuffer)(queue, buffer, blocking, flags, offset, bytes,
                                                waits, wait_list, event, status);
  with_event(mapped == nullptr ? CL_MAP_FAILURE : CL_SUCCESS, event);
  return mapped;
}

cl_int clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem mem, void* mapped, cl_uint waits,
                               const cl_event* wait_list, cl_event* event) {
  CLORA_REFUSE(unmap);
  return with_event(
      CLORA_NEXT(clEnqueueUnmapMemObject)(queue, mem, mapped, waits, wait_list, event), event);
}

cl_int clEnqueueMigrateMemObjects(cl_command_queue queue, cl_uint count, const cl_mem* mems,
                                  cl_mem_migration_flags flags, cl_uint waits,
                                  const cl_event* wait_list, cl_event* event) {
  CLORA_REFUSE(migrate);
  return with_event(
      CLORA_NEXT(clEnqueueMigrateMemObjects)(queue, count, mems, flags, waits, wait_list, event),
      event);
}

cl_int clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint waits, const cl_event* wait_list,
                                   cl_event* event) {
  CLORA_REFUSE(marker);
  return with_event(CLORA_NEXT(clEnqueueMarkerWithWaitList)(queue, waits, wait_list, event), event);
}

cl_int clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint waits,
                                    const cl_event* wait_list, cl_event* event) {
  CLORA_REFUSE(marker);
  return with_event(CLORA_NEXT(clEnqueueBarrierWithWaitList)(queue, waits, wait_list, event),
                    event);
}

// ---- waiting

cl_int clWaitForEvents(cl_uint count, const cl_event* events) {
  CLORA_REFUSE(wait);
  return CLORA_NEXT(clWaitForEvents)(count, events);
}

cl_int clFlush(cl_command_queue queue) {
  CLORA_REFUSE(flush);
  return CLORA_NEXT(clFlush)(queue);
}

cl_int clFinish(cl_command_queue queue) {
  CLORA_REFUSE(finish);
  return CLORA_NEXT(clFinish)(queue);
}

cl_int clGetEventInfo(cl_event event, cl_event_info what, size_t bytes, void* value,
                      size_t* needed) {
  CLORA_REFUSE(event_status);
  return CLORA_NEXT(clGetEventInfo)(event, what, bytes, value, needed);
}

cl_int clGetEventProfilingInfo(cl_event event, cl_profiling_info what, size_t bytes, void* value,
                               size_t* needed) {
  CLORA_REFUSE(event_times);
  return CLORA_NEXT(clGetEventProfilingInfo)(event, what, bytes, value, needed);
}

cl_int clSetEventCallback(cl_event event, cl_int type,
                          void(CL_CALLBACK* notify)(cl_event, cl_int, void*), void* data) {
  CLORA_REFUSE(event_callback);
  return CLORA_NEXT(clSetEventCallback)(event, type, notify, data);
}

}  // extern "C"

// OpenCL with injected faults: the cl* functions of this library interpose the loader's in the
// programs that link it, count every call, and can make the n-th call of a kind fail.
//
// A test program links it by including this header (tests/CMakeLists.txt looks for the line). The
// state is global: call clear_faults() first in every test. A failed call never reaches the driver;
// release calls never fail. Threads: any.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace clora::test {

enum class CallKind {
  query,           // clGet*IDs, clGet*Info, except for events
  context,         // clCreateContext
  queue,           // clCreateCommandQueue, clCreateCommandQueueWithProperties
  allocation,      // clCreateBuffer
  sub_buffer,      // clCreateSubBuffer
  program,         // clCreateProgramWithSource
  binary,          // clCreateProgramWithBinary
  build,           // clBuildProgram
  kernel,          // clCreateKernel
  argument,        // clSetKernelArg, clSetKernelArgSVMPointer
  launch,          // clEnqueueNDRangeKernel
  copy,            // clEnqueueCopyBuffer
  fill,            // clEnqueueFillBuffer
  write,           // clEnqueueWriteBuffer
  read,            // clEnqueueReadBuffer
  map,             // clEnqueueMapBuffer
  unmap,           // clEnqueueUnmapMemObject
  migrate,         // clEnqueueMigrateMemObjects
  marker,          // clEnqueueMarkerWithWaitList, clEnqueueBarrierWithWaitList
  wait,            // clWaitForEvents
  flush,           // clFlush
  finish,          // clFinish
  event_status,    // clGetEventInfo
  event_times,     // clGetEventProfilingInfo
  event_callback,  // clSetEventCallback
  user_event,      // clCreateUserEvent, clSetUserEventStatus
};
inline constexpr std::size_t kCallKinds = 26;
std::array<CallKind, kCallKinds> all_call_kinds();
std::string_view name_of(CallKind kind);
// The status that a driver would return if that call fails.
int usual_status(CallKind kind);

struct Fault {
  CallKind kind = CallKind::allocation;
  int nth = 1;           // counted from clear_faults()
  bool lasting = false;  // and all later calls of the kind
  int status = 0;        // 0: usual_status(kind)
};
void inject(const Fault& fault);
// From the n-th call of any kind on (except release calls), all calls fail with
// CL_DEVICE_NOT_AVAILABLE. Commands that run at that moment still complete, since a lost device
// accesses no memory.
void lose_device_at(int nth);
// The n-th launch, and all later commands in its queue, wait for release_held_launch().
void hold_launch(int nth);
// Releases the held launch, or ends it with an OpenCL status below 0. No-op if none is held.
void release_held_launch(int status = 0);
// Removes all faults, resets every count to 0, and releases a held launch.
void clear_faults();

int calls(CallKind kind);
int all_calls();           // of every kind
int blocking_transfers();  // reads, writes and maps that block
int failed_calls();        // calls that failed since clear_faults()

// References to OpenCL objects that this program holds: created or retained, and not yet released.
struct LiveObjects {
  int contexts = 0;
  int queues = 0;
  int buffers = 0;  // and sub-buffers
  int programs = 0;
  int kernels = 0;
  int events = 0;
  bool operator==(const LiveObjects&) const = default;
  std::string text() const;
};
LiveObjects live_objects();

}  // namespace clora::test

// OpenCL that fails on request: this library's own cl* functions stand before the loader's in the
// programs that link it, count every call, and can make the n-th of a kind fail.
//
// A test program gets it by including this header (tests/CMakeLists.txt looks for the line). The
// state is the program's: clear_faults() first in every test. A call that is made to fail never
// reaches the driver; release calls never fail. Threads: any.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace clora::test {

enum class CallKind {
  query,           // clGet*IDs, clGet*Info, but for events
  context,         // clCreateContext
  queue,           // clCreateCommandQueueWithProperties
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
// What a driver would answer where that call fails.
int usual_status(CallKind kind);

struct Fault {
  CallKind kind = CallKind::allocation;
  int nth = 1;           // counted from clear_faults() on
  bool lasting = false;  // and every later one of the kind
  int status = 0;        // 0: usual_status(kind)
};
void inject(const Fault& fault);
// From the n-th call of any kind on (release calls aside), all fail with CL_DEVICE_NOT_AVAILABLE.
// What the device runs at that moment still ends: a device that is gone touches no memory.
void lose_device_at(int nth);
// The n-th launch, and all that follows in its queue, waits for release_held_launch().
void hold_launch(int nth);
// Lets the held launch go, or ends it with an OpenCL status below 0. Nothing where none is held.
void release_held_launch(int status = 0);
// No faults any more, every count at 0; a held launch is let go.
void clear_faults();

int calls(CallKind kind);
int all_calls();           // of every kind
int blocking_transfers();  // reads, writes and maps that were asked to wait
int failed_calls();        // made to fail since clear_faults()

// References to OpenCL objects that this program holds: made or retained, and not yet released.
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

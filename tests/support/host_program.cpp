#include "tests/support/host_program.hpp"

#include <array>

namespace clora::test {
namespace {

constexpr const char* kSource = R"(
kernel void scale(global float* y, global const float* x, float factor) {
  size_t i = get_global_id(0);
  y[i] = factor * x[i];
}
)";

template <class Object, class Query, class What>
cl_uint count_of(Object object, Query query, What what) {
  cl_uint count = 0;
  check_opencl(query(object, what, sizeof count, &count, nullptr), "reference count");
  return count;
}

OwnedContext make_context(cl_device_id device) {
  cl_int status = CL_SUCCESS;
  OwnedContext context(clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status));
  check_opencl(status, "clCreateContext");
  return context;
}

OwnedProgram build(cl_context context, cl_device_id device) {
  const char* source = kSource;
  cl_int status = CL_SUCCESS;
  OwnedProgram program(clCreateProgramWithSource(context, 1, &source, nullptr, &status));
  check_opencl(status, "clCreateProgramWithSource");
  check_opencl(clBuildProgram(program.get(), 1, &device, "", nullptr, nullptr), "clBuildProgram");
  return program;
}

}  // namespace

cl_uint references(cl_context context) {
  return count_of(context, clGetContextInfo, CL_CONTEXT_REFERENCE_COUNT);
}
cl_uint references(cl_command_queue queue) {
  return count_of(queue, clGetCommandQueueInfo, CL_QUEUE_REFERENCE_COUNT);
}
cl_uint references(cl_mem mem) { return count_of(mem, clGetMemObjectInfo, CL_MEM_REFERENCE_COUNT); }
cl_uint references(cl_event event) {
  return count_of(event, clGetEventInfo, CL_EVENT_REFERENCE_COUNT);
}

HostProgram::HostProgram(cl_command_queue_properties properties)
    : device(select_device(config_from_environment().device).id),
      alignment(describe_device(device).base_alignment_bytes),
      context(make_context(device)),
      queue(another_queue(properties)),
      program(build(context.get(), device)) {}

OwnedQueue HostProgram::another_queue(cl_command_queue_properties properties) const {
  const std::array<cl_queue_properties, 3> list{CL_QUEUE_PROPERTIES, properties, 0};
  cl_int status = CL_SUCCESS;
  OwnedQueue created(
      clCreateCommandQueueWithProperties(context.get(), device, list.data(), &status));
  check_opencl(status, "clCreateCommandQueueWithProperties");
  return created;
}

OwnedMem HostProgram::buffer(std::size_t bytes) const {
  cl_int status = CL_SUCCESS;
  OwnedMem mem(clCreateBuffer(context.get(), CL_MEM_READ_WRITE, bytes, nullptr, &status));
  check_opencl(status, "clCreateBuffer");
  return mem;
}

OwnedMem HostProgram::sub_buffer(cl_mem mem, std::size_t offset_bytes, std::size_t bytes) const {
  const cl_buffer_region region{offset_bytes, bytes};
  cl_int status = CL_SUCCESS;
  OwnedMem part(clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
  check_opencl(status, "clCreateSubBuffer");
  return part;
}

void HostProgram::write(cl_mem mem, std::span<const float> values) const {
  check_opencl(clEnqueueWriteBuffer(queue.get(), mem, CL_TRUE, 0, values.size_bytes(),
                                    values.data(), 0, nullptr, nullptr),
               "clEnqueueWriteBuffer");
}

std::vector<float> HostProgram::read(cl_mem mem, std::size_t count) const {
  std::vector<float> values(count);
  check_opencl(clEnqueueReadBuffer(queue.get(), mem, CL_TRUE, 0, count * sizeof(float),
                                   values.data(), 0, nullptr, nullptr),
               "clEnqueueReadBuffer");
  return values;
}

void HostProgram::enqueue_scale(cl_mem y, cl_mem x, float factor, std::size_t count) const {
  cl_int status = CL_SUCCESS;
  const OwnedKernel kernel(clCreateKernel(program.get(), "scale", &status));
  check_opencl(status, "clCreateKernel");
  check_opencl(clSetKernelArg(kernel.get(), 0, sizeof y, &y), "clSetKernelArg");
  check_opencl(clSetKernelArg(kernel.get(), 1, sizeof x, &x), "clSetKernelArg");
  check_opencl(clSetKernelArg(kernel.get(), 2, sizeof factor, &factor), "clSetKernelArg");
  check_opencl(clEnqueueNDRangeKernel(queue.get(), kernel.get(), 1, nullptr, &count, nullptr, 0,
                                      nullptr, nullptr),
               "clEnqueueNDRangeKernel");
}

}  // namespace clora::test

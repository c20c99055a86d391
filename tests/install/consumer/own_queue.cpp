// A program with its own OpenCL context, queue, buffers and kernels, and our RMS norm between its
// kernels: several enqueues, one wait at the end, and a comparison with the host's result.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "clora/ops/rowwise/rms_norm.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace {

constexpr const char* kSource = R"(
kernel void ramp(global float* x) { size_t i = get_global_id(0); x[i] = 0.01f * (float)i - 1.0f; }
kernel void square(global float* y, global const float* x) {
  size_t i = get_global_id(0);
  y[i] = x[i] * x[i];
}
)";
constexpr std::size_t kRows = 7;
constexpr std::size_t kWidth = 64;
constexpr std::size_t kCount = kRows * kWidth;
constexpr float kEpsilon = 1e-5F;

// The program's own device work. Errors show in the numbers at the end.
struct Own {
  Own() {
    cl_platform_id platform = nullptr;
    clGetPlatformIDs(1, &platform, nullptr);
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr);
    context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, nullptr);
    queue = clCreateCommandQueueWithProperties(context, device, nullptr, nullptr);
    const char* source = kSource;
    program = clCreateProgramWithSource(context, 1, &source, nullptr, nullptr);
    clBuildProgram(program, 1, &device, "", nullptr, nullptr);
    ramp = clCreateKernel(program, "ramp", nullptr);
    square = clCreateKernel(program, "square", nullptr);
    for (cl_mem* mem : {&x, &y, &z}) {
      *mem = clCreateBuffer(context, CL_MEM_READ_WRITE, kCount * sizeof(float), nullptr, nullptr);
    }
  }
  ~Own() {
    for (cl_mem mem : {x, y, z}) clReleaseMemObject(mem);
    clReleaseKernel(ramp);
    clReleaseKernel(square);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
  }

  void enqueue(cl_kernel kernel, std::initializer_list<cl_mem> arguments) const {
    cl_uint n = 0;
    for (const cl_mem& mem : arguments) clSetKernelArg(kernel, n++, sizeof mem, &mem);
    const std::size_t count = kCount;
    clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &count, nullptr, 0, nullptr, nullptr);
  }

  cl_device_id device = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
  cl_program program = nullptr;
  cl_kernel ramp = nullptr, square = nullptr;
  cl_mem x = nullptr, y = nullptr, z = nullptr;
};

double expected(std::size_t i) {
  const auto ramp = [](std::size_t at) { return 0.01 * static_cast<double>(at) - 1; };
  double sum = 0;
  for (std::size_t k = i / kWidth * kWidth; k < (i / kWidth + 1) * kWidth; ++k) {
    sum += ramp(k) * ramp(k);
  }
  return ramp(i) * ramp(i) / (sum / kWidth + static_cast<double>(kEpsilon));
}

int run() {
  const Own own;
  clora::Context context(clora::AdoptedQueue{own.context, own.device, own.queue});
  const clora::Shape shape{kRows, kWidth};
  const clora::Tensor w = context.upload<float>(
      {kWidth}, clora::DType::f32, std::vector<float>(kWidth, 1), clora::MemoryTag::weights);
  clora::Batch batch(context);
  clora::record_rms_norm(batch, context.adopt(own.y, shape, clora::DType::f32),
                         context.adopt(own.x, shape, clora::DType::f32), w, kEpsilon);
  batch.seal();

  std::vector<float> result(kCount);
  own.enqueue(own.ramp, {own.x});
  batch.submit();
  own.enqueue(own.square, {own.z, own.y});
  clEnqueueReadBuffer(own.queue, own.z, CL_FALSE, 0, kCount * sizeof(float), result.data(), 0,
                      nullptr, nullptr);
  clFinish(own.queue);  // the only wait

  double worst = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    worst = std::fmax(worst, std::fabs(static_cast<double>(result[i]) - expected(i)));
  }
  const bool good = worst < 1e-4;
  std::printf(good ? "equal\n" : "the largest error is %g\n", worst);
  return good ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}

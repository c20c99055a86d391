// own_queue MODEL: runs clora on a command queue of this program. A command of this program fills
// the memory with -1, then clora's forward pass writes logits over the first rows, then a read of
// this program follows; nothing waits in between (docs/embedding.md).
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <array>
#include <cstdio>
#include <exception>
#include <vector>

#include "clora/model/transformer/forward_pass.hpp"

namespace {

std::vector<float> logits_on(const clora::AdoptedQueue& mine, const char* path) {
  clora::Context context(mine);  // retains context and queue, releases them when destroyed
  clora::LanguageModel model(context, clora::WeightFiles::open(path));
  clora::ForwardPass forward(model, /*adapter=*/nullptr);
  const std::array<std::int32_t, 3> ids{1, 2, 3};
  const std::int64_t rows = 3, width = model.config().vocabulary;

  std::vector<float> values(static_cast<std::size_t>((rows + 1) * width));
  const std::size_t bytes = values.size() * sizeof(float);
  cl_mem memory = clCreateBuffer(mine.context, CL_MEM_READ_WRITE, bytes, nullptr, nullptr);
  const float before = -1;
  clEnqueueFillBuffer(mine.queue, memory, &before, sizeof before, 0, bytes, 0, nullptr, nullptr);
  const clora::Tensor out = context.adopt(memory, {rows, width}, clora::DType::f32);
  const clora::Fence done = forward.enqueue(out, ids, clora::LogitRows::all);
  const cl_event ready = done.event();  // for a queue of another thread, or a callback
  clEnqueueReadBuffer(mine.queue, memory, CL_TRUE, 0, bytes, values.data(), 1, &ready, nullptr);
  clReleaseMemObject(memory);  // the tensor has its own reference
  return values;
}

clora::AdoptedQueue open_queue() {
  clora::AdoptedQueue mine;
  mine.device = clora::select_device("").id;  // or any device that the program already has
  mine.context = clCreateContext(nullptr, 1, &mine.device, nullptr, nullptr, nullptr);
  mine.queue = clCreateCommandQueueWithProperties(mine.context, mine.device, nullptr, nullptr);
  return mine;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const clora::AdoptedQueue mine = open_queue();
  int result = 1;
  try {
    const std::vector<float> values = logits_on(mine, argv[1]);
    std::printf("first logit %f, after the logits %f\n", static_cast<double>(values.front()),
                static_cast<double>(values.back()));
    result = 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  clReleaseCommandQueue(mine.queue);
  clReleaseContext(mine.context);
  return result;
}

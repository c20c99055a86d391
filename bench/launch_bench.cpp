// launch/NAME: 256 launches of a tiny kernel, checked, then timed until the device is done.
// bare: a plain loop of clEnqueueNDRangeKernel over 256 kernel objects with their arguments set
// before, as in a program with different launches; bare_same: the loop over one kernel object,
// which stays in the nearest cache; replay: a recorded batch; record: a batch recorded again each
// time; set_args: one object with its arguments set before each launch; wait_each: the batch with a
// wait after every launch. The variants alternate. Times are of all 256 launches, counters of one.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include "bench/support/prepared.hpp"
#include "bench/support/session.hpp"
#include "bench/support/turns.hpp"
#include "clora/runtime/commands/batch.hpp"
#include "runtime/programs/program.hpp"

namespace clora::bench {
namespace {

constexpr int kLaunches = 256;

// A tiny kernel outside ops/: y = x scale, four floats.
class Tiny {
 public:
  explicit Tiny(Context& context)
      : context_(&context),
        x_(context.upload<float>({4}, DType::f32, std::vector<float>{1, 2, 3, 4},
                                 MemoryTag::scratch)),
        y_(context.allocate({4}, DType::f32, MemoryTag::scratch)),
        program_(build(context)) {
    for (int i = 0; i < kLaunches; ++i) {
      kernels_.emplace_back(clCreateKernel(program_->handle(), "tiny", nullptr));
      set_arguments(kernels_.back());
      record(batch_);
    }
    batch_.seal();
  }

  void bare() const {
    for (const OwnedKernel& kernel : kernels_) enqueue(kernel);
    context_->finish();
  }
  void bare_same() const {
    for (int i = 0; i < kLaunches; ++i) enqueue(kernels_.front());
    context_->finish();
  }
  void set_args() const {
    for (int i = 0; i < kLaunches; ++i) {
      set_arguments(kernels_.front());
      enqueue(kernels_.front());
    }
    context_->finish();
  }
  void replay() {
    batch_.submit();
    context_->finish();
  }
  void record_and_run() const {
    Batch batch(*context_);
    for (int i = 0; i < kLaunches; ++i) record(batch);
    batch.submit();
    context_->finish();
  }
  // Checks the result and overwrites it for the next check.
  bool right() const {
    const bool is = context_->read<float>(y_) == std::vector<float>{2, 4, 6, 8};
    context_->write(y_, std::as_bytes(std::span<const float>(std::vector<float>(4))));
    return is;
  }

 private:
  static std::shared_ptr<const Program> build(const Context& context) {
    const char* source =
        "__kernel void tiny(__global float* y, __global const float* x, float scale) {"
        "  const size_t i = get_global_id(0); y[i] = x[i] * scale; }";
    OwnedProgram program(
        clCreateProgramWithSource(context.opencl_context(), 1, &source, nullptr, nullptr));
    clBuildProgram(program.get(), 1, &context.device().id, "", nullptr, nullptr);
    return std::make_shared<const Program>(std::move(program));
  }
  void set_arguments(const OwnedKernel& kernel) const {
    const cl_mem y = y_.storage()->buffer->part(0, y_.bytes());
    const cl_mem x = x_.storage()->buffer->part(0, x_.bytes());
    const float scale = 2;
    clSetKernelArg(kernel.get(), 0, sizeof y, &y);
    clSetKernelArg(kernel.get(), 1, sizeof x, &x);
    clSetKernelArg(kernel.get(), 2, sizeof scale, &scale);
  }
  void enqueue(const OwnedKernel& kernel) const {
    clEnqueueNDRangeKernel(context_->opencl_queue(), kernel.get(), 3, nullptr, grid_.global.data(),
                           grid_.local.data(), 0, nullptr, nullptr);
  }
  void record(Batch& batch) const {
    batch.launch({.kernel = {program_, "tiny"}, .grid = grid_, .cost = {4, 32}, .label = "tiny"},
                 y_, x_, 2.0F);
  }

  Context* context_;
  Tensor x_, y_;
  std::shared_ptr<const Program> program_;
  std::vector<OwnedKernel> kernels_;
  Grid grid_{{4, 1, 1}, {4, 1, 1}};
  Batch batch_{*context_};
};

std::vector<Way> launch_ways() {
  const auto tiny = std::make_shared<Tiny>(context());
  const auto synchronous = std::make_shared<Tiny>(synchronous_context());
  const auto right = [tiny] { return tiny->right(); };
  return {{"launch/bare", [tiny] { tiny->bare(); }, right},
          {"launch/bare_same", [tiny] { tiny->bare_same(); }, right},
          {"launch/replay", [tiny] { tiny->replay(); }, right},
          {"launch/set_args", [tiny] { tiny->set_args(); }, right},
          {"launch/record", [tiny] { tiny->record_and_run(); }, right},
          {"launch/wait_each", [synchronous] { synchronous->replay(); },
           [synchronous] { return synchronous->right(); }}};
}

TurnsTable table(400, kLaunches, launch_ways);

const bool kAdded = add_family([] {
  for (const char* way : {"bare", "bare_same", "replay", "set_args", "record", "wait_each"}) {
    table.add(std::string("launch/") + way);
  }
});

}  // namespace
}  // namespace clora::bench

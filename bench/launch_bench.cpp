// What launching costs. The ways of one table take turns in one run, so that a slow minute of the
// machine hits all of them; each reports the median of its rounds.
//
// launch/NAME: 256 launches of a tiny kernel, checked, then timed until the device is done. bare: a
// plain loop of clEnqueueNDRangeKernel; replay: a recorded batch; record: recorded anew each time;
// set_args: the plain loop with its arguments set before each launch; wait_each: the batch with a
// wait behind every launch.
// layer/FORM/HOW: the feed-forward half of a decode layer of SmolLM2-135M, one row, adapters of
// rank 8. fused, or composed (the adapter's products apart from the base's); batched, or wait_each.

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench/support/op_bench.hpp"
#include "ops/lora_linear.hpp"
#include "ops/rms_norm.hpp"
#include "ops/swiglu.hpp"
#include "runtime/program.hpp"
#include "tests/reference/quant_reference.hpp"

namespace clora {
namespace {

using Clock = std::chrono::steady_clock;

// A way to do the same work: run() does it and waits for the device; right() tells whether the
// result is what it should be.
struct Way {
  std::string name;
  std::function<void()> run;
  std::function<bool()> right;
  std::vector<double> seconds = {};
  bool wrong = false;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Checks every way, then times each once a round, in another order each time: what runs before
// leaves the device's threads awake or asleep.
void take_turns(std::vector<Way>& ways, int rounds) {
  for (Way& way : ways) {
    way.run();
    way.wrong = !way.right();
  }
  std::vector<std::size_t> order(ways.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 generator(1);
  for (int round = 0; round < rounds; ++round) {
    std::ranges::shuffle(order, generator);
    for (const std::size_t i : order) {
      const auto begin = Clock::now();
      ways[i].run();
      ways[i].seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
  }
}

// A Context that waits behind every command.
Context& patient_context() {
  static Context shared([] {
    ContextConfig config = config_from_environment();
    config.max_commands_in_flight = 1;
    return config;
  }());
  return shared;
}

// A tiny kernel outside ops: y = x scale, four floats.
class Tiny {
 public:
  explicit Tiny(Context& context)
      : context_(&context),
        x_(context.upload<float>({4}, DType::f32, std::vector<float>{1, 2, 3, 4},
                                 MemoryTag::scratch)),
        y_(context.allocate({4}, DType::f32, MemoryTag::scratch)),
        program_(build(context)),
        kernel_(clCreateKernel(program_->handle(), "tiny", nullptr)) {
    set_arguments();
    for (int i = 0; i < kLaunches; ++i) record(batch_);
    batch_.seal();
  }

  void bare() const {
    for (int i = 0; i < kLaunches; ++i) enqueue();
    context_->finish();
  }
  void set_args() const {
    for (int i = 0; i < kLaunches; ++i) {
      set_arguments();
      enqueue();
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
  // And spoils the result for the next check.
  bool right() const {
    const bool is = context_->read<float>(y_) == std::vector<float>{2, 4, 6, 8};
    context_->write(y_, std::as_bytes(std::span<const float>(std::vector<float>(4))));
    return is;
  }

 private:
  static constexpr int kLaunches = 256;

  static std::shared_ptr<const Program> build(const Context& context) {
    const char* source =
        "__kernel void tiny(__global float* y, __global const float* x, float scale) {"
        "  const size_t i = get_global_id(0); y[i] = x[i] * scale; }";
    OwnedProgram program(
        clCreateProgramWithSource(context.opencl_context(), 1, &source, nullptr, nullptr));
    clBuildProgram(program.get(), 1, &context.device().id, "", nullptr, nullptr);
    return std::make_shared<const Program>(std::move(program));
  }
  void set_arguments() const {
    const cl_mem y = y_.storage()->buffer->part(0, y_.bytes());
    const cl_mem x = x_.storage()->buffer->part(0, x_.bytes());
    const float scale = 2;
    clSetKernelArg(kernel_.get(), 0, sizeof y, &y);
    clSetKernelArg(kernel_.get(), 1, sizeof x, &x);
    clSetKernelArg(kernel_.get(), 2, sizeof scale, &scale);
  }
  void enqueue() const {
    clEnqueueNDRangeKernel(context_->opencl_queue(), kernel_.get(), 3, nullptr, grid_.global.data(),
                           grid_.local.data(), 0, nullptr, nullptr);
  }
  void record(Batch& batch) const {
    batch.launch({.kernel = {program_, "tiny"}, .grid = grid_, .cost = {4, 32}, .label = "tiny"},
                 y_, x_, 2.0F);
  }

  Context* context_;
  Tensor x_, y_;
  std::shared_ptr<const Program> program_;
  OwnedKernel kernel_;
  Grid grid_{{4, 1, 1}, {4, 1, 1}};
  Batch batch_{*context_};
};

constexpr std::int64_t kWidth = 576, kFeed = 1536, kRank = 8;

// y = x + down(swiglu(gate(norm(x)), up(norm(x)))), each product with its adapter.
class FeedForward {
 public:
  FeedForward(Context& context, bool fused) : context_(&context), batch_(context), fused_(fused) {
    const auto upload = [&](Shape shape, std::uint32_t seed) {
      const auto count = static_cast<std::size_t>(shape.elements());
      return context.upload<float>(shape, DType::f32, bench::random_values(count, seed),
                                   MemoryTag::scratch);
    };
    const auto of = [&](std::int64_t n, std::int64_t k, std::uint32_t seed) {
      return Linear{{test::random_weights(DType::q4_1, n, k, seed).upload(context), {}},
                    {upload({kRank, k}, seed + 1), upload({kRank, n}, seed + 2), 1, {}}};
    };
    const Tensor x = upload({1, kWidth}, 1);
    const Tensor normed = temporary(kWidth, "normed");
    record_rms_norm(batch_, normed, x, upload({kWidth}, 2), 1e-5F);
    const Tensor gate = linear(normed, kFeed, of(kFeed, kWidth, 10));
    const Tensor up = linear(normed, kFeed, of(kFeed, kWidth, 20));
    const Tensor inner = temporary(kFeed, "inner");
    record_swiglu(batch_, inner, gate, up);
    output_ = context.allocate({1, kWidth}, DType::f32, MemoryTag::scratch);
    linear_into(output_, inner, of(kWidth, kFeed, 30), x);
    batch_.seal();
  }

  void run() { batch_.submit().wait(); }
  std::vector<float> output() const { return context_->read<float>(output_); }
  std::size_t launches() const { return batch_.commands(); }

 private:
  struct Linear {
    LinearWeights weights;
    LoraWeights lora;
  };

  Tensor temporary(std::int64_t n, std::string_view name) {
    return batch_.temporary({1, n}, DType::f32, name);
  }
  Tensor linear(const Tensor& x, std::int64_t n, const Linear& with) {
    const Tensor y = temporary(n, "y");
    linear_into(y, x, with, {});
    return y;
  }
  void linear_into(const Tensor& y, const Tensor& x, const Linear& with, const Tensor& residual) {
    const Tensor s = temporary(kRank, "s");
    const auto record = fused_ ? record_lora_linear : record_lora_linear_composed;
    record(batch_, y, s, x, with.weights, with.lora, residual);
  }

  Context* context_;
  Batch batch_;
  bool fused_;
  Tensor output_;
};

// Runs the table's ways by turns at its first bench; each bench then reports one of them.
class Table {
 public:
  using Make = std::function<std::vector<Way>()>;
  Table(int rounds, double per_run, Make make)
      : rounds_(rounds), per_run_(per_run), make_(std::move(make)) {}

  void report(benchmark::State& state, const std::string& name) {
    if (ways_.empty()) {
      ways_ = make_();
      take_turns(ways_, rounds_);
      for (Way& way : ways_) way.run = nullptr, way.right = nullptr;  // and what they hold
    }
    const Way& way = *std::ranges::find(ways_, name, &Way::name);
    if (way.wrong) return state.SkipWithError("wrong result");
    const double typical = median(way.seconds);
    for (auto _ : state) state.SetIterationTime(typical);
    state.counters["us_each"] = typical / per_run_ * 1e6;
    state.counters["best_us_each"] = *std::ranges::min_element(way.seconds) / per_run_ * 1e6;
    state.counters["ratio"] = typical / median(ways_.front().seconds);  // to the table's first
  }

 private:
  int rounds_;
  double per_run_;
  Make make_;
  std::vector<Way> ways_;
};

std::vector<Way> launch_ways() {
  const auto tiny = std::make_shared<Tiny>(bench::context());
  const auto patient = std::make_shared<Tiny>(patient_context());
  const auto right = [tiny] { return tiny->right(); };
  return {{"bare", [tiny] { tiny->bare(); }, right},
          {"replay", [tiny] { tiny->replay(); }, right},
          {"set_args", [tiny] { tiny->set_args(); }, right},
          {"record", [tiny] { tiny->record_and_run(); }, right},
          {"wait_each", [patient] { patient->replay(); }, [patient] { return patient->right(); }}};
}

std::vector<Way> layer_ways() {
  std::vector<Way> ways;
  for (const bool fused : {true, false}) {
    for (const bool batched : {true, false}) {
      Context& context = batched ? bench::context() : patient_context();
      const auto layer = std::make_shared<FeedForward>(context, fused);
      const auto right = [layer] {
        FeedForward other(bench::context(), false);
        other.run();
        const auto want = bench::to_double(other.output());
        return bench::largest_error(layer->output(), want) < 1e-4;
      };
      ways.push_back({fmt::format("{}/q4_1/1x576/r8/{}", fused ? "fused" : "composed",
                                  batched ? "batched" : "wait_each"),
                      [layer] { layer->run(); }, right});
    }
  }
  return ways;
}

Table launch_table(400, 256, launch_ways);
Table layer_table(400, 1, layer_ways);

const bool kRegistered = [] {
  const auto add = [](const char* table_name, Table& table, const std::string& name) {
    benchmark::RegisterBenchmark(fmt::format("{}/{}", table_name, name).c_str(),
                                 [&table, name](benchmark::State& s) { table.report(s, name); })
        ->UseManualTime()
        ->Iterations(1)
        ->Unit(benchmark::kMicrosecond);
  };
  for (const char* name : {"bare", "replay", "set_args", "record", "wait_each"}) {
    add("launch", launch_table, name);
  }
  for (const char* form : {"fused", "composed"}) {
    for (const char* how : {"batched", "wait_each"}) {
      add("layer", layer_table, fmt::format("{}/q4_1/1x576/r8/{}", form, how));
    }
  }
  return true;
}();

}  // namespace
}  // namespace clora

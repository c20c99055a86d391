// Training steps on several devices of this process: parallel/fused/bf16/BATCHxLENGTH/rN, a step of
// BATCH records on each device, against one device that does as many alone; the model is that of
// CLORA_BENCH_FOLDER, the devices those of CLORA_BENCH_DEVICES ("gpu:0,gpu:1"). Times are medians
// of rounds that alternate; before, the losses of a few steps are compared with those of one device
// that accumulates all records. speedup: devices * alone_us / median_us.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <sstream>

#include "bench/support/name.hpp"
#include "bench/support/prepared.hpp"
#include "bench/support/random_rows.hpp"
#include "bench/support/session.hpp"
#include "clora/model/training/thread_ranks.hpp"
#include "clora/model/training/trainer.hpp"
#include "runtime/elapsed.hpp"

namespace clora::bench {
namespace {

constexpr int kComparedSteps = 4;
constexpr int kRounds = 5;
constexpr double kRoundSeconds = 0.7;
constexpr double kLossTolerance = 1e-5;

struct Job {
  std::int64_t batch = 0;
  std::int64_t length = 0;
  std::int64_t rank = 16;
};

struct Measured {
  double alone = 0, together = 0;  // seconds of a step
  double loss_difference = 0;      // relative, the largest of a step
};

std::vector<std::string> devices_to_use() {
  const char* const list = std::getenv("CLORA_BENCH_DEVICES");
  std::vector<std::string> devices;
  std::istringstream stream(list == nullptr ? "" : list);
  for (std::string device; std::getline(stream, device, ',');) devices.push_back(device);
  return devices;
}

ContextConfig config_on(const std::string& device, Arithmetic arithmetic) {
  ContextConfig config = config_for(arithmetic);
  config.device = device;
  return config;
}

// An adapter with its trainer.
struct Training {
  Training(LanguageModel& model, const Job& job, Communicator* ranks)
      : adapter(model.context(), adapter_sites(model.config()), {.rank = job.rank}) {
    adapter.initialise(1);
    trainer.emplace(model, adapter, TrainerConfig{.clip_norm = 1, .ranks = ranks});
  }
  std::vector<double> losses(std::span<const PackedRows> rows) {
    std::vector<double> all;
    for (int step = 0; step < kComparedSteps; ++step) {
      trainer->step(rows, 1e-3);
      all.push_back(trainer->drain()->loss);
    }
    return all;
  }
  double seconds_of_step(std::span<const PackedRows> rows, int steps) {
    const auto begin = std::chrono::steady_clock::now();
    for (int step = 0; step < steps; ++step) trainer->step(rows, 1e-3);
    trainer->drain();
    return seconds_since(begin) / steps;
  }
  Adapter adapter;
  std::optional<Trainer> trainer;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double largest_difference(const std::vector<double>& got, const std::vector<double>& expected) {
  double largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(got[i] / expected[i] - 1));
  }
  return largest;
}

// The work of one rank. All ranks come to the same barriers.
class RankOfBench {
 public:
  RankOfBench(LanguageModel& model, Communicator& ranks, const Job& job)
      : model_(model), ranks_(ranks), job_(job) {
    for (int r = 0; r < ranks.size(); ++r) {
      rows_.push_back(random_rows(static_cast<std::size_t>(job.batch),
                                  static_cast<std::size_t>(job.length), model.config().vocabulary,
                                  static_cast<std::size_t>(17 + 1000 * r)));
    }
  }

  Measured measure() {
    Measured result;
    std::vector<double> expected;
    if (ranks_.rank() == 0) expected = Training(model_, job_, nullptr).losses(rows_);
    Training together(model_, job_, &ranks_), alone(model_, job_, nullptr);
    const std::vector<double> losses = together.losses(rows_);
    if (ranks_.rank() == 0) result.loss_difference = largest_difference(losses, expected);
    measure_rounds(alone, together, result);
    return result;
  }

 private:
  void measure_rounds(Training& alone, Training& together, Measured& result) {
    const auto own = std::span<const PackedRows>(rows_).first(1);
    double once = ranks_.rank() == 0
                      ? std::min(alone.seconds_of_step(own, 2), alone.seconds_of_step(own, 2))
                      : 0;
    once = gather_values(ranks_, once).front();
    const int steps = std::max(3, static_cast<int>(std::ceil(kRoundSeconds / once)));
    std::vector<double> of_alone, of_together;
    for (int round = 0; round < kRounds; ++round) {
      barrier();
      if (ranks_.rank() == 0) of_alone.push_back(alone.seconds_of_step(own, steps));
      barrier();
      of_together.push_back(together.seconds_of_step(rows_, steps));
    }
    if (ranks_.rank() != 0) return;
    result.alone = median(of_alone);
    result.together = median(of_together);
  }
  void barrier() { (void)ranks_.all_gather(""); }

  LanguageModel& model_;
  Communicator& ranks_;
  const Job& job_;
  std::vector<PackedRows> rows_;  // of a step, in the order of the ranks
};

class ParallelBench : public Prepared {
 public:
  ParallelBench(Arithmetic arithmetic, const Job& job) : job_(job), devices_(devices_to_use()) {
    const std::string folder = std::getenv("CLORA_BENCH_FOLDER");
    run_thread_ranks(static_cast<int>(devices_.size()), [&](Communicator& ranks) {
      const auto rank = static_cast<std::size_t>(ranks.rank());
      Context context(config_on(devices_[rank], arithmetic));
      const WeightFiles files = WeightFiles::open(folder);
      LanguageModel model(context, files);
      const Measured measured = RankOfBench(model, ranks, job_).measure();
      if (rank == 0) result_ = measured;
    });
  }

  void time(benchmark::State& state) override {
    if (result_.loss_difference > kLossTolerance) {
      return state.SkipWithError("the losses differ from those of one device");
    }
    for (auto _ : state) state.SetIterationTime(result_.together);
    const auto devices = static_cast<double>(devices_.size());
    state.counters["median_us"] = result_.together * 1e6;
    state.counters["alone_us"] = result_.alone * 1e6;
    state.counters["speedup"] = devices * result_.alone / result_.together;
    state.counters["loss_difference"] = result_.loss_difference;
    state.counters["tokens_per_s"] =
        devices * static_cast<double>(job_.batch * job_.length) / result_.together;
  }

 private:
  Job job_;
  std::vector<std::string> devices_;
  Measured result_;
};

void add(Arithmetic arithmetic, const Job& job) {
  const Name name{
      .op = "parallel", .type = "bf16", .shape = {job.batch, job.length}, .rank = job.rank};
  const Name own = arithmetic == Arithmetic::f32 ? name : name.with("bf16");
  add_prepared(own.text(), [=] { return std::make_unique<ParallelBench>(arithmetic, job); });
}

const bool kAdded = add_family([] {
  if (std::getenv("CLORA_BENCH_FOLDER") == nullptr || devices_to_use().size() < 2) return;
  for (const Arithmetic arithmetic : {Arithmetic::f32, Arithmetic::bf16}) {
    if (!has(arithmetic)) continue;
    for (const std::int64_t batch : {4, 8}) add(arithmetic, {.batch = batch, .length = 1024});
    add(arithmetic, {.batch = 1, .length = 64});  // small enough to try on a CPU
  }
});

}  // namespace
}  // namespace clora::bench

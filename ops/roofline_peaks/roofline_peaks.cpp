#include "clora/ops/roofline_peaks/roofline_peaks.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "clora/runtime/commands/batch.hpp"
#include "clora/runtime/error.hpp"
#include "ops/dispatch/cpu_vector_defines.hpp"
#include "ops/dispatch/matrix_unit_self_test.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/elapsed.hpp"

namespace clora {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{256} << 20;
constexpr int kTransferRuns = 6, kMaxTimes = 32, kFmaRuns = 80, kLaunchRuns = 12, kWakeRuns = 41;
constexpr int kBarrierRuns = 12;
constexpr int kLaunches = 256;
constexpr double kFmaSeconds = 0.003;  // longer than a launch, shorter than a pause of the clock
constexpr std::int64_t kMaxSteps = std::int64_t{1} << 34;

// The parameters of cl/roofline_peaks/roofline_peaks_cpu.cl and
// cl/roofline_peaks/roofline_peaks.cl.
struct Shapes {
  std::string_view file;
  std::int64_t lanes;  // of a vector that is copied or read
  std::int64_t chains;
  std::int64_t chain_lanes;
  Grid grid;

  std::int64_t items() const { return static_cast<std::int64_t>(grid.global[0]); }
};

Shapes shapes_for(const Context& context) {
  const Device& device = context.device();
  const std::size_t units = std::max(1U, device.compute_units);
  if (context.capabilities().cpu) {
    return {"roofline_peaks_cpu.cl", 16, 12, device.vectors.floats, single_item_groups(4 * units)};
  }
  constexpr std::size_t kGroup = 256, kGroupsPerUnit = 16;
  return {"roofline_peaks.cl", 4, 4, 4,
          groups_of(reduction_group(device, kGroup), kGroupsPerUnit * units)};
}

class Measurement {
 public:
  explicit Measurement(Context& context)
      : context_(context),
        shapes_(shapes_for(context)),
        out_(context.allocate({shapes_.items() * shapes_.lanes}, DType::f32, MemoryTag::scratch)) {}

  void measure_transfers(RooflinePeaks& peaks, double wake_seconds);
  double f32_flops_per_second() const;
  double matrix_flops_per_second() const;   // 0 without a matrix unit
  double product_flops_per_second() const;  // with a GPU's matrix unit
  double barrier_seconds() const;
  double launch_seconds();
  double wake_seconds();

 private:
  Launch launch(std::string_view file, std::string_view function, const Grid& grid) const {
    Defines defines;
    defines.set("CHAINS", shapes_.chains);
    if (context_.capabilities().cpu) define_cpu_vectors(defines, context_.device());
    return {context_.kernel(file, function, defines), grid, {}, "roofline_peaks"};
  }
  Launch launch(std::string_view function, const Grid& grid) const {
    return launch(shapes_.file, function, grid);
  }
  static double seconds_of(Batch& batch) {
    const auto begin = std::chrono::steady_clock::now();
    batch.submit().wait();
    return seconds_since(begin);
  }
  // The best time of the work that record(batch) records; waking the device is at most 1 % of it.
  template <class Record>
  double best_seconds_of(double wake_seconds, Record record) const {
    Batch one(context_), many(context_);
    record(one);
    const double about = sorted_seconds_of(one, 1).front();
    const int times = std::clamp(static_cast<int>(100 * wake_seconds / about), 1, kMaxTimes);
    for (int i = 0; i < times; ++i) record(many);
    return sorted_seconds_of(many, kTransferRuns).front() / times;
  }
  static std::vector<double> sorted_seconds_of(Batch& batch, int runs) {
    batch.submit().wait();
    std::vector<double> seconds;
    for (int i = 0; i < runs; ++i) seconds.push_back(seconds_of(batch));
    std::ranges::sort(seconds);
    return seconds;
  }
  // Steps of all chains per second; record(batch, steps) records the launch that executes them.
  template <class Record>
  double steps_per_second(Record record, std::int64_t least_steps = 1024,
                          int runs = kFmaRuns) const;
  double lanes() const {
    return static_cast<double>(shapes_.items() * shapes_.chain_lanes * shapes_.chains);
  }
  Batch empty_launches(int count) const;

  Context& context_;
  Shapes shapes_;
  Tensor out_;
};

// Two buffers take at most half of the pool's limit.
std::int64_t elements_of_a_buffer(Context& context) {
  const std::size_t bytes = std::min({kBufferBytes, context.pool().statistics().limit_bytes / 4,
                                      std::size_t{context.device().max_allocation_bytes}});
  constexpr std::size_t kGranularity = 4096;
  return static_cast<std::int64_t>(std::max(bytes / kGranularity, std::size_t{1}) * kGranularity /
                                   4);
}

void Measurement::measure_transfers(RooflinePeaks& peaks, double wake_seconds) {
  const std::int64_t elements = elements_of_a_buffer(context_);
  const std::int64_t vectors = elements / shapes_.lanes;
  const Tensor src = context_.allocate({elements}, DType::f32, MemoryTag::scratch);
  const Tensor dst = context_.allocate({elements}, DType::f32, MemoryTag::scratch);
  Batch touch(context_);
  touch.fill_zero(src);  // memory that was never written may not be mapped yet
  touch.fill_zero(dst);
  touch.submit();
  const auto bytes = static_cast<double>(src.bytes());
  peaks.copy_bytes_per_second =
      2 * bytes / best_seconds_of(wake_seconds, [&](Batch& batch) {
        batch.launch(launch("roofline_peaks_copy", shapes_.grid), dst, src, vectors);
      });
  peaks.read_bytes_per_second =
      bytes / best_seconds_of(wake_seconds, [&](Batch& batch) {
        batch.launch(launch("roofline_peaks_read", shapes_.grid), out_, src, vectors);
      });
}

template <class Record>
double Measurement::steps_per_second(Record record, std::int64_t least_steps, int runs) const {
  std::int64_t steps = least_steps;
  for (; steps < kMaxSteps; steps *= 2) {
    Batch batch(context_);
    record(batch, steps);
    batch.seal();
    if (seconds_of(batch) >= kFmaSeconds) break;
  }
  Batch batch(context_);
  record(batch, steps);
  return static_cast<double>(steps) / sorted_seconds_of(batch, runs).front();
}

double Measurement::f32_flops_per_second() const {
  return 2 * lanes() * steps_per_second([this](Batch& batch, std::int64_t steps) {
           batch.launch(launch("roofline_peaks_fma", shapes_.grid), out_, steps, 0.999F, 0.001F);
         });
}

// A kernel that measures a GPU's matrix unit. flops of a work-group's step as in the kernel's file.
struct ProductShapes {
  std::string_view file;
  Defines defines;
  std::size_t group;
  std::size_t groups_of_a_unit;
  double flops_of_a_step;
};

ProductShapes product_shapes_for(const Context& context) {
  constexpr std::size_t kGroup = 256, kWarps = kGroup / 32;
  switch (context.capabilities().matrix) {
    case MatrixInstruction::wgmma:
      return {"roofline_peaks_wgmma.cl", {}, kGroup, 1, 2.0 * 2 * 64 * 256 * 64};
    case MatrixInstruction::mma_sync:
      return {"roofline_peaks_mma.cl", {}, kGroup, 8, 2.0 * 16 * 8 * 16 * 8 * kWarps};
    default:
      break;
  }
  constexpr std::size_t kSubgroups = 4, kChains = 4;
  const MatrixUnitChoice unit = matrix_unit_of(context);
  Defines defines;
  define_matrix_unit(defines, unit);
  return {"roofline_peaks_matrix.cl", std::move(defines), kSubgroups * matrix_unit_lanes(unit), 8,
          2.0 * 16 * 16 * 16 * kChains * kSubgroups};
}

double Measurement::product_flops_per_second() const {
  if (context_.capabilities().has_unproven_matrices() && !matrix_unit_passed(context_)) return 0;
  const ProductShapes shapes = product_shapes_for(context_);
  const std::size_t groups = shapes.groups_of_a_unit * context_.device().compute_units;
  const Grid grid = groups_of(shapes.group, groups);
  const Tensor out = context_.allocate({static_cast<std::int64_t>(grid.global[0])}, DType::f32,
                                       MemoryTag::scratch);
  return shapes.flops_of_a_step * static_cast<double>(groups) *
         steps_per_second([&](Batch& batch, std::int64_t steps) {
           batch.launch({context_.kernel(shapes.file, "roofline_peaks_products", shapes.defines),
                         grid,
                         {},
                         "roofline_peaks"},
                        out, steps);
         });
}

double Measurement::matrix_flops_per_second() const {
  const Capabilities& has = context_.capabilities();
  if (has.has_gpu_matrices()) return product_flops_per_second();
  // Peaks are kept for all Contexts of the device: dots are measured also if this one lacks them.
  if (!has.cpu || !all_capabilities(context_.device()).bf16_dots) return 0;
  static constexpr std::uint32_t kHalfAndMinus = 0xBF003F00U, kHalves = 0x3F003F00U;  // pairs
  return 4 * lanes() * steps_per_second([this](Batch& batch, std::int64_t steps) {
           batch.launch(launch("roofline_peaks_bf16_cpu.cl", "roofline_peaks_dots", shapes_.grid),
                        out_, steps, kHalfAndMinus, kHalves);
         });
}

// The barrier of a single group, as a kernel waits for it; two per round. CPU variants have no
// separate barrier kernel.
double Measurement::barrier_seconds() const {
  constexpr std::size_t kGroup = 256;
  constexpr std::int64_t kMinRounds = 64, kBarriersPerRound = 2;
  const std::size_t group = reduction_group(context_.device(), kGroup);
  const Launch launch{
      .kernel = context_.kernel("roofline_peaks_barrier.cl", "roofline_peaks_barrier",
                                Defines().set("GROUP", group)),
      .grid = groups_of(group, 1),
      .cost = {},
      .label = "roofline_peaks"};
  const Tensor out =
      context_.allocate({static_cast<std::int64_t>(group)}, DType::f32, MemoryTag::scratch);
  const auto record = [&](Batch& batch, std::int64_t rounds) { batch.launch(launch, out, rounds); };
  return 1 / (kBarriersPerRound * steps_per_second(record, kMinRounds, kBarrierRuns));
}

Batch Measurement::empty_launches(int count) const {
  Batch batch(context_);
  const Grid one = single_item_groups(1);
  for (int i = 0; i < count; ++i) batch.launch(launch("roofline_peaks_empty", one), out_);
  return batch;
}

// The cost of one more launch in a batch: waking the device is in both times and cancels out.
double Measurement::launch_seconds() {
  Batch many = empty_launches(2 * kLaunches), few = empty_launches(kLaunches);
  const double more = sorted_seconds_of(many, kLaunchRuns).front();
  const double less = sorted_seconds_of(few, kLaunchRuns).front();
  const double each = more / (2.0 * kLaunches);
  return more > less ? (more - less) / kLaunches : each;
}

double Measurement::wake_seconds() {
  Batch one = empty_launches(1);
  return sorted_seconds_of(one, kWakeRuns)[kWakeRuns / 2];
}

}  // namespace

RooflinePeaks measure_peaks(Context& context) {
  Measurement measurement(context);
  RooflinePeaks peaks;
  peaks.wake_seconds = measurement.wake_seconds();
  peaks.launch_seconds = measurement.launch_seconds();
  peaks.barrier_seconds = measurement.barrier_seconds();
  measurement.measure_transfers(peaks, peaks.wake_seconds);
  peaks.f32_flops_per_second = measurement.f32_flops_per_second();
  peaks.matrix_flops_per_second = measurement.matrix_flops_per_second();
  return peaks;
}

RooflinePeaks measured_peaks_of(const ContextConfig& config) {
  ContextConfig own = config;
  own.profile = false;  // a profiling queue is slower to submit to
  own.trace = nullptr;
  Context context(own);
  const RooflinePeaks peaks = measure_peaks(context);
  if (config.cache_folder.empty()) return peaks;
  try {
    store_peaks(config.cache_folder, context.device(), peaks);
  } catch (const Error& error) {
    config.hooks.log_message(LogLevel::warning, error.what());
  }
  return peaks;
}

RooflinePeaks peaks_of(const ContextConfig& config) {
  const Device device = select_device(config.device);
  const auto stored = stored_peaks(config.cache_folder, device);
  RooflinePeaks peaks = stored ? *stored : measured_peaks_of(config);
  if (!capabilities_of(device, config.variant, config.precision).rounds_products()) {
    peaks.matrix_flops_per_second = 0;
  }
  return peaks;
}

}  // namespace clora

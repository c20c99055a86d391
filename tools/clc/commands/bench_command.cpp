// clc bench: the time of a kernel, its percentage of the roofline, and a comparison with a baseline
// kernel. Results are checked before timing.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "clora/runtime/files/file.hpp"
#include "runtime/device/device_capabilities.hpp"
#include "tools/clc/bench/bench_options.hpp"
#include "tools/clc/bench/bench_report.hpp"
#include "tools/clc/call/reference_file.hpp"
#include "tools/clc/commands/commands.hpp"
#include "tools/clc/kernel_file/stated_cost.hpp"
#include "tools/command_line/config_file.hpp"
#include "tools/command_line/peaks_json.hpp"

namespace clora {
namespace {

using nlohmann::ordered_json;

constexpr const char* kFooter = R"('clc run --help' lists the values of --arg.
In EXPR of --bytes and --flops, the name of an array is its size in bytes and the name of a number
argument is its value: --bytes 'x + 2*y' --flops '2*n'.
Warm: the caches hold what the previous launch left. Cold: the caches are filled with other memory
before each launch. Each launch starts from the arrays as the previous one left them.
Examples:
  clc bench saxpy.cl --global 1000000 --arg n=1000000 --arg a=2 --arg 'x=rand(f32,1000000)'
      --arg 'y=zeros(f32,1000000)' --bytes 'x + 2*y' --flops '2*n' --roofline saxpy.svg
  clc bench saxpy.cl ... --compare before/saxpy.cl       two files, timed alternately
  clc bench saxpy.cl ... -D UNROLL=4 --compare-options '-D UNROLL=1'    two sets of options
Exit codes: 0 success, 1 results are wrong or the kernel is slower than the one it is compared with,
2 usage error.)";

// A kernel with its own device context and queue, so two files of the same name stay separate.
struct Subject {
  explicit Subject(const CallOptions& options)
      : file(open_kernel_file(options.file, options.common.include_folders)),
        context(profiling_config(options.common, file)),
        call(context, call_spec(options, file, context.device())) {}

  static ContextConfig profiling_config(const ClcOptions& options, const KernelFile& file) {
    ContextConfig config = context_config(options, file);
    config.profile = true;
    return config;
  }

  KernelFile file;
  Context context;
  KernelCall call;
};

class Bench {
 public:
  explicit Bench(const BenchOptions& options)
      : options_(options), output_(options.call.common.output), new_(options.call) {
    if (const auto call = old_call(options)) old_ = std::make_unique<Subject>(*call);
    stated_ = stated_cost(new_.call, options.bytes, options.flops);
    if (!options.roofline.empty() && (stated_.cost.flops <= 0 || stated_.cost.bytes <= 0)) {
      throw UsageError("--roofline requires the flops and bytes of a launch; give --flops");
    }
  }

  int operator()() {
    announce();
    const bool right = results_are_right();
    if (right) {
      peaks_ = peaks_for(options_, output_);
      chosen_ = chosen_peaks(options_, peaks_);
      measure();
      report();
    }
    output_.object(object_);
    return right && !slower_ ? 0 : 1;
  }

 private:
  void announce() {
    const Grid& grid = new_.call.grid();
    const Device& device = new_.context.device();
    output_.info("{} of {} on {}: global {}, local {}", new_.call.kernel().name, new_.file.name,
                 device.name, fmt::join(grid.global, ","), fmt::join(grid.local, ","));
    output_.detail("built with: {}", new_.call.spec().options);
    output_.info("{}", stated_.text());
    object_ = {{"file", new_.file.name},
               {"kernel", new_.call.kernel().name},
               {"options", new_.call.spec().options},
               {"device", device.name},
               {"driver", device.driver},
               {"global", grid.global},
               {"local", grid.local},
               {"bytes", stated_.cost.bytes},
               {"bytes_assumed", stated_.bytes_assumed}};
    object_["flops"] = stated_.cost.flops > 0 ? ordered_json(stated_.cost.flops) : nullptr;
  }

  // Runs both kernels once and restores the arrays.
  bool results_are_right() {
    for (const std::string& text : options_.references) {
      (void)new_.call.array(named_file(text, "--reference").array);
    }
    bool right = true;
    new_.call.run();
    for (const std::string& text : options_.references) {
      right = judge(compare_with_file(new_.call, named_file(text, "--reference"),
                                      options_.tolerance)) &&
              right;
    }
    if (old_ != nullptr && options_.references.empty()) right = is_as_the_old();
    new_.call.reset();
    object_["right"] = right;
    if (!right) output_.result("not timed: the results are wrong");
    return right;
  }

  bool is_as_the_old() {
    bool right = true;
    old_->call.run();
    for (const BoundArray& array : new_.call.arrays()) {
      const std::string place = std::to_string(array.position);
      ComparedArrays arrays{.got_name = array.name,
                            .wanted_name = "that of " + options_.old_name(),
                            .got = new_.call.read(array.name),
                            .wanted = old_->call.read(place),
                            .tolerance = options_.tolerance,
                            .found = {}};
      arrays.found = compare(arrays.got, arrays.wanted, options_.tolerance, array.name);
      right = judge(arrays) && right;
    }
    old_->call.reset();
    return right;
  }

  // Reports arrays that are not equal.
  bool judge(const ComparedArrays& arrays) {
    if (arrays.found.worst >= 0) arrays.print(output_);
    object_["checked"].push_back(arrays.json("with"));
    return arrays.good();
  }

  void measure() {
    for (const CacheState caches : cache_states(options_)) {
      const TimingPlan plan = timing_plan(options_, caches);
      KernelTimer timer(new_.context, caches);
      if (old_ == nullptr) {
        add_row(caches, false, timer.time(new_.call, plan));
        continue;
      }
      KernelTimer old_timer(old_->context, caches);
      add_pair(caches, time_in_turns({old_timer, old_->call}, {timer, new_.call}, plan));
    }
  }

  void add_row(CacheState caches, bool old, const std::vector<double>& times) {
    rows_.push_back({caches, old, summary_of(times), stated_.cost});
  }

  void add_pair(CacheState caches, const PairedTimes& times) {
    add_row(caches, false, times.second);
    add_row(caches, true, times.first);
    const MedianRatio ratio = ratio_of_medians(times.first, times.second);
    verdicts_.push_back({caches, ratio, verdict_on(ratio)});
    slower_ = slower_ || verdicts_.back().verdict == SpeedVerdict::slower;
  }

  void report() {
    output_.result("{}", bench_table(rows_, chosen_));
    output_.result("peaks: memory {:.3g} GB/s, {} arithmetic {:.4g} GFLOP/s",
                   chosen_.bytes_per_second / 1e9, chosen_.arithmetic,
                   chosen_.flops_per_second / 1e9);
    object_["peaks"] = peaks_json(peaks_);
    object_["peak"] = chosen_.arithmetic;
    for (const MeasuredKernel& row : rows_) object_["measured"].push_back(bench_json(row, chosen_));
    warn_of_coarse_clock();
    report_verdicts();
    if (!options_.roofline.empty()) draw();
  }

  // The resolution of the clock: the driver's value, or the least difference measured. NVIDIA's
  // driver reports 1 us, and its clock is finer.
  double clock_step() const {
    double step = clock_step_seconds(new_.context.device());
    for (const MeasuredKernel& row : rows_) {
      if (row.seconds.smallest_step > 0) step = std::min(step, row.seconds.smallest_step);
    }
    return step;
  }

  // Warns of times of only a few clock steps, which are not reliable.
  void warn_of_coarse_clock() {
    constexpr double kSteps = 20;
    const double step = clock_step();
    object_["clock_step_seconds"] = step;
    for (const MeasuredKernel& row : rows_) {
      if (row.seconds.median > 0 && row.seconds.median >= kSteps * step) continue;
      output_.warning(
          "{}: {} is too short for this device's clock, which counts in steps of {}; give each "
          "launch more work with a larger --global",
          row.name(), time_text(row.seconds.median), time_text(step));
    }
  }

  void report_verdicts() {
    if (old_ == nullptr) return;
    output_.result("compared with {} of {}:", old_->call.kernel().name, options_.old_name());
    object_["compared"] = {{"file", options_.old_name()},
                           {"kernel", old_->call.kernel().name},
                           {"options", old_->call.spec().options}};
    for (const BenchVerdict& verdict : verdicts_) {
      output_.result("  {}", verdict.text());
      object_["compared"]["verdicts"].push_back(bench_json(verdict));
    }
  }

  void draw() {
    write_file_atomically(
        options_.roofline,
        roofline_picture({.title = fmt::format("{} of {}", new_.call.kernel().name, new_.file.name),
                          .device = new_.context.device().name,
                          .peaks = peaks_,
                          .points = roofline_points(rows_, chosen_)}));
    output_.info("roofline written to {}", options_.roofline.string());
    object_["roofline"] = options_.roofline.string();
  }

  const BenchOptions& options_;
  Output output_;
  Subject new_;
  std::unique_ptr<Subject> old_;
  StatedCost stated_;
  RooflinePeaks peaks_;
  BenchPeaks chosen_;
  std::vector<MeasuredKernel> rows_;
  std::vector<BenchVerdict> verdicts_;
  ordered_json object_;
  bool slower_ = false;
};

}  // namespace

void add_bench_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand(
      "bench", "Time a kernel against the device's roofline and another kernel");
  const auto options = std::make_shared<BenchOptions>();
  add_bench_options(*command, *options);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return Bench(*options)(); }; });
}

}  // namespace clora

// clora bench: runs clora_bench, or reads its stored results, and shows them.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>

#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "runtime/environment_variable.hpp"
#include "runtime/fail.hpp"
#include "tools/clora/bench/bench_page.hpp"
#include "tools/clora/bench/bench_program.hpp"
#include "tools/clora/bench/bench_results.hpp"
#include "tools/clora/bench/bench_table.hpp"
#include "tools/clora/bench/bench_verdict.hpp"
#include "tools/clora/bench/device_report.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/commands/common_options.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/progress_bar.hpp"
#include "tools/command_line/config_file.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora bench --quick --filter 'softmax|norm'
  clora bench --filter 'lora_linear/' --out before.json
  clora bench --filter 'lora_linear/' --compare before.json --html report.html
  clora bench --results before.json --html report.html    render earlier results
  clora bench --report device.json    for an issue about a device: a minute on a GPU
Names are op/form/type/shape; docs/benchmarks.md lists them and explains the figures.
Times are per op, the median of the repetitions; ± is half the range from fastest to slowest.
All benches take about half an hour on two cores; the benches of one op take seconds.)";

using Json = nlohmann::ordered_json;

struct Options {
  CommonOptions common;
  std::string filter = ".";
  std::string results;
  std::string out;
  std::string old_results;
  std::string page;
  std::string report;
  int repetitions = 5;
  bool quick = false;
};

// A temporary folder of this run, removed when destroyed.
class WorkFolder {
 public:
  WorkFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "clora-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      fail(ErrorCode::io, "clora bench: cannot create a temporary folder like '{}'", name);
    }
    path_ = name;
  }
  ~WorkFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::string last_line_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string last;
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

class BenchRun {
 public:
  BenchRun(const Options& options, Output& output)
      : options_(options),
        output_(output),
        path_(environment_variable("PATH")),
        program_(find_bench_program(own_folder(), path_)) {
    if (!options.common.device.empty()) {
      ::setenv("CLORA_DEVICE", options.common.device.c_str(), 1);
    }
  }

  // Runs the benches and returns their JSON.
  std::string run() {
    const std::size_t benches = count();
    if (benches == 0) {
      throw UsageError("--filter: no bench matches '" + options_.filter +
                       "'; 'clora_bench --benchmark_list_tests' lists the names");
    }
    ProgressBar progress(output_, "bench", static_cast<std::int64_t>(benches));
    std::set<std::string> begun;
    const std::filesystem::path json = folder_ / "results.json";
    call({"--benchmark_out=" + json.string(), "--benchmark_out_format=json",
          "--benchmark_repetitions=" + std::to_string(options_.repetitions),
          std::string("--benchmark_min_time=") + (options_.quick ? "0.02" : "0.15")},
         [&](std::string_view line) {
           const std::string_view word = line.substr(0, line.find(' '));
           if (!word.ends_with("_time")) return;  // a heading, or a mean of repetitions
           const std::string name = bench_name(word);
           if (!begun.insert(name).second) return;
           progress.update(static_cast<std::int64_t>(begun.size()), name);
         });
    const MappedFile file = MappedFile::open(json);
    const auto bytes = file.bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::size_t count() {
    std::size_t lines = 0;
    call({"--benchmark_list_tests"},
         [&](std::string_view line) { lines += line.find('/') != std::string_view::npos ? 1 : 0; });
    return lines;
  }
  void call(std::vector<std::string> arguments,
            const std::function<void(std::string_view)>& on_line) {
    arguments.push_back("--benchmark_filter=" + options_.filter);
    arguments.emplace_back("--benchmark_color=false");
    const std::filesystem::path errors = folder_ / "errors.txt";
    output_.detail("{} {}", program_.string(), fmt::join(arguments, " "));
    const int code = run_bench_program({program_, std::move(arguments), errors, on_line,
                                        [this] { return interrupt_.requested(); }});
    if (interrupt_.requested())
      fail(ErrorCode::cancelled, "clora bench: stopped; no results were written");
    if (code != 0) {
      fail(ErrorCode::io, "clora bench: '{}' ended with exit code {}: {}", program_.string(), code,
           last_line_of(errors));
    }
  }

  const Options& options_;
  Output& output_;
  std::string path_;
  std::filesystem::path program_;
  WorkFolder folder_;
  const Interrupt interrupt_{"\nclora: stopping; press Ctrl-C again to stop immediately\n"};
};

Json json_of(const BenchRow& row, const Comparison* comparison) {
  Json object{{"event", "bench"}, {"name", row.name}};
  if (!row.error.empty()) {
    object["error"] = row.error;
    return object;
  }
  object["median_us"] = row.typical_us();
  object["best_us"] = row.best_us;
  object["samples_us"] = row.samples;
  if (row.gflops > 0) object["gflops"] = row.gflops;
  if (row.gbps > 0) object["gbps"] = row.gbps;
  if (row.percent_of_roofline > 0) object["percent_of_roofline"] = row.percent_of_roofline;
  if (comparison == nullptr) return object;
  object["verdict"] = name_of(comparison->verdict);
  object["ratio"] = comparison->interval.ratio;
  if (comparison->verdict != Verdict::too_few) {
    object["interval"] = {comparison->interval.low, comparison->interval.high};
  }
  return object;
}

void show(Output& output, const BenchPage& page) {
  Json machine{{"event", "machine"}};
  for (const auto& [key, value] : page.results.context) machine[key] = value;
  output.object(machine);
  for (const BenchRow& row : page.results.rows) {
    const auto found = std::ranges::find(page.comparisons, row.name, &Comparison::name);
    output.object(json_of(row, found == page.comparisons.end() ? nullptr : &*found));
  }
  if (output.json()) return;
  output.info("{}", bench_machine_text(page.results));
  output.text(bench_table(page.results, page.comparisons));
}

void write_report(const Options& options, const BenchResults& results) {
  Context context(context_config(options.common));
  write_file_atomically(options.report, json_text(device_report(context, results), 2) + '\n');
}

int bench(const Options& options) {
  Output output(options.common.output);
  std::optional<BenchResults> old_run;  // read first, because a bad file should fail early
  if (!options.old_results.empty()) old_run = read_bench_results(options.old_results);
  BenchResults results;
  if (!options.results.empty()) {
    results = read_bench_results(options.results);
  } else {
    const std::string json = strict_json(BenchRun(options, output).run());
    results = parse_bench_results(json, "the output of clora_bench");
    if (!options.out.empty()) write_file_atomically(options.out, json);
  }
  std::vector<Comparison> comparisons;
  std::vector<std::string> notes;
  if (old_run) {
    comparisons = compare(*old_run, results);
    notes = machine_change(*old_run, results);
  }
  const BenchPage page{results, comparisons, notes};
  show(output, page);
  for (const std::string& note : notes) output.warning("{}", note);
  if (!options.page.empty()) write_file_atomically(options.page, bench_page(page));
  if (!options.report.empty()) write_report(options, results);
  const bool failed =
      std::ranges::any_of(results.rows, [](const BenchRow& row) { return !row.error.empty(); });
  return failed ? 1 : 0;
}

}  // namespace

void add_bench_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("bench", "Measure the speed of each op on this device");
  const auto options = std::make_shared<Options>();
  command->add_option("--filter", options->filter, "Run only benches whose names match REGEX")
      ->type_name("REGEX");
  command->add_flag("--quick", options->quick, "Shorten each repetition to a seventh of its time");
  command
      ->add_option("--repetitions", options->repetitions,
                   "Repetitions of each bench; verdicts need at least two")
      ->transform(Integer(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--compare", options->old_results,
                   "Report whether each bench is faster or slower than in FILE, by a 99 % "
                   "confidence interval")
      ->type_name("FILE");
  command->add_option("--out", options->out, "Write the results to FILE, for --compare")
      ->type_name("FILE");
  command->add_option("--html", options->page, "Write an HTML page with charts to FILE")
      ->type_name("FILE");
  command
      ->add_option("--results", options->results,
                   "Show the results that --out wrote to FILE, without measuring")
      ->type_name("FILE")
      ->excludes("--out");
  command
      ->add_option("--report", options->report,
                   "Write a report on the device to FILE, to attach to an issue: driver, "
                   "capabilities, self-tests, and, unless --filter is given, a few quick benches")
      ->type_name("FILE");
  add_device_option(*command, options->common);
  add_output_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, command, &action] {
    action = [options, command] {
      if (!options->report.empty() && command->count("--filter") == 0) {
        options->filter = kReportBenches;
        options->quick = true;
      }
      return bench(*options);
    };
  });
}

}  // namespace clora

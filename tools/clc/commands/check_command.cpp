// clc check: runs one call of a kernel in oclgrind and on the device, and reports its errors.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/clc/call/call_options.hpp"
#include "tools/clc/call/kernel_call.hpp"
#include "tools/clc/call/simulator_findings.hpp"
#include "tools/clc/commands/commands.hpp"
#include "tools/command_line/number_options.hpp"
#include "tools/command_line/process.hpp"

namespace clora {
namespace {

constexpr std::size_t kGuardBytes = 4096;
constexpr const char* kFooter =
    R"(In oclgrind, a simulator (Debian: oclgrind; thousands of times slower, so use small arrays):
  races, out-of-bounds accesses, uninitialised values, divergent barriers.
On the device itself: writes outside of an array; elements of out(...) arrays that are never written
  or that depend on previous contents.
'clc run --help' lists the values of --arg.
Example:
  clc check saxpy.cl --global 64 --local 16 --arg n=60 --arg a=2 --arg 'x=rand(f32,60)'
      --arg 'y=out(f32,60)'
Exit codes: 0 no findings, 1 findings, 2 usage error.)";

struct CheckOptions {
  CallOptions call;
  bool partial = false;
  double seconds = 300;
};

// Elements of an out array that the kernel left unchanged in both runs, and elements that are NaN
// only if they were NaN before.
struct Untouched {
  std::int64_t unwritten = 0, first_unwritten = -1;
  std::int64_t inherited = 0, first_inherited = -1;
};

Untouched untouched_in(const HostArray& after_nan, const HostArray& after_number) {
  Untouched found;
  const ElementType type = after_nan.type;
  const auto holds = [&](const HostArray& array, std::int64_t i, OutFill fill) {
    const std::uint64_t unused = 64 - 8 * bytes_of(type);
    return array.bits(i) << unused == fill_bits(type, fill) << unused;
  };
  for (std::int64_t i = 0; i < after_nan.elements(); ++i) {
    if (holds(after_nan, i, OutFill::nan) && holds(after_number, i, OutFill::number)) {
      if (found.unwritten++ == 0) found.first_unwritten = i;
    } else if (std::isnan(after_nan.value(i)) && !std::isnan(after_number.value(i))) {
      if (found.inherited++ == 0) found.first_inherited = i;
    }
  }
  return found;
}

class Check {
 public:
  explicit Check(const CheckOptions& options)
      : options_(options),
        output_(options.call.common.output),
        file_(open_kernel_file(options.call.file, options.call.common.include_folders)),
        context_(context_config(options.call.common, file_)),
        call_(context_, spec()) {}

  int operator()() {
    if (has_program("oclgrind")) {
      simulate();
    } else {
      output_.warning(
          "oclgrind is not installed (Debian: apt install oclgrind): races, uninitialised values "
          "and divergent barriers are not checked");
    }
    if (diverges_) {
      output_.warning("not run on {}: a divergent barrier may hang it", context_.device().name);
    } else {
      run_on_device();
    }
    summarise();
    return findings_ == 0 && done_ ? 0 : 1;
  }

 private:
  KernelCallSpec spec() const {
    KernelCallSpec spec = call_spec(options_.call, file_, context_.device());
    spec.guard_bytes = kGuardBytes;
    return spec;
  }

  // The command that runs the same call with `clc run` in the simulator.
  std::vector<std::string> simulated(bool uninitialised) const {
    const CallOptions& call = options_.call;
    std::vector<std::string> words{"env", "-u", "OCL_ICD_VENDORS", "-u", "CLORA_DEVICE"};
    const auto add = [&](std::initializer_list<std::string> more) {
      words.insert(words.end(), more);
    };
    add({"CLORA_POOL=exact", "oclgrind", "--data-races", "--num-threads", "1", "--max-errors",
         "1000", "--local-mem-size", "65536", "--build-options", "-D NO_PREFETCH"});
    if (uninitialised) add({"--uninitialized"});
    add({std::filesystem::read_symlink("/proc/self/exe").string(), "run", call.file, "--device",
         "0", "--quiet", "--kernel", call_.kernel().name});
    add({"--global", fmt::format("{}", fmt::join(call_.grid().global, ",")), "--local",
         fmt::format("{}", fmt::join(call_.grid().local, ","))});
    // Never empty, because an empty list would select an option set of the head.
    add({"--options=-cl-kernel-arg-info " + call_.spec().options});
    for (const auto& folder : call.common.include_folders) add({"-I", folder.string()});
    for (const std::string& argument : call.arguments) add({"--arg", argument});
    return words;
  }

  void simulate() {
    ProcessResult result = run_process(simulated(true), options_.seconds);
    if (result.end == ProcessResult::End::killed || result.code > 2) {
      // oclgrind's check for uninitialised values crashes on vector shuffles.
      output_.warning("oclgrind {}; running again without the check for uninitialised values",
                      end_text(result));
      result = run_process(simulated(false), options_.seconds);
    }
    const SimulatorFindings simulation = findings_in(result.err + '\n' + result.out, file_);
    for (const SimulatorFinding& finding : simulation.findings) report(finding);
    if (simulation.cut_short)
      output_.warning("oclgrind stopped after 1000 messages; further messages are suppressed");
    if (!simulation.fatal.empty()) {
      output_.warning("oclgrind cannot run this kernel, so races are not checked: {}",
                      simulation.fatal);
    } else if (!result.succeeded()) {
      done_ = false;
      output_.warning(
          "the run in oclgrind {}; smaller arrays or --seconds may help. Its output:\n{}",
          end_text(result), result.err.substr(0, 2000));
    }
  }

  void run_on_device() {
    std::vector<HostArray> first;
    call_.run();
    check_guards();
    for (const BoundArray& array : call_.arrays()) first.push_back(call_.read(array.name));
    call_.reset(OutFill::number);
    call_.run();
    for (std::size_t i = 0; i < first.size(); ++i) {
      const BoundArray& array = call_.arrays()[i];
      if (array.is_out) report_untouched(array, untouched_in(first[i], call_.read(array.name)));
    }
  }

  void check_guards() {
    for (const BrokenGuard& broken : call_.broken_guards()) {
      report_of_call(
          "out-of-bounds",
          fmt::format("{} bytes {} array '{}' were written, the nearest {} bytes from it",
                      broken.bytes, broken.before ? "before" : "after", broken.name,
                      broken.distance_bytes));
    }
  }

  void report_untouched(const BoundArray& array, const Untouched& found) {
    const std::int64_t all = elements_of(array.shape);
    if (found.unwritten > 0 && !options_.partial) {
      report_of_call("unwritten",
                     fmt::format("{} of {} elements of '{}' were never written, the first is {}; "
                                 "--partial allows it",
                                 found.unwritten, all, array.name,
                                 place_text(array.shape, found.first_unwritten)));
    }
    if (found.inherited > 0) {
      report_of_call(
          "uninitialised",
          fmt::format("{} of {} elements of '{}' depend on the array's previous contents, "
                      "the first is {}; out(...) is for arrays that are only written",
                      found.inherited, all, array.name,
                      place_text(array.shape, found.first_inherited)));
    }
  }

  // Reports a finding of the entire call on the device.
  void report_of_call(std::string_view kind, const std::string& text) {
    report({.kind = std::string(kind),
            .file = file_.name,
            .line = 0,
            .text = fmt::format("{} on {}: {}", call_.kernel().name, context_.device().name, text),
            .source = {}});
  }

  void report(const SimulatorFinding& finding) {
    ++findings_;
    diverges_ = diverges_ || finding.kind == "divergent barrier";
    output_.result("{}", finding.location_text());
    if (!finding.source.empty()) output_.result("    {}", finding.source);
    object_["findings"].push_back({{"kind", finding.kind},
                                   {"file", finding.file},
                                   {"line", finding.line},
                                   {"text", finding.text},
                                   {"source", finding.source},
                                   {"count", finding.count}});
  }

  void summarise() {
    object_["kernel"] = call_.kernel().name;
    object_["device"] = context_.device().name;
    object_["done"] = done_;
    output_.object(object_);
    if (findings_ > 0) {
      output_.result("{} of {}: {} finding{}", call_.kernel().name, file_.name, findings_,
                     findings_ == 1 ? "" : "s");
    } else if (done_) {
      output_.result("{} of {}: no findings", call_.kernel().name, file_.name);
    }
  }

  const CheckOptions& options_;
  Output output_;
  KernelFile file_;
  Context context_;
  KernelCall call_;
  nlohmann::ordered_json object_{{"findings", nlohmann::ordered_json::array()}};
  int findings_ = 0;
  bool diverges_ = false;
  bool done_ = true;  // all requested runs were completed
};

}  // namespace

void add_check_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand(
      "check", "Check a run for races, out-of-bounds accesses and unwritten values");
  const auto options = std::make_shared<CheckOptions>();
  add_call_options(*command, options->call);
  command->add_flag("--partial", options->partial, "Allow out arrays that are only partly written")
      ->group("Check");
  command
      ->add_option("--seconds", options->seconds, "Time limit for the run in oclgrind, in seconds")
      ->type_name("N")
      ->transform(NumberAbove(0, kMaxSeconds))
      ->capture_default_str()
      ->group("Check");
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return Check(*options)(); }; });
}

}  // namespace clora

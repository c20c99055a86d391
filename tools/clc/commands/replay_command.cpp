// clc replay: runs a captured launch again and compares its results with those captured.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/clc/call/call_options.hpp"
#include "tools/clc/call/captured_call.hpp"
#include "tools/clc/call/kernel_call.hpp"
#include "tools/clc/call/reference_file.hpp"
#include "tools/clc/commands/commands.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

using nlohmann::ordered_json;

constexpr const char* kFooter =
    R"(Two environment variables write a launch of a real run to a folder:
  CLORA_CAPTURE=rms_norm/forward:3 CLORA_CAPTURE_DIR=launches clora train ...
The op is a label of 'clora ... --profile' or a kernel name; its launches are counted from 1.
  clc replay launches/rms_norm-forward-3               the kernel of the folder, compared
  clc replay launches/rms_norm-forward-3 --rtol 1e-5   on a device other than the run's
kernel.cl in the folder may be edited. Options, grid and arguments on the command line take
precedence over those of the folder; -D NAME=VALUE changes one name.
Other commands accept the folder, too:
  clc check FOLDER    clc bench FOLDER    clc tune FOLDER    clc run FOLDER --print y
Exit codes: 0 all arrays agree, 1 an array differs or the run failed, 2 usage error.)";

struct ReplayOptions {
  CallOptions call;
  Tolerance tolerance;
};

class Replay {
 public:
  explicit Replay(const ReplayOptions& options)
      : options_(options),
        output_(options.call.common.output),
        captured_(captured(options.call.file)),
        file_(open_kernel_file(options.call.file, options.call.common.include_folders)),
        context_(context_config(options.call.common, file_)),
        call_(context_, call_spec(options.call, file_, context_.device())) {}

  int operator()() {
    call_.run();
    announce();
    bool good = true, changes = false;
    for (std::size_t i = 0; i < captured_.arguments.size(); ++i) {
      if (captured_.arguments[i].expected) good = agrees(i) && good;
      changes = changes || captured_.arguments[i].changed;
    }
    if (good && !changes) output_.result("no array was changed, as in the run");
    if (!good) hint();
    object_["agrees"] = good;
    output_.object(object_);
    return good ? 0 : 1;
  }

 private:
  static CapturedCall captured(const std::string& folder) {
    if (is_captured_call(folder)) return read_captured_call(folder);
    throw UsageError(fmt::format(
        "'{}' is not the folder of a captured launch; for a kernel file, use 'clc run'", folder));
  }

  void announce() {
    const Grid& grid = call_.grid();
    output_.info("{}, launch {} of a run on {}", captured_.op, captured_.launch, captured_.device);
    output_.info("{} of {} ran on {}: global {}, local {}", call_.kernel().name, file_.name,
                 context_.device().name, fmt::join(grid.global, ","), fmt::join(grid.local, ","));
    output_.detail("built with: {}", call_.spec().options);
    object_ = {{"folder", options_.call.file},     {"op", captured_.op},
               {"launch", captured_.launch},       {"captured_on", captured_.device},
               {"kernel", call_.kernel().name},    {"options", call_.spec().options},
               {"device", context_.device().name}, {"compared", ordered_json::array()}};
  }

  // Arrays that the captured launch did not change are reported only if they differ now.
  bool agrees(std::size_t position) {
    const CapturedArgument& argument = captured_.arguments[position];
    const BoundArray& array = call_.array(std::to_string(position));
    ComparedArrays arrays{.got_name = names_of(position),
                          .wanted_name = argument.expected->file.filename().string(),
                          .got = call_.read(std::to_string(position)),
                          .wanted = array_of(*argument.expected),
                          .tolerance = options_.tolerance,
                          .found = {}};
    arrays.found = compare(arrays.got, arrays.wanted, arrays.tolerance, array.name);
    if (argument.changed || !arrays.good()) arrays.print(output_);
    ordered_json object = arrays.json("file");
    object["array"] = array.name;
    object["changes"] = argument.changed;
    object_["compared"].push_back(std::move(object));
    return arrays.good();
  }

  // "y", or "x, y" if y shares the memory of x.
  std::string names_of(std::size_t position) const {
    std::string names = call_.array(std::to_string(position)).name;
    for (std::size_t i = 0; i < captured_.arguments.size(); ++i) {
      const auto* shared = std::get_if<SharedMemory>(&captured_.arguments[i].value);
      if (shared == nullptr || shared->array != std::to_string(position)) continue;
      names += ", " + (captured_.arguments[i].name.empty() ? std::to_string(i)
                                                           : captured_.arguments[i].name);
    }
    return names;
  }

  void hint() {
    const Tolerance& tolerance = options_.tolerance;
    const bool exact = !tolerance.atol && !tolerance.rtol && !tolerance.ulp;
    if (!exact || context_.device().name == captured_.device) return;
    output_.warning(
        "the run was on {}; other devices round differently, see --rtol, --atol and --ulp",
        captured_.device);
  }

  const ReplayOptions& options_;
  Output output_;
  CapturedCall captured_;
  KernelFile file_;
  Context context_;
  KernelCall call_;
  ordered_json object_;
};

}  // namespace

void add_replay_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("replay", "Run a captured launch alone and compare its results");
  const auto options = std::make_shared<ReplayOptions>();
  add_call_options(*command, options->call);
  add_tolerance_options(*command, options->tolerance);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return Replay(*options)(); }; });
}

}  // namespace clora

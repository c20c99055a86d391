// clc run: runs one kernel once on the arrays of a call; prints, saves and compares the results.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/clc/call/call_options.hpp"
#include "tools/clc/call/kernel_call.hpp"
#include "tools/clc/call/npy.hpp"
#include "tools/clc/call/reference_file.hpp"
#include "tools/clc/commands/commands.hpp"
#include "tools/command_line/config_file.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

using nlohmann::ordered_json;

constexpr const char* kFooter = R"(Values of --arg:
  rand(f32,1024x768,seed=1,min=0,max=1)   uniform; by default floats in [-1,1), integers in 0..100
  zeros(f32,1024)  const(i32,1024,7)  range(u32,1024,0,1)
  out(f32,1024x768)                       what the kernel writes; initially NaN
  x.npy  npy(FILE)  npy(FILE,bf16)        NumPy's file; its <u2 as bf16
  local(4096)                             bytes of local memory
  768  0.5  (1,2,3,4)  int(3)             a value of the kernel's type, or of the named type
Types: f16 bf16 f32 f64 i8 u8 i16 u16 i32 u32 i64 u64.
Examples:
  clc run saxpy.cl --global 1024 --arg n=1000 --arg a=2 --arg 'x=rand(f32,1000,seed=1)'
      --arg 'y=out(f32,1000)' --print y
  clc run saxpy.cl --global 1024 --arg n=1000 --arg a=2 --arg x=x.npy --arg 'y=out(f32,1000)'
      --save y=y.npy --compare y=expected.npy --ulp 4
Exit codes: 0 success, 1 a comparison or the run failed, 2 usage error.)";

struct RunOptions {
  CallOptions call;
  std::vector<std::string> printed, saved, compared;
  Tolerance tolerance;
  int times = 1;
};

ordered_json json_of(const HostArray& array) {
  ordered_json values = ordered_json::array();
  for (std::int64_t i = 0; i < array.elements(); ++i) {
    if (is_float(array.type)) {
      values.push_back(array.value(i));
    } else if (is_signed(array.type)) {
      values.push_back(static_cast<std::int64_t>(array.bits(i)));
    } else {
      values.push_back(array.bits(i));
    }
  }
  return {{"type", name_of(array.type)}, {"shape", array.shape}, {"values", std::move(values)}};
}

class Run {
 public:
  explicit Run(const RunOptions& options)
      : options_(options),
        output_(options.call.common.output),
        file_(open_kernel_file(options.call.file, options.call.common.include_folders)),
        context_(context_config(options.call.common, file_)),
        call_(context_, call_spec(options.call, file_, context_.device())) {}

  int operator()() {
    check_names();
    for (int i = 0; i < options_.times; ++i) call_.batch().submit();
    context_.finish();
    announce();
    for (const std::string& text : options_.printed) print(text);
    for (const std::string& text : options_.saved) save(named_file(text, "--save"));
    bool good = true;
    for (const std::string& text : options_.compared) {
      good = compare_with(named_file(text, "--compare")) && good;
    }
    output_.object(object_);
    return good ? 0 : 1;
  }

 private:
  static std::string array_in(const std::string& printed) {
    return printed.substr(0, printed.find('['));
  }

  // Checks the names before the kernel runs, which may take long.
  void check_names() {
    for (const std::string& text : options_.printed) (void)call_.array(array_in(text));
    for (const std::string& text : options_.saved) {
      (void)call_.array(named_file(text, "--save").array);
    }
    for (const std::string& text : options_.compared) {
      (void)call_.array(named_file(text, "--compare").array);
    }
  }

  void announce() {
    const Grid& grid = call_.grid();
    output_.info("{} of {} ran on {}: global {}, local {}", call_.kernel().name, file_.name,
                 context_.device().name, fmt::join(grid.global, ","), fmt::join(grid.local, ","));
    output_.detail("built with: {}", call_.spec().options);
    object_ = {{"file", file_.name},
               {"kernel", call_.kernel().name},
               {"options", call_.spec().options},
               {"device", context_.device().name},
               {"global", grid.global},
               {"local", grid.local}};
  }

  void print(const std::string& text) {
    const std::string name = array_in(text);
    HostArray array = call_.read(name);
    if (name.size() < text.size()) {
      if (!text.ends_with(']')) {
        throw UsageError(fmt::format("--print '{}': ']' is missing at the end", text));
      }
      array = part_of(array, text.substr(name.size() + 1, text.size() - name.size() - 2));
    }
    output_.result("{} = {}\n{}", text, array.text(), picture_of(array));
    if (output_.json()) object_["printed"][text] = json_of(array);
  }

  void save(const NamedFile& to) {
    const HostArray array = call_.read(to.array);
    write_npy(to.file, array);
    output_.info("{} saved to {}: {}", to.array, to.file.string(), array.text());
    object_["saved"][to.array] = to.file.string();
  }

  bool compare_with(const NamedFile& reference) {
    const ComparedArrays arrays = compare_with_file(call_, reference, options_.tolerance);
    arrays.print(output_);
    object_["compared"].push_back(arrays.json("file"));
    return arrays.good();
  }

  const RunOptions& options_;
  Output output_;
  KernelFile file_;
  Context context_;
  KernelCall call_;
  ordered_json object_;
};

void add_result_options(CLI::App& command, RunOptions& options) {
  add_list_option(command, "--print", options.printed,
                  "Print an array, or a part of it: y, y[0:8], y[2,0:8]", "NAME");
  add_list_option(command, "--save", options.saved,
                  "Save an array, input or output, to a .npy file", "NAME=FILE");
  add_list_option(command, "--compare", options.compared,
                  "Compare an array with a .npy file; it must be equal unless a tolerance is given",
                  "NAME=FILE");
  add_tolerance_options(command, options.tolerance);
  command
      .add_option("--times", options.times,
                  "Number of runs; each run starts from what the previous one left")
      ->type_name("N")
      ->transform(Integer(1, kMaxCount))
      ->capture_default_str()
      ->group("Call");
}

}  // namespace

void add_run_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("run", "Run a kernel on arrays; print, save and compare them");
  const auto options = std::make_shared<RunOptions>();
  add_call_options(*command, options->call);
  add_result_options(*command, *options);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return Run(*options)(); }; });
}

}  // namespace clora

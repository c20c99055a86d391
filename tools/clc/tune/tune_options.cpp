#include <CLI/CLI.hpp>

#include "tools/clc/tune/tune_options.hpp"

#include "tools/clc/call/reference_file.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr const char* kFooter =
    R"(The file's head declares the search space and how the grid follows from it:
  //! clc: grid ceil(n/(WG*PER_ITEM))*WG by WG
  //! clc: tune WG={32,64,128,256} PER_ITEM={1,2,4} where WG * PER_ITEM <= 512
Each candidate is built, run once and compared before it is timed: with the results of the untuned
kernel (the -D values of the head's build line, or of -D), or with files (--compare). The best are
timed again, alternating with the untuned kernel. The winner is written to the tuned table
(docs/clc.md). A run that was stopped resumes where it ended.
Example:
  clc tune saxpy.cl -D WG=64 -D PER_ITEM=1 --arg n=1000000 --arg a=2 --arg 'x=rand(f32,1000000)'
      --arg 'y=out(f32,1000000)'
  clc tune --costs all
Exit codes: 0 success, 1 no candidate works, 2 usage error.)";

void add_search_options(CLI::App& command, TuneOptions& options) {
  const auto add = [&](const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->group("Search")->capture_default_str();
  };
  add("--search", options.search,
      "How candidates are chosen: all, at random, or by simulated annealing")
      ->check(CLI::IsMember({"exhaustive", "random", "annealing"}));
  add("--most", options.most, "Maximum number of candidates to try (0: all)")
      ->transform(Integer(0, kMaxCount))
      ->type_name("N");
  add("--seed", options.seed, "Seed of the random and annealing searches")
      ->transform(Integer(0, kMaxSeed))
      ->type_name("N");
  add("--seconds", options.seconds, "Device time per candidate, in seconds")
      ->type_name("S")
      ->transform(NumberAbove(0, kMaxSeconds));
  add("--caches", options.caches, "State of the caches before each launch")
      ->check(CLI::IsMember({"warm", "cold"}));
  command
      .add_option("--record", options.record, "File for the results (default: in the cache folder)")
      ->type_name("FILE")
      ->group("Search");
  command.add_flag("--fresh", options.fresh, "Discard the results of earlier runs")
      ->group("Search");
}

void add_result_options(CLI::App& command, TuneOptions& options) {
  command.add_option("--table", options.table, "Tuned table to write (default: the user's own)")
      ->type_name("FILE")
      ->group("Results");
  command.add_flag("--dry-run", options.dry_run, "Do not write the tuned table")->group("Results");
}

void add_reference_options(CLI::App& command, TuneOptions& options) {
  add_list_option(command, "--compare", options.compared, "Expected result of every candidate",
                  "NAME=FILE.npy");
  add_list_option(command, "--check", options.checked,
                  "Arrays to compare with the untuned kernel's (default: all)", "NAME");
  add_tolerance_options(command, options.tolerance);
}

}  // namespace

void add_tune_options(CLI::App& command, TuneOptions& options) {
  add_call_options(command, options.call);
  command.get_option("file")->required(false);
  command
      .add_option(
          "--costs", options.costs,
          "Instead of a kernel, tune the costs by which ops plan launches: of one model, or "
          "of all")
      ->type_name("MODEL|all")
      ->group("Costs");
  add_search_options(command, options);
  add_reference_options(command, options);
  add_result_options(command, options);
  command.footer(kFooter);
}

}  // namespace clora

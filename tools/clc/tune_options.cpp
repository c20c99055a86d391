#include "tools/clc/tune_options.hpp"

#include "tools/clc/reference_file.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(The file's head declares the space, and how the grid follows:
  //! clc: grid ceil(n/(WG*PER_ITEM))*WG by WG
  //! clc: tune WG={32,64,128,256} PER_ITEM={1,2,4} where WG * PER_ITEM <= 512
Each candidate is built, run once and compared before it is timed: with what the call gives untuned
(the -D values of the head's build line, or of -D), or with files (--compare). The best ones are timed
again by turns with the untuned kernel. What wins goes into the tuned table (docs/clc.md).
A run that was stopped goes on where it ended.
Example:
  clc tune saxpy.cl -D WG=64 -D PER_ITEM=1 --arg n=1000000 --arg a=2 --arg 'x=rand(f32,1000000)'
      --arg 'y=out(f32,1000000)'
Exit codes: 0 good, 1 no candidate works, 2 a mistake in the call.)";

void add_search_options(CLI::App& command, TuneOptions& options) {
  const auto add = [&](const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->group("Search")->capture_default_str();
  };
  add("--search", options.search, "How candidates are chosen: all, some by chance, or by a walk")
      ->check(CLI::IsMember({"exhaustive", "random", "annealing"}));
  add("--most", options.most, "Try at most so many (0: all)")
      ->transform(WholeNumber(0, kMaxCount))
      ->type_name("N");
  add("--seed", options.seed, "Of random and annealing")
      ->transform(WholeNumber(0, kMaxSeed))
      ->type_name("N");
  add("--seconds", options.seconds, "Device time to spend on a candidate")
      ->type_name("S")
      ->transform(NumberAbove(0, kMaxSeconds));
  add("--caches", options.caches, "What a launch finds in the caches")
      ->check(CLI::IsMember({"warm", "cold"}));
  command.add_option("--record", options.record, "Where results are kept (default: in the cache)")
      ->type_name("FILE")
      ->group("Search");
  command.add_flag("--fresh", options.fresh, "Forget results of earlier runs")->group("Search");
}

void add_result_options(CLI::App& command, TuneOptions& options) {
  command
      .add_option("--table", options.table, "The tuned table to write (default: the user's own)")
      ->type_name("FILE")
      ->group("Results");
  command.add_flag("--dry-run", options.dry_run, "Write no table")->group("Results");
}

void add_reference_options(CLI::App& command, TuneOptions& options) {
  add_list_option(command, "--compare", options.compared, "What every candidate must give",
                  "NAME=FILE.npy");
  add_list_option(command, "--check", options.checked,
                  "Arrays to compare with the untuned kernel's (default: all)", "NAME");
  add_tolerance_options(command, options.tolerance);
}

}  // namespace

void add_tune_options(CLI::App& command, TuneOptions& options) {
  add_call_options(command, options.call);
  add_search_options(command, options);
  add_reference_options(command, options);
  add_result_options(command, options);
  command.footer(kFooter);
}

}  // namespace clora

// clc tune: searches the -D values that a kernel file's head declares for the fastest ones,
// measured on the given call, and stores them in the tuning table that ops read.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "clora/runtime/files/digest.hpp"
#include "ops/tuned/tuned.hpp"
#include "tools/clc/bench/sample_statistics.hpp"
#include "tools/clc/call/call_numbers.hpp"
#include "tools/clc/call/captured_call.hpp"
#include "tools/clc/call/reference_file.hpp"
#include "tools/clc/commands/commands.hpp"
#include "tools/clc/kernel_file/option_words.hpp"
#include "tools/clc/tune/tune_costs.hpp"
#include "tools/clc/tune/tune_options.hpp"
#include "tools/clc/tune/tune_report.hpp"
#include "tools/clc/tune/tune_search.hpp"
#include "tools/clc/tune/tune_space.hpp"
#include "tools/clc/tune/tune_trial.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kFinalists = 3;
// The arguments with their initial arrays, which are created or read once for all candidates.
// Arguments of a captured launch are left as specs, which allow bytes for any type.
std::vector<CallArgument> with_arrays(std::vector<CallArgument> arguments) {
  for (CallArgument& argument : arguments) {
    const auto* spec = std::get_if<ArraySpec>(&argument.value);
    const bool is_generated =
        spec != nullptr && spec->kind != ArraySpec::Kind::out && !spec->captured;
    if (is_generated) argument.value = array_of(*spec);
  }
  return arguments;
}

class Tune {
 public:
  explicit Tune(const TuneOptions& options)
      : options_(options),
        output_(options.call.common.output),
        file_(open_kernel_file(options.call.file, options.call.common.include_folders)),
        context_(config_of(options.call.common, file_)),
        base_(chosen_options(options.call, file_, context_.device())),
        default_call_(
            std::make_unique<KernelCall>(context_, call_spec(options.call, file_, base_))),
        arguments_(with_arrays(default_call_->spec().arguments)),
        table_path_(options.table.empty() ? tuned_table_path(config_from_environment())
                                          : options.table),
        candidates_(tune_candidates(file_.head, default_call_->kernel().name,
                                    call_numbers(*default_call_), file_.name)),
        fixed_(options_without(base_, candidates_.parameters)),
        default_values_(values_in(base_, candidates_.parameters)),
        record_(record_path(), subject()) {}

  int operator()() {
    make_references();
    announce();
    try_all();
    const std::vector<Finalist> finalists = final_of_the_best();
    if (finalists.empty()) {
      output_.warning("no candidate works; run 'clc build' and 'clc check' for details");
      write_json(nullptr);
      return 1;
    }
    output_.result("{}", fastest_table(record_));
    output_.result("{}", counts_text(record_));
    conclude(finalists.front());
    write_json(&finalists.front());
    return 0;
  }

 private:
  static ContextConfig config_of(const ClcOptions& common, const KernelFile& file) {
    ContextConfig config = context_config(common, file);
    config.profile = true;
    return config;
  }

  // A text of everything that a result depends on.
  std::string subject() const {
    const CallOptions& call = options_.call;
    return fmt::format("{}, {}, {} {}, text {}, {}, --global '{}' --local '{}' {}, {} caches",
                       context_.device().name, context_.device().driver, file_.name,
                       default_call_->kernel().name, digest_of(file_.text).text(), fixed_,
                       call.global, call.local, fmt::join(call.arguments, " "), options_.caches) +
           captured_call_text();
  }

  std::string captured_call_text() const {
    const std::filesystem::path path(options_.call.file);
    return is_captured_call(path) ? ", " + std::filesystem::canonical(path).string() : "";
  }

  std::filesystem::path record_path() const {
    std::filesystem::path path = options_.record;
    const std::filesystem::path cache = default_cache_folder();
    if (path.empty() && !cache.empty()) {
      path = cache / "tune" / (digest_of(subject()).text() + ".json");
    }
    if (options_.fresh && !path.empty()) std::filesystem::remove(path);
    return path;
  }

  Tolerance tolerance_for(const HostArray& wanted) const {
    const Tolerance& given = options_.tolerance;
    return given.atol || given.rtol || given.ulp ? given : usual_tolerance(wanted);
  }

  // The references come from files if any are given; otherwise they are all arrays as the untuned
  // kernel leaves them.
  void make_references() {
    default_call_->run();
    for (const std::string& text : options_.compared) {
      const NamedFile file = named_file(text, "--compare");
      HostArray wanted = read_reference(*default_call_, file);
      references_.push_back({file.array, wanted, tolerance_for(wanted)});
    }
    const std::string difference = difference_in(*default_call_, references_);
    if (!difference.empty()) output_.warning("untuned, {}", difference);
    if (!references_.empty()) return;
    for (const BoundArray& array : default_call_->arrays()) {
      if (!options_.checked.empty() &&
          std::ranges::find(options_.checked, array.name) == options_.checked.end()) {
        continue;
      }
      HostArray wanted = default_call_->read(array.name);
      const Tolerance tolerance = tolerance_for(wanted);
      references_.push_back({array.name, std::move(wanted), tolerance});
    }
  }

  void announce() {
    output_.info("{} of {} on {}: {} candidates of {}; untuned {}", default_call_->kernel().name,
                 file_.name, context_.device().name, candidates_.all.size(),
                 fmt::join(candidates_.parameters, ", "), values_text(default_values_));
    if (record_.resumed() > 0) {
      output_.info("{} results are reused from an earlier run ({})", record_.resumed(),
                   record_.path().string());
    }
  }

  void try_all() {
    const std::size_t all = candidates_.all.size();
    const std::size_t most = options_.most == 0 ? all : options_.most;
    const std::size_t defaults = candidates_.find(default_values_);
    const auto search = make_search(search_kind(options_.search), candidates_,
                                    defaults == all ? 0 : defaults, most, options_.seed);
    std::size_t tried = 0;
    while (const auto candidate = search->next()) {
      const TrialResult result = result_of(*candidate);
      search->add_result(*candidate,
                         result.is_timed() ? std::optional(result.seconds) : std::nullopt);
      report_trial(++tried, std::min(most, all), *candidate, result);
    }
  }

  TrialResult result_of(std::size_t candidate) {
    const NamedNumbers values = candidates_.values(candidate);
    if (const TrialResult* known = record_.find(values)) {
      note_best(*known);
      return *known;
    }
    record_.put(values, {});
    TrialResult result = try_candidate(context_, spec_with(values), references_, plan(), best_);
    record_.put(values, result);
    note_best(result);
    return result;
  }

  void note_best(const TrialResult& result) {
    if (result.end == TrialEnd::timed)
      best_ = std::min(best_.value_or(result.seconds), result.seconds);
  }

  KernelCallSpec spec_with(const NamedNumbers& values) const {
    KernelCallSpec spec = call_spec(options_.call, file_, options_with(fixed_, values));
    spec.arguments = arguments_;
    return spec;
  }

  TrialPlan plan() const {
    TrialPlan plan;
    plan.timing.seconds = options_.seconds;
    plan.timing.caches = caches();
    return plan;
  }
  CacheState caches() const {
    return options_.caches == "cold" ? CacheState::cold : CacheState::warm;
  }

  void report_trial(std::size_t number, std::size_t all, std::size_t candidate,
                    const TrialResult& result) {
    output_.info("  {}/{} {}: {}", number, all, values_text(candidates_.values(candidate)),
                 trial_text(result));
  }

  // Times the best candidates in alternation with the untuned kernel, so a disturbance of the
  // machine affects both; fastest first.
  std::vector<Finalist> final_of_the_best() {
    std::vector<Finalist> finalists;
    for (const auto& [values, result] : record_.results()) {
      if (result.end == TrialEnd::timed) {
        finalists.push_back({values, result.seconds, 0, {}});
      }
    }
    std::ranges::sort(finalists, {}, &Finalist::seconds);
    if (finalists.size() > kFinalists) finalists.resize(kFinalists);
    for (Finalist& each : finalists) play(each);
    std::ranges::sort(finalists, {}, &Finalist::seconds);
    return finalists;
  }

  void play(Finalist& finalist) {
    KernelCall call(context_, spec_with(finalist.values));
    KernelTimer untuned(context_, caches()), tuned(context_, caches());
    const PairedTimes times =
        time_in_turns({untuned, *default_call_}, {tuned, call}, plan().timing);
    finalist.seconds = summary_of(times.second).median;
    finalist.of_untuned = ratio_of_medians(times.first, times.second);
    finalist.untuned_seconds = summary_of(times.first).median;
  }

  void conclude(const Finalist& best) {
    output_.result("best: {}", gain_text(best));
    gains_ = best.values != default_values_ && verdict_on(best.of_untuned) == SpeedVerdict::faster;
    if (options_.dry_run || table_path_.empty()) return;
    TunedTable table = TunedTable::read(table_path_);
    const TunedKernel kernel = tuned_kernel();
    table.remove(kernel);
    if (gains_) {
      table.put(
          {kernel, best.values, context_.device().driver, best.seconds, best.untuned_seconds});
    }
    std::filesystem::create_directories(std::filesystem::absolute(table_path_).parent_path());
    table.write(table_path_);
    if (gains_) {
      output_.result("written to {}", table_path_.string());
    } else {
      output_.result("no gain: {} has no entry for this kernel", table_path_.string());
    }
  }

  TunedKernel tuned_kernel() const {
    return {context_.device().name, kernel_file_name(), default_call_->kernel().name, fixed_,
            call_sizes(*default_call_)};
  }

  // For a captured launch, the kernel file of the original run, which is the name that ops use.
  std::string kernel_file_name() const {
    const std::string& path = options_.call.file;
    return is_captured_call(path) ? read_captured_call(path).file : file_.name;
  }

  void write_json(const Finalist* best) {
    ordered_json json{{"file", file_.name},
                      {"kernel", default_call_->kernel().name},
                      {"device", context_.device().name},
                      {"options", fixed_},
                      {"untuned", {{"values", default_values_}}},
                      {"resumed", record_.resumed()},
                      {"candidates", candidates_json(record_)}};
    if (best != nullptr) {
      json["untuned"]["seconds"] = best->untuned_seconds;
      json["best"] = gain_json(*best);
      json["table"] = gains_ && !options_.dry_run ? table_path_.string() : "";
    }
    output_.object(json);
  }

  const TuneOptions& options_;
  Output output_;
  KernelFile file_;
  Context context_;
  std::string base_;  // the options of the call: untuned
  std::unique_ptr<KernelCall> default_call_;
  std::vector<CallArgument> arguments_;  // of every candidate
  std::filesystem::path table_path_;     // empty: no table is written
  TuneCandidates candidates_;
  std::string fixed_;  // base_ without the tuned parameters
  NamedNumbers default_values_;
  TuneRecord record_;
  std::vector<ReferenceArray> references_;
  std::optional<double> best_;
  bool gains_ = false;
};

}  // namespace

void add_tune_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("tune", "Find a kernel's fastest -D values on a device");
  const auto options = std::make_shared<TuneOptions>();
  add_tune_options(*command, *options);
  command->callback([options, &action] {
    action = [options] {
      if (options->call.file.empty() == options->costs.empty()) {
        throw UsageError("clc tune: requires a kernel file or --costs, and not both");
      }
      return options->costs.empty() ? Tune(*options)() : tune_costs(*options);
    };
  });
}

}  // namespace clora

// clc tune: the fastest of the -D values that a kernel file's head declares, each tried on the call
// that is given; the best go into the tuned table that ops read.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "ops/tuned.hpp"
#include "runtime/digest.hpp"
#include "tools/clc/bench_report.hpp"
#include "tools/clc/call_numbers.hpp"
#include "tools/clc/call_options.hpp"
#include "tools/clc/captured_call.hpp"
#include "tools/clc/commands.hpp"
#include "tools/clc/npy.hpp"
#include "tools/clc/option_words.hpp"
#include "tools/clc/reference_file.hpp"
#include "tools/clc/sample_statistics.hpp"
#include "tools/clc/text_table.hpp"
#include "tools/clc/tune_record.hpp"
#include "tools/clc/tune_search.hpp"
#include "tools/clc/tune_space.hpp"
#include "tools/clc/tune_trial.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kFinalists = 3;
constexpr std::size_t kShown = 8;
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

struct TuneOptions {
  CallOptions call;
  std::vector<std::string> compared, checked;
  Tolerance tolerance;
  std::string search = "exhaustive", caches = "warm";
  std::size_t most = 0;
  std::uint64_t seed = 1;
  double seconds = 0.2;
  std::filesystem::path record, table;
  bool fresh = false, dry_run = false;
};

struct Finalist {
  NamedNumbers values;
  double seconds = 0;
  MedianRatio of_untuned;  // this one's time over the untuned one's
};

class Tune {
 public:
  explicit Tune(const TuneOptions& options)
      : options_(options),
        output_(options.call.common.output),
        file_(open_kernel_file(options.call.file, options.call.common.include_folders)),
        config_(config_of(options.call.common, file_)),
        context_(config_),
        base_(chosen_options(options.call, file_, context_.device())),
        preset_(std::make_unique<KernelCall>(context_, call_spec(options.call, file_, base_))),
        candidates_(tune_candidates(file_.head, preset_->kernel().name, call_numbers(*preset_),
                                    file_.name)),
        fixed_(options_without(base_, candidates_.parameters)),
        preset_values_(values_in(base_, candidates_.parameters)),
        record_(record_path(), subject()) {}

  int operator()() {
    make_references();
    announce();
    try_all();
    const std::vector<Finalist> finalists = final_of_the_best();
    if (finalists.empty()) {
      output_.warning("no candidate works; 'clc build' and 'clc check' tell more");
      tell_json(nullptr);
      return 1;
    }
    show_all();
    conclude(finalists.front());
    tell_json(&finalists.front());
    return 0;
  }

 private:
  static ContextConfig config_of(const ClcOptions& common, const KernelFile& file) {
    ContextConfig config = context_config(common, file);
    config.profile = true;
    return config;
  }

  // All that a result depends on.
  std::string subject() const {
    const CallOptions& call = options_.call;
    return fmt::format("{}, {}, {} {}, text {}, {}, --global '{}' --local '{}' {}, {} caches",
                       context_.device().name, context_.device().driver, file_.name,
                       preset_->kernel().name, digest_of(file_.text).text(), fixed_, call.global,
                       call.local, fmt::join(call.arguments, " "), options_.caches) +
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

  std::filesystem::path table_path() const {
    return options_.table.empty() ? tuned_table_path(config_from_environment()) : options_.table;
  }

  Tolerance tolerance_for(const HostArray& wanted) const {
    const Tolerance& given = options_.tolerance;
    return given.atol || given.rtol || given.ulp ? given : usual_tolerance(wanted);
  }

  // From files where there are any, else all arrays as the untuned kernel leaves them.
  void make_references() {
    preset_->run();
    for (const std::string& text : options_.compared) {
      const NamedFile file = named_file(text, "--compare");
      HostArray wanted = read_npy(file.file);
      references_.push_back({file.array, wanted, tolerance_for(wanted)});
    }
    const std::string difference = difference_in(*preset_, references_);
    if (!difference.empty()) output_.warning("untuned, {}", difference);
    if (!references_.empty()) return;
    for (const BoundArray& array : preset_->arrays()) {
      if (!options_.checked.empty() &&
          std::ranges::find(options_.checked, array.name) == options_.checked.end()) {
        continue;
      }
      HostArray wanted = preset_->read(array.name);
      const Tolerance tolerance = tolerance_for(wanted);
      references_.push_back({array.name, std::move(wanted), tolerance});
    }
  }

  void announce() {
    output_.info("{} of {} on {}: {} candidates of {}; untuned {}", preset_->kernel().name,
                 file_.name, context_.device().name, candidates_.all.size(),
                 fmt::join(candidates_.parameters, ", "), values_text(preset_values_));
    if (record_.resumed() > 0) {
      output_.info("{} are known from an earlier run ({})", record_.resumed(),
                   record_.path().string());
    }
  }

  void try_all() {
    const std::size_t all = candidates_.all.size();
    const std::size_t most = options_.most == 0 ? all : options_.most;
    const std::size_t preset = candidates_.find(preset_values_);
    const auto search = make_search(search_kind(options_.search), candidates_,
                                    preset == all ? 0 : preset, most, options_.seed);
    std::size_t tried = 0;
    while (const auto candidate = search->next()) {
      const TrialResult result = result_of(*candidate);
      search->tell(*candidate, result.is_timed() ? std::optional(result.seconds) : std::nullopt);
      tell_trial(++tried, std::min(most, all), *candidate, result);
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
    return call_spec(options_.call, file_, options_with(fixed_, values));
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

  void tell_trial(std::size_t number, std::size_t all, std::size_t candidate,
                  const TrialResult& result) {
    const std::string took = result.is_timed() ? fmt::format(" {}", time_text(result.seconds)) : "";
    output_.info("  {}/{} {}: {}{}{}", number, all, values_text(candidates_.values(candidate)),
                 name_of(result.end), took, result.why.empty() ? "" : ", " + result.why);
  }

  // The best by turns with the untuned kernel, so that what slows the machine slows all; best
  // first.
  std::vector<Finalist> final_of_the_best() {
    std::vector<Finalist> finalists;
    for (const auto& [values, result] : record_.results()) {
      if (result.end == TrialEnd::timed) finalists.push_back({values, result.seconds, {}});
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
    const PairedTimes times = time_in_turns({untuned, *preset_}, {tuned, call}, plan().timing);
    finalist.seconds = summary_of(times.second).median;
    finalist.of_untuned = ratio_of_medians(times.first, times.second);
    preset_seconds_ = summary_of(times.first).median;
  }

  void show_all() {
    std::vector<std::pair<double, NamedNumbers>> timed;
    for (const auto& [values, result] : record_.results()) {
      if (result.is_timed()) timed.emplace_back(result.seconds, values);
    }
    std::ranges::sort(timed);
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < std::min(kShown, timed.size()); ++i) {
      rows.push_back({values_text(timed[i].second), time_text(timed[i].first)});
    }
    output_.result("{}", table_of(rows, 2));
    output_.result("{} candidates: {} timed, {} dropped as slow, {} wrong, {} refused",
                   record_.results().size(), count(TrialEnd::timed), count(TrialEnd::slow),
                   count(TrialEnd::wrong), count(TrialEnd::refused));
  }

  std::size_t count(TrialEnd end) const {
    return static_cast<std::size_t>(std::ranges::count(
        record_.results(), end, [](const auto& each) { return each.second.end; }));
  }

  void conclude(const Finalist& best) {
    output_.result("best: {}: {}, untuned {}; gain {:.3f}x ({:.3f} to {:.3f})",
                   values_text(best.values), time_text(best.seconds), time_text(preset_seconds_),
                   1 / best.of_untuned.ratio, 1 / best.of_untuned.high, 1 / best.of_untuned.low);
    gains_ = best.values != preset_values_ && verdict_on(best.of_untuned) == SpeedVerdict::faster;
    if (options_.dry_run || table_path().empty()) return;
    TunedTable table = TunedTable::read(table_path());
    const TunedKernel kernel = tuned_kernel();
    table.remove(kernel);
    if (gains_) {
      table.put({kernel, best.values, context_.device().driver, best.seconds, preset_seconds_});
    }
    std::filesystem::create_directories(std::filesystem::absolute(table_path()).parent_path());
    table.write(table_path());
    if (gains_) {
      output_.result("written to {}", table_path().string());
    } else {
      output_.result("that is no gain: {} has no entry for it", table_path().string());
    }
  }

  TunedKernel tuned_kernel() const {
    return {context_.device().name, kernel_file_name(), preset_->kernel().name, fixed_,
            call_sizes(*preset_)};
  }

  // Of a captured launch that of its run, where it is known to ops.
  std::string kernel_file_name() const {
    const std::string& path = options_.call.file;
    return is_captured_call(path) ? read_captured_call(path).file : file_.name;
  }

  void tell_json(const Finalist* best) {
    ordered_json json{{"file", file_.name},
                      {"kernel", preset_->kernel().name},
                      {"device", context_.device().name},
                      {"options", fixed_},
                      {"untuned", {{"values", preset_values_}, {"seconds", preset_seconds_}}},
                      {"resumed", record_.resumed()}};
    for (const auto& [values, result] : record_.results()) {
      json["candidates"].push_back({{"values", values},
                                    {"end", name_of(result.end)},
                                    {"why", result.why},
                                    {"seconds", result.seconds}});
    }
    if (best != nullptr) {
      json["best"] = {{"values", best->values},
                      {"seconds", best->seconds},
                      {"gain", 1 / best->of_untuned.ratio},
                      {"gain_low", 1 / best->of_untuned.high},
                      {"gain_high", 1 / best->of_untuned.low}};
      json["table"] = gains_ && !options_.dry_run ? table_path().string() : "";
    }
    output_.object(json);
  }

  const TuneOptions& options_;
  Output output_;
  KernelFile file_;
  ContextConfig config_;
  Context context_;
  std::string base_;  // options as the call says them: what is untuned
  std::unique_ptr<KernelCall> preset_;
  TuneCandidates candidates_;
  std::string fixed_;  // of them what is not tuned
  NamedNumbers preset_values_;
  TuneRecord record_;
  std::vector<ReferenceArray> references_;
  std::optional<double> best_;
  double preset_seconds_ = 0;
  bool gains_ = false;
};

void add_search_options(CLI::App& command, TuneOptions& options) {
  const auto add = [&](const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->group("Search")->capture_default_str();
  };
  add("--search", options.search, "How candidates are chosen: all, some by chance, or by a walk")
      ->check(CLI::IsMember({"exhaustive", "random", "annealing"}));
  add("--most", options.most, "Try at most so many (0: all)")->type_name("N");
  add("--seed", options.seed, "Of random and annealing")->type_name("N");
  add("--seconds", options.seconds, "Device time to spend on a candidate")
      ->type_name("S")
      ->check(CLI::PositiveNumber);
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

}  // namespace

void add_tune_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("tune", "Find a kernel's fastest -D values on a device");
  const auto options = std::make_shared<TuneOptions>();
  add_call_options(*command, options->call);
  add_search_options(*command, *options);
  add_list_option(*command, "--compare", options->compared, "What every candidate must give",
                  "NAME=FILE.npy");
  add_list_option(*command, "--check", options->checked,
                  "Arrays to compare with the untuned kernel's (default: all)", "NAME");
  add_tolerance_options(*command, options->tolerance);
  add_result_options(*command, *options);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return Tune(*options)(); }; });
}

}  // namespace clora

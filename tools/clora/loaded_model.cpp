#include "tools/clora/loaded_model.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "clora/model/adapter_files/adapter_files.hpp"
#include "clora/model/weights/stored_ends.hpp"
#include "clora/ops/roofline_peaks/roofline_peaks.hpp"
#include "clora/runtime/error.hpp"
#include "runtime/elapsed.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/profile_report.hpp"
#include "tools/clora/progress_bar.hpp"
#include "tools/clora/stage_options.hpp"
#include "tools/command_line/terminal_line.hpp"

namespace clora {
namespace {

constexpr double kShowAfterSeconds = 0.5;

std::size_t held_bytes(const WeightFiles& files, const BlockRange& blocks) {
  std::size_t bytes = 0;
  for (const WeightView& view : files.all()) {
    if (holds_tensor(files.config(), blocks, view.name)) bytes += size_bytes(view);
  }
  return bytes;
}

// Loads stages one by one. Shows how far a long load of `all_bytes` is, on a terminal only, and
// ends it at Ctrl-C.
class Loading {
 public:
  Loading(const WeightFiles& files, Output& output, std::size_t all_bytes)
      : files_(files), bar_(output, "MiB", static_cast<std::int64_t>(all_bytes >> 20U)) {
    terminal_ = ::isatty(::fileno(output.people())) == 1 || ::isatty(STDERR_FILENO) == 1;
  }

  // stage_bytes: those of the weights of these blocks.
  std::unique_ptr<LanguageModel> load(Context& context, const BlockRange& blocks,
                                      std::size_t stage_bytes, std::int64_t context_length) {
    const auto bytes = static_cast<double>(stage_bytes);
    const auto report = [&](double fraction) {
      if (terminal_ && seconds_since(started_) > kShowAfterSeconds) {
        bar_.update(std::lround((loaded_ + fraction * bytes) / (1U << 20U)), "MiB of weights");
      }
      return !interrupt_.requested();
    };
    auto model = std::make_unique<LanguageModel>(
        context, files_,
        LoadOptions{.progress = report, .context_length = context_length, .blocks = blocks});
    loaded_ += bytes;
    return model;
  }

 private:
  const Interrupt interrupt_{"\nclora: stopping the load\n"};
  const WeightFiles& files_;
  ProgressBar bar_;
  bool terminal_ = false;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  double loaded_ = 0;  // bytes of earlier stages
};

// Writes the trace once before the work, so an unwritable file fails early.
void try_trace_file(const CommonOptions& options) {
  if (options.trace != nullptr) options.trace->write(options.trace_file);
}

// A failure to measure the peaks is only a warning: a profile without them is still useful.
RooflinePeaks peaks_for(const CommonOptions& options, Output& output) {
  if (options.profile.empty()) return {};
  const TraceSpan span(options.trace.get(), "measure peaks");
  try {
    return peaks_of(context_config(options_of_stages(options).front()));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::no_device) throw;
    output.warning("the profile has no roofline peaks: {}", error.what());
    return {};
  }
}

std::vector<std::unique_ptr<Context>> make_contexts(const CommonOptions& options) {
  std::vector<std::unique_ptr<Context>> contexts;
  for (const CommonOptions& each : options_of_stages(options)) {
    contexts.push_back(std::make_unique<Context>(context_config(each)));
    require_precision(each, contexts.back()->device());
  }
  return contexts;
}

}  // namespace

LoadedModel::LoadedModel(const CommonOptions& options, Output& output, std::int64_t context_length,
                         const std::optional<BlockRange>& blocks)
    : options_(options),
      output_(output),
      peaks_(peaks_for(options, output)),
      contexts_(make_contexts(options)),
      files_(WeightFiles::open(options.model)) {
  try_trace_file(options);
  const TraceSpan span(context().trace(), "load weights", options.model);
  const auto started = std::chrono::steady_clock::now();
  load(context_length, blocks ? std::vector{*blocks} : ranges_of_stages(options, files_));
  output.detail("{}: {} of weights to {} in {:.2f} s", options.model,
                readable_bytes(static_cast<double>(weight_bytes())), device_names(),
                seconds_since(started));
}

void LoadedModel::load(std::int64_t context_length, const std::vector<BlockRange>& ranges) {
  std::vector<std::size_t> bytes;
  for (const BlockRange& range : ranges) bytes.push_back(held_bytes(files_, range));
  Loading loading(files_, output_, std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    models_.push_back(loading.load(*contexts_.at(i), ranges[i], bytes[i], context_length));
  }
}

std::vector<ModelStage> LoadedModel::stages() const {
  std::vector<ModelStage> stages;
  for (const auto& model : models_) stages.push_back({model.get()});
  return stages;
}

std::size_t LoadedModel::weight_bytes() const {
  std::size_t bytes = 0;
  for (const auto& model : models_) bytes += model->weight_bytes();
  return bytes;
}

std::size_t LoadedModel::used_bytes() const {
  std::size_t bytes = 0;
  for (const auto& context : contexts_) bytes += context->pool().statistics().in_use_bytes;
  return bytes;
}

std::string LoadedModel::device_names() const {
  std::string names;
  for (const auto& context : contexts_) {
    names += fmt::format("{}'{}'", names.empty() ? "" : " and ", context->device().name);
  }
  return names;
}

std::optional<Adapter> LoadedModel::adapter(const std::string& path) {
  if (path.empty()) return std::nullopt;
  Adapter adapter = load_adapter(context(), path, model().config());
  require_stored_ends(path, files_.all());
  return adapter;
}

AdaptedStages LoadedModel::with_adapter(const std::string& path) {
  AdaptedStages all{.adapters = {}, .stages = stages()};
  std::optional<Adapter> whole = adapter(path);
  if (!whole) return all;
  if (models_.size() == 1) {
    all.adapters.push_back(std::move(whole));
  } else {
    for (const auto& model : models_) all.adapters.push_back(part_of_adapter(*whole, *model));
  }
  for (std::size_t i = 0; i < all.stages.size(); ++i) {
    if (all.adapters[i]) all.stages[i].adapter = &*all.adapters[i];
  }
  return all;
}

void LoadedModel::show_profile(Context& context) {
  const ProfileBy by = options_.profile == "shapes" ? ProfileBy::shape : ProfileBy::op;
  if (output_.json()) {
    output_.object(profile_json(context.profiler(), by, peaks_));
    return;
  }
  std::string table = context.profiler().table(by, peaks_);
  if (contexts_.size() > 1) table = fmt::format("'{}'\n{}", context.device().name, table);
  clear_terminal_line();
  std::fwrite(table.data(), 1, table.size(), stderr);
}

void LoadedModel::show_inside() {
  if (!options_.profile.empty()) {
    for (const auto& context : contexts_) show_profile(*context);
  }
  write_trace();
}

void LoadedModel::write_trace() {
  if (options_.trace == nullptr || trace_written_) return;
  trace_written_ = true;
  for (const auto& context : contexts_) {
    if (!context->health()->lost()) context->profiler().collect();
  }
  options_.trace->write(options_.trace_file);
  if (options_.trace->dropped() > 0) {
    output_.warning("trace: {} later events did not fit; trace a shorter run",
                    grouped(static_cast<long long>(options_.trace->dropped())));
  }
}

LoadedModel::~LoadedModel() {
  try {
    write_trace();
  } catch (const std::exception& error) {
    output_.warning("{}", error.what());
  }
}

}  // namespace clora

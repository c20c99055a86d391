#include "tools/clora/loaded_model.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "clora/lora/peft_files.hpp"
#include "clora/model/transformer/adapter_sites.hpp"
#include "clora/model/transformer/saved_tensors.hpp"
#include "clora/model/weights/stored_ends.hpp"
#include "clora/ops/roofline_peaks/roofline_peaks.hpp"
#include "clora/runtime/error.hpp"
#include "runtime/elapsed.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/profile_report.hpp"
#include "tools/clora/progress_bar.hpp"
#include "tools/command_line/terminal_line.hpp"

namespace clora {
namespace {

constexpr double kShowAfterSeconds = 0.5;

// Shows how far a long load is, on a terminal only, and ends it at Ctrl-C.
std::unique_ptr<LanguageModel> load(Context& context, const WeightFiles& files, Output& output,
                                    std::int64_t context_length,
                                    const std::optional<BlockRange>& blocks) {
  const Interrupt interrupt("\nclora: stopping the load\n");
  const bool terminal = ::isatty(::fileno(output.people())) == 1 || ::isatty(STDERR_FILENO) == 1;
  const auto started = std::chrono::steady_clock::now();
  std::size_t bytes = 0;
  const BlockRange range = blocks.value_or(all_blocks(files.config()));
  for (const WeightView& view : files.all()) {
    if (holds_tensor(files.config(), range, view.name)) bytes += view.bytes.size();
  }
  const auto mebibytes = static_cast<std::int64_t>(bytes >> 20U);
  ProgressBar bar(output, "MiB", mebibytes);
  const auto report = [&](double fraction) {
    if (terminal && seconds_since(started) > kShowAfterSeconds) {
      bar.update(std::lround(fraction * static_cast<double>(mebibytes)), "MiB of weights");
    }
    return !interrupt.requested();
  };
  const LoadOptions options{.progress = report, .context_length = context_length, .blocks = blocks};
  return std::make_unique<LanguageModel>(context, files, options);
}

// Writes the trace once before the work, so an unwritable file fails early.
void try_trace_file(const CommonOptions& options) {
  if (options.trace != nullptr) options.trace->write(options.trace_file);
}

// A failure to measure the peaks is only a warning: a profile without them is still useful.
RooflinePeaks peaks_for(const CommonOptions& options, Output& output) {
  if (options.profile.empty()) return {};
  const TraceSpan span(options.trace.get(), "measure peaks");
  try {
    return peaks_of(context_config(options));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::no_device) throw;
    output.warning("the profile has no roofline peaks: {}", error.what());
    return {};
  }
}

std::unique_ptr<Context> make_context(const CommonOptions& options) {
  auto context = std::make_unique<Context>(context_config(options));
  require_precision(options, context->device());
  return context;
}

}  // namespace

LoadedModel::LoadedModel(const CommonOptions& options, Output& output, std::int64_t context_length,
                         const std::optional<BlockRange>& blocks)
    : options_(options),
      output_(output),
      peaks_(peaks_for(options, output)),
      context_(make_context(options)),
      files_(WeightFiles::open(options.model)) {
  try_trace_file(options);
  const TraceSpan span(context_->trace(), "load weights", options.model);
  const auto started = std::chrono::steady_clock::now();
  model_ = load(*context_, files_, output, context_length, blocks);
  output.detail("{}: {} of weights to '{}' in {:.2f} s", options.model,
                readable_bytes(static_cast<double>(model_->weight_bytes())),
                context_->device().name, seconds_since(started));
}

std::optional<Adapter> LoadedModel::adapter(const std::string& folder) {
  if (folder.empty()) return std::nullopt;
  const ModelConfig& config = model_->config();
  Adapter adapter =
      load_adapter(*context_, folder, all_adapter_sites(config), savable_tensors(config));
  require_stored_ends(folder, files_.all());
  return adapter;
}

void LoadedModel::show_inside() {
  if (!options_.profile.empty()) {
    const ProfileBy by = options_.profile == "shapes" ? ProfileBy::shape : ProfileBy::op;
    if (output_.json()) {
      output_.object(profile_json(context_->profiler(), by, peaks_));
    } else {
      const std::string table = context_->profiler().table(by, peaks_);
      clear_terminal_line();
      std::fwrite(table.data(), 1, table.size(), stderr);
    }
  }
  write_trace();
}

void LoadedModel::write_trace() {
  if (options_.trace == nullptr || trace_written_) return;
  trace_written_ = true;
  if (!context_->health()->lost()) context_->profiler().collect();
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

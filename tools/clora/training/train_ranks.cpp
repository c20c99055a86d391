#include "tools/clora/training/train_ranks.hpp"

#include <algorithm>

#include "model/training/stage_magnitudes.hpp"
#include "runtime/fail.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/training/training_report.hpp"

namespace clora {
namespace {

// A device with a part of the model generates none.
bool shows_replies(const TrainOptions& options) {
  return !options.task.embeds() && !options.blocks;
}

// Chooses what the run keeps in memory, before anything of it is loaded. On all ranks alike, so
// that like devices get the same policy.
void plan_memory(TrainOptions& options, const TrainInputs& inputs, Output& output) {
  const TraceSpan span(options.common.trace.get(), "plan memory");
  const WeightFiles files = WeightFiles::open(options.common.model);
  const TrainingRunConfig config = run_config(options, files.config());
  PlannedRun run{.context = context_config(options.common),
                 .files = &files,
                 .context_length = options.data.max_seq_length,
                 .blocks = options.blocks,
                 .make_adapter =
                     [&](Context& context, const ModelConfig& model) {
                       return make_adapter(options.adapter, context, model, options.common.model,
                                           options.common.seed);
                     },
                 .trainer = trainer_config(config)};
  inputs.evaluation.add_to(run);
  if (inputs.data.valid && shows_replies(options)) {
    run.reply_positions = std::max(
        run.reply_positions, sample_positions(*inputs.data.valid, options.report.shown_samples()));
  }
  const WantedRows wanted = largest_step(files.config(), inputs.data.train, config);
  PolicyPlan plan = planned_memory(options.memory, run, wanted);
  if (options.blocks) plan = agreed_plan(plan, run, wanted, *config.ranks);
  options.run.settings.policy = plan.policy;
  options.common.weight_copy_share = plan.weight_copy_share;
  const std::string text =
      fmt::format("memory: {} planned, {}", readable_bytes(static_cast<double>(plan.peak_bytes)),
                  text_of(plan.policy));
  if (plan.policy == MemoryPolicy{} && options.common.memory_bytes == 0) {
    output.detail("{}", text);
  } else {
    output.info("{}", text);
  }
}

struct Trained {
  LoadedModel& loaded;
  Adapter& adapter;
};

TrainingSummary run_in(RunFolder& folder, const TrainOptions& options, const TrainInputs& inputs,
                       const Trained& trained, const Interrupt& interrupt, Output& output) {
  LanguageModel& model = trained.loaded.model();
  const TrainingRunConfig config = run_config(options, model.config());
  const Records* valid = inputs.data.valid ? &*inputs.data.valid : nullptr;
  TrainingReport report(output, trained.loaded, options.common.model, folder, options.effective,
                        options.report);
  report.score_by([&] {
    return inputs.evaluation.scores(
        {model, trained.adapter, inputs.text, config.ranks, [&] { return interrupt.requested(); }},
        output);
  });
  report.start(trained.adapter, inputs.data.train, valid, config, json_of(inputs.data));
  if (valid != nullptr && shows_replies(options)) report.show_replies(inputs.text, *valid);
  const TrainingSummary summary =
      run_training(model, trained.adapter, inputs.data.train, valid, config, folder.checkpoint(),
                   report.callbacks(interrupt));
  const bool without_progress = summary.stopped && summary.steps == folder.resumed_step();
  if (without_progress && folder.drop()) {
    fail(ErrorCode::cancelled, "train: stopped before the first step; '{}' is unchanged",
         folder.path().string());
  }
  report.done(summary);
  show_idle_shares(summary, output);
  return summary;
}

// Takes the folder last, when all inputs are loaded, and gives it back if the run ends with an
// error before it has saved anything.
TrainingSummary run_in_its_folder(RunFolder& folder, const TrainOptions& options,
                                  const TrainInputs& inputs, const Trained& trained,
                                  Output& output) {
  const Interrupt interrupt(
      "\nclora: finishing the step, then saving; press Ctrl-C again to stop immediately\n");
  folder.take();
  try {
    return run_in(folder, options, inputs, trained, interrupt, output);
  } catch (...) {
    if (folder.give_back()) {
      output.warning("the earlier run in '{}' was restored", folder.path().string());
    }
    throw;
  }
}

Adapter new_adapter(const TrainOptions& options, LanguageModel& model) {
  Adapter adapter = make_adapter(options.adapter, model.context(), model.config(),
                                 options.common.model, options.common.seed);
  initialise_from_model(options.adapter, model, adapter);
  if (options.blocks && options.adapter.init.empty()) {
    exchange_magnitudes(adapter, *options.run.settings.ranks);
  }
  return adapter;
}

}  // namespace

TrainOptions options_on(const RunDevice& device, Communicator* ranks, TrainOptions options) {
  options.common = options_on(device, options.common);
  options.run.settings.ranks = ranks;
  options.blocks = blocks_of_rank(options.split, options.common.model,
                                  options.run.settings.device_shares, ranks);
  return options;
}

TrainingSummary lead(TrainOptions options, RunFolder& folder, const TrainInputs& inputs,
                     Output& output) {
  Communicator* const ranks = options.run.settings.ranks;
  if (ranks != nullptr) (void)ranks->all_gather(folder.checkpoint().string());
  plan_memory(options, inputs, output);
  LoadedModel loaded(options.common, output, options.data.max_seq_length, options.blocks);
  Adapter adapter = new_adapter(options, loaded.model());
  if (!folder.checkpoint().empty()) {  // checked before anything in the folder changes
    (void)check_resume(folder.checkpoint(), loaded.model(), adapter, inputs.data.train,
                       run_config(options, loaded.model().config()));
  }
  const TrainingSummary summary =
      run_in_its_folder(folder, options, inputs, {loaded, adapter}, output);
  loaded.show_inside();
  return summary;
}

int search_rate(TrainOptions options, const TrainInputs& inputs, Output& output) {
  plan_memory(options, inputs, output);
  LoadedModel loaded(options.common, output, options.data.max_seq_length);
  Adapter adapter = new_adapter(options, loaded.model());
  const int code =
      find_rate(options.find_rate, loaded.model(), adapter, inputs.data.train,
                run_config(options, loaded.model().config()), options.common.model, output);
  loaded.show_inside();
  return code;
}

void follow(TrainOptions options, const TrainInputs& inputs,
            const std::function<bool()>& should_stop) {
  const std::string checkpoint = options.run.settings.ranks->all_gather("").front();
  options.common.output.quiet = true;
  options.common.trace = nullptr;
  options.common.profile.clear();
  Output output(options.common.output);
  plan_memory(options, inputs, output);
  Context context(context_config(options.common));
  require_precision(options.common, context.device());
  const WeightFiles files = WeightFiles::open(options.common.model);
  LanguageModel model(context, files,
                      {.context_length = options.data.max_seq_length, .blocks = options.blocks});
  Adapter adapter = new_adapter(options, model);
  TrainingCallbacks callbacks;
  callbacks.should_stop = should_stop;
  callbacks.on_eval = [&](const EvalResult&) {
    inputs.evaluation.take_part(
        {model, adapter, inputs.text, options.run.settings.ranks, should_stop});
  };
  run_training(model, adapter, inputs.data.train, inputs.data.valid ? &*inputs.data.valid : nullptr,
               run_config(options, model.config()), checkpoint, callbacks);
}

void follow_in_process(const TrainOptions& options, const TrainInputs& inputs) {
  const Interrupt interrupt("");
  follow(options, inputs, [&] { return interrupt.requested(); });
}

}  // namespace clora

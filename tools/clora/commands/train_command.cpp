// clora train: fine-tunes a LoRA adapter on records.
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "clora/model/training/training_run.hpp"
#include "model/training/stage_magnitudes.hpp"
#include "runtime/fail.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/commands/embedding_task.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/training/evaluation_options.hpp"
#include "tools/clora/training/find_rate.hpp"
#include "tools/clora/training/memory_options.hpp"
#include "tools/clora/training/preference_options.hpp"
#include "tools/clora/training/report_options.hpp"
#include "tools/clora/training/run_devices.hpp"
#include "tools/clora/training/run_evaluation.hpp"
#include "tools/clora/training/run_folder.hpp"
#include "tools/clora/training/run_options.hpp"
#include "tools/clora/training/split_options.hpp"
#include "tools/clora/training/supervised_options.hpp"
#include "tools/clora/training/training_adapter.hpp"
#include "tools/clora/training/training_data.hpp"
#include "tools/clora/training/training_report.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora train --model MODEL.gguf --data FOLDER --adapter-out my-adapter --epochs 2 --lr 1e-3
  clora train --model MODEL --data train.jsonl --adapter-out out --rank 16 --target-modules q_proj,v_proj
  clora train --model MODEL --data chats.jsonl --data rare.jsonl=3 --data common.jsonl.zst=0.5 ...
  clora train --config my-adapter/run.toml --resume my-adapter
  clora train --model MODEL --data pairs --adapter-out out --loss dpo --beta 0.1 --lr 5e-5
  clora train --model MODEL.gguf --data FOLDER --find-lr
  clora train --device gpu:0,gpu:1 --model MODEL --data FOLDER --adapter-out out
  clora train --device gpu:0,gpu:1 --split layers --grad-accumulation 8 --model LARGE-MODEL ...
  mpirun -n 2 clora train --model MODEL --data FOLDER --adapter-out out
  clora train --model all-MiniLM-L6-v2 --task embedding --data pairs --adapter-out out --batch-size 32
Records, one JSON object per line or in one JSON array, also compressed (gzip, zstd): {"text": ...},
{"prompt": ..., "completion": ...} (loss on the completion), {"messages": [{"role": ..., "content":
...}, ...]} (loss on the assistant's turns), ShareGPT's {"conversations": ...} or Alpaca's
{"instruction": ..., "output": ...}. 'clora data' shows what they are.
With --task embedding: {"anchor": ..., "positive": ...} or also "negative": the vector of an anchor
shall be nearest to that of its positive, among the positives and negatives of all records of a
micro-batch (the multiple negatives ranking loss of sentence-transformers; the loss is per anchor).
With --loss dpo, ipo or orpo: {"prompt": ..., "chosen": ..., "rejected": ...}, texts or lists of
messages; without a prompt, the answers are whole conversations with a common beginning. With kto:
{"prompt": ..., "completion": ..., "label": true or false}. The loss is per pair, or per answer.
A folder contains train.jsonl and optionally valid.jsonl, for evaluation; of an embedding model by
recall@1, 5 and 10, or by Spearman's correlation for {"sentence1", "sentence2", "score"}.
Units: lengths in tokens, losses in nats per token, times in seconds, speed in tokens per second.
Next to the adapter (PEFT format) are run.toml (these options), log.jsonl (the events), loss.svg
(the loss curve) and, with --report, report.html; 'clora compare' compares runs. Ctrl-C finishes the
step and saves; a second Ctrl-C stops immediately. On N devices (--device A,B or mpirun) each
computes --grad-accumulation micro-batches of a step, as one device with N times as many would; with
--split layers each holds a part of the model, through which all micro-batches of a step pass.
--resume continues with the same settings, data and model; --steps may differ if the learning rates
so far stay the same. --save-every also saves a checkpoint at the end, to extend the run from.)";

struct Options {
  CommonOptions common;
  DataOptions data;
  EmbeddingTaskOptions task;
  PreferenceOptions preference;
  SupervisedOptions supervised;
  RunOptions run;
  FindRateOptions find_rate;
  EvaluationOptions evaluation;
  TrainingAdapterOptions adapter;
  MemoryOptions memory;
  ReportOptions report;
  SplitOptions split;
  std::optional<BlockRange> blocks;  // of this rank, if the model is split by layers
  std::string effective;             // the text of run.toml
};

// Reads the data as the task and the loss need it.
TrainingData read_data(const Options& options, const ModelText& text, Output& output) {
  const TraceSpan span(options.common.trace.get(), "read and tokenise records");
  DataOptions how = options.data;
  set_task_of_data(options.task, options.common.model, how);
  options.preference.apply_to(how);
  return read_training_data(how, options.evaluation.choices, text, output);
}

TrainingRunConfig run_config(const Options& options, const ModelConfig& model) {
  TrainingRunConfig config = options.run.config();
  options.evaluation.apply_to(config);
  config.contrastive = contrastive_loss_of(options.task, options.common.model, model);
  options.preference.apply_to(config);
  options.supervised.apply_to(config);
  config.seed = options.common.seed;
  config.frozen_ranks = options.adapter.frozen_ranks();
  config.max_seq_length = options.data.max_seq_length;
  return config;
}

// A device with a part of the model generates none.
bool shows_replies(const Options& options) { return !options.task.embeds() && !options.blocks; }

// Chooses what the run keeps in memory, before anything of it is loaded. On all ranks alike, so
// that like devices get the same policy.
void plan_memory(Options& options, const TrainingData& data, const RunEvaluation& evaluation,
                 Output& output) {
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
  evaluation.add_to(run);
  if (data.valid && shows_replies(options)) {
    run.reply_positions = std::max(run.reply_positions,
                                   sample_positions(*data.valid, options.report.shown_samples()));
  }
  const WantedRows wanted = largest_step(files.config(), data.train, config);
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

// The validated inputs of a run.
struct Inputs {
  LoadedModel& loaded;
  Adapter& adapter;
  const TrainingData& data;
  const ModelText& text;
  const RunEvaluation& evaluation;
};

TrainingSummary run_in(RunFolder& folder, const Options& options, const Inputs& inputs,
                       const Interrupt& interrupt, Output& output) {
  const TrainingRunConfig config = run_config(options, inputs.loaded.model().config());
  const Records* valid = inputs.data.valid ? &*inputs.data.valid : nullptr;
  TrainingReport report(output, inputs.loaded, options.common.model, folder, options.effective,
                        options.report);
  report.score_by([&] {
    return inputs.evaluation.scores({inputs.loaded.model(), inputs.adapter, inputs.text,
                                     config.ranks, [&] { return interrupt.requested(); }},
                                    output);
  });
  report.start(inputs.adapter, inputs.data.train, valid, config, json_of(inputs.data));
  if (valid != nullptr && shows_replies(options)) report.show_replies(inputs.text, *valid);
  const TrainingSummary summary =
      run_training(inputs.loaded.model(), inputs.adapter, inputs.data.train, valid, config,
                   folder.checkpoint(), report.callbacks(interrupt));
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
TrainingSummary run_in_its_folder(RunFolder& folder, const Options& options, const Inputs& inputs,
                                  Output& output) {
  const Interrupt interrupt(
      "\nclora: finishing the step, then saving; press Ctrl-C again to stop immediately\n");
  folder.take();
  try {
    return run_in(folder, options, inputs, interrupt, output);
  } catch (...) {
    if (folder.give_back()) {
      output.warning("the earlier run in '{}' was restored", folder.path().string());
    }
    throw;
  }
}

// The options of a rank with its device.
Options options_on(const RunDevice& device, Communicator* ranks, Options options) {
  options.common.device = device.selector;
  if (options.common.memory_bytes == 0) options.common.memory_bytes = device.memory_bytes;
  options.run.settings.ranks = ranks;
  options.blocks = blocks_of_rank(options.split, options.common.model,
                                  options.run.settings.device_shares, ranks);
  return options;
}

Adapter new_adapter(const Options& options, LanguageModel& model) {
  Adapter adapter = make_adapter(options.adapter, model.context(), model.config(),
                                 options.common.model, options.common.seed);
  initialise_from_model(options.adapter, model, adapter);
  if (options.blocks && options.adapter.init.empty()) {
    exchange_magnitudes(adapter, *options.run.settings.ranks);
  }
  return adapter;
}

// Rank 0: writes the folder and the report.
TrainingSummary lead(Options options, RunFolder& folder, const TrainingData& data,
                     const ModelText& text, const RunEvaluation& evaluation, Output& output) {
  Communicator* const ranks = options.run.settings.ranks;
  if (ranks != nullptr) (void)ranks->all_gather(folder.checkpoint().string());
  plan_memory(options, data, evaluation, output);
  LoadedModel loaded(options.common, output, options.data.max_seq_length, options.blocks);
  Adapter adapter = new_adapter(options, loaded.model());
  if (!folder.checkpoint().empty()) {  // checked before anything in the folder changes
    (void)check_resume(folder.checkpoint(), loaded.model(), adapter, data.train,
                       run_config(options, loaded.model().config()));
  }
  const TrainingSummary summary =
      run_in_its_folder(folder, options, {loaded, adapter, data, text, evaluation}, output);
  loaded.show_inside();
  return summary;
}

// Searches a learning rate with the adapter and the data of the run, and throws the adapter away.
int search(Options options, const TrainingData& data, const RunEvaluation& evaluation,
           Output& output) {
  plan_memory(options, data, evaluation, output);
  LoadedModel loaded(options.common, output, options.data.max_seq_length);
  Adapter adapter = new_adapter(options, loaded.model());
  const int code =
      find_rate(options.find_rate, loaded.model(), adapter, data.train,
                run_config(options, loaded.model().config()), options.common.model, output);
  loaded.show_inside();
  return code;
}

// Any other rank: computes and writes nothing. should_stop: for processes, which get signals.
void follow(Options options, const TrainingData& data, const ModelText& text,
            const RunEvaluation& evaluation, const std::function<bool()>& should_stop) {
  const std::string checkpoint = options.run.settings.ranks->all_gather("").front();
  options.common.output.quiet = true;
  options.common.trace = nullptr;
  options.common.profile.clear();
  Output output(options.common.output);
  plan_memory(options, data, evaluation, output);
  Context context(context_config(options.common));
  require_precision(options.common, context.device());
  const WeightFiles files = WeightFiles::open(options.common.model);
  LanguageModel model(context, files,
                      {.context_length = options.data.max_seq_length, .blocks = options.blocks});
  Adapter adapter = new_adapter(options, model);
  TrainingCallbacks callbacks;
  callbacks.should_stop = should_stop;
  callbacks.on_eval = [&](const EvalResult&) {
    evaluation.take_part({model, adapter, text, options.run.settings.ranks, should_stop});
  };
  run_training(model, adapter, data.train, data.valid ? &*data.valid : nullptr,
               run_config(options, model.config()), checkpoint, callbacks);
}

// A rank in a process of its own: a signal stops all ranks after the step.
void follow_in_process(const Options& options, const TrainingData& data, const ModelText& text,
                       const RunEvaluation& evaluation) {
  const Interrupt interrupt("");
  follow(options, data, text, evaluation, [&] { return interrupt.requested(); });
}

// An option that needs the model on one device, or empty.
std::string_view whole_model_option(const Options& options) {
  if (options.task.embeds()) return "--task embedding";
  if (options.preference.preference()) return "--loss";
  if (options.evaluation.generates()) return "evaluation by replies";
  if (!options.evaluation.choices.empty()) return "evaluation by choices";
  return options.report.samples.value_or(0) > 0 ? "--samples" : "";
}

// Errors: invalid_argument for options that exclude each other.
void check_combination(const Options& options, std::int64_t devices) {
  require(!options.find_rate.searches() || devices == 1,
          "train: --find-lr searches on one device, got {}; name one by --device", devices);
  require(!options.find_rate.searches() || !options.preference.preference(),
          "train: --find-lr searches with the loss of the next token; leave out --loss {}",
          options.preference.loss);
  check_split(options.split, devices, whole_model_option(options));
}

int train(Options options) {
  RunDevices devices(options.common.device);
  if (!options.split.by_layers()) options.run.settings.grad_accumulation *= devices.count();
  check_combination(options, devices.count());
  std::optional<RunFolder> folder;
  if (options.find_rate.searches()) {
    options.run.adapter_out.clear();  // nothing is saved
  } else if (devices.has_first()) {
    folder.emplace(options.run.adapter_out, options.run.resume, options.run.overwrite);
  } else {
    options.common.output.quiet = true;
    options.common.output.json = false;
  }
  Output output(options.common.output);
  const ModelText text(options.common.model, options.data.chat_template);
  const TrainingData data = read_data(options, text, output);
  if (options.run.settings.eval_every > 0 && !data.valid) {
    fail(ErrorCode::not_found,
         "train: --eval-every requires a valid.jsonl next to train.jsonl; '{}' has none",
         fmt::join(options.data.data, "', '"));
  }
  require(!options.task.embeds() || (!options.evaluation.generates() && data.choices.empty()),
          "train: exact match, choices and --eval-command are for --task text");
  const RunEvaluation evaluation(options.evaluation, data.choices,
                                 data.valid ? &*data.valid : nullptr);
  check_report_options(options.report, data.valid.has_value());
  if (options.task.embeds()) options.adapter.config.task_type = kFeatureExtraction;
  if (options.find_rate.searches()) return search(options, data, evaluation, output);
  TrainingSummary summary;
  devices.run(
      [&](const RunDevice& device, Communicator* ranks) {
        summary = lead(options_on(device, ranks, options), *folder, data, text, evaluation, output);
      },
      [&](const RunDevice& device, Communicator* ranks) {
        const Options own = options_on(device, ranks, options);
        if (folder) {
          follow(own, data, text, evaluation, [] { return false; });
        } else {
          follow_in_process(own, data, text, evaluation);
        }
      });
  return summary.stopped ? 1 : 0;
}

}  // namespace

void add_train_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("train", "Fine-tune an adapter on records");
  const auto options = std::make_shared<Options>();
  add_data_options(*command, options->data,
                   "A file of records, or a folder with train.jsonl and optionally valid.jsonl; "
                   "several are mixed, each with its WEIGHT: visits per record and epoch");
  add_embedding_task_options(*command, options->task);
  add_preference_options(*command, options->preference);
  add_supervised_options(*command, options->supervised);
  add_output_folder_options(*command, options->run, "Adapter");
  add_training_adapter_options(*command, options->adapter);
  add_length_options(*command, options->run, "Training");
  add_optimiser_options(*command, options->run, "Training");
  add_upkeep_options(*command, options->run, "Training");
  add_find_rate_option(*command, options->find_rate);
  add_evaluation_options(*command, options->evaluation);
  add_report_options(*command, options->report);
  add_memory_policy_options(*command, options->memory);
  add_device_shares_option(*command, options->run.settings, "Training");
  add_split_option(*command, options->split, "Training");
  add_run_options(*command, options->common);
  add_memory_option(*command, options->common);
  command->footer(kFooter);
  command->callback([options, command, &action] {
    options->adapter.note_given(*command);
    note_given(*command, options->report);
    std::vector<std::string> left_out = options->adapter.left_out_of_configuration();
    std::ranges::move(options->memory.left_out_of_configuration(), std::back_inserter(left_out));
    left_out.insert(left_out.end(), {"help", "config", "resume", "overwrite", "find-lr", "json",
                                     "quiet", "verbose", "profile", "trace"});
    options->effective = config_text(*command, left_out);
    action = [options] { return train(*options); };
  });
}

}  // namespace clora

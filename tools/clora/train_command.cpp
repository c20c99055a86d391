// clora train: fine-tunes a LoRA adapter on records.
#include <array>
#include <memory>
#include <set>

#include "lora/peft_files.hpp"
#include "model/training_run.hpp"
#include "runtime/error.hpp"
#include "tools/clora/commands.hpp"
#include "tools/clora/data_options.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/run_folder.hpp"
#include "tools/clora/training_report.hpp"
#include "tools/command_line/adapter_options.hpp"
#include "tools/command_line/config_file.hpp"
#include "tools/command_line/local_path.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora train --model MODEL.gguf --data FOLDER --adapter-out my-adapter --epochs 2 --lr 1e-3
  clora train --model MODEL --data train.jsonl --adapter-out out --rank 16 --target-modules q_proj,v_proj
  clora train --config my-adapter/run.toml --resume my-adapter
Records, one JSON object a line: {"text": ...}, {"prompt": ..., "completion": ...} (loss on the
completion) or {"messages": [{"role": ..., "content": ...}, ...]} (loss on the assistant's turns).
A folder holds train.jsonl and, where there is something to measure on, valid.jsonl.
Units: lengths in tokens, losses in nats a token, times in seconds, speed in tokens a second.
Beside the adapter (PEFT's format) lie run.toml (these options), log.jsonl (what happened) and
loss.svg (the curve). Ctrl-C finishes the step and saves; a second one stops at once.)";

// An adapter that is given has its own.
constexpr std::array kAdapterOptions{"rank", "alpha", "dropout", "target-modules", "layers"};

struct Options {
  CommonOptions common;
  DataOptions data;
  TrainingRunConfig run;
  AdapterConfig adapter;
  std::string adapter_out, adapter_init, resume, schedule = "constant", layers = "all";
  std::vector<std::string> target_modules{"all-linear"};
  bool overwrite = false;
  std::string effective;        // the text of run.toml
  std::set<std::string> given;  // those of kAdapterOptions that were
};

struct DataSet {
  Records train;
  std::optional<Records> valid;
};

DataSet read_data(const Options& options, const ModelText& text, Output& output) {
  const std::filesystem::path path = options.data.data;
  if (!std::filesystem::is_directory(path)) {
    return {read_records(path, options.data, options.data.limit, text, output), std::nullopt};
  }
  const auto train = find_split(path, "train");
  if (!train) fail(ErrorCode::not_found, "train: '{}' holds no train.jsonl", path.string());
  DataSet data{read_records(*train, options.data, options.data.limit, text, output), std::nullopt};
  if (const auto valid = find_split(path, "valid")) {
    data.valid = read_records(*valid, options.data, 0, text, output);
  }
  return data;
}

std::int64_t last_layers(const Options& options) {
  if (options.layers == "all") return 0;
  return std::stoll(options.layers);
}

// Options that describe an adapter are the adapter's own where one is given: the same is fine,
// another value is refused.
template <class T>
void require_same(const Options& options, const char* option, const T& given, const T& own) {
  if (!options.given.contains(option) || given == own) return;
  fail(ErrorCode::invalid_argument,
       "train: --{} is {}, and the adapter of --adapter-init '{}' has {}, which stays; leave --{} "
       "out",
       option, given, options.adapter_init, own, option);
}

std::set<std::string> paths_of(const std::vector<AdapterSite>& sites) {
  std::set<std::string> paths;
  for (const AdapterSite& site : sites) paths.insert(site.path);
  return paths;
}

void require_same_modules(const Options& options, const Adapter& adapter,
                          const ModelConfig& model) {
  const bool modules = options.given.contains("target-modules");
  if (!modules && !options.given.contains("layers")) return;
  std::set<std::string> own;
  for (const auto& module : adapter.modules()) own.insert(module.site.path);
  if (paths_of(select_sites(model, options.target_modules, last_layers(options))) == own) return;
  const char* const option = modules ? "target-modules" : "layers";
  fail(ErrorCode::invalid_argument,
       "train: --{0} names other layers than the adapter of --adapter-init '{1}' has, and these "
       "stay; leave --{0} out",
       option, options.adapter_init);
}

Adapter make_adapter(const Options& options, LoadedModel& loaded) {
  const ModelConfig& model = loaded.model().config();
  if (!options.adapter_init.empty()) {
    Adapter adapter = load_adapter(loaded.context(), options.adapter_init, adapter_sites(model));
    require_same(options, "rank", options.adapter.rank, adapter.config().rank);
    require_same(options, "alpha", options.adapter.alpha, adapter.config().alpha);
    require_same(options, "dropout", options.adapter.dropout, adapter.config().dropout);
    require_same_modules(options, adapter, model);
    return adapter;
  }
  const auto sites = select_sites(model, options.target_modules, last_layers(options));
  AdapterConfig config = options.adapter;
  config.base_model = options.common.model;
  for (const AdapterSite& site : sites) {
    const std::string part = site.path.substr(site.path.rfind('.') + 1);
    if (std::ranges::find(config.target_modules, part) == config.target_modules.end()) {
      config.target_modules.push_back(part);
    }
  }
  Adapter adapter(loaded.context(), sites, config);
  adapter.initialise(options.common.seed);
  return adapter;
}

TrainingRunConfig run_config(const Options& options) {
  TrainingRunConfig config = options.run;
  config.schedule = options.schedule == "linear"   ? Schedule::linear
                    : options.schedule == "cosine" ? Schedule::cosine
                                                   : Schedule::constant;
  config.seed = options.common.seed;
  config.adapter_out = options.adapter_out;
  return config;
}

// What a run works with, all of it known to be good.
struct Inputs {
  LoadedModel& loaded;
  Adapter& adapter;
  const DataSet& data;
};

TrainingSummary run_in(RunFolder& folder, const Options& options, const Inputs& inputs,
                       const Interrupt& interrupt, Output& output) {
  const TrainingRunConfig config = run_config(options);
  const Records* valid = inputs.data.valid ? &*inputs.data.valid : nullptr;
  TrainingReport report(output, inputs.loaded, options.common.model, folder, options.effective);
  report.start(inputs.adapter, inputs.data.train, valid, config);
  const TrainingSummary summary =
      run_training(inputs.loaded.model(), inputs.adapter, inputs.data.train, valid, config,
                   folder.checkpoint(), report.callbacks(interrupt));
  report.done(summary);
  return summary;
}

// The folder is taken last, when everything else is there, and given back where the run ends with
// an error before it has saved anything.
TrainingSummary run_in_its_folder(RunFolder& folder, const Options& options, const Inputs& inputs,
                                  Output& output) {
  const Interrupt interrupt(
      "\nclora: finishing the step, then saving; Ctrl-C again stops at once\n");
  folder.take();
  try {
    return run_in(folder, options, inputs, interrupt, output);
  } catch (...) {
    if (folder.give_back()) {
      output.warning("'{}' holds the earlier run again, as it was", folder.path().string());
    }
    throw;
  }
}

int train(const Options& options) {
  Output output(options.common.output);
  RunFolder folder(options.adapter_out, options.resume, options.overwrite);
  const ModelText text(options.common.model);
  const DataSet data = [&] {
    const TraceSpan span(options.common.trace.get(), "read and tokenise records");
    return read_data(options, text, output);
  }();
  if (options.run.eval_every > 0 && !data.valid) {
    fail(ErrorCode::not_found,
         "train: --eval-every needs a valid.jsonl beside train.jsonl; '{}' has none",
         options.data.data);
  }
  LoadedModel loaded(options.common, output);
  Adapter adapter = make_adapter(options, loaded);
  const TrainingSummary summary =
      run_in_its_folder(folder, options, {loaded, adapter, data}, output);
  loaded.show_inside();
  return summary.stopped ? 1 : 0;
}

void add_adapter_options(CLI::App& command, Options& options) {
  const std::string group = "Adapter";
  command.add_option("--adapter-out", options.adapter_out, "Folder to write the adapter to")
      ->type_name("DIR")
      ->required()
      ->group(group);
  command
      .add_option("--adapter-init", options.adapter_init,
                  "Adapter to start from (its rank, alpha, dropout and modules are taken)")
      ->check(LocalPath(HubKind::model))
      ->type_name("DIR")
      ->group(group);
  add_rank_option(command, options.adapter, group);
  command
      .add_option("--alpha", options.adapter.alpha, "The adapter's product is scaled by alpha/rank")
      ->transform(NumberAbove(0, 1e6))
      ->capture_default_str()
      ->group(group);
  add_dropout_option(command, options.adapter, group);
  add_target_modules_option(command, options.target_modules, group);
  command.add_option("--layers", options.layers, "Blocks to adapt: all, or the last N")
      ->transform(WordOrWholeNumber("all", 1, 10000))
      ->type_name("all|N")
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--overwrite", options.overwrite,
                "Replace the run in an --adapter-out that is not empty, as soon as the new one has "
                "saved")
      ->group(group);
}

void add_length_options(CLI::App& command, TrainingRunConfig& run, const std::string& group) {
  command
      .add_option("--batch-size", run.batch_size,
                  "Records a step (a part of one, see "
                  "--grad-accumulation)")
      ->transform(WholeNumber(1, kMaxBatch))
      ->type_name("RECORDS")
      ->capture_default_str()
      ->group(group);
  auto* steps = command.add_option("--steps", run.steps, "Optimiser steps (default: see --epochs)")
                    ->transform(WholeNumber(1, kMaxCount))
                    ->group(group);
  command.add_option("--epochs", run.epochs, "Times that every record is seen")
      ->transform(NumberAbove(0, 1e6))
      ->capture_default_str()
      ->group(group)
      ->excludes(steps);
  command
      .add_option("--grad-accumulation", run.grad_accumulation,
                  "Batches whose gradients make one step")
      ->transform(WholeNumber(1, kMaxBatch))
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--shuffle,!--no-shuffle", run.shuffle, "Another order of the records each epoch")
      ->default_str("true")
      ->group(group);
}

void add_optimiser_options(CLI::App& command, Options& options, const std::string& group) {
  TrainingRunConfig& run = options.run;
  command.add_option("--lr", run.learning_rate, "Learning rate, at its highest")
      ->transform(NumberAbove(0, 10))
      ->capture_default_str()
      ->group(group);
  command.add_option("--schedule", options.schedule, "How the learning rate goes down")
      ->check(CLI::IsMember({"constant", "linear", "cosine"}))
      ->capture_default_str()
      ->group(group);
  command.add_option("--warmup-steps", run.warmup_steps, "Steps in which the rate rises from 0")
      ->transform(WholeNumber(0, kMaxCount))
      ->type_name("STEPS")
      ->capture_default_str()
      ->group(group);
  command.add_option("--weight-decay", run.weight_decay, "AdamW's decay of the adapter's weights")
      ->transform(Number(0, 100))
      ->capture_default_str()
      ->group(group);
  command.add_option("--clip-norm", run.clip_norm, "Largest norm of the gradient; 0: off")
      ->transform(Number(0, 1e6))
      ->capture_default_str()
      ->group(group);
}

void add_upkeep_options(CLI::App& command, Options& options, const std::string& group) {
  command
      .add_option("--eval-every", options.run.eval_every,
                  "Steps between evaluations on valid.jsonl; 0: at the end only")
      ->transform(WholeNumber(0, kMaxCount))
      ->type_name("STEPS")
      ->capture_default_str()
      ->group(group);
  command.add_option("--save-every", options.run.save_every, "Steps between checkpoints; 0: none")
      ->transform(WholeNumber(0, kMaxCount))
      ->type_name("STEPS")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--resume", options.resume,
                  "Checkpoint to go on from, or a run's folder for its last one")
      ->type_name("DIR")
      ->group(group);
}

// run.toml never names a rank or modules beside an adapter that has its own.
void note_what_is_given(const CLI::App& command, Options& options) {
  std::vector<std::string> left_out{"help",  "config",  "resume",  "overwrite", "json",
                                    "quiet", "verbose", "profile", "trace"};
  for (const char* option : kAdapterOptions) {
    if (command.count(fmt::format("--{}", option)) > 0) options.given.insert(option);
    if (!options.adapter_init.empty()) left_out.emplace_back(option);
  }
  options.effective = config_text(command, left_out);
}

}  // namespace

void add_train_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("train", "Fine-tune an adapter on records");
  const auto options = std::make_shared<Options>();
  add_data_options(*command, options->data,
                   "A .jsonl file, or a folder with train.jsonl and perhaps valid.jsonl");
  add_adapter_options(*command, *options);
  add_length_options(*command, options->run, "Training");
  add_optimiser_options(*command, *options, "Training");
  add_upkeep_options(*command, *options, "Training");
  add_run_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, command, &action] {
    note_what_is_given(*command, *options);
    action = [options] { return train(*options); };
  });
}

}  // namespace clora

// clora train: fine-tunes a LoRA adapter on records.
#include <memory>
#include <nlohmann/json.hpp>

#include "lora/peft_files.hpp"
#include "model/training_run.hpp"
#include "runtime/error.hpp"
#include "runtime/file.hpp"
#include "tools/clora/commands.hpp"
#include "tools/clora/data_options.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/run_folder.hpp"
#include "tools/clora/training_report.hpp"
#include "tools/command_line/adapter_options.hpp"
#include "tools/command_line/config_file.hpp"

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

struct Options {
  CommonOptions common;
  DataOptions data;
  TrainingRunConfig run;
  AdapterConfig adapter;
  std::string adapter_out, adapter_init, resume, schedule = "constant", layers = "all";
  std::vector<std::string> target_modules{"all-linear"};
  bool overwrite = false;
  std::string effective;  // the text of run.toml
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

Adapter make_adapter(const Options& options, LoadedModel& loaded) {
  const ModelConfig& model = loaded.model().config();
  if (!options.adapter_init.empty()) {
    return load_adapter(loaded.context(), options.adapter_init, adapter_sites(model));
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

int train(const Options& options) {
  Output output(options.common.output);
  const TrainingRunConfig config = run_config(options);
  const ModelText text(options.common.model);
  const DataSet data = [&] {
    const TraceSpan span(options.common.trace.get(), "read and tokenise records");
    return read_data(options, text, output);
  }();
  if (config.eval_every > 0 && !data.valid) {
    fail(ErrorCode::not_found,
         "train: --eval-every needs a valid.jsonl beside train.jsonl; '{}' has none",
         options.data.data);
  }
  LoadedModel loaded(options.common, output);
  Adapter adapter = make_adapter(options, loaded);
  const RunFolder folder(options.adapter_out, options.resume, options.overwrite);
  write_file_atomically(folder.path() / "run.toml", options.effective);
  TrainingReport report(output, loaded, options.common.model, folder);
  report.start(adapter, data.train, data.valid ? &*data.valid : nullptr, config);

  const Interrupt interrupt(
      "\nclora: finishing the step, then saving; Ctrl-C again stops at once\n");
  const TrainingSummary summary =
      run_training(loaded.model(), adapter, data.train, data.valid ? &*data.valid : nullptr, config,
                   folder.checkpoint(), report.callbacks(interrupt));
  report.done(summary);
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
      ->type_name("DIR")
      ->group(group);
  add_rank_option(command, options.adapter, group);
  command
      .add_option("--alpha", options.adapter.alpha, "The adapter's product is scaled by alpha/rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group);
  add_dropout_option(command, options.adapter, group);
  add_target_modules_option(command, options.target_modules, group);
  command.add_option("--layers", options.layers, "Blocks to adapt: all, or the last N")
      ->check(CLI::IsMember({"all"}) | CLI::PositiveNumber)
      ->type_name("all|N")
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--overwrite", options.overwrite, "Write into an --adapter-out that is not empty")
      ->group(group);
}

void add_length_options(CLI::App& command, TrainingRunConfig& run, const std::string& group) {
  command
      .add_option("--batch-size", run.batch_size,
                  "Records a step (a part of one, see "
                  "--grad-accumulation)")
      ->check(CLI::PositiveNumber)
      ->type_name("RECORDS")
      ->capture_default_str()
      ->group(group);
  auto* steps = command.add_option("--steps", run.steps, "Optimiser steps (default: see --epochs)")
                    ->check(CLI::PositiveNumber)
                    ->group(group);
  command.add_option("--epochs", run.epochs, "Times that every record is seen")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group)
      ->excludes(steps);
  command
      .add_option("--grad-accumulation", run.grad_accumulation,
                  "Batches whose gradients make one step")
      ->check(CLI::PositiveNumber)
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
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group);
  command.add_option("--schedule", options.schedule, "How the learning rate goes down")
      ->check(CLI::IsMember({"constant", "linear", "cosine"}))
      ->capture_default_str()
      ->group(group);
  command.add_option("--warmup-steps", run.warmup_steps, "Steps in which the rate rises from 0")
      ->check(CLI::NonNegativeNumber)
      ->type_name("STEPS")
      ->capture_default_str()
      ->group(group);
  command.add_option("--weight-decay", run.weight_decay, "AdamW's decay of the adapter's weights")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(group);
  command.add_option("--clip-norm", run.clip_norm, "Largest norm of the gradient; 0: off")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(group);
}

void add_upkeep_options(CLI::App& command, Options& options, const std::string& group) {
  command
      .add_option("--eval-every", options.run.eval_every,
                  "Steps between evaluations on valid.jsonl; 0: at the end only")
      ->check(CLI::NonNegativeNumber)
      ->type_name("STEPS")
      ->capture_default_str()
      ->group(group);
  command.add_option("--save-every", options.run.save_every, "Steps between checkpoints; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->type_name("STEPS")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--resume", options.resume,
                  "Checkpoint to go on from, or a run's folder for its last one")
      ->type_name("DIR")
      ->group(group);
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
    options->effective = config_text(*command, {"help", "config", "resume", "overwrite", "json",
                                                "quiet", "verbose", "profile", "trace"});
    action = [options] { return train(*options); };
  });
}

}  // namespace clora

#include <CLI/CLI.hpp>

#include "tools/clora/training/run_options.hpp"

#include "tools/command_line/number_options.hpp"

namespace clora {

TrainingRunConfig RunOptions::config() const {
  TrainingRunConfig config = settings;
  rates.apply_to(config);
  config.optimizer = optimizer.config();
  config.adapter_out = adapter_out;
  config.adapter_format = named_adapter_format(adapter_format);
  return config;
}

void add_output_folder_options(CLI::App& command, RunOptions& options, const std::string& group) {
  command.add_option("--adapter-out", options.adapter_out, "Folder to write the adapter to")
      ->type_name("DIR")
      ->required()
      ->group(group);
  command
      .add_option("--adapter-out-format", options.adapter_format,
                  "Format of the result besides PEFT's, in the same folder: gguf (adapter.gguf) or "
                  "mlx (the folder mlx)")
      ->transform(CLI::IsMember({"peft", "gguf", "mlx"}))
      ->type_name("peft|gguf|mlx")
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--overwrite", options.overwrite,
                "Replace the run in a non-empty --adapter-out once the new run has saved")
      ->group(group);
}

void add_length_options(CLI::App& command, RunOptions& options, const std::string& group) {
  TrainingRunConfig& run = options.settings;
  command
      .add_option("--batch-size", run.batch_size,
                  "Records per micro-batch (a step, unless --grad-accumulation is given)")
      ->transform(Integer(1, kMaxBatch))
      ->type_name("RECORDS")
      ->capture_default_str()
      ->group(group);
  auto* steps = command.add_option("--steps", run.steps, "Optimiser steps (default: see --epochs)")
                    ->transform(Integer(1, kMaxCount))
                    ->group(group);
  command.add_option("--epochs", run.epochs, "Passes over the records")
      ->transform(NumberAbove(0, 1e6))
      ->capture_default_str()
      ->group(group)
      ->excludes(steps);
  command
      .add_option("--grad-accumulation", run.grad_accumulation, "Micro-batches per optimiser step")
      ->transform(Integer(1, kMaxBatch))
      ->capture_default_str()
      ->group(group);
  command.add_flag("--shuffle,!--no-shuffle", run.shuffle, "Shuffle the records in each epoch")
      ->default_str("true")
      ->group(group);
}

void add_optimiser_options(CLI::App& command, RunOptions& options, const std::string& group) {
  TrainingRunConfig& run = options.settings;
  add_optimizer_options(command, options.optimizer, group);
  add_rate_options(command, options.rates, group);
  command.add_option("--weight-decay", run.weight_decay, "Weight decay")
      ->transform(Number(0, 100))
      ->capture_default_str()
      ->group(group);
  command.add_option("--clip-norm", run.clip_norm, "Maximum gradient norm; 0: off")
      ->transform(Number(0, 1e6))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--ema", run.average_decay,
                  "Decay of an exponential moving average of the adapter, which is saved in the "
                  "subfolder ema; 0: off")
      ->transform(Number(0, 0.999999))
      ->type_name("DECAY")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--router-aux-loss-coef", run.router_aux_loss_coef,
                  "Weight of the loss that balances the load of experts, for models with experts; "
                  "0: off, whatever config.json says")
      ->transform(Number(0, 1e3))
      ->type_name("NUMBER")
      ->capture_default_str()
      ->group(group);
}

void add_upkeep_options(CLI::App& command, RunOptions& options, const std::string& group) {
  command
      .add_option("--eval-every", options.settings.eval_every,
                  "Steps between evaluations on valid.jsonl; 0: at the end only")
      ->transform(Integer(0, kMaxCount))
      ->type_name("STEPS")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--save-every", options.settings.save_every, "Steps between checkpoints; 0: none")
      ->transform(Integer(0, kMaxCount))
      ->type_name("STEPS")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--resume", options.resume,
                  "Checkpoint to resume from, or a run's folder for its last one")
      ->type_name("DIR")
      ->group(group);
}

}  // namespace clora

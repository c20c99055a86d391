// clora train: fine-tunes a LoRA adapter on records.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <memory>

#include "runtime/fail.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/training/train_ranks.hpp"
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

// Reads the data as the task and the loss need it.
TrainingData read_data(const TrainOptions& options, const ModelText& text, Output& output) {
  const TraceSpan span(options.common.trace.get(), "read and tokenise records");
  DataOptions how = options.data;
  set_task_of_data(options.task, options.common.model, how);
  options.preference.apply_to(how);
  return read_training_data(how, options.evaluation.choices, text, output);
}

// An option that needs the model on one device, or empty.
std::string_view whole_model_option(const TrainOptions& options) {
  if (options.task.embeds()) return "--task embedding";
  if (options.preference.preference()) return "--loss";
  if (options.evaluation.generates()) return "evaluation by replies";
  if (!options.evaluation.choices.empty()) return "evaluation by choices";
  return options.report.samples.value_or(0) > 0 ? "--samples" : "";
}

// Errors: invalid_argument for options that exclude each other.
void check_combination(const TrainOptions& options, std::int64_t devices) {
  require(!options.find_rate.searches() || devices == 1,
          "train: --find-lr searches on one device, got {}; name one by --device", devices);
  require(!options.find_rate.searches() || !options.preference.preference(),
          "train: --find-lr searches with the loss of the next token; leave out --loss {}",
          options.preference.loss);
  check_split(options.split, devices, whole_model_option(options));
}

int train(TrainOptions options) {
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
  const TrainInputs inputs{data, text, evaluation};
  if (options.find_rate.searches()) return search_rate(options, inputs, output);
  TrainingSummary summary;
  devices.run(
      [&](const RunDevice& device, Communicator* ranks) {
        summary = lead(options_on(device, ranks, options), *folder, inputs, output);
      },
      [&](const RunDevice& device, Communicator* ranks) {
        const TrainOptions own = options_on(device, ranks, options);
        if (folder) {
          follow(own, inputs, [] { return false; });
        } else {
          follow_in_process(own, inputs);
        }
      });
  return summary.stopped ? 1 : 0;
}

}  // namespace

void add_train_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("train", "Fine-tune an adapter on records");
  const auto options = std::make_shared<TrainOptions>();
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

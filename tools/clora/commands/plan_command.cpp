// clora plan: the memory and the speed of training under each memory policy, before it runs.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "clora/model/training/memory_planner.hpp"
#include "clora/model/training/thread_ranks.hpp"
#include "clora/ops/roofline_peaks/roofline_peaks.hpp"
#include "runtime/fail.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/commands/common_options.hpp"
#include "tools/clora/device_list.hpp"
#include "tools/clora/training/optimizer_options.hpp"
#include "tools/clora/training/split_options.hpp"
#include "tools/clora/training/training_adapter.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora plan --model MODEL.gguf --max-seq-length 4096
  clora plan --model MODEL.gguf --max-seq-length 4096 --batch-size 4 --rank 32 --memory 8GiB
  clora plan --model MODEL.gguf --max-seq-length 2048 --memory 8GiB --longest
  clora plan --model LARGE.gguf --max-seq-length 2048 --device gpu:0,gpu:1 --split layers
Plans a step of BATCH-SIZE records of MAX-SEQ-LENGTH tokens, all of them trained. Memory is what the
run allocates on the device, with the weights, but without the copies of them in bf16 that a GPU with
matrix units also keeps where they fit. Speed is estimated from the costs of all operations
and the measured peaks of the device; compare policies by it rather than trust it. The first policy
that fits is the one that 'clora train' takes. With --split layers, each device has a table: of its
part of the model, with the activations of all micro-batches that it holds at once, and its speed
while it does not wait for the others. 'clora train' takes the first policy that fits on all.)";

// Of the speed that the roofline allows at best, what steps were measured to reach: on CPUs more,
// since caches serve a part of what costs count as read from memory.
constexpr double kShareOnCpus = 0.85, kShareOnOthers = 0.6;

struct Options {
  CommonOptions common;
  TrainingAdapterOptions adapter;
  OptimizerOptions optimizer;
  std::int64_t max_seq_length = 0;
  std::int64_t batch_size = 1;
  bool longest = false;
  SplitOptions split;
  std::vector<std::int64_t> device_shares;  // with --split layers

  std::int64_t rows() const { return max_seq_length * batch_size; }
};

// ranks: of a model that is split by layers, else null.
PlannedRun planned_run(const Options& options, const WeightFiles& files, Communicator* ranks) {
  ContextConfig config = context_config(options.common);
  const RooflinePeaks peaks = peaks_of(config);
  config.weight_copy_share = 0;
  return {
      .context = config,
      .files = &files,
      .context_length = options.max_seq_length,
      .blocks = blocks_of_rank(options.split, options.common.model, options.device_shares, ranks),
      .make_adapter =
          [&options](Context& context, const ModelConfig& model) {
            return make_adapter(options.adapter, context, model, options.common.model,
                                options.common.seed);
          },
      .trainer = {.optimizer = options.optimizer.config(), .ranks = ranks},
      .peaks = peaks};
}

double share_of_roofline(const Options& options) {
  const Device device = select_device(context_config(options.common).device);
  return device.kind == DeviceKind::cpu ? kShareOnCpus : kShareOnOthers;
}

// rank: of a device with a part of the model.
void print(Output& output, const PolicyPlan& plan, double tokens_per_s, std::size_t limit,
           std::optional<std::int64_t> longest, std::optional<int> rank) {
  const bool fits = plan.limit_bytes <= limit;
  output.result("{:<78} {:>10}  {:>8.0f} tokens/s  {}{}", text_of(plan.policy),
                readable_bytes(static_cast<double>(plan.peak_bytes)), tokens_per_s,
                fits ? "fits" : "too large",
                longest ? fmt::format(", up to {} tokens", grouped(*longest)) : "");
  nlohmann::ordered_json object{{"policy", text_of(plan.policy)},
                                {"blocks_per_checkpoint", plan.policy.blocks_per_checkpoint},
                                {"feed_forward_rows", plan.policy.feed_forward_rows},
                                {"saved", name_of(plan.policy.saved)},
                                {"peak_bytes", plan.peak_bytes},
                                {"limit_bytes", limit},
                                {"fits", fits},
                                {"tokens_per_s", tokens_per_s}};
  if (longest) object["longest_document"] = *longest;
  if (rank) object["rank"] = *rank;
  output.object(object);
}

void plan_device(const Options& options, Communicator* ranks, Output& output) {
  const WeightFiles files = WeightFiles::open(options.common.model);
  const PlannedRun run = planned_run(options, files, ranks);
  if (run.blocks) {
    output.info("rank {}: '{}', blocks {} to {}", ranks->rank(), options.common.device,
                run.blocks->begin, run.blocks->end - 1);
  }
  MemoryPlanner planner(run);
  const double share = share_of_roofline(options);
  output.info(
      "{} of {} rows, {} allowed; weights, adapter and optimiser take {}",
      options.batch_size == 1 ? "a step" : fmt::format("steps of {} records", options.batch_size),
      grouped(options.rows()), readable_bytes(static_cast<double>(planner.limit_bytes())),
      readable_bytes(static_cast<double>(planner.fixed_bytes())));
  WantedRows wanted = rows_of_document(options.rows());
  wanted.attended = static_cast<double>(options.max_seq_length) / 2;
  for (const MemoryPolicy& policy : candidate_policies(planner.model(), options.rows())) {
    const std::optional<PolicyPlan> planned = planner.find_plan(policy, wanted);
    if (!planned) {
      output.info("{:<78} larger than an allocation of the device", text_of(policy));
      continue;
    }
    std::optional<std::int64_t> longest;
    if (options.longest) longest = planner.longest_document(policy);
    const double tokens_per_s =
        share * static_cast<double>(options.rows()) / planned->roofline_seconds;
    const std::optional<int> rank = ranks == nullptr ? std::nullopt : std::optional(ranks->rank());
    print(output, *planned, tokens_per_s, planner.limit_bytes(), longest, rank);
  }
}

// Each rank in its turn.
void plan_stages(const Options& options, Output& output) {
  const std::vector<RunDevice> devices = listed_devices(listed_selectors(options.common.device));
  check_split(options.split, std::ssize(devices), "");
  run_thread_ranks(static_cast<int>(devices.size()), [&](Communicator& ranks) {
    Options own = options;
    own.common = options_on(devices[static_cast<std::size_t>(ranks.rank())], own.common);
    for (int turn = 0; turn < ranks.size(); ++turn) {
      if (turn == ranks.rank()) plan_device(own, &ranks, output);
      ranks.all_gather("");
    }
  });
}

int plan(const Options& options) {
  check_split_shares(options.split, options.device_shares);
  Output output(options.common.output);
  if (options.split.by_layers()) {
    plan_stages(options, output);
  } else {
    plan_device(options, nullptr, output);
  }
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("plan", "Show the memory and speed of training before it runs");
  const auto options = std::make_shared<Options>();
  command->add_option("--max-seq-length", options->max_seq_length, "Longest record, in tokens")
      ->transform(Integer(2, kMaxCount))
      ->type_name("TOKENS")
      ->required()
      ->group("Training");
  command->add_option("--batch-size", options->batch_size, "Records per micro-batch")
      ->transform(Integer(1, kMaxBatch))
      ->type_name("RECORDS")
      ->capture_default_str()
      ->group("Training");
  command
      ->add_flag("--longest", options->longest,
                 "Also show the longest single record that each policy can train")
      ->group("Training");
  add_optimizer_options(*command, options->optimizer, "Training");
  add_training_adapter_options(*command, options->adapter);
  add_split_option(*command, options->split, "Devices");
  add_split_shares_option(*command, options->device_shares, "Devices");
  add_run_options(*command, options->common);
  add_memory_option(*command, options->common);
  command->footer(kFooter);
  command->callback([options, command, &action] {
    options->adapter.note_given(*command);
    action = [options] { return plan(*options); };
  });
}

}  // namespace clora

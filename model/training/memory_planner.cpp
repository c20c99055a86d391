#include "clora/model/training/memory_planner.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "clora/model/generation/generator.hpp"
#include "clora/model/training/evaluator.hpp"
#include "clora/ops/quant/quant.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// Rows of a feed-forward tile: more make better use of a device, since each tile reads all weights,
// fewer take less memory. There are at most about kTiles of the smaller ones.
constexpr std::int64_t kLargeTile = 8192, kSmallTile = 2048, kTiles = 16;
constexpr std::int64_t kShortDocument = 256;
constexpr std::int64_t kLongestDocument = std::int64_t{1} << 24U;
constexpr std::int64_t kMaxGrowth = 8;  // of a guess, against the last length that fits
constexpr int kRefinements = 8;

ContextConfig dry(ContextConfig config) {
  auto build = std::move(config.hooks.build);
  config.dry_run = true;
  config.profile = false;
  config.trace = nullptr;
  config.hooks = Hooks();
  config.hooks.build = std::move(build);
  return config;
}

// "7.51 GiB", "310.0 MiB"
std::string amount(std::size_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / 1048576.0;
  return mebibytes < 1024 ? fmt::format("{:.1f} MiB", mebibytes)
                          : fmt::format("{:.2f} GiB", mebibytes / 1024);
}

}  // namespace

struct MemoryPlanner::State {
  explicit State(PlannedRun planned)
      : run(std::move(planned)),
        context(dry(run.context)),
        model(std::in_place, context, *run.files, options()),
        adapter(run.make_adapter(context, model->config())) {}

  LoadOptions options() const {
    return {.progress = {}, .context_length = run.context_length, .blocks = run.blocks};
  }

  // The model, whose rope tables are as long as those of the run: it keeps the longest ones.
  LanguageModel& model_for(std::size_t rows) {
    if (rows < most_rows) {
      model.emplace(context, *run.files, options());
      most_rows = 0;
    }
    most_rows = std::max(most_rows, rows);
    return *model;
  }

  // With the unused rest of the slabs that are partly used: it counts against the limit.
  std::size_t allocated_bytes() {
    context.pool().trim();
    const MemoryStatistics pool = context.pool().statistics();
    return pool.in_use_bytes + pool.cached_bytes;
  }
  // Raises the plan to what is in use now.
  void add_use(PolicyPlan& plan) {
    plan.peak_bytes = std::max(plan.peak_bytes, context.pool().statistics().in_use_bytes);
    plan.limit_bytes = std::max(plan.limit_bytes, allocated_bytes());
  }
  void add_validations(PolicyPlan& plan) {
    if (run.scored.rows > 0) {
      Evaluator evaluator(*model, &adapter);
      evaluator.prepare(run.scored);
      add_use(plan);
    }
    if (run.reply_positions > 0) {
      Generator generator(*model, &adapter, run.reply_positions);
      generator.prepare();
      add_use(plan);
    }
  }
  TrainerConfig trainer_with(const MemoryPolicy& policy) const {
    TrainerConfig config = run.trainer;
    config.policy = policy;
    return config;
  }

  PlannedRun run;
  Context context;
  std::optional<LanguageModel> model;
  Adapter adapter;
  std::size_t most_rows = 0;  // of the plans since the model was made
};

MemoryPlanner::MemoryPlanner(PlannedRun run) : state_(std::make_unique<State>(std::move(run))) {}
MemoryPlanner::~MemoryPlanner() = default;

std::size_t MemoryPlanner::limit_bytes() const {
  return state_->context.pool().statistics().limit_bytes;
}

bool MemoryPlanner::makes_weight_copies() const {
  return std::ranges::any_of(state_->run.files->all(), [this](const WeightView& view) {
    return preferred_form(state_->context, view.shape, view.type).bf16_copy;
  });
}

const ModelConfig& MemoryPlanner::model() const noexcept { return state_->run.files->config(); }

std::size_t MemoryPlanner::fixed_bytes() {
  const Trainer trainer(*state_->model, state_->adapter, state_->trainer_with({}));
  return state_->context.pool().statistics().in_use_bytes;
}

PolicyPlan MemoryPlanner::plan(const MemoryPolicy& policy, const WantedRows& wanted) {
  LanguageModel& model = state_->model_for(wanted.rows);
  state_->context.pool().trim();  // a cached block of an earlier plan may be larger than needed
  Trainer trainer(model, state_->adapter, state_->trainer_with(policy));
  trainer.prepare(wanted);
  const RooflinePeaks& peaks = state_->run.peaks;
  PolicyPlan plan{.policy = policy,
                  .roofline_seconds = peaks.known() ? trainer.roofline_seconds(wanted, peaks) : 0,
                  .weight_copy_share = state_->run.context.weight_copy_share};
  state_->add_use(plan);
  state_->add_validations(plan);
  return plan;
}

std::optional<PolicyPlan> MemoryPlanner::find_plan(const MemoryPolicy& policy,
                                                   const WantedRows& wanted) {
  try {
    return plan(policy, wanted);
  } catch (const Error& error) {
    const bool is_size = error.code() == ErrorCode::out_of_memory ||
                         error.code() == ErrorCode::invalid_argument ||
                         error.code() == ErrorCode::unsupported;
    if (!is_size) throw;
    return std::nullopt;
  }
}

// Memory is nearly linear in the rows, so a line through two plans gives the next guess. A length
// at which a tensor exceeds an allocation, or the rows of an op, does not fit, either.
std::int64_t MemoryPlanner::longest_document(const MemoryPolicy& policy) {
  const std::size_t limit = limit_bytes();
  std::int64_t fits = 0, too_long = kLongestDocument, rows = kShortDocument;
  std::size_t bytes_of_fit = fixed_bytes();
  for (int i = 0; i < kRefinements && rows > fits && rows < too_long; ++i) {
    const std::optional<PolicyPlan> planned = find_plan(policy, rows_of_document(rows));
    if (!planned || planned->limit_bytes > limit) {
      too_long = rows;
      rows = (fits + rows) / 2 / kShortDocument * kShortDocument;
      continue;
    }
    const std::size_t bytes = planned->limit_bytes;
    const double per_row = static_cast<double>(bytes - std::min(bytes, bytes_of_fit)) /
                           static_cast<double>(rows - fits);
    fits = rows;
    bytes_of_fit = bytes;
    const double more = 0.99 * static_cast<double>(limit - bytes) / std::max(per_row, 1.0);
    rows = std::min({rows + static_cast<std::int64_t>(more), kMaxGrowth * rows, too_long - 1});
    rows = rows / kShortDocument * kShortDocument;
  }
  return fits;
}

std::vector<MemoryPolicy> candidate_policies(const ModelConfig& model, std::int64_t rows) {
  const std::int64_t tile =
      std::clamp(round_up(rows / kTiles, kRowsOfTiles), kSmallTile, kLargeTile);
  std::vector<MemoryPolicy> all{{},
                                {.feed_forward_rows = kLargeTile},
                                {.feed_forward_rows = tile},
                                {.blocks_per_checkpoint = 1},
                                {.blocks_per_checkpoint = 1, .feed_forward_rows = kLargeTile}};
  for (const std::int64_t blocks : {1, 2, 4, 6}) all.push_back({blocks, tile});
  for (const SavedType saved : {SavedType::bf16, SavedType::q8}) {
    for (const std::int64_t blocks : {1, 2, 4, 6}) all.push_back({blocks, tile, saved});
  }
  std::vector<MemoryPolicy> useful;
  for (MemoryPolicy policy : all) {
    if (policy.feed_forward_rows >= rows) policy.feed_forward_rows = 0;
    const bool repeats = std::ranges::find(useful, policy) != useful.end();
    if (!repeats && policy.blocks_per_checkpoint < model.layers) useful.push_back(policy);
  }
  return useful;
}

WantedRows rows_of_document(std::int64_t tokens) {
  const auto rows = static_cast<std::size_t>(tokens);
  return {.rows = rows, .labelled = rows, .attended = static_cast<double>(tokens) / 2};
}

namespace {

// The same run with bf16 copies of its weights, if the device makes some and they fit as well.
// lean: the planner of the run without them.
PolicyPlan with_copies_if_they_fit(const PlannedRun& run, const MemoryPlanner& lean,
                                   const PolicyPlan& without, const WantedRows& wanted) {
  if (run.context.weight_copy_share == 0 || !lean.makes_weight_copies()) return without;
  MemoryPlanner planner(run);
  const PolicyPlan plan = planner.plan(without.policy, wanted);
  return plan.limit_bytes <= planner.limit_bytes() ? plan : without;
}

[[noreturn]] void fail_too_small(MemoryPlanner& planner, const PolicyPlan& smallest,
                                 const WantedRows& wanted) {
  const std::int64_t tokens = planner.longest_document(smallest.policy);
  const std::string instead = tokens > 0
                                  ? fmt::format(
                                        "use at most {} tokens at once: lower `max_seq_length` or "
                                        "`batch_size`",
                                        tokens)
                                  : "use a smaller model";
  fail(ErrorCode::out_of_memory,
       "memory plan: a step of {} rows needs {} with {}, but {} are allowed; allow "
       "that much, or {}",
       wanted.rows, amount(smallest.limit_bytes), text_of(smallest.policy),
       amount(planner.limit_bytes()), instead);
}

PlannedRun without_copies(PlannedRun run) {
  run.context.weight_copy_share = 0;
  return run;
}

}  // namespace

PolicyPlan choose_policy(const PlannedRun& run, const WantedRows& wanted) {
  MemoryPlanner planner(without_copies(run));
  std::optional<PolicyPlan> smallest;
  const auto rows = static_cast<std::int64_t>(wanted.rows);
  for (const MemoryPolicy& policy : candidate_policies(planner.model(), rows)) {
    const PolicyPlan plan = planner.plan(policy, wanted);
    if (plan.limit_bytes <= planner.limit_bytes())
      return with_copies_if_they_fit(run, planner, plan, wanted);
    if (!smallest || plan.limit_bytes < smallest->limit_bytes) smallest = plan;
  }
  fail_too_small(planner, *smallest, wanted);
}

PolicyPlan plan_policy(const PlannedRun& run, const MemoryPolicy& policy,
                       const WantedRows& wanted) {
  MemoryPlanner planner(without_copies(run));
  const PolicyPlan plan = planner.plan(policy, wanted);
  if (plan.limit_bytes > planner.limit_bytes()) fail_too_small(planner, plan, wanted);
  return with_copies_if_they_fit(run, planner, plan, wanted);
}

}  // namespace clora

// Training a model that is split by layers over several devices: threads with a Context each give
// the results of one device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "clora/model/training/memory_planner.hpp"
#include "clora/model/training/thread_ranks.hpp"
#include "clora/model/transformer/adapter_sites.hpp"
#include "clora/model/transformer/column_scales.hpp"
#include "clora/model/transformer/saved_tensors.hpp"
#include "clora/model/weights/block_split.hpp"
#include "lora/saved_tensors.hpp"
#include "model/training/stage_magnitudes.hpp"
#include "model/training/stage_schedule.hpp"
#include "runtime/fail.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/training_runs.hpp"

namespace clora {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

std::string text_of(const std::vector<StageTask>& tasks) {
  std::string text;
  for (const StageTask& task : tasks) {
    text += fmt::format("{}{} ", task.kind == StageTask::forward ? "F" : "B", task.micro_batch);
  }
  return text;
}

TEST(StageSchedule, IsOneForwardOneBackward) {
  EXPECT_EQ(text_of(stage_schedule(0, 3, 4)), "F0 F1 F2 B0 F3 B1 B2 B3 ");
  EXPECT_EQ(text_of(stage_schedule(1, 3, 4)), "F0 F1 B0 F2 B1 F3 B2 B3 ");
  EXPECT_EQ(text_of(stage_schedule(2, 3, 4)), "F0 B0 F1 B1 F2 B2 F3 B3 ");
  EXPECT_EQ(text_of(stage_schedule(0, 3, 1)), "F0 B0 ");
}

TEST(StageSchedule, HoldsNoMoreMicroBatchesThanItHasSlots) {
  for (std::size_t stages = 1; stages <= 5; ++stages) {
    for (std::size_t stage = 0; stage < stages; ++stage) {
      for (std::size_t count = 1; count <= 9; ++count) {
        std::size_t held = 0, most = 0, backwards = 0;
        for (const StageTask& task : stage_schedule(stage, stages, count)) {
          if (task.kind == StageTask::forward) {
            most = std::max(most, ++held);
          } else {
            --held;
            EXPECT_EQ(task.micro_batch, backwards++);
          }
        }
        EXPECT_EQ(held, 0U);
        EXPECT_EQ(backwards, count);
        EXPECT_EQ(most, std::min(count, stage_slots(stage, stages)));
      }
    }
  }
}

TEST(Messages, ArriveInTheirOrderAndCanBeSentToBothNeighbours) {
  run_thread_ranks(3, [](Communicator& ranks) {
    const auto bytes = [](int value) { return std::vector<std::byte>(3, std::byte(value)); };
    const int next = (ranks.rank() + 1) % 3, before = (ranks.rank() + 2) % 3;
    for (int i = 0; i < 4; ++i) {
      ranks.send(next, bytes(10 * ranks.rank() + i));
      ranks.send(before, bytes(100 + 10 * ranks.rank() + i));
    }
    std::vector<std::byte> got(3);
    for (int i = 0; i < 4; ++i) {
      ranks.receive(before, got);
      EXPECT_EQ(got, bytes(10 * before + i));
      ranks.receive(next, got);
      EXPECT_EQ(got, bytes(100 + 10 * next + i));
    }
    EXPECT_FALSE(ranks.has_message(next));
    (void)ranks.all_gather("");
    if (ranks.rank() == 0) ranks.send(1, bytes(1));
    (void)ranks.all_gather("");
    EXPECT_EQ(ranks.has_message(0), ranks.rank() == 1);
  });
}

TEST(Messages, OfAnotherSizeAreRefusedAndNoneIsAwaitedFromAFailedRank) {
  EXPECT_THAT(error_of([] {
                run_thread_ranks(2, [](Communicator& ranks) {
                  std::vector<std::byte> bytes(static_cast<std::size_t>(3 + ranks.rank()));
                  if (ranks.rank() == 0) ranks.send(1, bytes);
                  ranks.receive(1 - ranks.rank(), bytes);  // rank 0 waits in vain
                });
              }),
              HasSubstr("a message of 4 bytes was expected from rank 0, got 3"));
}

// How a run differs from the plain one.
struct Change {
  AdapterConfig adapter = {.rank = 4, .dropout = 0.1};
  std::vector<std::string> targets = {"all-linear"};
  std::int64_t last_layers = 0;         // as in select_sites()
  std::vector<std::string> saved = {};  // modules that are trained in full
  std::function<void(int rank, LanguageModel&)> on_model = {};
};

class ModelStages : public test::TrainingRunTest {
 protected:
  struct Result {
    std::vector<double> losses, norms, held_out;
    std::vector<float> parameters;
    std::vector<double> idle_shares;
    std::vector<BlockRange> blocks;
  };

  ModelStages() { use_model("Llama"); }

  void use_model(const std::string& name, std::int64_t layers = 3) {
    ModelConfig config = test::tiny_config(name);
    config.layers = layers;
    model_ = folder_ / name;
    test::write_tiny_model(model_, config);
    records_ = test::some_records(22, config.vocabulary);
    valid_ = test::some_records(9, config.vocabulary);
  }

  TrainingRunConfig config_of(const std::string& out) {
    TrainingRunConfig c = config(out);
    c.batch_size = 2;  // 11 micro-batches per epoch: its last step has fewer than the others
    c.grad_accumulation = 4;
    c.clip_norm = 1;
    c.steps = 4;
    c.eval_every = 3;
    return c;
  }

  static Adapter make_adapter(LanguageModel& model, Communicator& ranks, const Change& change) {
    const ModelConfig& config = model.config();
    Adapter adapter(model.context(), select_sites(config, change.targets, change.last_layers),
                    change.adapter,
                    select_saved_tensors(savable_tensors(config), change.saved, "test"));
    adapter.initialise(11);
    initialise_magnitudes(model, adapter);
    if (!model.is_whole()) exchange_magnitudes(adapter, ranks);
    initialise_saved_tensors(model, adapter);
    return adapter;
  }

  Result train(int stages, const TrainingRunConfig& c, const Change& change = {},
               const std::filesystem::path& resume = {}) {
    Result result;
    run_thread_ranks(stages, [&](Communicator& ranks) {
      Context context(config_from_environment());
      const WeightFiles files = WeightFiles::open(model_);
      const std::vector<std::int64_t> shares(static_cast<std::size_t>(stages), 1);
      const auto rank = static_cast<std::size_t>(ranks.rank());
      LanguageModel model(context, files, {.blocks = split_blocks(files, shares)[rank]});
      if (change.on_model) change.on_model(ranks.rank(), model);
      Adapter adapter = make_adapter(model, ranks, change);
      TrainingRunConfig of_rank = c;
      if (stages > 1) of_rank.ranks = &ranks;
      TrainingCallbacks callbacks;
      if (rank == 0) callbacks = callbacks_of(result);
      const TrainingSummary summary =
          run_training(model, adapter, records_, &valid_, of_rank, resume, callbacks);
      if (rank != 0) return;
      result.parameters = context.read<float>(adapter.parameters());
      result.idle_shares = summary.idle_shares;
    });
    return result;
  }

  static TrainingCallbacks callbacks_of(Result& result) {
    TrainingCallbacks callbacks;
    callbacks.on_step = [&](const StepResult& step, double) {
      result.losses.push_back(step.loss);
      result.norms.push_back(step.grad_norm);
    };
    callbacks.on_eval = [&](const EvalResult& eval) { result.held_out.push_back(eval.loss); };
    callbacks.on_shares = [&](const DeviceShares& shares) { result.blocks = shares.blocks; };
    return callbacks;
  }

  // Runs c on one device and on two and three, which must give the same bits; the parameters also
  // show that each stage has trained its blocks.
  void expect_stages_give_the_bits_of_one(const TrainingRunConfig& c, const Change& change = {}) {
    const Result one = train(1, c, change);
    ASSERT_EQ(one.losses.size(), 4U);
    ASSERT_EQ(one.held_out.size(), 2U);
    for (const int stages : {2, 3}) {
      const Result several = train(stages, c, change);
      SCOPED_TRACE(stages);
      EXPECT_EQ(several.losses, one.losses);
      EXPECT_EQ(several.norms, one.norms);
      EXPECT_EQ(several.held_out, one.held_out);
      EXPECT_EQ(several.parameters, one.parameters);
    }
  }

  std::filesystem::path model_;
  Records valid_;
};

TEST_F(ModelStages, GiveTheBitsOfOneDevice) {
  // A head of its own, and a tied one.
  for (const auto& [name, accumulation] : {std::pair{"Llama", 4}, {"Llama", 1}, {"Qwen2", 4}}) {
    SCOPED_TRACE(fmt::format("{}, {} micro-batches", name, accumulation));
    use_model(name);
    TrainingRunConfig c = config_of("out");
    c.grad_accumulation = accumulation;
    expect_stages_give_the_bits_of_one(c);
  }
}

TEST_F(ModelStages, GiveThemWithEverythingThatIsTrained) {
  use_model("Qwen2");
  TrainingRunConfig c = config_of("out");
  c.supervised = {.label_smoothing = 0.1, .z_loss = 1e-3, .neftune_alpha = 5};
  c.gradient_noise = true;
  c.average_decay = 0.9;
  expect_stages_give_the_bits_of_one(
      c, {.targets = {"all-linear", "embed_tokens", "lm_head"}, .saved = {"norm"}});
}

// A tied matrix is on both ends, and each end trains one of its own.
TEST_F(ModelStages, GiveThemWithWholeMatrices) {
  use_model("Qwen2");
  expect_stages_give_the_bits_of_one(
      config_of("out"), {.targets = {"q_proj"}, .saved = {"embed_tokens", "down_proj", "lm_head"}});
}

// Norms on both sides and scaled embeddings, experts, and layers with a state.
TEST_F(ModelStages, GiveThemForOtherArchitectures) {
  for (const char* name : {"Gemma2", "Granite", "Qwen3Moe", "Lfm2", "Qwen3_5"}) {
    SCOPED_TRACE(name);
    use_model(name, 2);
    TrainingRunConfig c = config_of("out");
    c.steps = 2;
    const Change change{.adapter = {.rank = 4}};  // experts have no dropout
    const Result one = train(1, c, change), two = train(2, c, change);
    ASSERT_EQ(one.losses.size(), 2U);
    EXPECT_EQ(two.losses, one.losses);
    EXPECT_EQ(two.held_out, one.held_out);
    EXPECT_EQ(two.parameters, one.parameters);
  }
}

TEST_F(ModelStages, GiveThemWithMagnitudes) {
  Change change;
  change.adapter.use_dora = true;
  expect_stages_give_the_bits_of_one(config_of("out"), change);
}

TEST_F(ModelStages, GiveThemIfTheFirstOnesTrainNothing) {
  Change change{.last_layers = 1};
  change.adapter.use_dora = true;
  expect_stages_give_the_bits_of_one(config_of("out"), change);
}

TEST_F(ModelStages, GiveThemWithLessMemory) {
  TrainingRunConfig c = config_of("out");
  c.policy = {.blocks_per_checkpoint = 1, .feed_forward_rows = 256};
  expect_stages_give_the_bits_of_one(c);
}

TEST_F(ModelStages, ReportTheirBlocksAndTheirIdleTime) {
  const Result result = train(2, config_of("out"));
  EXPECT_EQ(result.blocks.size(), 2U);
  EXPECT_EQ(result.blocks.front().begin, 0);
  EXPECT_EQ(result.blocks.front().end, result.blocks.back().begin);
  EXPECT_EQ(result.blocks.back().end, 3);
  ASSERT_EQ(result.idle_shares.size(), 2U);
  for (const double share : result.idle_shares) {
    EXPECT_GE(share, 0);
    EXPECT_LT(share, 1);
  }
  EXPECT_TRUE(train(1, config_of("one")).idle_shares.empty());
}

TEST_F(ModelStages, ResumeARunOfOneDeviceAndTheOppositeToo) {
  TrainingRunConfig c = config_of("one");
  c.save_every = 2;
  const Result one = train(1, c);
  const std::vector<double> rest(one.losses.begin() + 2, one.losses.end());
  TrainingRunConfig again = c;
  again.adapter_out = folder_ / "two";
  const Result two = train(2, again, {}, folder_ / "one/checkpoint-2");
  EXPECT_EQ(two.losses, rest);
  EXPECT_EQ(two.parameters, one.parameters);
  again.adapter_out = folder_ / "three";
  const Result saved = train(3, again);
  EXPECT_EQ(saved.losses, one.losses);
  const Result back = train(1, again, {}, folder_ / "three/checkpoint-2");
  EXPECT_EQ(back.losses, rest);
  EXPECT_EQ(back.parameters, one.parameters);
}

// A norm of the second stage becomes NaN.
void spoil_norm(int rank, LanguageModel& model) {
  if (rank != 1) return;
  const std::vector<float> nan(static_cast<std::size_t>(model.config().hidden_size), NAN);
  model.context().write(model.blocks().front().front().norm.w, std::as_bytes(std::span(nan)));
}

TEST_F(ModelStages, EndTheRunOfAllWithTheErrorOfOne) {
  const Change change{.on_model = spoil_norm};
  EXPECT_THAT(error_of([&] { train(3, config_of("out"), change); }), HasSubstr("step 1 gave loss"));
  const Change failing{.on_model = [](int rank, LanguageModel&) {
    if (rank == 2) fail(ErrorCode::io, "the device of rank 2 is gone");
  }};
  EXPECT_THAT(error_of([&] { train(3, config_of("out"), failing); }),
              HasSubstr("the device of rank 2 is gone"));
}

// Every rank computes the records one by one to find it.
TEST_F(ModelStages, NameTheRecordWhoseLossIsNotFinite) {
  EXPECT_THAT(error_of([&] {
                run_thread_ranks(2, [&](Communicator& ranks) {
                  Context context(config_from_environment());
                  const WeightFiles files = WeightFiles::open(model_);
                  const BlockRange blocks = ranks.rank() == 0 ? BlockRange{0, 1} : BlockRange{1, 3};
                  LanguageModel model(context, files, {.blocks = blocks});
                  spoil_norm(ranks.rank(), model);
                  Evaluator(model, nullptr).evaluate(valid_, Evaluator::kAnyCount, &ranks);
                });
              }),
              HasSubstr("evaluator: the loss of record 1 is not finite"));
}

TEST_F(ModelStages, RefuseWhatNeedsTheModelOnOneDevice) {
  TrainingRunConfig c = config_of("out");
  c.preference = PreferenceLoss{};
  EXPECT_THAT(error_of([&] { train(2, c); }),
              HasSubstr("a preference loss needs the model on one"));
  use_model("Qwen3Moe");
  c = config_of("out");
  c.router_aux_loss_coef = 0.01;
  EXPECT_THAT(error_of([&] { train(2, c); }), HasSubstr("a balanced load of experts needs"));
  const WeightFiles files = WeightFiles::open(model_);
  LanguageModel stage(open_->model.context(), files, {.blocks = BlockRange{0, 2}});
  Adapter adapter(open_->model.context(), adapter_sites(stage.config()), {.rank = 2});
  adapter.initialise(1);
  EXPECT_THAT(error_of([&] { Trainer(stage, adapter, {}); }),
              HasSubstr("ranks with the other blocks are required"));
}

// With the activations of all micro-batches that a stage may hold at once.
TEST_F(ModelStages, TakeThePlannedMemory) {
  const WeightFiles files = WeightFiles::open(model_);
  const auto make_adapter_of = [](Context& context, const ModelConfig& config) {
    return Adapter(context, adapter_sites(config), {.rank = 4});
  };
  const WantedRows wanted = rows_of_document(4096);
  std::vector<std::size_t> peaks(2);
  run_thread_ranks(2, [&](Communicator& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank());
    PlannedRun run{.context = config_from_environment(),
                   .files = &files,
                   .blocks = BlockRange{ranks.rank(), 2 * ranks.rank() + 1},
                   .make_adapter = make_adapter_of,
                   .trainer = {.ranks = &ranks}};
    peaks[rank] = MemoryPlanner(run).plan({}, wanted).peak_bytes;
    Context context(run.context);
    LanguageModel model(context, files, {.blocks = run.blocks});
    Adapter adapter = make_adapter_of(context, model.config());
    Trainer trainer(model, adapter, run.trainer);
    trainer.prepare(wanted);
    EXPECT_EQ(context.pool().statistics().high_water_bytes, peaks[rank]) << rank;
    ranks.all_gather("");  // the other rank's plan may still run
  });
  // The first stage holds two micro-batches, each in one block.
  PlannedRun whole{
      .context = config_from_environment(), .files = &files, .make_adapter = make_adapter_of};
  EXPECT_LT(peaks[0], MemoryPlanner(whole).plan({}, wanted).peak_bytes);
}

// Each rank takes the blocks of the wrong place.
TEST_F(ModelStages, MustFollowOneAnother) {
  EXPECT_THAT(error_of([&] {
                run_thread_ranks(2, [&](Communicator& ranks) {
                  Context context(config_from_environment());
                  const WeightFiles files = WeightFiles::open(model_);
                  const std::int64_t begin = ranks.rank() == 0 ? 0 : 2;
                  LanguageModel model(context, files, {.blocks = BlockRange{begin, begin + 1}});
                  Adapter adapter(context, adapter_sites(model.config()), {.rank = 2});
                  adapter.initialise(1);
                  TrainingRunConfig c = config_of("out");
                  c.ranks = &ranks;
                  run_training(model, adapter, records_, nullptr, c, {}, {});
                });
              }),
              HasSubstr("the blocks of rank 1 must begin with 1, got 2"));
}

}  // namespace
}  // namespace clora

// A complete training run by the C interface gives what run_training() gives, and its callbacks
// report it.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "clora/model/training/training_run.hpp"
#include "tests/support/c_api_model.hpp"
#include "tests/support/training_runs.hpp"

namespace clora {
namespace {

using test::expect_error;
using test::expect_ok;

// What the callbacks reported.
struct Reported {
  std::vector<double> losses = {};
  std::vector<std::int64_t> evaluated = {}, saved = {};
  std::int64_t stop_after = 0;  // 0: never
};

class CApiRun : public test::CApiModel {
 protected:
  CApiRun() {
    train_ = records(22);
    valid_ = records(3);
  }
  ~CApiRun() override {
    clora_records_release(train_);
    clora_records_release(valid_);
  }

  static Records texts(std::size_t count) { return test::some_records(count, 200); }
  static clora_records* records(std::size_t count) {
    clora_records* made = nullptr;
    expect_ok(clora_records_create(&made));
    const Records all = texts(count);
    for (const RecordView record : all.records) {
      clora_train_batch batch = clora_train_batch_init();
      batch.ids = record.ids.data();
      batch.is_target = record.is_target.data();
      batch.id_count = record.ids.size();
      expect_ok(clora_records_add(made, &batch));
    }
    return made;
  }

  clora_training_options options(const std::string& out) {
    reported_ = {};
    schedule_ = clora_schedule_init();
    schedule_.kind = "cosine";
    schedule_.learning_rate = 1e-2;
    schedule_.warmup_steps = 2;
    trainer_ = clora_trainer_options_init();
    trainer_.clip_norm = 1;
    clora_training_options options = clora_training_options_init();
    out_ = folder_ / out;
    options.train = train_;
    options.adapter_out = out_.c_str();
    options.trainer = &trainer_;
    options.schedule = &schedule_;
    options.batch_size = 2;
    options.grad_accumulation = 2;
    options.steps = 9;
    options.seed = 5;
    options.user = &reported_;
    options.on_step = [](void* user, const clora_step_result* step, double) {
      auto& reported = *static_cast<Reported*>(user);
      reported.losses.push_back(step->loss);
      return std::int32_t{step->step == reported.stop_after};
    };
    options.on_eval = [](void* user, const clora_evaluation* evaluation) {
      static_cast<Reported*>(user)->evaluated.push_back(evaluation->step);
    };
    options.on_save = [](void* user, std::int64_t step, const char*) {
      static_cast<Reported*>(user)->saved.push_back(step);
    };
    return options;
  }
  clora_training_summary train(clora_adapter* adapter, const clora_training_options& options) {
    clora_training_summary summary = clora_training_summary_init();
    expect_ok(clora_train(adapter, &options, &summary));
    return summary;
  }

  clora_records *train_ = nullptr, *valid_ = nullptr;
  std::string out_;
  clora_schedule schedule_ = clora_schedule_init();
  clora_trainer_options trainer_ = clora_trainer_options_init();
  Reported reported_;
};

TEST_F(CApiRun, HasTheLossesOfRunTraining) {
  clora_training_options with = options("out");
  with.valid = valid_;
  with.eval_every = 4;
  const clora_training_summary summary = train(new_adapter(0.1), with);
  EXPECT_EQ(summary.steps, 9);
  EXPECT_EQ(summary.stopped, 0);
  EXPECT_GT(summary.seconds, 0);

  test::SameModel same(path());
  Adapter adapter = same.new_adapter(0.1);
  TrainingRunConfig config;
  config.batch_size = 2;
  config.grad_accumulation = 2;
  config.steps = 9;
  config.learning_rate = 1e-2;
  config.schedule = Schedule::cosine;
  config.warmup_steps = 2;
  config.clip_norm = 1;
  config.seed = 5;
  config.adapter_out = folder_ / "same";
  std::vector<double> losses;
  TrainingCallbacks callbacks;
  callbacks.on_step = [&](const StepResult& step, double) { losses.push_back(step.loss); };
  run_training(same.model, adapter, texts(22), nullptr, config, {}, callbacks);

  EXPECT_EQ(reported_.losses, losses);
  EXPECT_EQ(summary.final_loss, losses.back());
  EXPECT_THAT(reported_.evaluated, testing::ElementsAre(4, 8, 9));
  EXPECT_THAT(reported_.saved, testing::IsEmpty());
  EXPECT_EQ(test::read_file(folder_ / "out/adapter_model.safetensors"),
            test::read_file(folder_ / "same/adapter_model.safetensors"));
}

TEST_F(CApiRun, ResumedContinuesBitForBit) {
  clora_training_options with = options("unbroken");
  with.save_every = 4;
  clora_adapter* const unbroken = new_adapter(0.1);
  train(unbroken, with);
  EXPECT_THAT(reported_.saved, testing::ElementsAre(4, 8, 9));
  const std::vector<double> losses = reported_.losses;

  clora_adapter* const resumed = new_adapter(0.1);
  const std::string from = at("unbroken/checkpoint-4");
  with = options("resumed");
  with.save_every = 4;
  with.resume_from = from.c_str();
  train(resumed, with);
  EXPECT_EQ(reported_.losses, std::vector<double>(losses.begin() + 4, losses.end()));
  EXPECT_EQ(values_of(resumed), values_of(unbroken));

  schedule_.learning_rate = 5e-3;
  expect_error(clora_train(resumed, &with, nullptr), CLORA_INVALID_ARGUMENT,
               "learning rate was 0.01 and is 0.005");
}

TEST_F(CApiRun, StopsWhenItsCallbackRequestsItWithACheckpoint) {
  const clora_training_options with = options("out");
  reported_.stop_after = 3;
  const clora_training_summary summary = train(new_adapter(), with);
  EXPECT_EQ(summary.stopped, 1);
  EXPECT_LT(summary.steps, 9);
  EXPECT_GE(summary.steps, 3);
  EXPECT_THAT(reported_.saved, testing::ElementsAre(summary.steps));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/adapter_config.json"));
}

TEST_F(CApiRun, EndsEarlyWithTheBestAdapter) {
  clora_training_options with = options("out");
  with.valid = valid_;
  with.eval_every = 1;
  with.patience = 2;
  with.min_improvement = 100;  // nothing is an improvement after the first
  clora_adapter* const adapter = new_adapter();
  const clora_training_summary summary = train(adapter, with);
  EXPECT_EQ(summary.ended_early, 1);
  EXPECT_EQ(summary.steps, 3);
  EXPECT_EQ(summary.best_step, 3) << "each step lowers the loss, if by too little";
  EXPECT_GT(summary.best_loss, 0);
}

TEST_F(CApiRun, DefaultsAreThoseOfAnOlderHeader) {
  clora_training_options with = options("out");
  with.size = offsetof(clora_training_options, batch_size);  // no callbacks, one epoch of 22 / 4
  const clora_training_summary summary = train(new_adapter(), with);
  EXPECT_EQ(summary.steps, 6);
  EXPECT_THAT(reported_.losses, testing::IsEmpty());
}

// ---- Other losses and adapters

TEST_F(CApiRun, APreferenceLossRaisesTheMarginOfItsPairs) {
  const std::string file = at("pairs.jsonl");
  test::write_file(file, R"({"prompt": "the ", "chosen": "llo", "rejected": "abc"})"
                         "\n"
                         R"({"prompt": "abc", "chosen": "the the", "rejected": "wxyz"})"
                         "\n");
  const char* path = file.c_str();
  clora_records_options how = clora_records_options_init();
  how.loss = "dpo";
  clora_records* pairs = nullptr;
  expect_ok(clora_records_load(tokenizer_, &path, 1, &how, &pairs));
  clora_training_options with = options("out");
  with.train = with.valid = pairs;
  with.loss = "dpo";
  with.beta = 0.5;
  with.grad_accumulation = 1;
  std::vector<clora_evaluation> evaluations;
  with.user = &evaluations;
  with.on_step = nullptr;
  with.on_save = nullptr;
  with.on_eval = [](void* user, const clora_evaluation* evaluation) {
    static_cast<std::vector<clora_evaluation>*>(user)->push_back(*evaluation);
  };
  clora_adapter* const adapter = new_adapter();
  const clora_training_summary summary = train(adapter, with);
  ASSERT_EQ(evaluations.size(), 1U);
  EXPECT_EQ(evaluations[0].tokens, 2);
  EXPECT_GT(evaluations[0].reward_margin, 0);
  EXPECT_EQ(evaluations[0].reward_accuracy, 1);
  EXPECT_LT(summary.final_loss, std::log(2.0)) << "that of no preference";
  clora_evaluation result = clora_evaluation_init();
  expect_error(clora_evaluate(session_, pairs, &result), CLORA_INVALID_ARGUMENT,
               "read for a preference loss");
  with.loss = nullptr;
  expect_error(clora_train(adapter, &with, nullptr), CLORA_INVALID_ARGUMENT,
               "read for another loss than 'sft'");
  clora_records_release(pairs);
}

TEST_F(CApiRun, AnAdapterWithAPrincipalStartKeepsItsLastRanks) {
  clora_adapter_options how = clora_adapter_options_init();
  how.rank = 4;
  how.init = "pissa";
  const std::vector<float> base = logits();
  clora_adapter* const adapter = new_adapter(how);
  clora_adapter_info info = clora_adapter_info_init();
  expect_ok(clora_adapter_get_info(adapter, &info));
  EXPECT_EQ(info.rank, 8);
  expect_ok(clora_session_attach(session_, adapter));
  const std::vector<float> adapted = logits();
  for (std::size_t i = 0; i < base.size(); ++i) ASSERT_NEAR(adapted[i], base[i], 1e-3F);
  clora_adapter_tensor tensor = clora_adapter_tensor_init();
  expect_ok(clora_adapter_get_tensor(adapter, 0, &tensor));
  const auto first_a = [&] {
    std::vector<float> values(static_cast<std::size_t>(tensor.elements));
    expect_ok(clora_adapter_read_tensor(adapter, 0, values.data(), values.size()));
    return values;
  };
  const std::vector<float> before = first_a();
  train(adapter, options("out"));
  const std::vector<float> after = first_a();
  const auto half = static_cast<std::ptrdiff_t>(before.size() / 2);
  EXPECT_FALSE(std::equal(before.begin(), before.begin() + half, after.begin()));
  EXPECT_TRUE(std::equal(before.begin() + half, before.end(), after.begin() + half));
}

TEST_F(CApiRun, RefusesWhatDoesNotFit) {
  clora_adapter* const adapter = new_adapter();
  const auto refused = [&](auto set, clora_status status, const std::string& part) {
    clora_training_options wrong = options("out");
    set(wrong);
    expect_error(clora_train(adapter, &wrong, nullptr), status, part);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  };
  const auto invalid = [&](auto set, const std::string& part) {
    refused(set, CLORA_INVALID_ARGUMENT, part);
  };
  invalid([](auto& o) { o.train = nullptr; }, "train must not be NULL");
  invalid([](auto& o) { o.adapter_out = nullptr; }, "adapter_out must not be NULL");
  invalid([](auto& o) { o.batch_size = -1; }, "batch size must be at least 1, got -1");
  invalid([](auto& o) { o.patience = 2; }, "set `eval_every`");
  invalid([&](auto&) { trainer_.dropout_seed = 3; }, "dropout_seed must be 0");
  invalid([&](auto&) { schedule_.kind = "none"; }, "got 'none'");
  invalid([&](auto&) { schedule_.size = 3; }, "size must be set by its _init function");
  invalid([](auto& o) { o.loss = "rlhf"; }, "sft, dpo, ipo, orpo or kto, got 'rlhf'");
  invalid([](auto& o) { o.beta = 0.2; }, "are of a preference loss");
  invalid([](auto& o) { o.average_decay = 1; }, "must be in [0, 1), got 1");
  refused([](auto& o) { o.patience = 2, o.eval_every = 1; }, CLORA_INVALID_DATA, "early stopping");
  refused([](auto& o) { o.resume_from = "/no/checkpoint"; }, CLORA_NOT_FOUND, "/no/checkpoint");
  expect_error(clora_train(adapter, nullptr, nullptr), CLORA_INVALID_ARGUMENT,
               "options must not be NULL");
  expect_error(clora_train(nullptr, nullptr, nullptr), CLORA_INVALID_ARGUMENT,
               "adapter must not be NULL");
}

}  // namespace
}  // namespace clora

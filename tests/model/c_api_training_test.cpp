// Training by the C interface: accumulation, schedules, evaluation and checkpoints give what the
// C++ library gives.
#include <cstddef>
#include <vector>

#include "clora/model/text/tokenizer_files.hpp"
#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/trainer.hpp"
#include "clora/model/training/training_config.hpp"
#include "tests/support/c_api_model.hpp"

namespace clora {
namespace {

using test::expect_error;
using test::expect_ok;
using testing::HasSubstr;

class CApiTraining : public test::CApiModel {
 protected:
  ~CApiTraining() override {
    clora_trainer_release(trainer_);
    clora_records_release(records_);
  }

  void open(clora_adapter* adapter, const clora_trainer_options& options) {
    clora_trainer_release(trainer_);
    trainer_ = nullptr;
    expect_ok(clora_trainer_create(adapter, &options, &trainer_));
  }
  static clora_trainer_options options() {
    clora_trainer_options options = clora_trainer_options_init();
    options.clip_norm = 1;
    options.weight_decay = 0.01;
    options.dropout_seed = 7;
    return options;
  }
  clora_step_result step_on_both() {
    clora_step_result result = clora_step_result_init();
    expect_ok(clora_trainer_step_accumulated(trainer_, both_.data(), both_.size(), 1e-2, &result));
    return result;
  }
  std::vector<double> losses_of(int steps) {
    std::vector<double> losses;
    for (int i = 0; i < steps; ++i) losses.push_back(step_on_both().loss);
    return losses;
  }
  // Records of the first and the second text.
  void make_records() {
    expect_ok(clora_records_create(&records_));
    for (const clora_train_batch* batch : both_) expect_ok(clora_records_add(records_, batch));
  }

  const clora_train_batch batch_a_ = batch_of(first_), batch_b_ = batch_of(second_);
  const std::vector<const clora_train_batch*> both_{&batch_a_, &batch_b_};
  clora_trainer* trainer_ = nullptr;
  clora_records* records_ = nullptr;
};

PackedRows packed(const std::vector<std::int32_t>& ids) {
  const Record record{ids, std::vector<std::uint8_t>(ids.size(), 1)};
  return pack_rows(std::span(&record, 1), ids.size());
}

// ---- Steps

TEST_F(CApiTraining, AccumulatesMicroBatchesToTheBitsOfTheTrainer) {
  open(new_adapter(0.1), options());
  test::SameModel same(path());
  Adapter adapter = same.new_adapter(0.1);
  Trainer trainer(same.model, adapter, {.weight_decay = 0.01, .clip_norm = 1, .dropout_seed = 7});
  const std::vector<PackedRows> rows{packed(first_), packed(second_)};
  for (int i = 0; i < 3; ++i) {
    const clora_step_result got = step_on_both();
    trainer.step(rows, 1e-2);
    const StepResult want = trainer.drain().value();
    EXPECT_EQ(got.loss, want.loss);
    EXPECT_EQ(got.grad_norm, want.grad_norm);
    EXPECT_EQ(got.tokens, 9);
    EXPECT_EQ(got.step, i + 1);
  }
}

TEST_F(CApiTraining, AccumulatedBatchesAreWeighedAsOneBatch) {
  open(new_adapter(), options());
  const clora_step_result apart = step_on_both();
  std::vector<std::int32_t> ids = first_;
  ids.insert(ids.end(), second_.begin(), second_.end());
  const std::vector<std::size_t> lengths{first_.size(), second_.size()};
  clora_train_batch whole = batch_of(ids);
  whole.lengths = lengths.data();
  whole.document_count = 2;
  clora_step_result together = clora_step_result_init();
  open(new_adapter(), options());
  expect_ok(clora_trainer_step(trainer_, &whole, 1e-2, &together));
  EXPECT_NEAR(apart.loss, together.loss, 1e-5);
  EXPECT_NEAR(apart.grad_norm, together.grad_norm, 1e-4);
  EXPECT_EQ(apart.tokens, together.tokens);
}

TEST_F(CApiTraining, FinishGivesTheResultOfTheLastStepThatWasEnqueued) {
  open(new_adapter(), options());
  const std::vector<double> want = losses_of(2);
  open(new_adapter(), options());
  clora_step_result result = clora_step_result_init();
  result.step = 5;
  expect_ok(clora_trainer_finish(trainer_, &result));
  EXPECT_EQ(result.step, 0) << "none was in flight";
  for (int i = 0; i < 2; ++i) {
    expect_ok(clora_trainer_step_accumulated(trainer_, both_.data(), 2, 1e-2, nullptr));
  }
  expect_ok(clora_trainer_finish(trainer_, &result));
  EXPECT_EQ(result.step, 2);
  EXPECT_EQ(result.loss, want[1]);
  expect_ok(clora_trainer_finish(trainer_, nullptr));
}

TEST_F(CApiTraining, RefusesStepsWithoutBatchesAndBatchesThatDoNotFit) {
  open(new_adapter(), options());
  const auto refused = [&](const std::vector<const clora_train_batch*>& batches,
                           const std::string& part) {
    expect_error(
        clora_trainer_step_accumulated(trainer_, batches.data(), batches.size(), 1e-2, nullptr),
        CLORA_INVALID_ARGUMENT, part);
  };
  refused({nullptr}, "clora_trainer_step_accumulated: batch must not be NULL");
  expect_error(clora_trainer_step_accumulated(trainer_, nullptr, 1, 1e-2, nullptr),
               CLORA_INVALID_ARGUMENT, "batches must not be NULL");
  expect_error(clora_trainer_step_accumulated(trainer_, both_.data(), 0, 1e-2, nullptr),
               CLORA_INVALID_ARGUMENT, "at least one batch");
  const std::vector<std::int32_t> outside{1, 1 << 20};
  const clora_train_batch wrong = batch_of(outside);
  refused({&batch_a_, &wrong}, "ids must be in [0, ");
  clora_train_batch sizeless = batch_a_;
  sizeless.size = 0;
  refused({&sizeless}, "size must be set by its _init function");
  clora_step_result result = clora_step_result_init();
  expect_ok(clora_trainer_step(trainer_, &batch_a_, 1e-2, &result));
  EXPECT_EQ(result.step, 1) << "refused steps do not count";
}

// ---- Learning rates

TEST(CApiLearningRate, IsThatOfTheCommandLine) {
  for (const Schedule kind :
       {Schedule::constant, Schedule::linear, Schedule::cosine, Schedule::wsd}) {
    const std::string name(name_of(kind));
    clora_schedule schedule = clora_schedule_init();
    schedule.kind = name.c_str();
    schedule.learning_rate = 3e-3;
    schedule.warmup_share = 0.2;
    TrainingRunConfig config;
    config.learning_rate = 3e-3;
    config.schedule = kind;
    config.warmup_share = 0.2;
    if (kind != Schedule::constant) schedule.min_rate_share = config.min_rate_share = 0.1;
    if (kind == Schedule::wsd) schedule.decay_share = config.decay_share = 0.3;
    for (std::int64_t step = 1; step <= 11; ++step) {
      double rate = 0;
      expect_ok(clora_learning_rate(&schedule, step, 11, &rate));
      EXPECT_EQ(rate, learning_rate_at(config, step, 11)) << name << ", step " << step;
    }
  }
}

TEST(CApiLearningRate, HasDefaultsAndRefusesWhatDoesNotFit) {
  double rate = 0;
  expect_ok(clora_learning_rate(nullptr, 5, 10, &rate));
  EXPECT_EQ(rate, 2e-4);
  clora_schedule schedule = clora_schedule_init();
  const auto refused = [&](std::int64_t step, std::int64_t steps, const std::string& part) {
    expect_error(clora_learning_rate(&schedule, step, steps, &rate), CLORA_INVALID_ARGUMENT, part);
  };
  refused(0, 10, "step must be from 1 to the 10 steps");
  refused(11, 10, "got 11");
  schedule.kind = "square";
  refused(1, 10, "constant, linear, cosine or wsd, got 'square'");
  schedule.kind = "cosine";
  schedule.decay_share = 0.5;
  refused(1, 10, "decay_share is of the schedule wsd, got it with cosine");
  schedule.decay_share = 0;
  schedule.warmup_share = 2;
  refused(1, 10, "warm-up's share of the run must be from 0 to 1");
  EXPECT_EQ(rate, 2e-4);
  expect_error(clora_learning_rate(nullptr, 1, 1, nullptr), CLORA_INVALID_ARGUMENT, "rate must");
}

TEST(CApiLearningRate, IsTheDefaultOneForAnOlderHeader) {
  clora_schedule schedule = clora_schedule_init();
  schedule.size = offsetof(clora_schedule, warmup_steps);
  schedule.learning_rate = 1;
  schedule.warmup_steps = 100;  // beyond the size, so not read
  double rate = 0;
  expect_ok(clora_learning_rate(&schedule, 1, 10, &rate));
  EXPECT_EQ(rate, 1);
}

// ---- Records and evaluation

TEST_F(CApiTraining, EvaluatesAsTheEvaluatorDoes) {
  make_records();
  clora_evaluation got = clora_evaluation_init();
  expect_ok(clora_evaluate(session_, records_, &got));
  test::SameModel same(path());
  Records records;
  for (const auto* ids : {&first_, &second_}) {
    records.records.push_back(Record{*ids, std::vector<std::uint8_t>(ids->size(), 1)});
  }
  const EvalResult want = Evaluator(same.model, nullptr).evaluate(records);
  EXPECT_EQ(got.loss, want.loss);
  EXPECT_EQ(got.tokens, 9);
  EXPECT_EQ(got.step, 0);
  EXPECT_GT(got.seconds, 0);
}

TEST_F(CApiTraining, EvaluatesTheAdapterAsItIsNow) {
  make_records();
  clora_adapter* const adapter = new_adapter();
  open(adapter, options());
  expect_ok(clora_session_attach(session_, adapter));
  clora_evaluation before = clora_evaluation_init(), after = before;
  expect_ok(clora_evaluate(session_, records_, &before));
  const std::vector<double> losses = losses_of(4);
  expect_ok(clora_evaluate(session_, records_, &after));
  EXPECT_NEAR(before.loss, losses[0], 1e-5);
  EXPECT_LT(after.loss, losses[3]);
}

TEST_F(CApiTraining, RecordsThatDoNotFitTheModelAreNotEvaluated) {
  expect_ok(clora_records_create(&records_));
  clora_evaluation result = clora_evaluation_init();
  expect_error(clora_evaluate(session_, records_, &result), CLORA_INVALID_DATA,
               "at least one token must count");
  const std::vector<std::int32_t> outside{1, 1 << 20};
  const clora_train_batch wrong = batch_of(outside);
  expect_ok(clora_records_add(records_, &wrong));
  expect_error(clora_evaluate(session_, records_, &result), CLORA_INVALID_ARGUMENT,
               "clora_evaluate: ids must be in [0, ");
  expect_error(clora_evaluate(session_, nullptr, &result), CLORA_INVALID_ARGUMENT,
               "records must not be NULL");
  expect_error(clora_evaluate(session_, records_, nullptr), CLORA_INVALID_ARGUMENT,
               "the result struct must not be NULL");
}

TEST_F(CApiTraining, RecordsAreReadFromFiles) {
  const std::string texts = at("a.jsonl"), chats = at("b.jsonl");
  test::write_file(texts, "{\"text\": \"the llo abc\"}\n{\"text\": \"wxyz\"}\n");
  test::write_file(chats, R"({"messages": [{"role": "user", "content": "a"},)"
                          R"( {"role": "assistant", "content": "the llo"}]})"
                          "\n");
  const std::vector<const char*> paths{texts.c_str(), chats.c_str()};
  clora_records_options options = clora_records_options_init();
  options.max_seq_length = 64;
  expect_ok(clora_records_load(tokenizer_, paths.data(), 2, &options, &records_));
  clora_records_info info = clora_records_info_init();
  expect_ok(clora_records_get_info(records_, &info));
  RecordOptions same{.max_seq_length = 64};
  const Tokenizer tokenizer = load_tokenizer(path());
  const ChatTemplate chat = ChatTemplate::of_model(tokenizer);
  const std::vector<DataFile> files{{texts}, {chats}};
  const Records want = load_records(files, tokenizer, &chat, same);
  EXPECT_EQ(info.records, 3);
  EXPECT_EQ(info.labelled_tokens, static_cast<std::int64_t>(want.target_count()));
  EXPECT_EQ(info.truncated, static_cast<std::int64_t>(want.truncated));
  EXPECT_GT(info.tokens, info.labelled_tokens);
  clora_evaluation got = clora_evaluation_init();
  expect_ok(clora_evaluate(session_, records_, &got));
  EXPECT_EQ(got.tokens, info.labelled_tokens);
  expect_error(clora_records_add(records_, &batch_a_), CLORA_INVALID_ARGUMENT,
               "were loaded from files");
}

TEST_F(CApiTraining, AFileThatCannotBeReadIsNamedWithItsLine) {
  clora_records* records = nullptr;
  const std::string bad = at("bad.jsonl");
  test::write_file(bad, "{\"text\": \"abc\"}\n{\"text\": 5}\n");
  const std::vector<const char*> paths{bad.c_str()};
  expect_error(clora_records_load(tokenizer_, paths.data(), 1, nullptr, &records),
               CLORA_INVALID_DATA, "bad.jsonl: line 2");
  EXPECT_EQ(records, nullptr);
  expect_error(clora_records_load(tokenizer_, paths.data(), 0, nullptr, &records),
               CLORA_INVALID_ARGUMENT, "at least one path is required");
  const double weight = -1;
  clora_records_options options = clora_records_options_init();
  options.weights = &weight;
  expect_error(clora_records_load(tokenizer_, paths.data(), 1, &options, &records),
               CLORA_INVALID_ARGUMENT, "weight of a file must be finite and above 0, got -1");
  const char* none = "/no/such/data.jsonl";
  expect_error(clora_records_load(tokenizer_, &none, 1, nullptr, &records), CLORA_NOT_FOUND, none);
}

TEST_F(CApiTraining, EmptyDocumentsAndWeightsOutOfRangeAreNotAdded) {
  expect_ok(clora_records_create(&records_));
  const std::vector<std::size_t> lengths{first_.size(), 0};
  clora_train_batch batch = batch_of(first_);
  batch.lengths = lengths.data();
  batch.document_count = 2;
  expect_error(clora_records_add(records_, &batch), CLORA_INVALID_ARGUMENT,
               "each document must have at least one token");
  batch = batch_of(first_);
  const float weight = 0;
  batch.weights = &weight;
  expect_error(clora_records_add(records_, &batch), CLORA_INVALID_ARGUMENT, "above 0, got 0");
  clora_records_info info = clora_records_info_init();
  expect_ok(clora_records_get_info(records_, &info));
  EXPECT_EQ(info.records, 0);
}

// ---- Checkpoints

TEST_F(CApiTraining, ACheckpointContinuesBitForBit) {
  clora_adapter* const unbroken = new_adapter(0.1);
  open(unbroken, options());
  losses_of(3);
  expect_ok(clora_trainer_save_checkpoint(trainer_, at("checkpoint").c_str()));
  const std::vector<double> want = losses_of(3);
  const std::vector<float> values = values_of(unbroken);

  clora_adapter* const resumed = new_adapter(0.1);
  open(resumed, options());
  std::int64_t step = 0;
  expect_ok(clora_trainer_load_checkpoint(trainer_, at("checkpoint").c_str(), &step));
  EXPECT_EQ(step, 3);
  EXPECT_EQ(losses_of(3), want);
  EXPECT_EQ(values_of(resumed), values);
}

TEST_F(CApiTraining, ACheckpointIsRestoredAfterAStepThatDiverged) {
  clora_adapter* const adapter = new_adapter();
  open(adapter, options());
  losses_of(2);
  expect_ok(clora_trainer_save_checkpoint(trainer_, at("checkpoint").c_str()));
  const std::vector<double> want = losses_of(2);
  for (int i = 0; i < 3; ++i) clora_trainer_step(trainer_, &batch_a_, 1e38, nullptr);
  expect_ok(clora_trainer_load_checkpoint(trainer_, at("checkpoint").c_str(), nullptr));
  EXPECT_EQ(losses_of(2), want);
}

TEST_F(CApiTraining, ACheckpointOfOtherSettingsIsRefusedByName) {
  open(new_adapter(), options());
  losses_of(1);
  expect_ok(clora_trainer_save_checkpoint(trainer_, at("checkpoint").c_str()));
  const auto refused = [&](auto set, const std::string& part) {
    clora_trainer_options other = options();
    set(other);
    open(new_adapter(), other);
    expect_error(clora_trainer_load_checkpoint(trainer_, at("checkpoint").c_str(), nullptr),
                 CLORA_INVALID_ARGUMENT, part);
  };
  refused([](auto& o) { o.weight_decay = 0.5; }, "weight decay was 0.01 and is 0.5");
  refused([](auto& o) { o.dropout_seed = 8; }, "dropout seed was 7 and is 8");
  refused([](auto& o) { o.optimizer = "lion"; }, "optimizer");
  refused([](auto& o) { o.label_smoothing = 0.1; }, "label smoothing");
  open(new_adapter(0.5), options());
  expect_error(clora_trainer_load_checkpoint(trainer_, at("checkpoint").c_str(), nullptr),
               CLORA_INVALID_ARGUMENT, "dropout was 0 and is 0.5");
}

TEST_F(CApiTraining, ADamagedOrMissingCheckpointChangesNothing) {
  clora_adapter* const adapter = new_adapter();
  open(adapter, options());
  losses_of(1);
  const std::vector<float> values = values_of(adapter);
  expect_error(clora_trainer_load_checkpoint(trainer_, at("nothing").c_str(), nullptr),
               CLORA_NOT_FOUND, "nothing");
  expect_ok(clora_trainer_save_checkpoint(trainer_, at("checkpoint").c_str()));
  const std::string file = at("checkpoint") + "/training_state.safetensors";
  std::string bytes = test::read_file(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  test::write_file(file, bytes);
  expect_error(clora_trainer_load_checkpoint(trainer_, at("checkpoint").c_str(), nullptr),
               CLORA_INVALID_FILE, "training_state.safetensors");
  EXPECT_EQ(values_of(adapter), values);
  expect_error(clora_trainer_save_checkpoint(trainer_, "/proc/no/checkpoint"), CLORA_IO,
               "/proc/no/checkpoint");
}

}  // namespace
}  // namespace clora

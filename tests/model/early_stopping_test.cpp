// Early stopping: when a run ends, which adapter it keeps, and that resuming changes neither.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "clora/lora/peft_files.hpp"
#include "model/training/best_adapter.hpp"
#include "tests/support/training_runs.hpp"

namespace clora {
namespace {

using testing::ElementsAre;

class EarlyStopping : public test::TrainingRunTest {
 protected:
  // A run whose held-out loss falls at first and then rises, since the held-out records are others.
  TrainingRunConfig stopping(const std::string& out) {
    TrainingRunConfig c = config(out);
    c.steps = 60;
    c.eval_every = 2;
    c.patience = 3;
    return c;
  }

  TrainingSummary train(Adapter& adapter, const TrainingRunConfig& c,
                        const std::filesystem::path& resume = {}) {
    validations_.clear();
    const TrainingCallbacks callbacks{.on_step = {},
                                      .on_eval =
                                          [&](const EvalResult& e) {
                                            validations_.push_back(e);
                                            adapters_[e.step] = parameters(adapter);
                                          },
                                      .on_save = {},
                                      .should_stop = {}};
    return run_training(open_->model, adapter, records_, &valid_, c, resume, callbacks);
  }

  EvalResult lowest() const {
    return *std::ranges::min_element(validations_, {}, [](const EvalResult& e) { return e.loss; });
  }

  std::vector<float> saved(const std::string& out) {
    return parameters(
        load_adapter(open_->model.context(), folder_ / out, adapter_sites(open_->model.config())));
  }

  Records valid_ = test::some_records(3, 50);
  std::vector<EvalResult> validations_;
  std::map<std::int64_t, std::vector<float>> adapters_;  // by the step of their validation
};

TEST_F(EarlyStopping, EndsAfterPatienceValidationsAndKeepsTheBestAdapter) {
  Adapter adapter = new_adapter();
  const TrainingSummary summary = train(adapter, stopping("out"));
  ASSERT_TRUE(summary.ended_early);
  EXPECT_FALSE(summary.stopped);
  ASSERT_TRUE(summary.best.has_value());
  EXPECT_EQ(summary.best->step, lowest().step);
  EXPECT_EQ(summary.best->loss, lowest().loss);
  EXPECT_EQ(summary.steps, lowest().step + 6);  // three validations later
  EXPECT_EQ(parameters(adapter), adapters_.at(lowest().step));
  EXPECT_EQ(saved("out"), adapters_.at(lowest().step));
  EXPECT_NE(saved("out"), adapters_.at(summary.steps));
}

TEST_F(EarlyStopping, ThatIsNotReachedKeepsTheBestAdapterOfTheWholeRun) {
  Adapter ended = new_adapter();
  TrainingRunConfig c = stopping("out");
  const std::int64_t best = train(ended, c).best.value().step;
  Adapter adapter = new_adapter();
  c.steps = best + 3;  // its last validation is one step after the last that is due
  const TrainingSummary summary = train(adapter, c);
  EXPECT_FALSE(summary.ended_early);
  EXPECT_EQ(summary.steps, best + 3);
  EXPECT_EQ(validations_.back().step, best + 3);
  EXPECT_EQ(summary.best.value().step, best);
  EXPECT_EQ(saved("out"), adapters_.at(best));
}

TEST_F(EarlyStopping, EndsAResumedRunWhereTheUnbrokenOneEnds) {
  Adapter unbroken = new_adapter();
  TrainingRunConfig c = stopping("unbroken");
  c.save_every = 1;
  const TrainingSummary whole = train(unbroken, c);
  ASSERT_TRUE(whole.ended_early);
  const std::vector<EvalResult> all = validations_;
  c.save_every = 0;
  c.adapter_out = folder_ / "resumed";
  // Before a validation, at one, at the best one, at the first without improvement, and at the end.
  for (const std::int64_t from :
       {std::int64_t{1}, std::int64_t{2}, whole.best->step, whole.best->step + 3, whole.steps}) {
    Adapter resumed = new_adapter();
    const TrainingSummary rest =
        train(resumed, c, folder_ / "unbroken" / fmt::format("checkpoint-{}", from));
    EXPECT_EQ(rest.steps, whole.steps) << "from " << from;
    EXPECT_EQ(rest.best.value().step, whole.best->step) << "from " << from;
    EXPECT_EQ(rest.best->loss, whole.best->loss) << "from " << from;
    EXPECT_EQ(validations_.size(), all.size() - static_cast<std::size_t>(from / 2)) << from;
    EXPECT_EQ(parameters(resumed), parameters(unbroken)) << "from " << from;
  }
}

TEST_F(EarlyStopping, RequiresHeldOutRecordsWithALoss) {
  Adapter adapter = new_adapter();
  const auto train_with = [&](const Records* valid) {
    run_training(open_->model, adapter, records_, valid, stopping("out"), {}, {});
  };
  CLORA_EXPECT_ERROR(train_with(nullptr), ErrorCode::invalid_data, "with a loss, got none");
  valid_.scores = {1, 2, 3};
  CLORA_EXPECT_ERROR(train_with(&valid_), ErrorCode::invalid_data, "got scored pairs");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

// ---- The rule itself

TEST_F(EarlyStopping, CountsOnlyImprovementsLargerThanTheMinimum) {
  Adapter adapter = new_adapter();
  BestAdapter best(adapter, 2, 0.1);
  std::vector<bool> stops;
  for (const double loss : {2.0, 1.95, 1.7, 1.69, 1.65}) {
    best.note(static_cast<std::int64_t>(stops.size()), loss);
    stops.push_back(best.should_stop());
  }
  EXPECT_THAT(stops, ElementsAre(false, false, false, false, true));
  EXPECT_EQ(best.step(), 4);  // the lowest loss, although it is no improvement by 0.1
}

TEST_F(EarlyStopping, RefusesADamagedFileOfACheckpointAndIgnoresAMissingOne) {
  Adapter adapter = new_adapter();
  BestAdapter best(adapter, 2, 0);
  best.note(3, 1.25);
  best.save(folder_ / "checkpoint");
  BestAdapter loaded(adapter, 2, 0);
  loaded.load(folder_ / "checkpoint");
  EXPECT_EQ(loaded.step(), 3);
  EXPECT_EQ(loaded.loss(), 1.25);
  EXPECT_EQ(loaded.noted_step(), 3);
  loaded.load(folder_ / "none");
  EXPECT_FALSE(loaded.exists());

  const std::filesystem::path file = folder_ / "checkpoint" / "best_adapter.safetensors";
  std::string bytes = test::read_file(file);
  bytes[bytes.size() - 3] ^= 1;
  test::write_file(file, bytes);
  CLORA_EXPECT_ERROR(loaded.load(folder_ / "checkpoint"), ErrorCode::invalid_file,
                     "best_adapter.safetensors");
}

TEST_F(EarlyStopping, RefusesAFileOfAnAdapterOfAnotherSize) {
  Adapter adapter = new_adapter();
  BestAdapter best(adapter, 2, 0);
  best.note(3, 1.25);
  best.save(folder_.path());
  auto fewer_sites = adapter_sites(open_->model.config());
  fewer_sites.resize(2);
  Adapter other = new_adapter({.rank = 4}, fewer_sites);
  CLORA_EXPECT_ERROR(BestAdapter(other, 2, 0).load(folder_.path()), ErrorCode::invalid_file,
                     "parameters in f32");
}

}  // namespace
}  // namespace clora

// Training runs of a tiny model, for tests of runs, checkpoints and resuming.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "clora/model/training/training_run.hpp"
#include "tests/support/test_models.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora::test {

// Records of 5 to 11 tokens. All tokens except the first are labelled.
inline Records some_records(std::size_t count, std::int64_t vocabulary) {
  Records records;
  for (std::size_t i = 0; i < count; ++i) {
    Record record;
    for (std::size_t t = 0; t < 5 + i % 7; ++t) {
      record.ids.push_back(
          static_cast<std::int32_t>((i * 31 + t * 17) % static_cast<std::size_t>(vocabulary)));
      record.is_target.push_back(t == 0 ? 0 : 1);
    }
    records.records.push_back(std::move(record));
  }
  return records;
}

class TrainingRunTest : public testing::Test {
 protected:
  TrainingRunTest() {
    write_tiny_model(folder_ / "model", tiny_models().front().config);
    open_ = std::make_unique<OpenModel>(folder_ / "model");
    records_ = some_records(22, open_->model.config().vocabulary);
  }

  Adapter new_adapter(double dropout = 0) {
    return new_adapter(AdapterConfig{.rank = 4, .dropout = dropout},
                       adapter_sites(open_->model.config()));
  }
  Adapter new_adapter(const AdapterConfig& config, const std::vector<AdapterSite>& sites) {
    Adapter adapter(open_->model.context(), sites, config);
    adapter.initialise(11);
    return adapter;
  }

  TrainingRunConfig config(const std::string& out) {
    TrainingRunConfig c;
    c.batch_size = 4;
    c.steps = 9;
    c.learning_rate = 1e-2;
    c.seed = 5;
    c.adapter_out = folder_ / out;
    return c;
  }

  std::vector<float> parameters(const Adapter& adapter) {
    return open_->model.context().read<float>(adapter.parameters());
  }

  // The losses of all steps.
  std::vector<double> run(Adapter& adapter, const TrainingRunConfig& c,
                          const std::filesystem::path& resume = {}) {
    std::vector<double> losses;
    const TrainingCallbacks callbacks{
        .on_step = [&](const StepResult& step, double) { losses.push_back(step.loss); },
        .on_eval = {},
        .on_save = {},
        .should_stop = {},
        .on_resume = [&](const ResumePoint& point) { resumed_ = point; }};
    run_training(open_->model, adapter, records_, nullptr, c, resume, callbacks);
    return losses;
  }

  // Runs c in the folder "unbroken", with dropout, and again from each of its checkpoints at steps
  // 4 and 8 in "resumed". REQUIRES: c.adapter_out is "unbroken".
  void expect_resumed_runs_continue_bit_for_bit(const TrainingRunConfig& c) {
    Adapter unbroken = new_adapter(0.1);
    const std::vector<double> losses = run(unbroken, c);
    for (const char* from : {"checkpoint-4", "checkpoint-8"}) {
      Adapter resumed = new_adapter(0.1);
      TrainingRunConfig again = c;
      again.adapter_out = folder_ / "resumed";
      const std::vector<double> rest = run(resumed, again, folder_ / "unbroken" / from);
      ASSERT_FALSE(rest.empty());
      EXPECT_TRUE(std::equal(rest.begin(), rest.end(),
                             losses.end() - static_cast<std::ptrdiff_t>(rest.size())));
      EXPECT_EQ(parameters(resumed), parameters(unbroken)) << from;
    }
  }

  TemporaryFolder folder_;
  std::unique_ptr<OpenModel> open_;
  Records records_;
  ResumePoint resumed_;  // of the last run that resumed from a checkpoint
};

}  // namespace clora::test

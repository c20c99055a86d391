// The training of models that embed texts, by the contrastive loss: against sentence-transformers
// and PEFT on tiny random encoders (tests/reference/encoders.py), central differences, and runs
// that are resumed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "clora/lora/peft_files.hpp"
#include "clora/model/embedding/embedder.hpp"
#include "clora/model/training/training_run.hpp"
#include "model/data/text_packing.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/preference_records.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::all_of;
using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

Record record_of(const std::vector<Ids>& texts) {
  Record record;
  for (const Ids& text : texts) {
    const std::size_t begin = record.ids.size();
    record.ids.insert(record.ids.end(), text.begin(), text.end());
    record.is_target.resize(record.ids.size(), 0);
    record.is_target[begin] = 1;
  }
  return record;
}

Records records_of(const json& list) {
  Records records;
  for (const json& each : list) {
    records.records.push_back(record_of(each.get<std::vector<Ids>>()));
  }
  return records;
}

TEST(TextPacking, MarksOneRowOfEachTextAndPointsFromAnAnchorToItsPositive) {
  const Records records{{record_of({{5, 6}, {7}}), record_of({{8}, {9, 10, 11}, {12}})}};
  const PackedRows mean = pack_text_pairs(records, all_of(records), {Pooling::mean, false});
  EXPECT_THAT(mean.ids, ElementsAre(5, 6, 7, 8, 9, 10, 11, 12));
  EXPECT_THAT(mean.text, ElementsAre(0, 0, 1, 2, 3, 3, 3, 4));
  EXPECT_THAT(mean.targets, ElementsAre(1, -1, 1, 3, 3, -1, -1, 4));
  EXPECT_THAT(mean.positions, ElementsAre(0, 1, 0, 0, 0, 1, 2, 0));
  EXPECT_THAT(mean.first, ElementsAre(0, 0, 2, 3, 4, 4, 4, 7));
  EXPECT_THAT(mean.last, ElementsAre(1, 1, 2, 3, 6, 6, 6, 7));
  EXPECT_EQ(mean.target_count, 2);
  const PackedRows last = pack_text_pairs(records, all_of(records), {Pooling::last_token, true});
  EXPECT_THAT(last.targets, ElementsAre(-1, 1, 1, 3, -1, -1, 3, 4));
  EXPECT_THAT(last.last, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  const Records alone{{record_of({{5, 6}})}};
  EXPECT_THAT(test::error_of([&] { (void)pack_text_pairs(alone, all_of(alone), {}); }),
              HasSubstr("record 1 must be a pair of texts or a triplet"));
}

// The first matrices of encoders.py.
void fill_reference_adapter(const Adapter& adapter) {
  for (const AdapterModule& module : adapter.modules()) {
    constexpr std::string_view kLayer = "layer.";
    const std::size_t at = module.site.path.find(kLayer);
    const double block = std::stod(module.site.path.substr(at + kLayer.size()));
    std::vector<float> a;
    for (std::int64_t i = 0; i < module.rank; ++i) {
      for (std::int64_t j = 0; j < module.site.inputs; ++j) {
        a.push_back(static_cast<float>(0.02 * std::sin(0.37 * static_cast<double>(i) +
                                                       0.11 * static_cast<double>(j) + block)));
      }
    }
    adapter.context().write(adapter.weights(module.site.path).a, std::as_bytes(std::span(a)));
  }
}

Pooling pooling_of(const json& run) {
  return run.at("pooling") == "mean" ? Pooling::mean : Pooling::first_token;
}

class EncoderTraining : public testing::TestWithParam<test::FamilyModel> {
 protected:
  void SetUp() override { test::write_family_model(folder_ / "model", GetParam()); }
  const json& runs() const { return GetParam().reference.at("contrastive"); }

  void expect_reference_steps(LanguageModel& model, const json& want, double of_loss,
                              double of_norm) {
    Adapter adapter(
        model.context(), adapter_sites(model.config()),
        {.rank = want.at("rank").get<std::int64_t>(), .alpha = want.at("alpha").get<double>()});
    fill_reference_adapter(adapter);
    const Records records = records_of(want.at("records"));
    const PackedRows rows =
        pack_text_pairs(records, all_of(records), text_packing(model.config(), pooling_of(want)));
    Trainer trainer(model, adapter, {.contrastive = ContrastiveLoss{.pooling = pooling_of(want)}});
    for (std::size_t step = 0; step < 10; ++step) {
      (void)trainer.step(std::span(&rows, 1), want.at("lr").get<double>());
      const StepResult got = trainer.drain().value();
      const double loss = want.at("loss").at(step).get<double>();
      const double norm = want.at("grad_norm").at(step).get<double>();
      EXPECT_NEAR(got.loss, loss, of_loss * loss) << "step " << step;
      EXPECT_NEAR(got.grad_norm, norm, of_norm * norm) << "step " << step;
    }
  }

  test::TemporaryFolder folder_;
};

TEST_P(EncoderTraining, TrainsTenStepsAsSentenceTransformersDoes) {
  const WeightFiles files = WeightFiles::open(folder_ / "model");
  for (const Variant variant : {Variant::automatic, Variant::portable}) {
    LanguageModel model(test::context_of(variant), files);
    if (products_round_to_bf16(model.context())) continue;
    for (const json& want : runs()) expect_reference_steps(model, want, 5e-5, 3e-4);
  }
}

// The gradients of some elements of each matrix, by the loss of an adapter that differs in one.
TEST_P(EncoderTraining, HasTheGradientsOfCentralDifferences) {
  const WeightFiles files = WeightFiles::open(folder_ / "model");
  LanguageModel model(test::context_of(Variant::portable), files);
  for (const Pooling pooling : {Pooling::mean, Pooling::first_token, Pooling::last_token}) {
    const ContrastiveLoss task{.pooling = pooling, .scale = 3};
    Adapter adapter(model.context(), adapter_sites(model.config()), {.rank = 2, .alpha = 4});
    const auto count = static_cast<std::size_t>(adapter.parameters().elements());
    std::vector<float> values = test::random_values(count, 3);
    const auto write = [&] {
      model.context().write(adapter.parameters(), std::as_bytes(std::span(values)));
    };
    write();
    const Records records = records_of(runs().at(1).at("records"));
    const PackedRows rows =
        pack_text_pairs(records, all_of(records), text_packing(model.config(), pooling));
    Trainer trainer(model, adapter, {.contrastive = task});
    (void)trainer.step(std::span(&rows, 1), 0);
    (void)trainer.drain();
    const std::vector<float> gradients = model.context().read<float>(adapter.flat_gradients());
    Evaluator evaluator(model, &adapter, nullptr, task);
    const auto loss_at = [&](std::size_t i, float x) {
      const float before = std::exchange(values[i], x);
      write();
      values[i] = before;
      return evaluator.loss_sum(rows) / rows.target_count;
    };
    const double largest =
        std::abs(*std::ranges::max_element(gradients, {}, [](float x) { return std::abs(x); }));
    for (std::size_t i = 5; i < count; i += count / 40) {
      constexpr float kStep = 0.02F;  // losses are rounded to about 1e-6
      const double difference =
          (loss_at(i, values[i] + kStep) - loss_at(i, values[i] - kStep)) / (2 * double{kStep});
      EXPECT_NEAR(gradients[i], difference, 1e-2 * largest + 2.5e-5) << "element " << i;
    }
  }
}

class ContrastiveRun : public testing::Test {
 protected:
  struct Trained {
    std::vector<double> losses;
    std::vector<float> parameters;
  };
  Trained train(LanguageModel& model, const Records& records, const TrainingRunConfig& config,
                const std::filesystem::path& resume = {}) {
    Adapter adapter(model.context(), adapter_sites(model.config()), {.rank = 2, .dropout = 0.1});
    adapter.initialise(7);
    Trained trained;
    const TrainingCallbacks callbacks{
        .on_step = [&](const StepResult& s, double) { trained.losses.push_back(s.loss); },
        .on_eval = [&](const EvalResult& e) { evaluations_.push_back(e); },
        .on_save = {},
        .should_stop = {}};
    run_training(model, adapter, records, &records, config, resume, callbacks);
    trained.parameters = model.context().read<float>(adapter.parameters());
    return trained;
  }
  TrainingRunConfig config(Pooling pooling) {
    return {.batch_size = 4,
            .steps = 80,
            .learning_rate = 1e-2,
            .seed = 5,
            .save_every = 40,
            .adapter_out = folder_ / "out",
            .contrastive = ContrastiveLoss{.pooling = pooling}};
  }
  Records some_pairs(std::int32_t count) {
    Records records;
    for (std::int32_t i = 0; i < count; ++i) {
      std::vector<Ids> texts(i % 3 == 0 ? 3 : 2);
      for (std::size_t t = 0; t < texts.size(); ++t) {
        texts[t].resize(2 + static_cast<std::size_t>(i) * 3 % 7 + t);
        std::iota(texts[t].begin(), texts[t].end(),
                  (i * 5 + 3 * static_cast<std::int32_t>(t)) % 40);
      }
      records.records.push_back(record_of(texts));
    }
    return records;
  }
  void expect_resumes(const std::filesystem::path& path, Pooling pooling) {
    test::OpenModel open(path);
    const Records records = some_pairs(13);
    const TrainingRunConfig c = config(pooling);
    const Trained unbroken = train(open.model, records, c);
    const auto mean_of = [](auto begin) { return std::accumulate(begin, begin + 12, 0.0) / 12; };
    EXPECT_LT(mean_of(unbroken.losses.end() - 12), mean_of(unbroken.losses.begin()));
    EXPECT_LT(evaluations_.back().loss, unbroken.losses.front());
    const Trained rest = train(open.model, records, c, folder_ / "out" / "checkpoint-40");
    EXPECT_EQ(rest.parameters, unbroken.parameters);
    EXPECT_EQ(rest.losses, std::vector(unbroken.losses.begin() + 40, unbroken.losses.end()));
    TrainingRunConfig other = c;
    other.contrastive->scale = 19;
    EXPECT_THAT(test::error_of(
                    [&] { train(open.model, records, other, folder_ / "out" / "checkpoint-40"); }),
                HasSubstr("contrastive scale was 20 and is 19"));
  }

  test::TemporaryFolder folder_;
  std::vector<EvalResult> evaluations_;
};

TEST_F(ContrastiveRun, OfAnEncoderLearnsAndResumesBitForBit) {
  test::write_family_model(folder_ / "model", test::encoder_models().front());
  expect_resumes(folder_ / "model", Pooling::first_token);
}

TEST_F(ContrastiveRun, OfADecoderLearnsAndResumesBitForBit) {
  const std::vector<test::FamilyModel> models = test::family_models();
  test::write_family_model(folder_ / "model",
                           *std::ranges::find(models, "qwen3", &test::FamilyModel::name));
  expect_resumes(folder_ / "model", Pooling::last_token);
}

TEST_F(ContrastiveRun, NeedsOtherTextsInItsBatch) {
  TrainingRunConfig c = config(Pooling::mean);
  c.batch_size = 1;
  EXPECT_THAT(test::error_of([&] { check(c); }), HasSubstr("a batch size of at least 2"));
  c = config(Pooling::mean);
  c.contrastive->scale = 0;
  EXPECT_THAT(test::error_of([&] { check(c); }), HasSubstr("the scale of the cosines"));
}

INSTANTIATE_TEST_SUITE_P(Encoders, EncoderTraining, testing::ValuesIn(test::encoder_models()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace clora

// Training on preferences: against TRL on a tiny random model (tests/reference/preferences.py),
// packing, and runs that are validated and resumed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "clora/lora/peft_files.hpp"
#include "clora/model/training/training_run.hpp"
#include "clora/model/transformer/adapter_sites.hpp"
#include "clora/model/transformer/saved_tensors.hpp"
#include "lora/end_modules.hpp"
#include "lora/saved_tensors.hpp"
#include "model/training/preference_evaluator.hpp"
#include "model/training/preference_run.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/preference_records.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::all_of;
using test::record_of;
using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

Record record_of(const json& of) {
  const auto ids = [&](const char* key) { return of.at(key).get<Ids>(); };
  if (of.contains("chosen")) return record_of(ids("prompt"), ids("chosen"), ids("rejected"));
  const bool is_chosen = of.at("label").get<bool>();
  return record_of(ids("prompt"), is_chosen ? ids("completion") : Ids(),
                   is_chosen ? Ids() : ids("completion"));
}

double value_of(const std::vector<PreferenceScore>& scores, const std::string& name) {
  for (const PreferenceScore& each : scores) {
    if (each.name == name) return each.value;
  }
  return std::nan("");
}

const json& trl() {
  static const json values = [] {
    const char* source = std::getenv("CLORA_SOURCE_DIR");
    return test::read_json(std::filesystem::path(source == nullptr ? "." : source) /
                           "tests/reference/preferences.json");
  }();
  return values;
}

const Records kPairs{{record_of({5, 6, 7}, {8, 9}, {10}), record_of({11}, {12}, {13, 14})}};

TEST(PreferencePacking, GivesEachAnswerADocumentAfterThePrompt) {
  const PackedRows rows = pack_answers(kPairs, all_of(kPairs), {}, std::vector{1.F, 2.F, 3.F, 4.F});
  EXPECT_THAT(rows.ids, ElementsAre(5, 6, 7, 8, 9, 5, 6, 7, 10, 11, 12, 11, 13, 14));
  EXPECT_THAT(rows.targets, ElementsAre(-1, -1, 8, 9, -1, -1, -1, 10, -1, 12, -1, 13, 14, -1));
  EXPECT_THAT(rows.text, ElementsAre(-1, -1, 0, 0, -1, -1, -1, 1, -1, 2, -1, 3, 3, -1));
  EXPECT_THAT(rows.positions, ElementsAre(0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 1, 0, 1, 2));
  EXPECT_THAT(rows.first, ElementsAre(0, 0, 0, 0, 0, 5, 5, 5, 5, 9, 9, 11, 11, 11));
  EXPECT_THAT(rows.last, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13));
  EXPECT_THAT(rows.answers.reference, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(rows.answers.label, ElementsAre(1, 0, 1, 0));
  EXPECT_EQ(rows.target_count, 2);
}

TEST(PreferencePacking, LabelsThePromptBeforeThePreferredAnswerIfWanted) {
  const PackedRows rows = pack_answers(kPairs, all_of(kPairs), {.labels_prompt = true});
  EXPECT_THAT(rows.targets, ElementsAre(6, 7, 8, 9, -1, -1, -1, 10, -1, 12, -1, 13, 14, -1));
  EXPECT_THAT(rows.text, ElementsAre(-1, -1, 0, 0, -1, -1, -1, 1, -1, 2, -1, 3, 3, -1));
  EXPECT_EQ(rows.answers.nll_rows, 5);
}

TEST(PreferencePacking, ExchangesAnswersInACycle) {
  const Records singles{{record_of({5}, {6, 7, 8}, {}), record_of({9, 10}, {}, {11}),
                         record_of({12}, {13}, {}), record_of({14}, {}, {15})}};
  const PackedRows rows =
      pack_answers(singles, std::vector<std::size_t>{0, 1, 3}, {.exchange = 3, .max_length = 4});
  EXPECT_THAT(rows.ids, ElementsAre(5, 6, 7, 8, 9, 10, 11, 14, 15));
  EXPECT_THAT(rows.answers.label, ElementsAre(1, 0, 0));
  EXPECT_THAT(rows.answers.mismatched->ids, ElementsAre(5, 13, 9, 10, 6, 7, 14, 15));
  EXPECT_THAT(rows.answers.mismatched->text, ElementsAre(0, -1, -1, 1, 1, -1, 2, -1));
}

TEST(PreferencePacking, CountsTheRowsThatItPacks) {
  const Records no_prompt{{record_of({}, {6, 7, 8}, {9, 10})}};
  for (const Records* records : {&kPairs, &no_prompt}) {
    for (const bool labels_prompt : {false, true}) {
      const AnswerPacking how{.labels_prompt = labels_prompt};
      WantedRows sum;
      for (const RecordView record : records->records) {
        const WantedRows more = rows_of_answers(record, how);
        sum.rows += more.rows;
        sum.labelled += more.labelled;
      }
      const WantedRows want = wanted_rows(pack_answers(*records, all_of(*records), how));
      EXPECT_EQ(sum.rows, want.rows);
      EXPECT_EQ(sum.labelled, want.labelled);
    }
  }
}

class PreferenceTraining : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<test::FamilyModel> models = test::family_models();
    test::write_family_model(folder_ / "model",
                             *std::ranges::find(models, trl().at("family").get<std::string>(),
                                                &test::FamilyModel::name));
  }
  static Adapter adapter_of(LanguageModel& model, std::int64_t rank, double alpha) {
    return {model.context(), adapter_sites(model.config()), {.rank = rank, .alpha = alpha}};
  }
  // head: of tests/reference/preferences.py.
  static Adapter adapter_with_head(LanguageModel& model, std::int64_t rank, double alpha,
                                   const json& head) {
    std::vector<AdapterSite> sites = adapter_sites(model.config());
    std::vector<SavedTensor> saved;
    if (head == "lora") sites.push_back(all_adapter_sites(model.config()).back());
    if (head == "modules_to_save") {
      saved = select_saved_tensors(savable_tensors(model.config()), {"lm_head"}, "test");
    }
    Adapter adapter(model.context(), sites, {.rank = rank, .alpha = alpha}, saved);
    initialise_saved_tensors(model, adapter);
    return adapter;
  }
  // The adapter of tests/reference/preferences.py: B is 0.
  static void fill(const Adapter& adapter) {
    for (const AdapterModule& module : adapter.modules()) {
      constexpr std::string_view kLayers = "layers.";
      const std::string& path = module.site.path;
      const double block =
          path == kHeadPath ? 7 : std::stod(path.substr(path.find(kLayers) + kLayers.size()));
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
  static void randomise(const Adapter& adapter) {
    const auto count = static_cast<std::size_t>(adapter.parameters().elements());
    const std::vector<float> values = test::random_values(count, 3);
    adapter.context().write(adapter.parameters(), std::as_bytes(std::span(values)));
  }
  TrainingRunConfig config(const PreferenceFormula& formula, std::int64_t steps) const {
    return {.batch_size = 3,
            .steps = steps,
            .learning_rate = 1e-2,
            .shuffle = false,
            .adapter_out = folder_ / "out",
            .max_seq_length = 1024,
            .preference = PreferenceLoss{formula}};
  }
  std::vector<StepResult> train(LanguageModel& model, Adapter& adapter, const Records& records,
                                const TrainingRunConfig& c, const Records* valid = nullptr,
                                const std::filesystem::path& resume = {}) {
    std::vector<StepResult> steps;
    const TrainingCallbacks callbacks{
        .on_step = [&](const StepResult& s, double) { steps.push_back(s); },
        .on_eval = [&](const EvalResult& e) { evaluations_.push_back(e); },
        .on_save = {},
        .should_stop = {}};
    run_training(model, adapter, records, valid, c, resume, callbacks);
    return steps;
  }
  void expect_trl(const std::string& loss, const PreferenceFormula& formula, Variant variant);

  test::TemporaryFolder folder_;
  std::vector<EvalResult> evaluations_;
};

void PreferenceTraining::expect_trl(const std::string& loss, const PreferenceFormula& formula,
                                    Variant variant) {
  const json& want = trl().at(loss);
  test::OpenModel open(folder_ / "model", variant);
  if (products_round_to_bf16(open.model.context())) return;
  Adapter adapter = adapter_with_head(open.model, want.at("rank").get<std::int64_t>(),
                                      want.at("alpha").get<double>(), want.at("head"));
  fill(adapter);
  Records records;
  for (const json& each : want.at("records")) records.records.push_back(record_of(each));
  const auto got =
      train(open.model, adapter, records, config(formula, std::ssize(want.at("steps"))));
  ASSERT_EQ(got.size(), want.at("steps").size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    for (const auto& [name, value] : want.at("steps")[i].items()) {
      const double x = name == "loss"        ? got[i].loss
                       : name == "grad_norm" ? got[i].grad_norm
                                             : value_of(got[i].preference, name);
      const double y = value.get<double>();
      EXPECT_NEAR(x, y, 1e-4 * std::max(1.0, std::abs(y))) << loss << " step " << i << ' ' << name;
    }
  }
}

const PreferenceFormula kDpo{.kind = PreferenceKind::dpo, .beta = 0.5F};
const PreferenceFormula kIpo{.kind = PreferenceKind::ipo, .beta = 0.5F};
const PreferenceFormula kOrpo{.kind = PreferenceKind::orpo, .beta = 0.3F};
const PreferenceFormula kKto{.kind = PreferenceKind::kto,
                             .beta = 0.5F,
                             .desirable_weight = 1.25F,
                             .undesirable_weight = 0.75F};

TEST_F(PreferenceTraining, TakesTenStepsAsTrlDoes) {
  for (const Variant variant : {Variant::automatic, Variant::portable}) {
    expect_trl("dpo", kDpo, variant);
    expect_trl("ipo", kIpo, variant);
    expect_trl("orpo", kOrpo, variant);
    expect_trl("kto", kKto, variant);
  }
}

TEST_F(PreferenceTraining, TakesTenStepsAsTrlDoesWithAHeadThatIsTrained) {
  for (const Variant variant : {Variant::automatic, Variant::portable}) {
    expect_trl("orpo lora", kOrpo, variant);
    expect_trl("dpo modules_to_save", kDpo, variant);
    expect_trl("ipo modules_to_save", kIpo, variant);
    expect_trl("orpo modules_to_save", kOrpo, variant);
    expect_trl("kto modules_to_save", kKto, variant);
  }
}

Records some_records(std::int32_t count, bool pairs) {
  Records records;
  for (std::int32_t i = 0; i < count; ++i) {
    const auto text = [&](std::int32_t length, std::int32_t start) {
      Ids ids(static_cast<std::size_t>(length));
      std::iota(ids.begin(), ids.end(), (7 * i + start) % 30);
      return ids;
    };
    const Ids chosen = text(1 + (i * 5) % 7, 20), rejected = text(1 + (i * 3) % 6, 33);
    records.records.push_back(record_of(text(2 + i % 4, 0), pairs || i % 2 == 0 ? chosen : Ids(),
                                        pairs || i % 2 == 1 ? rejected : Ids()));
  }
  return records;
}

// The losses of a step are those of its halves: sums per pair over all micro-batches. Those of KTO
// are not, since answers are exchanged within a micro-batch.
TEST_F(PreferenceTraining, AccumulatesMicroBatchesAsOneBatch) {
  test::OpenModel open(folder_ / "model", Variant::portable);
  const Records records = some_records(12, true);
  for (const PreferenceKind kind :
       {PreferenceKind::dpo, PreferenceKind::ipo, PreferenceKind::orpo}) {
    std::vector<std::vector<StepResult>> runs;
    for (const std::int64_t parts : {1, 2}) {
      TrainingRunConfig c = config({.kind = kind}, 4);
      c.batch_size = 6 / parts;
      c.grad_accumulation = parts;
      Adapter adapter = adapter_of(open.model, 3, 6);
      randomise(adapter);
      runs.push_back(train(open.model, adapter, records, c));
    }
    for (std::size_t i = 0; i < runs[0].size(); ++i) {
      EXPECT_NEAR(runs[0][i].loss, runs[1][i].loss, 2e-5 * (1 + runs[0][i].loss)) << i;
      EXPECT_NEAR(runs[0][i].grad_norm, runs[1][i].grad_norm, 2e-4 * (1 + runs[0][i].grad_norm));
      EXPECT_EQ(runs[0][i].tokens, 6);
    }
  }
}

// With an adapter that was trained before, the reference is the model with it: rewards are 0.
TEST_F(PreferenceTraining, RefersToTheModelBeforeTheFirstStepAlsoWhenResumed) {
  test::OpenModel open(folder_ / "model");
  for (const bool pairs : {true, false}) {
    const Records records = some_records(9, pairs);
    TrainingRunConfig c = config({.kind = pairs ? PreferenceKind::dpo : PreferenceKind::kto}, 6);
    c.save_every = 3;
    c.shuffle = true;
    Adapter adapter = adapter_of(open.model, 2, 4), again = adapter_of(open.model, 2, 4);
    randomise(adapter);
    randomise(again);
    const auto unbroken = train(open.model, adapter, records, c, &records);
    EXPECT_NEAR(value_of(unbroken[0].preference, "rewards/chosen"), 0, 1e-5);
    EXPECT_GT(std::abs(value_of(unbroken[5].preference, "rewards/chosen")), 1e-3);
    const auto rest =
        train(open.model, again, records, c, &records, folder_ / "out" / "checkpoint-3");
    ASSERT_EQ(rest.size(), 3U);
    for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i].loss, unbroken[3 + i].loss);
    EXPECT_EQ(open.model.context().read<float>(adapter.parameters()),
              open.model.context().read<float>(again.parameters()));
    c.preference->formula.beta = 0.25F;
    EXPECT_THAT(test::error_of([&] {
                  train(open.model, again, records, c, nullptr, folder_ / "out" / "checkpoint-3");
                }),
                HasSubstr("beta was 0.1 and is 0.25"));
  }
}

TEST_F(PreferenceTraining, LearnsToPreferAndValidatesIt) {
  test::OpenModel open(folder_ / "model");
  for (const PreferenceKind kind :
       {PreferenceKind::dpo, PreferenceKind::ipo, PreferenceKind::orpo, PreferenceKind::kto}) {
    const Records records = some_records(6, kind != PreferenceKind::kto);
    TrainingRunConfig c = config({.kind = kind, .beta = 0.5F}, 30);
    c.eval_every = 1;
    Adapter adapter = adapter_of(open.model, 4, 8);
    adapter.initialise(7);
    evaluations_.clear();
    (void)train(open.model, adapter, records, c, &records);
    ASSERT_EQ(evaluations_.size(), 30U);
    const EvalResult &first = evaluations_.front(), &last = evaluations_.back();
    EXPECT_LT(last.loss, 0.9 * first.loss) << name_of(kind);
    EXPECT_EQ(last.tokens, 6);
    EXPECT_GT(value_of(last.preference, "rewards/margins"), 0.1) << name_of(kind);
    if (kind != PreferenceKind::kto) {
      EXPECT_EQ(value_of(last.preference, "rewards/accuracies"), 1) << name_of(kind);
    }
  }
}

// Without the KL term of KTO, which is a constant in its gradient. Along a direction in which all
// parameters of the module change.
TEST_F(PreferenceTraining, OfAHeadWithLoraHasTheDerivativesOfTheLoss) {
  test::OpenModel open(folder_ / "model", Variant::portable);
  Context& context = open.model.context();
  const Records records = some_records(5, true);
  const auto arena = std::make_shared<Arena>();
  for (const PreferenceFormula& formula : {kDpo, kIpo, kOrpo}) {
    Adapter adapter = adapter_with_head(open.model, 2, 3, "lora");
    const auto start =
        test::random_values(static_cast<std::size_t>(adapter.parameters().elements()), 3, 0.2F);
    const TrainingRunConfig c = config(formula, 1);
    PreferenceRows rows = preference_rows(records, c, open.model.config());
    PreferenceEvaluator evaluator(open.model, &adapter, arena, *c.preference, {});
    context.write(adapter.parameters(), std::as_bytes(std::span(start)));
    ASSERT_TRUE(evaluator.compute_reference(rows, {}));
    const auto noise = test::random_values(rows.reference().size(), 5);
    for (std::size_t i = 0; i < noise.size(); ++i) rows.reference()[i] += noise[i];
    const PackedRows packed = rows.pack(all_of(records));
    Trainer trainer(open.model, adapter, {.preference = c.preference});
    (void)trainer.step(std::span(&packed, 1), 0);
    (void)trainer.drain();
    const auto gradients = context.read<float>(adapter.flat_gradients());
    const AdapterModule* const head = adapter.find(kHeadPath);
    for (const auto& [offset, count] :
         {std::pair{head->a_offset, head->rank * head->site.inputs},
          std::pair{head->bt_offset, head->rank * head->site.outputs}}) {
      const auto direction = test::random_values(static_cast<std::size_t>(count), 9);
      const auto loss_at = [&](float h) {
        std::vector<float> moved = start;
        for (std::size_t i = 0; i < direction.size(); ++i) moved[offset + i] += h * direction[i];
        context.write(adapter.parameters(), std::as_bytes(std::span(moved)));
        return evaluator.evaluate(rows, 8).loss;
      };
      double got = 0;
      for (std::size_t i = 0; i < direction.size(); ++i) {
        got += static_cast<double>(gradients[offset + i]) * static_cast<double>(direction[i]);
      }
      constexpr float kStep = 0x1p-9F;
      const double want = (loss_at(kStep) - loss_at(-kStep)) / (2 * double{kStep});
      EXPECT_NEAR(got, want, 2e-3 * std::abs(want) + 1e-4) << name_of(formula.kind);
      EXPECT_GT(std::abs(want), 0.01) << name_of(formula.kind);
    }
  }
}

TEST_F(PreferenceTraining, RefusesOtherRecordsAndSettings) {
  test::OpenModel open(folder_ / "model");
  Adapter adapter = adapter_of(open.model, 2, 4);
  const Records pairs = some_records(3, true), singles = some_records(3, false);
  const auto error = [&](const Records& records, const TrainingRunConfig& c) {
    return test::error_of([&] { (void)train(open.model, adapter, records, c); });
  };
  EXPECT_THAT(error(singles, config({}, 1)),
              HasSubstr("record 1 must be a prompt with a chosen and a rejected answer"));
  EXPECT_THAT(error(pairs, config({.kind = PreferenceKind::kto}, 1)),
              HasSubstr("record 1 must be a prompt with one labelled answer for the loss kto"));
  TrainingRunConfig alone = config({.kind = PreferenceKind::kto}, 1);
  alone.batch_size = 1;
  EXPECT_THAT(error(singles, alone), HasSubstr("kto needs a batch size of at least 2"));
  EXPECT_THAT(error(pairs, config({.beta = 0}, 1)), HasSubstr("beta must be finite and above 0"));
  EXPECT_THAT(error(pairs, config({.kind = PreferenceKind::ipo, .label_smoothing = 0.1F}, 1)),
              HasSubstr("label smoothing of preferences is for dpo, got ipo"));
  EXPECT_THAT(error(pairs, config({.desirable_weight = 2}, 1)), HasSubstr("is for kto, got dpo"));
}

}  // namespace
}  // namespace clora

// Pairs whose answers have the rows of the prompt in common give what those of two documents give:
// losses, log-probabilities and gradients, of every family.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "clora/model/training/trainer.hpp"
#include "clora/model/training/training_run.hpp"
#include "clora/model/transformer/adapter_sites.hpp"
#include "clora/model/transformer/column_scales.hpp"
#include "lora/end_modules.hpp"
#include "model/training/preference_evaluator.hpp"
#include "model/training/preference_run.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/preference_records.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

using test::all_of;
using test::record_of;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using Ids = std::vector<std::int32_t>;

// Longer than the windows of the models; one prompt has no row to share, one has too few.
Records pairs_of() {
  Records records;
  std::int32_t next = 0;
  for (const auto& [prompt, chosen, rejected] :
       {std::array{11, 7, 4}, {1, 3, 2}, {3, 20, 30}, {23, 1, 9}}) {
    const auto text = [&](int tokens) {
      Ids ids;
      for (int i = 0; i < tokens; ++i) ids.push_back(next = (next * 7 + i + 5) % 61);
      return ids;
    };
    records.records.push_back(record_of(text(prompt), text(chosen), text(rejected)));
  }
  return records;
}

TEST(SharedPrompts, ArePackedOnce) {
  const Records records{{record_of({5, 6, 7}, {8, 9}, {10}), record_of({11}, {12}, {13, 14})}};
  const PackedRows rows = pack_answers(records, all_of(records), {.shares_prompts = true});
  EXPECT_THAT(rows.ids, ElementsAre(5, 6, 7, 8, 9, 7, 10, 11, 12, 11, 13, 14));
  EXPECT_THAT(rows.targets, ElementsAre(-1, -1, 8, 9, -1, 10, -1, 12, -1, 13, 14, -1));
  EXPECT_THAT(rows.text, ElementsAre(-1, -1, 0, 0, -1, 1, -1, 2, -1, 3, 3, -1));
  EXPECT_THAT(rows.positions, ElementsAre(0, 1, 2, 3, 4, 2, 3, 0, 1, 0, 1, 2));
  EXPECT_THAT(rows.attends, ElementsAre(0, 1, 2, 3, 4, 0, 1, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(rows.first, ElementsAre(0, 0, 0, 0, 0, 5, 5, 5, 5, 9, 9, 11, 11, 11));
  EXPECT_THAT(rows.last, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13));
}

TEST(SharedPrompts, AreLabelledOnce) {
  const Records records{{record_of({5, 6, 7}, {8, 9}, {10})}};
  const PackedRows rows =
      pack_answers(records, all_of(records), {.labels_prompt = true, .shares_prompts = true});
  EXPECT_THAT(rows.targets, ElementsAre(6, 7, 8, 9, -1, 10, -1));
  EXPECT_EQ(rows.answers.nll_rows, 4);
}

TEST(SharedPrompts, AreNotPackedIfTheyAreShortOrOfSingleAnswers) {
  const Ids answer(40, 3);
  const Records short_prompt{{record_of({5, 6, 7}, answer, answer)}};
  EXPECT_THAT(pack_answers(short_prompt, all_of(short_prompt), {.shares_prompts = true}).attends,
              IsEmpty());
  const Records single{{record_of({5, 6, 7}, {8}, {}), record_of({5, 6, 7}, {}, {9})}};
  const PackedRows rows =
      pack_answers(single, all_of(single), {.exchange = 2, .shares_prompts = true});
  EXPECT_THAT(rows.attends, IsEmpty());
  EXPECT_THAT(rows.answers.mismatched->attends, IsEmpty());
}

TEST(SharedPrompts, AreCountedAsTheyArePacked) {
  const Records records = pairs_of();
  for (const bool labels_prompt : {false, true}) {
    const AnswerPacking how{.labels_prompt = labels_prompt, .shares_prompts = true};
    WantedRows sum;
    for (const RecordView record : records.records) {
      const WantedRows more = rows_of_answers(record, how);
      sum.rows += more.rows;
      sum.labelled += more.labelled;
      sum.attending += more.attending;
    }
    const WantedRows want = wanted_rows(pack_answers(records, all_of(records), how));
    EXPECT_EQ(sum.rows, want.rows);
    EXPECT_EQ(sum.labelled, want.labelled);
    EXPECT_EQ(sum.attending, want.attending);
  }
}

struct Outcome {
  StepResult step;
  std::vector<float> logps, gradients;
};

class SharedPromptsTraining : public testing::Test {
 protected:
  // The folder of the family's model.
  std::filesystem::path path_of(const std::string& family) {
    static const std::vector<test::FamilyModel> models = test::family_models();
    test::write_family_model(folder_ / family,
                             *std::ranges::find(models, family, &test::FamilyModel::name));
    return folder_ / family;
  }
  // The layers of the blocks and, if they may have an adapter, the embeddings.
  static std::vector<AdapterSite> sites_of(const ModelConfig& model, const AdapterConfig& config) {
    if (config.use_dora) return adapter_sites(model);
    std::vector<AdapterSite> sites = all_adapter_sites(model);
    std::erase_if(sites, [](const AdapterSite& site) { return site.path == kHeadPath; });
    return sites;
  }
  static TrainingRunConfig config_of(const PreferenceFormula& formula) {
    return {.batch_size = 4, .steps = 1, .adapter_out = {}, .preference = PreferenceLoss{formula}};
  }
  static Outcome outcome_of(LanguageModel& model, const PreferenceLoss& loss,
                            const AdapterConfig& config, const MemoryPolicy& policy,
                            bool shares_prompts) {
    Adapter adapter(model.context(), sites_of(model.config(), config), config);
    const auto count = static_cast<std::size_t>(adapter.parameters().elements());
    std::vector<float> values = test::random_values(count, 3);
    for (float& x : values) x = 0.3F * x;
    model.context().write(adapter.parameters(), std::as_bytes(std::span(values)));
    if (config.use_dora) initialise_magnitudes(model, adapter);
    const Records records = pairs_of();
    PreferenceRows of_records(records, loss, 4, 0, shares_prompts);
    PreferenceEvaluator evaluator(model, &adapter, std::make_shared<Arena>(), loss, {});
    evaluator.compute_reference(of_records, {});
    Outcome outcome;
    outcome.logps = of_records.reference();
    std::ranges::fill(of_records.reference(), -20.0F);  // so that the losses have slopes
    const PackedRows rows = of_records.pack(all_of(records));
    EXPECT_EQ(rows.attends.empty(), !shares_prompts);
    Trainer trainer(
        model, adapter,
        {.optimizer = {.kind = OptimizerKind::sgd}, .preference = loss, .policy = policy});
    (void)trainer.step(std::span(&rows, 1), 1e-3);
    outcome.step = *trainer.drain();
    outcome.gradients = model.context().read<float>(adapter.flat_gradients());
    return outcome;
  }

  static void expect_same(LanguageModel& model, const std::string& what,
                          const PreferenceLoss& loss = {},
                          const AdapterConfig& config = {.rank = 3},
                          const MemoryPolicy& policy = {}) {
    const Outcome twice = outcome_of(model, loss, config, policy, false);
    const Outcome once = outcome_of(model, loss, config, policy, true);
    const double tolerance = products_round_to_bf16(model.context()) ? 2e-2 : 2e-5;
    EXPECT_LT(once.step.rows, twice.step.rows) << what;
    EXPECT_NEAR(once.step.loss, twice.step.loss, tolerance * (1 + twice.step.loss)) << what;
    const std::vector<double> logps(twice.logps.begin(), twice.logps.end());
    test::expect_close(once.logps, logps, tolerance, what);
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < once.gradients.size(); ++i) {
      const auto x = static_cast<double>(once.gradients[i]);
      const auto y = static_cast<double>(twice.gradients[i]);
      difference += (x - y) * (x - y);
      norm += y * y;
    }
    EXPECT_GT(norm, 0) << what;
    EXPECT_LT(std::sqrt(difference / norm), 5 * tolerance) << what;
  }

  test::TemporaryFolder folder_;
};

TEST_F(SharedPromptsTraining, GivesTheLossesAndGradientsOfTwoDocuments) {
  for (const char* family :
       {"gemma2", "gemma3_text", "granite", "llama", "mixtral", "phi3", "qwen3", "smollm3"}) {
    test::OpenModel open(path_of(family));
    expect_same(open.model, family);
  }
  for (const char* family : {"gemma2", "phi3"}) {
    test::OpenModel open(path_of(family), Variant::portable);
    expect_same(open.model, fmt::format("{}, portable", family));
  }
}

TEST_F(SharedPromptsTraining, KeepsTwoDocumentsForLayersWithAState) {
  const Records records = pairs_of();
  for (const auto& [family, shares] :
       {std::pair{"lfm2", false}, {"qwen3_5_text", false}, {"qwen3", true}}) {
    test::OpenModel open(path_of(family));
    const PreferenceRows rows = preference_rows(records, config_of({}), open.model.config());
    EXPECT_EQ(!rows.pack(all_of(records)).attends.empty(), shares) << family;
  }
}

TEST_F(SharedPromptsTraining, GivesThemWithOtherLossesPoliciesAndAdapters) {
  test::OpenModel open(path_of("gemma3_text"));
  expect_same(open.model, "orpo", {{.kind = PreferenceKind::orpo}});
  expect_same(open.model, "ipo", {{.kind = PreferenceKind::ipo}});
  expect_same(open.model, "dora", {}, {.rank = 3, .use_dora = true});
  expect_same(open.model, "checkpoints", {}, {.rank = 3}, {.blocks_per_checkpoint = 1});
}

// So that the memory of a run is planned for the rows that it has.
TEST_F(SharedPromptsTraining, ArePlannedAsTheyArePacked) {
  test::OpenModel open(path_of("llama"));
  const Records records = pairs_of();
  for (const PreferenceKind kind : {PreferenceKind::dpo, PreferenceKind::orpo}) {
    const TrainingRunConfig config = config_of({.kind = kind});
    const WantedRows planned = largest_step(open.model.config(), records, config);
    const WantedRows packed =
        wanted_rows(preference_rows(records, config, open.model.config()).pack(all_of(records)));
    EXPECT_EQ(planned.rows, packed.rows);
    EXPECT_EQ(planned.labelled, packed.labelled);
    EXPECT_EQ(planned.attending, packed.attending);
    EXPECT_LT(packed.rows, packed.attending);
  }
}

TEST_F(SharedPromptsTraining, KeepsTwoDocumentsForTheLoadOfExperts) {
  test::OpenModel open(path_of("mixtral"));
  const Records records = pairs_of();
  TrainingRunConfig config = config_of({});
  const auto attends = [&] {
    return preference_rows(records, config, open.model.config()).pack(all_of(records)).attends;
  };
  EXPECT_THAT(attends(), Not(IsEmpty()));
  config.router_aux_loss_coef = 0.01;
  EXPECT_THAT(attends(), IsEmpty());
}

}  // namespace
}  // namespace clora

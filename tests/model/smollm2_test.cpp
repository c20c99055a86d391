// SmolLM2-135M-Instruct (GGUF Q4_1) against a float64 run: logits, greedy replies, loss, and ten
// steps of LoRA training.

#include <gtest/gtest.h>

#include <cmath>

#include "clora/model/generation/generator.hpp"
#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/trainer.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/reference_adapter.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

class SmolLM2 : public testing::Test {
 protected:
  void SetUp() override {
    const char* const name = "models/reference/SmolLM2-135M-Instruct.Q4_1.json";
    CLORA_DEMO_MODEL_OR_SKIP(model);
    CLORA_REQUIRE_TEST_DATA(reference_file, name);
    if (reference.is_null()) {
      reference = test::read_json(reference_file);
      open = std::make_unique<test::OpenModel>(model);
    }
  }
  static void TearDownTestSuite() { open.reset(); }

  static inline nlohmann::json reference;
  static inline std::unique_ptr<test::OpenModel> open;
};

std::vector<std::int32_t> ids_of(const nlohmann::json& json) {
  return json.get<std::vector<std::int32_t>>();
}

Record text_record(const nlohmann::json& ids) {
  Record record{.ids = ids_of(ids), .is_target = {}};
  record.is_target.assign(record.ids.size(), 1);
  record.is_target.front() = 0;
  return record;
}

TEST_F(SmolLM2, HasTheReferencesTopLogitsAndReplies) {
  Generator generator(open->model, nullptr, 128);
  for (const auto& prompt : reference["prompts"]) {
    const std::vector<float> logits = generator.logits(ids_of(prompt["prompt_ids"]));
    const auto top_ids = ids_of(prompt["top10_ids"]);
    const auto top_logits = prompt["top10_logits"].get<std::vector<double>>();
    for (std::size_t i = 0; i < top_ids.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(logits[static_cast<std::size_t>(top_ids[i])]), top_logits[i],
                  1e-4 * std::abs(top_logits.front()))
          << prompt["name"];
    }
    const auto want = ids_of(prompt["greedy_ids"]);
    const Generation got = generator.generate(
        ids_of(prompt["prompt_ids"]), {.max_tokens = static_cast<std::int64_t>(want.size())});
    EXPECT_EQ(got.ids, want) << prompt["name"];
  }
}

TEST_F(SmolLM2, HasTheReferencesLossPackedOrOneRecordARow) {
  const auto& wanted = reference["wikisql_valid"];
  Records records;
  for (const auto& ids : wanted["ids"]) records.records.push_back(text_record(ids));
  Evaluator evaluator(open->model, nullptr);
  const EvalResult packed = evaluator.evaluate(records);
  EXPECT_EQ(packed.tokens, wanted["target_tokens"].get<std::int64_t>());
  const double loss = wanted["mean_loss"].get<double>();
  EXPECT_NEAR(packed.loss, loss, 2e-6 * loss);
  for (std::size_t i = 0; i < 4; ++i) {
    const double alone = evaluator.loss_sum(pack_records(records, std::array{i}));
    const double want = wanted["loss_sums"][i].get<double>();
    EXPECT_NEAR(alone, want, 5e-6 * want) << "record " << i;
  }
}

// The model on a device whose largest allocation is max_allocation_bytes, so that its matrices are
// in parts. The pool holds more than one such model.
struct OpenInParts {
  OpenInParts(const std::filesystem::path& path, std::size_t max_allocation_bytes)
      : files(WeightFiles::open(path)),
        context(config_of(max_allocation_bytes)),
        model(context, files) {}

  static ContextConfig config_of(std::size_t max_allocation_bytes) {
    ContextConfig config = config_from_environment();
    config.max_allocation_bytes = max_allocation_bytes;
    return config;
  }

  WeightFiles files;
  Context context;
  LanguageModel model;
};

// Half a MiB: the embeddings and most linear layers are in parts. Sums of a product of fewer
// columns may be split otherwise (ops/gemm/gemm_portable_plan.hpp), so results differ by roundings.
TEST_F(SmolLM2, HasTheSameLogitsAndRepliesInParts) {
  OpenInParts parts(*test::demo_model(), 512 << 10U);
  EXPECT_TRUE(parts.model.head().is_split());
  EXPECT_TRUE(parts.model.linear("model.layers.0.mlp.gate_proj").weights.w.is_split());
  EXPECT_TRUE(parts.model.linear("model.layers.0.mlp.down_proj").weights.w.is_split());
  Generator whole_generator(open->model, nullptr, 128), generator(parts.model, nullptr, 128);
  for (const auto& prompt : reference["prompts"]) {
    const auto ids = ids_of(prompt["prompt_ids"]);
    const auto wanted = ids_of(prompt["greedy_ids"]);
    const std::vector<float> want = whole_generator.logits(ids);
    test::expect_logits(generator.logits(ids), test::to_double(want), 4e-6);
    EXPECT_EQ(generator.generate(ids, {.max_tokens = std::ssize(wanted)}).ids, wanted)
        << prompt["name"];
  }
}

// 8 MiB: the logits of 32 rows fit, the embeddings do not.
// On the emulated small device, single gradients differ by 1e-4 of the largest; the tolerance is
// that of the gradient norms against float64.
TEST_F(SmolLM2, HasTheSameLossAndGradientsInParts) {
  OpenInParts parts(*test::demo_model(), 8 << 20U);
  EXPECT_TRUE(parts.model.embeddings().is_split());
  const auto& wanted = reference["lora_training"];
  std::vector<Record> records;
  for (std::size_t i = 0; i < 2; ++i) records.push_back(text_record(wanted["ids"][i]));
  std::size_t rows = 0;
  for (const Record& record : records) rows += record.ids.size();
  const PackedRows packed = pack_rows(std::span<const Record>(records), rows);
  std::vector<double> losses;
  std::vector<std::vector<float>> gradients;
  for (LanguageModel* model : {&parts.model, &open->model}) {
    Adapter adapter(model->context(), adapter_sites(model->config()), {.rank = 4});
    const auto count = static_cast<std::size_t>(adapter.parameters().elements());
    const std::vector<float> parameters = test::random_values(count, 5, 0.02F);
    model->context().write(adapter.parameters(), std::as_bytes(std::span(parameters)));
    Trainer trainer(*model, adapter, {});
    (void)trainer.step(std::span(&packed, 1), 1e-3);
    losses.push_back(trainer.drain().value().loss);
    gradients.push_back(model->context().read<float>(adapter.flat_gradients()));
  }
  EXPECT_NEAR(losses[0], losses[1], 2e-6 * losses[1]);
  test::expect_close(gradients[0], test::to_double(gradients[1]), 3e-4, "gradients");
}

void expect_step(const StepResult& got, const nlohmann::json& want) {
  const auto i = static_cast<std::size_t>(got.step - 1);
  const double loss = want["float64"]["losses"][i].get<double>();
  const double norm = want["float64"]["grad_norms"][i].get<double>();
  EXPECT_NEAR(got.loss, loss, 5e-5 * loss) << "step " << got.step;
  EXPECT_NEAR(got.grad_norm, norm, 3e-4 * norm) << "step " << got.step;
  EXPECT_EQ(got.tokens, want["target_tokens"][i].get<std::int64_t>());
}

TEST_F(SmolLM2, TrainsTenStepsAsTheFloat64RunDoes) {
  const auto& wanted = reference["lora_training"];
  Adapter adapter(
      open->model.context(), adapter_sites(open->model.config()),
      {.rank = wanted["rank"].get<std::int64_t>(), .alpha = wanted["alpha"].get<double>()});
  test::fill_reference_adapter(adapter);
  Trainer trainer(open->model, adapter, {});
  std::size_t checked = 0;
  const auto check = [&](const std::optional<StepResult>& result) {
    if (!result.has_value()) return;
    expect_step(*result, wanted);
    ++checked;
  };
  for (std::size_t step = 0; step < 10; ++step) {
    std::vector<Record> records;
    for (std::size_t i = 0; i < 4; ++i) {
      records.push_back(text_record(wanted["ids"][4 * step + i]));
    }
    std::size_t rows = 0;
    for (const Record& record : records) rows += record.ids.size();
    const PackedRows packed = pack_rows(std::span<const Record>(records), rows);
    check(trainer.step(std::span(&packed, 1), 1e-3));
  }
  check(trainer.drain());
  EXPECT_EQ(checked, 10U);
}

}  // namespace
}  // namespace clora

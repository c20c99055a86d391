// Gemma 3 270M (GGUF Q4_K_M, tools/fetch_gemma3) against transformers in f32, PEFT in float64 and
// Google's tokenizer.json (tests/reference/gemma3_270m.py): ids of texts, logits, greedy replies,
// and ten steps of LoRA training.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "clora/model/generation/generator.hpp"
#include "clora/model/text/tokenizer_files.hpp"
#include "clora/model/training/trainer.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/reference_adapter.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

using Ids = std::vector<std::int32_t>;

class Gemma3 : public testing::Test {
 protected:
  void SetUp() override {
    CLORA_CACHED_MODEL_OR_SKIP(model, test::cached_model("gemma-3-270m-q4_k_m.gguf"),
                               "Gemma 3 270M", "fetch_gemma3");
    path = model;
    if (!reference.is_null()) return;
    const char* source = std::getenv("CLORA_SOURCE_DIR");
    ASSERT_NE(source, nullptr) << "CLORA_SOURCE_DIR is not set; run by ctest";
    reference = test::read_json(std::filesystem::path(source) / "tests/reference/gemma3_270m.json");
  }

  // In f32, opened by the first test that needs it.
  static LanguageModel& model() {
    if (open == nullptr) open = std::make_unique<test::OpenModel>(path);
    return open->model;
  }
  static void TearDownTestSuite() { open.reset(); }

  static inline std::filesystem::path path;
  static inline nlohmann::json reference;
  static inline std::unique_ptr<test::OpenModel> open;
};

TEST_F(Gemma3, HasTheIdsOfGooglesTokenizer) {
  const Tokenizer tokenizer = load_tokenizer(path);
  for (const auto& each : reference["texts"]) {
    const auto text = each[0].get<std::string>();
    EXPECT_EQ(tokenizer.encode(text, {.parse_special = true, .add_bos = AddBos::no}),
              each[1].get<Ids>())
        << text;
  }
  EXPECT_TRUE(tokenizer.adds_bos());
}

TEST_F(Gemma3, HasTheLogitsAndRepliesOfTransformers) {
  Generator generator(model(), nullptr, 128);
  for (const auto& prompt : reference["prompts"]) {
    const auto ids = prompt["prompt_ids"].get<Ids>();
    const std::vector<float> logits = generator.logits(ids);
    const auto top_ids = prompt["top10_ids"].get<Ids>();
    const auto top_logits = prompt["top10_logits"].get<std::vector<double>>();
    for (std::size_t i = 0; i < top_ids.size(); ++i)
      EXPECT_NEAR(static_cast<double>(logits[static_cast<std::size_t>(top_ids[i])]), top_logits[i],
                  1e-4 * std::abs(top_logits.front()))
          << prompt["text"];
    const auto wanted = prompt["greedy_ids"].get<Ids>();
    EXPECT_EQ(generator.generate(ids, {.max_tokens = std::ssize(wanted)}).ids, wanted)
        << prompt["text"];
  }
}

// A prompt without labels, and a completion.
Record record_of(const nlohmann::json& training, std::size_t i) {
  Record record{.ids = training["ids"][i].get<Ids>(), .is_target = {}};
  record.is_target.assign(record.ids.size(), 1);
  std::fill_n(record.is_target.begin(), training["prompt_tokens"][i].get<std::size_t>(), 0);
  return record;
}

PackedRows batch_of(const nlohmann::json& training, std::size_t step) {
  const auto size = training["batch"].get<std::size_t>();
  std::vector<Record> records;
  std::size_t rows = 0;
  for (std::size_t i = 0; i < size; ++i) {
    records.push_back(record_of(training, size * step + i));
    rows += records.back().ids.size();
  }
  return pack_rows(std::span<const Record>(records), rows);
}

TEST_F(Gemma3, TrainsTenStepsAsPeftDoesInFloat64) {
  const auto& training = reference["lora_training"];
  Adapter adapter(
      model().context(), adapter_sites(model().config()),
      {.rank = training["rank"].get<std::int64_t>(), .alpha = training["alpha"].get<double>()});
  test::fill_reference_adapter(adapter);
  Trainer trainer(model(), adapter, {});
  std::vector<StepResult> results;
  const auto keep = [&](const std::optional<StepResult>& result) {
    if (result) results.push_back(*result);
  };
  const std::size_t steps = training["losses"].size();
  for (std::size_t step = 0; step < steps; ++step) {
    const PackedRows rows = batch_of(training, step);
    keep(trainer.step(std::span(&rows, 1), training["learning_rate"].get<double>()));
  }
  keep(trainer.drain());
  ASSERT_EQ(results.size(), steps);
  for (std::size_t step = 0; step < steps; ++step) {
    const auto loss = training["losses"][step].get<double>();
    const auto norm = training["grad_norms"][step].get<double>();
    EXPECT_NEAR(results[step].loss, loss, 5e-5 * loss) << "step " << step + 1;
    EXPECT_NEAR(results[step].grad_norm, norm, 3e-4 * norm) << "step " << step + 1;
    EXPECT_EQ(results[step].tokens, training["target_tokens"][step].get<std::int64_t>());
  }
}

}  // namespace
}  // namespace clora

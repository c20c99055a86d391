// NaN and infinities in weights and adapters never lead to a text, a loss or a score, but to an
// error that names the tensor.
#include <gmock/gmock.h>

#include <cmath>

#include "clora/model/generation/generator.hpp"
#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/trainer.hpp"
#include "clora/model/transformer/forward_pass.hpp"
#include "lora/finite_values.hpp"
#include "model/transformer/finite_check.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/poisoned_file.hpp"
#include "tests/support/training_runs.hpp"

namespace clora {
namespace {

using test::poison;
using testing::HasSubstr;

TEST(FiniteValues, AreDistinguishedFromThoseThatAreNot) {
  std::vector<float> values(1009, -3.4e38F);
  EXPECT_TRUE(all_finite(values));
  EXPECT_FALSE(first_not_finite(values).has_value());
  EXPECT_TRUE(all_finite({}));
  for (const float bad : {std::nanf(""), -std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    for (const std::size_t at : {0U, 500U, 1008U}) {
      std::vector<float> with = values;
      with[at] = bad;
      EXPECT_FALSE(all_finite(with));
      EXPECT_EQ(first_not_finite(with), at);
    }
  }
  EXPECT_EQ(name_of_not_finite(std::nanf("")), "NaN");
  EXPECT_EQ(name_of_not_finite(-HUGE_VALF), "-infinity");
}

class NotANumber : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  const std::filesystem::path model_ = folder_ / "model";
};

constexpr std::array<std::int32_t, 6> kPrompt{3, 20, 33, 54, 4, 37};

Records prompt_as_records() {
  Records records;
  records.records.push_back({{kPrompt.begin(), kPrompt.end()}, {0, 1, 1, 1, 1, 1}});
  return records;
}

// The middle of the embedding matrix of 67 rows is row 33.
TEST_F(NotANumber, InAnyWeightIsNamedByGeneratorEvaluatorTrainerAndForwardPass) {
  for (const test::TinyModel& tiny : test::tiny_models()) {
    for (const WeightNeed& need : weight_needs(tiny.config)) {
      if (tiny.name != "Llama" && need.name.find("layers.1.") == std::string::npos) continue;
      // The router may give no row of the prompt to an expert.
      if (need.name.find(".experts.") != std::string::npos) continue;
      SCOPED_TRACE(tiny.name + " " + need.name);
      test::write_tiny_model(model_, tiny.config);
      poison(model_ / "model.safetensors", need.name, std::nanf(""));
      test::OpenModel open(model_);
      const std::string named = "the weight '" + need.name + "' of '" +
                                (model_ / "model.safetensors").string() +
                                "' contains NaN at element ";
      CLORA_EXPECT_ERROR(Generator(open.model, nullptr, 32).generate(kPrompt, {.max_tokens = 3}),
                         ErrorCode::invalid_file, named);
      CLORA_EXPECT_ERROR(ForwardPass(open.model, nullptr).logits(kPrompt), ErrorCode::invalid_file,
                         named);
      const Records records = prompt_as_records();
      CLORA_EXPECT_ERROR(Evaluator(open.model, nullptr).evaluate(records), ErrorCode::invalid_file,
                         named);
      Adapter adapter(open.model.context(), adapter_sites(open.model.config()), {.rank = 2});
      adapter.initialise(1);
      Trainer trainer(open.model, adapter, {});
      const PackedRows rows = pack_records(records, std::array<std::size_t, 1>{0});
      trainer.step(std::span(&rows, 1), 1e-3);
      CLORA_EXPECT_ERROR(trainer.drain(), ErrorCode::invalid_file, named);
    }
  }
}

TEST_F(NotANumber, InfinitiesInWeightsGiveNoText) {
  const ModelConfig config = test::tiny_models().front().config;
  int silent = 0, tried = 0;
  for (const WeightNeed& need : weight_needs(config)) {
    for (const float value : {HUGE_VALF, -HUGE_VALF}) {
      SCOPED_TRACE(need.name);
      test::write_tiny_model(model_, config);
      poison(model_ / "model.safetensors", need.name, value);
      test::OpenModel open(model_);
      ++tried;
      const auto error = test::caught(
          [&] { Generator(open.model, nullptr, 32).generate(kPrompt, {.max_tokens = 3}); });
      if (!error.has_value()) {
        ++silent;
        continue;
      }
      EXPECT_EQ(error->code, ErrorCode::invalid_file);
      EXPECT_THAT(error->message, HasSubstr(need.name));
    }
  }
  EXPECT_EQ(silent, 0) << "of " << tried;
}

TEST_F(NotANumber, InAnAdapterIsNamedByEachThatUsesIt) {
  test::write_tiny_model(model_, test::tiny_models().front().config);
  test::OpenModel open(model_);
  Context& context = open.model.context();
  Adapter adapter(context, adapter_sites(open.model.config()), {.rank = 2});
  adapter.initialise(1);
  std::vector<float> values = context.read<float>(adapter.parameters());
  values[adapter.modules()[9].bt_offset + 4] = std::nanf("");
  context.write(adapter.parameters(), std::as_bytes(std::span(values)));
  const std::string named = "lora_B of model.layers.1.self_attn.v_proj contains NaN at element 4";
  CLORA_EXPECT_ERROR(Generator(open.model, &adapter, 32).generate(kPrompt, {.max_tokens = 3}),
                     ErrorCode::invalid_data, named);
  CLORA_EXPECT_ERROR(Generator(open.model, &adapter, 32).logits(kPrompt), ErrorCode::invalid_data,
                     named);
  CLORA_EXPECT_ERROR(ForwardPass(open.model, &adapter).logits(kPrompt), ErrorCode::invalid_data,
                     named);
  CLORA_EXPECT_ERROR(Evaluator(open.model, &adapter).evaluate(prompt_as_records()),
                     ErrorCode::invalid_data, named);
  CLORA_EXPECT_ERROR(Trainer(open.model, adapter, {}), ErrorCode::invalid_data, named);
}

// A weight of the last norm and a weight of the head are finite, but their product is not.
TEST_F(NotANumber, WithoutATensorToBlameNamesTheFirstRecord) {
  const ModelConfig config = test::tiny_models().front().config;
  test::write_tiny_model(model_, config);
  poison(model_ / "model.safetensors", "model.norm.weight", 1e30F, 12);
  poison(model_ / "model.safetensors", "lm_head.weight", 1e30F,
         static_cast<std::size_t>(33 * config.hidden_size + 12));
  test::OpenModel open(model_);
  Records records;
  records.records.push_back({{3, 4, 5}, {0, 0, 0}});  // its loss is 0
  records.records.push_back(prompt_as_records().records.front());
  CLORA_EXPECT_ERROR(Evaluator(open.model, nullptr).evaluate(records), ErrorCode::diverged,
                     "the loss of record 2 is not finite: every weight is finite");
  CLORA_EXPECT_ERROR(Generator(open.model, nullptr, 32).generate(kPrompt, {}), ErrorCode::diverged,
                     "a logit of the token at position 6 is not finite: every weight is finite");
}

TEST_F(NotANumber, NoScoreIsGivenForRecordsWithoutALabelledToken) {
  test::write_tiny_model(model_, test::tiny_models().front().config);
  test::OpenModel open(model_);
  Evaluator evaluator(open.model, nullptr);
  Records records;
  records.records.push_back({{3, 4, 5}, {1, 0, 0}});  // nothing predicts the first token
  records.skipped = 6;
  CLORA_EXPECT_ERROR(evaluator.evaluate(records), ErrorCode::invalid_data,
                     "none of the first 1 records has one (6 more were skipped");
  CLORA_EXPECT_ERROR(evaluator.evaluate(Records{}), ErrorCode::invalid_data, "at least one token");
}

}  // namespace
}  // namespace clora

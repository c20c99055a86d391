// The program clora on the demo model: the ten steps of the float64 LoRA run, its evaluation loss
// and a reply, from files alone.
#include <gtest/gtest.h>

#include "clora/lora/peft_files.hpp"
#include "clora/model/weights/weights.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/program.hpp"
#include "tests/support/reference_adapter.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using test::run_clora;

class CommandLineSmolLM2 : public testing::Test {
 protected:
  void SetUp() override {
    const char* const name = "models/reference/SmolLM2-135M-Instruct.Q4_1.json";
    CLORA_DEMO_MODEL_OR_SKIP(model_file);
    CLORA_REQUIRE_TEST_DATA(reference_file, name);
    CLORA_REQUIRE_TEST_DATA(train_file, "datasets/wikisql/train.jsonl");
    CLORA_REQUIRE_TEST_DATA(valid_file, "datasets/wikisql/valid.jsonl");
    model = model_file.string();
    train = train_file.string();
    valid = valid_file.string();
    reference = test::read_json(reference_file);
  }

  void write_start(const std::filesystem::path& path) const {
    const WeightFiles files = WeightFiles::open(model);
    const auto& wanted = reference["lora_training"];
    const Adapter adapter(
        test::context_of(Variant::automatic), adapter_sites(files.config()),
        {.rank = wanted["rank"].get<std::int64_t>(), .alpha = wanted["alpha"].get<double>()});
    test::fill_reference_adapter(adapter);
    save_adapter(adapter, path);
  }

  struct Bounds {
    double loss, gradient_norm;  // relative to float64
  };
  void expect_ten_steps(const std::string& precision, Bounds bounds) {
    write_start(folder / "start");
    std::vector<std::string> arguments{"train", "--json", "--no-shuffle", "--no-append-eos"};
    const std::pair<const char*, std::string> options[] = {
        {"--model", model},         {"--data", train},
        {"--precision", precision}, {"--adapter-init", (folder / "start").string()},
        {"--lr", "1e-3"},           {"--adapter-out", (folder / "out").string()},
        {"--limit", "40"},          {"--max-seq-length", "128"},
        {"--steps", "10"},          {"--batch-size", "4"}};
    for (const auto& [name, value] : options) arguments.insert(arguments.end(), {name, value});
    const ProgramResult result = run_clora(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto& wanted = reference["lora_training"];
    std::size_t step = 0;
    for (const auto& event : result.json_lines()) {
      if (event.at("event") != "step") continue;
      const double loss = wanted["float64"]["losses"][step].get<double>();
      const double norm = wanted["float64"]["grad_norms"][step].get<double>();
      EXPECT_NEAR(event.at("loss").get<double>(), loss, bounds.loss * loss) << "step " << step + 1;
      EXPECT_NEAR(event.at("grad_norm").get<double>(), norm, bounds.gradient_norm * norm)
          << "step " << step + 1;
      EXPECT_EQ(event.at("tokens"), wanted["target_tokens"][step]);
      ++step;
    }
    EXPECT_EQ(step, 10U);
  }

  double reference_loss() const { return reference["wikisql_valid"]["mean_loss"].get<double>(); }
  double evaluated_loss(const std::string& precision) const {
    const ProgramResult result =
        run_clora({"eval", "--model", model, "--data", valid, "--limit", "20", "--no-append-eos",
                   "--json", "--precision", precision});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    if (result.exit_code != 0) return 0;
    const auto object = result.json_lines().at(0);
    EXPECT_EQ(object.at("tokens"), reference["wikisql_valid"]["target_tokens"]);
    return object.at("loss").get<double>();
  }

  // The held-out loss after 300 steps on real questions.
  double loss_of_a_long_run(const std::string& precision, const std::filesystem::path& out) const {
    const ProgramResult result =
        run_clora({"train", "--json", "--model", model, "--data",
                   std::filesystem::path(train).parent_path().string(), "--precision", precision,
                   "--batch-size", "8", "--max-seq-length", "256", "--steps", "300", "--seed", "1",
                   "--adapter-out", out.string()});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    double loss = 0;
    for (const auto& event : result.json_lines()) {
      if (event.at("event") == "eval") loss = event.at("loss").get<double>();
    }
    return loss;
  }

  test::TemporaryFolder folder;
  std::string model, train, valid;
  nlohmann::json reference;
};

TEST_F(CommandLineSmolLM2, RepeatsTheFloat64RunsTenStepsInF32) {
  expect_ten_steps("f32", {.loss = 5e-5, .gradient_norm = 3e-4});
}

// Automatic precision gives the same results on devices without a matrix unit.
TEST_F(CommandLineSmolLM2, StaysWithinAPercentOfTheTenStepsInAutoPrecision) {
  expect_ten_steps("auto", {.loss = 1e-2, .gradient_norm = 5e-2});
}

TEST_F(CommandLineSmolLM2, LearnsInThreeHundredStepsOfAutoPrecisionWhatItLearnsInF32) {
  if (select_device(config_from_environment().device).kind != DeviceKind::gpu) {
    GTEST_SKIP() << "this takes ten minutes on a CPU";
  }
  const double f32 = loss_of_a_long_run("f32", folder / "f32");
  EXPECT_GT(f32, 0.1);
  EXPECT_LT(f32, 2.5);  // 3.17 before training
  EXPECT_NEAR(loss_of_a_long_run("auto", folder / "auto"), f32, 0.02 * f32);
  static_cast<void>(loss_of_a_long_run("auto", folder / "again"));
  const auto saved = [&](const char* run) {
    return test::read_file(folder / run / "adapter_model.safetensors");
  };
  EXPECT_EQ(saved("again"), saved("auto"));
}

TEST_F(CommandLineSmolLM2, EvaluatesToTheReferencesLoss) {
  EXPECT_NEAR(evaluated_loss("f32"), reference_loss(), 5e-6 * reference_loss());
  EXPECT_NEAR(evaluated_loss("auto"), reference_loss(), 5e-3 * reference_loss());
}

TEST_F(CommandLineSmolLM2, AnswersAQuestionThroughItsChatTemplate) {
  const ProgramResult result =
      run_clora({"generate", "--model", model, "--chat", "--prompt",
                 "What is the capital of France?", "--max-tokens", "20", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto object = result.json_lines().at(0);
  EXPECT_EQ(object.at("text"), "The capital of France is Paris.");
  EXPECT_EQ(object.at("finish_reason"), "stop");
  EXPECT_EQ(object.at("prompt_ids").size(), 37U);
}

}  // namespace
}  // namespace clora

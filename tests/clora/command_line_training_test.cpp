// The program clora from records to a fused model: train, eval, generate, fuse, resume, Ctrl-C.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "clora/runtime/context.hpp"
#include "tests/support/program.hpp"
#include "tests/support/training_folder.hpp"

namespace clora {
namespace {

using test::ProgramCall;
using test::ProgramResult;
using test::run_clora;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class CommandLineTraining : public test::TrainingFolder {
 protected:
  CommandLineTraining() {
    const std::string lines = records();
    test::write_file(folder_ / "data/valid.jsonl", lines.substr(0, lines.find('\n') + 1));
  }
};

std::vector<nlohmann::json> events(const std::vector<nlohmann::json>& lines, const char* kind) {
  std::vector<nlohmann::json> chosen;
  std::ranges::copy_if(lines, std::back_inserter(chosen),
                       [&](const auto& line) { return line.at("event") == kind; });
  return chosen;
}

TEST_F(CommandLineTraining, GoesFromRecordsToAFusedModel) {
  const ProgramResult trained = run_clora(training("a", {"--steps", "120", "--rank", "16"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("held-out loss"));

  const auto eval = [&](std::vector<std::string> more) {
    std::vector<std::string> all{
        "eval",   "--model",      at("model"), "--data", at("data/train.jsonl"),
        "--json", "--exact-match"};
    all.insert(all.end(), more.begin(), more.end());
    const ProgramResult result = run_clora(all);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.json_lines().at(0);
  };
  const auto before = eval({}), after = eval({"--adapter", at("a")});
  EXPECT_LT(after.at("loss").get<double>(), 0.5 * before.at("loss").get<double>());
  EXPECT_GT(after.at("exact_match").get<double>(), before.at("exact_match").get<double>());
  EXPECT_NEAR(after.at("perplexity").get<double>(), std::exp(after.at("loss").get<double>()), 1e-6);
  EXPECT_EQ(after.at("records"), 8);

  const ProgramResult fused = run_clora(
      {"fuse", "--model", at("model"), "--adapter", at("a"), "--out", at("fused"), "--json"});
  ASSERT_EQ(fused.exit_code, 0) << fused.err;
  const auto object = fused.json_lines().at(0);
  const bool rounds = has_matrix_unit(config_from_environment().variant);  // for every --precision
  EXPECT_LT(object.at("largest_logit_difference").get<double>(),
            (rounds ? 5e-2 : 1e-4) * object.at("largest_logit").get<double>());

  const auto reply = [&](std::vector<std::string> model) {
    std::vector<std::string> all{"generate", "--prompt", "say lo:", "--max-tokens", "6", "--json"};
    all.insert(all.end(), model.begin(), model.end());
    return run_clora(all).json_lines().at(0).at("ids");
  };
  const auto adapted = reply({"--model", at("model"), "--adapter", at("a")});
  EXPECT_EQ(reply({"--model", at("fused")}), adapted);
  EXPECT_NE(reply({"--model", at("model")}), adapted);
}

TEST_F(CommandLineTraining, JsonEventsHaveTheirKeysAndNothingElseIsOnStdout) {
  const ProgramResult result = run_clora(training("a", {"--json", "--eval-every", "4"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto lines = result.json_lines();
  const auto starts = events(lines, "start"), steps = events(lines, "step"),
             evals = events(lines, "eval"), dones = events(lines, "done");
  ASSERT_EQ(starts.size(), 1U);
  ASSERT_EQ(steps.size(), 8U);
  ASSERT_EQ(evals.size(), 2U);
  ASSERT_EQ(dones.size(), 1U);
  for (const char* key : {"device", "model", "trainable_parameters", "records"}) {
    EXPECT_TRUE(starts[0].contains(key)) << key;
  }
  for (const char* key :
       {"step", "loss", "tokens", "learning_rate", "grad_norm", "tokens_per_s", "peak_bytes"}) {
    EXPECT_TRUE(steps[0].contains(key)) << key;
  }
  EXPECT_EQ(steps[7].at("step"), 8);
  EXPECT_EQ(evals[1].at("step"), 8);
  EXPECT_EQ(dones[0].at("adapter"), at("a"));
  std::int64_t memory = 0;
  for (const auto& bytes : dones[0].at("memory_bytes")) memory += bytes.get<std::int64_t>();
  EXPECT_GT(dones[0].at("memory_bytes").at("adapters"), 0);
  EXPECT_GT(memory, 0);
  EXPECT_LE(memory, steps[7].at("peak_bytes"));
  EXPECT_EQ(test::read_file(folder_ / "a/log.jsonl"), result.out);
  EXPECT_THAT(test::read_file(folder_ / "a/loss.svg"), HasSubstr("</svg>"));
}

TEST_F(CommandLineTraining, AnExistingOutputIsKeptWithoutOverwrite) {
  ASSERT_EQ(run_clora(training("a")).exit_code, 0);
  const std::string first = adapter_bytes("a");
  const ProgramResult refused = run_clora(training("a", {"--steps", "3"}));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("--overwrite"));
  EXPECT_TRUE(adapter_bytes("a") == first);
  EXPECT_EQ(run_clora(training("a", {"--steps", "3", "--overwrite"})).exit_code, 0);
  EXPECT_FALSE(adapter_bytes("a") == first);

  const std::vector<std::string> fuse{"fuse",  "--model", at("model"), "--adapter",
                                      at("a"), "--out",   at("a")};
  EXPECT_EQ(run_clora(fuse).exit_code, 1);
}

TEST_F(CommandLineTraining, ABadLineStopsBeforeTrainingWithFileLineAndReason) {
  const std::string good = test::read_file(folder_ / "data/train.jsonl");
  test::write_file(folder_ / "data/train.jsonl", good + "{\"prompt\": 3}\n");
  const ProgramResult result = run_clora(training("a"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("train.jsonl: line 9: "));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a"));
}

TEST_F(CommandLineTraining, LongRecordsAreTruncatedWithACount) {
  const ProgramResult result = run_clora(training("a", {"--max-seq-length", "9", "--json"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("were truncated"));
  EXPECT_GT(result.json_lines().at(0).at("truncated_records").get<int>(), 0);
}

TEST_F(CommandLineTraining, AResumedRunEqualsTheUnbrokenOne) {
  ASSERT_EQ(run_clora(training("a", {"--save-every", "3"})).exit_code, 0);
  const ProgramResult resumed = run_clora({"train", "--config", at("a/run.toml"), "--adapter-out",
                                           at("b"), "--resume", at("a/checkpoint-3"), "--json"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(events(resumed.json_lines(), "step").size(), 5U);
  EXPECT_TRUE(adapter_bytes("b") == adapter_bytes("a"));
}

TEST_F(CommandLineTraining, ARunWithMomentsIn8BitsIsAnotherOneAndIsResumedFromItsConfiguration) {
  const ProgramResult f32 = run_clora(training("f32"));
  ASSERT_EQ(f32.exit_code, 0);
  EXPECT_THAT(f32.out,
              testing::ContainsRegex("peak device memory .*; at the last step: .*adapters "));
  ASSERT_EQ(run_clora(training("a", {"--save-every", "3", "--optimizer", "adamw-8bit"})).exit_code,
            0);
  EXPECT_FALSE(adapter_bytes("a") == adapter_bytes("f32"));
  const ProgramResult resumed = run_clora({"train", "--config", at("a/run.toml"), "--adapter-out",
                                           at("b"), "--resume", at("a/checkpoint-3")});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_TRUE(adapter_bytes("b") == adapter_bytes("a"));
  const ProgramResult unknown = run_clora(training("c", {"--optimizer", "adagrad"}));
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("adamw-8bit"));
}

TEST_F(CommandLineTraining, APlanCountsTheMomentsOfTheOptimizer) {
  const auto peak_bytes = [&](const char* optimizer) {
    const ProgramResult result = run_clora(
        ProgramCall{.arguments = {"plan", "--model", at("model"), "--max-seq-length", "16",
                                  "--rank", "64", "--optimizer", optimizer, "--json"},
                    .environment = {"CLORA_POOL=exact"}});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.json_lines().at(0).at("peak_bytes").get<std::int64_t>();
  };
  EXPECT_LT(peak_bytes("adamw-8bit"), peak_bytes("adamw"));
}

TEST_F(CommandLineTraining, TheRunsConfigurationGivesTheSameRunAgain) {
  ASSERT_EQ(run_clora(training("a", {"--rank", "2", "--target-modules", "q_proj,v_proj",
                                     "--no-shuffle", "--schedule", "cosine", "--layers", "1"}))
                .exit_code,
            0);
  const ProgramResult again =
      run_clora({"train", "--config", at("a/run.toml"), "--adapter-out", at("b")});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_TRUE(adapter_bytes("b") == adapter_bytes("a"));
  const ProgramResult info = run_clora({"info", at("b"), "--json"});
  EXPECT_EQ(info.json_lines().at(0).at("rank"), 2);
  EXPECT_EQ(info.json_lines().at(0).at("target_modules").size(), 2U);
}

TEST_F(CommandLineTraining, ModulesAndBiasesTrainedInFullAreResumedLoadedAndFused) {
  const ProgramResult none = run_clora(training("a", {"--bias", "all"}));
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("--bias all selects nothing: the model has no biases"));
  test::write_tiny_chat_model(folder_ / "model", "Qwen2");
  const ProgramResult trained = run_clora(
      training("a", {"--target-modules", "q_proj,gate_proj", "--bias", "all", "--modules-to-save",
                     "layernorm,embed_tokens,lm_head,v_proj,down_proj", "--saved-lr-ratio", "0.5",
                     "--save-every", "3"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const ProgramResult resumed = run_clora({"train", "--config", at("a/run.toml"), "--adapter-out",
                                           at("b"), "--resume", at("a/checkpoint-3")});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_TRUE(adapter_bytes("b") == adapter_bytes("a"));
  const ProgramResult fused = run_clora(
      {"fuse", "--model", at("model"), "--adapter", at("a"), "--out", at("fused"), "--json"});
  ASSERT_EQ(fused.exit_code, 0) << fused.err;
  const auto object = fused.json_lines().at(0);
  const bool rounds = has_matrix_unit(config_from_environment().variant);  // for every --precision
  EXPECT_LT(object.at("largest_logit_difference").get<double>(),
            (rounds ? 5e-2 : 1e-4) * object.at("largest_logit").get<double>());
  const ProgramResult from_it =
      run_clora(training("c", {"--adapter-init", at("a"), "--modules-to-save", "norm"}));
  EXPECT_EQ(from_it.exit_code, 1);
  EXPECT_THAT(from_it.err, HasSubstr("--modules-to-save is [\"norm\"]"));
  const ProgramResult other =
      run_clora(training("c", {"--adapter-init", at("a"), "--bias", "none"}));
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("--bias is none, but the adapter of --adapter-init"));
  const ProgramResult unknown = run_clora(training("d", {"--modules-to-save", "norm,score"}));
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("modules_to_save has 'score'"));
  EXPECT_THAT(unknown.err, HasSubstr("those are embed_tokens, input_layernorm, "));
}

TEST_F(CommandLineTraining, AWrongOptionInAConfigurationIsNamedWithTheRightOne) {
  test::write_file(folder_ / "run.toml", "batch-sise = 2\n");
  const ProgramResult result = run_clora(training("a", {"--config", at("run.toml")}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("did you mean --batch-size?"));
}

TEST_F(CommandLineTraining, TheCommandLineWinsOverTheConfiguration) {
  test::write_file(folder_ / "run.toml",
                   "epochs = 5\nrank = 2\n[train]\nalpha = 3\n[eval]\nx = 1\n");
  const ProgramResult result =
      run_clora(training("a", {"--config", at("run.toml"), "--rank", "4", "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.json_lines().at(0).at("steps"), 8);
  const auto info = run_clora({"info", at("a"), "--json"}).json_lines().at(0);
  EXPECT_EQ(info.at("rank"), 4);
  EXPECT_EQ(info.at("alpha"), 3);
}

TEST_F(CommandLineTraining, CtrlCFinishesTheStepSavesAndReportsHowToContinue) {
  const std::vector<std::string> arguments = training("a", {"--steps", "100000"});
  const ProgramResult stopped =
      run_clora(ProgramCall{.arguments = arguments, .interrupt_after = "step 1/100000"});
  EXPECT_EQ(stopped.exit_code, 1);
  EXPECT_THAT(stopped.err, HasSubstr("Ctrl-C again to stop immediately"));
  EXPECT_THAT(stopped.out, HasSubstr("--resume " + at("a") + "/checkpoint-"));
  EXPECT_THAT(adapter_bytes("a"), Not(IsEmpty()));
  EXPECT_THAT(test::read_file(folder_ / "a/log.jsonl"), HasSubstr("\"stopped\":true"));
}

TEST_F(CommandLineTraining, ALossThatIsNotFiniteStopsAndNamesTheStep) {
  // The weight decay makes the weights a thousand times larger in each step.
  const ProgramResult result =
      run_clora(training("a", {"--lr", "10", "--weight-decay", "100", "--steps", "50"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("step "));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a/adapter_model.safetensors"));
}

TEST_F(CommandLineTraining, AnAdapterOfAnotherModelNamesTensorAndShapes) {
  ASSERT_EQ(run_clora(training("a")).exit_code, 0);
  CLORA_REQUIRE_TEST_DATA(other, "models/tiny_llama3");
  const ProgramResult result = run_clora(
      {"generate", "--model", other.string(), "--adapter", at("a"), "--prompt-ids", "1,2"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("_proj.lora_A.weight"));
}

TEST_F(CommandLineTraining, AFolderThatCannotBeWrittenStopsBeforeTraining) {
  test::write_file(folder_ / "file", "x");
  const ProgramResult result = run_clora(training("file/a"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("file/a"));
}

TEST_F(CommandLineTraining, LearnsFromPairsAndFromLabels) {
  std::string pairs, labelled;
  for (const std::string word : {"abc", "lo", "the", "cab"}) {
    const std::string prompt = R"({"prompt":"say )" + word + R"(:",)";
    pairs += prompt + R"("chosen":" )" + word + R"(","rejected":" no"})" + "\n";
    labelled += prompt + R"("completion":" )" + word + R"(","label":true})" + "\n";
    labelled += prompt + R"("completion":" no","label":false})" + "\n";
  }
  for (const std::string loss : {"dpo", "ipo", "orpo", "kto"}) {
    const std::string& records = loss == "kto" ? labelled : pairs;
    test::write_file(folder_ / "data/train.jsonl", records);
    test::write_file(folder_ / "data/valid.jsonl", records);
    const ProgramResult result = run_clora(
        training(loss.c_str(), {"--loss", loss, "--beta", "0.5", "--steps", "20", "--json"}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto steps = events(result.json_lines(), "step"),
               evals = events(result.json_lines(), "eval");
    ASSERT_EQ(steps.size(), 20U);
    ASSERT_EQ(evals.size(), 1U);
    EXPECT_LT(steps.back().at("loss"), steps.front().at("loss")) << loss;
    EXPECT_GT(evals[0].at("rewards/margins").get<double>(), 0.05) << loss;
    for (const char* key : {"rewards/chosen", "rewards/rejected", "logps/chosen"}) {
      EXPECT_TRUE(evals[0].contains(key)) << loss << ' ' << key;
    }
    EXPECT_EQ(evals[0].contains("rewards/accuracies"), loss != "kto");
  }
  const ProgramResult data = run_clora(
      {"data", "--model", at("model"), "--loss", "kto", "--json", at("data/train.jsonl")});
  ASSERT_EQ(data.exit_code, 0) << data.err;
  EXPECT_THAT(data.out, HasSubstr(R"("labelled answers":8)"));
  const ProgramResult wrong = run_clora(training("x", {"--loss", "dpo"}));
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("train.jsonl: line 1: \"label\" of a record is not supported"));
}

}  // namespace
}  // namespace clora

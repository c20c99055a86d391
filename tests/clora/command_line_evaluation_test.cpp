// Evaluation during training and by clora eval: early stopping, exact match, multiple choice, and a
// user's own command; and the search of a learning rate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "clora/model/training/choices.hpp"
#include "tests/support/program.hpp"
#include "tests/support/tiny_tokenizers.hpp"
#include "tests/support/training_folder.hpp"
#include "tools/clora/model_text.hpp"
#include "tools/clora/scoring_command.hpp"
#include "tools/clora/training/rate_picture.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using test::run_clora;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class EvaluationInTraining : public test::TrainingFolder {
 protected:
  EvaluationInTraining() {
    test::write_file(folder_ / "data/valid.jsonl", records());
    test::write_file(folder_ / "choices.jsonl", choices());
  }

  static std::string choices() {
    return R"({"prompt":"say abc:","choices":[" the"," abc"," tool"],"answer":1})"
           "\n"
           R"({"prompt":"say lo:","choices":[" both"," lo"],"answer":" lo"})"
           "\n";
  }

  std::vector<nlohmann::json> evaluations(const std::vector<std::string>& more) {
    std::vector<std::string> all = training("a", {"--overwrite", "--json", "--steps", "60"});
    all.insert(all.end(), more.begin(), more.end());
    const ProgramResult result = run_clora(all);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    err_ = result.err;
    std::vector<nlohmann::json> chosen;
    for (const auto& line : result.json_lines()) {
      if (line.at("event") == "eval") chosen.push_back(line);
      if (line.at("event") == "done") done_ = line;
    }
    return chosen;
  }

  std::string err_;
  nlohmann::json done_;
};

TEST_F(EvaluationInTraining, HasPerplexityExactMatchChoicesAndTheScoresOfACommand) {
  const auto evals = evaluations(
      {"--eval-every", "30", "--eval-exact-match", "--eval-choices", at("choices.jsonl"),
       "--eval-command",
       R"(awk '/"reference":"abc"/ && /"prompt":"say abc:"/ && /"reply":"/ {n++} END {print "{\"abc\":" n ",\"lines\":" NR "}"}')"});
  ASSERT_EQ(evals.size(), 2U);
  const auto& last = evals.back();
  EXPECT_NEAR(last.at("perplexity").get<double>(), std::exp(last.at("loss").get<double>()), 1e-9);
  EXPECT_EQ(last.at("scores"), (nlohmann::json{{"abc", 1}, {"lines", 8}}));
  // The held-out records are those of the training, so the last evaluation is the best.
  EXPECT_GT(last.at("exact_match").get<double>(), 0.5);
  EXPECT_EQ(last.at("accuracy"), 1.0);
  EXPECT_EQ(last.at("normalised_accuracy"), 1.0);
  EXPECT_THAT(test::read_file(folder_ / "a/log.jsonl"), HasSubstr("\"normalised_accuracy\""));
}

TEST_F(EvaluationInTraining, GeneratesForTheFirstRecordsAlone) {
  const auto evals = evaluations(
      {"--eval-replies", "3", "--eval-command", R"(awk 'END {print "{\"lines\":" NR "}"}')"});
  ASSERT_EQ(evals.size(), 1U);
  EXPECT_EQ(evals[0].at("scores").at("lines"), 3);
  EXPECT_FALSE(evals[0].contains("exact_match"));
}

TEST_F(EvaluationInTraining, ACommandThatFailsIsToldAndEndsTheRunOnlyIfItIsRequired) {
  const std::string command = "echo no luck >&2; exit 3";
  const auto evals = evaluations({"--eval-every", "30", "--eval-command", command});
  ASSERT_EQ(evals.size(), 2U);
  EXPECT_THAT(evals[0].at("eval_command_error").get<std::string>(),
              HasSubstr("ended with exit code 3: no luck"));
  EXPECT_THAT(err_, HasSubstr("the run continues"));
  const ProgramResult required = run_clora(
      training("b", {"--eval-every", "4", "--eval-command", command, "--eval-command-required"}));
  EXPECT_EQ(required.exit_code, 1);
  EXPECT_THAT(required.err, HasSubstr("error: --eval-command: 'echo no luck"));
}

TEST_F(EvaluationInTraining, EndsEarlyAndSavesTheBestAdapter) {
  std::string others;  // whose loss rises when the training records are learnt
  for (const std::string word : {"xyz", "quark"}) {
    others += R"({"prompt":"say )" + word + R"(:","completion":" )" + word + "\"}\n";
  }
  test::write_file(folder_ / "data/valid.jsonl", others);
  const auto evals = evaluations(
      {"--lr", "0.1", "--eval-every", "3", "--early-stopping", "2", "--min-improvement", "0.001"});
  ASSERT_TRUE(done_.at("ended_early"));
  EXPECT_LT(done_.at("steps"), 60);
  const auto best = std::ranges::min_element(
      evals, {}, [](const auto& event) { return event.at("loss").template get<double>(); });
  EXPECT_EQ(done_.at("best_step"), best->at("step"));
  EXPECT_EQ(done_.at("best_loss"), best->at("loss"));
  const ProgramResult eval = run_clora({"eval", "--model", at("model"), "--data",
                                        at("data/valid.jsonl"), "--adapter", at("a"), "--json"});
  EXPECT_NEAR(eval.json_lines().at(0).at("loss").get<double>(), best->at("loss").get<double>(),
              1e-4);
}

TEST_F(EvaluationInTraining, RefusesWhatItCannotDo) {
  const auto expect_refused = [&](const std::vector<std::string>& more, const char* part) {
    const ProgramResult result = run_clora(training("c", more));
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "c"));
  };
  expect_refused({"--early-stopping", "2"}, "set --eval-every");
  expect_refused({"--min-improvement", "1"}, "requires --early-stopping");
  expect_refused({"--decay-share", "0.1"}, "requires --schedule wsd, got constant");
  expect_refused({"--warmup-share", "0.1", "--warmup-steps", "3"}, "--warmup");
  expect_refused({"--find-lr", "--resume", at("data")}, "--resume");
  std::filesystem::remove(folder_ / "data/valid.jsonl");
  expect_refused({"--eval-choices", at("choices.jsonl")}, "there are none");
  expect_refused({"--eval-exact-match"}, "--eval-exact-match requires held-out records");
  expect_refused({"--early-stopping", "2", "--eval-every", "3"}, "has none");
}

TEST_F(EvaluationInTraining, ASearchOfARateSavesNoAdapterAndDrawsItsChart) {
  const std::string chart = at("rates.svg");
  const ProgramResult result = run_clora({"train", "--model", at("model"), "--data", at("data"),
                                          "--seed", "3", "--find-lr", chart, "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err << result.out;
  const auto lines = result.json_lines();
  const auto& end = lines.back();
  EXPECT_EQ(end.at("event"), "find_lr");
  EXPECT_EQ(lines.size(), end.at("steps").get<std::size_t>() + 1);
  EXPECT_GT(end.at("suggested").get<double>(), 1e-5);
  EXPECT_LT(end.at("suggested").get<double>(), 1);
  EXPECT_THAT(test::read_file(chart), HasSubstr("suggested: "));
  const ProgramResult needs_folder =
      run_clora({"train", "--model", at("model"), "--data", at("data")});
  EXPECT_EQ(needs_folder.exit_code, 2);
  EXPECT_THAT(needs_folder.err, HasSubstr("--adapter-out"));
}

// Pairs, or with "label" single answers, in place of the records.
std::string records_with_answers(bool pairs) {
  std::string lines;
  for (const std::string word : {"abc", "lo", "the", "cab"}) {
    const std::string prompt = R"({"prompt":"say )" + word + R"(:",)";
    if (pairs) {
      lines += prompt + R"("chosen":" )" + word + R"(","rejected":" no"})" + "\n";
    } else {
      lines += prompt + R"("completion":" )" + word + R"(","label":true})" + "\n";
      lines += prompt + R"("completion":" no","label":false})" + "\n";
    }
  }
  return lines;
}

TEST_F(EvaluationInTraining, ClorasEvalComparesAnswersAsTheRunDid) {
  for (const std::string loss : {"dpo", "kto"}) {
    for (const char* file : {"data/train.jsonl", "data/valid.jsonl"}) {
      test::write_file(folder_ / file, records_with_answers(loss == "dpo"));
    }
    const auto evals = evaluations({"--loss", loss, "--beta", "0.5", "--eval-exact-match",
                                    "--eval-choices", at("choices.jsonl")});
    ASSERT_EQ(evals.size(), 1U);
    const nlohmann::json& of_run = evals[0];
    EXPECT_GT(of_run.at("rewards/margins").get<double>(), 0.05);
    EXPECT_TRUE(of_run.contains("accuracy"));
    const auto eval = [&](const std::vector<std::string>& more) {
      std::vector<std::string> all{
          "eval",   "--model", at("model"), "--data", at("data/valid.jsonl"),
          "--loss", loss,      "--beta",    "0.5",    "--json"};
      all.insert(all.end(), more.begin(), more.end());
      const ProgramResult result = run_clora(all);
      EXPECT_EQ(result.exit_code, 0) << result.err;
      err_ = result.err;
      return result.json_lines().at(0);
    };
    const auto adapted = eval({"--adapter", at("a"), "--exact-match"});
    for (const char* key : {"loss", "rewards/margins", "logps/chosen", "exact_match"}) {
      EXPECT_NEAR(adapted.at(key).get<double>(), of_run.at(key).get<double>(), 1e-3)
          << loss << ' ' << key;
    }
    EXPECT_EQ(adapted.at("records"), loss == "dpo" ? 4 : 8);
    EXPECT_THAT(err_, Not(HasSubstr("its own reference")));
    const auto base = eval({});
    EXPECT_NEAR(base.at("loss").get<double>(), loss == "dpo" ? std::log(2.0) : 0.5, 1e-5);
    EXPECT_NEAR(base.at("rewards/margins").get<double>(), 0, 1e-5);
    EXPECT_THAT(err_, HasSubstr("without --adapter the model is its own reference"));
    const auto itself = eval({"--adapter", at("a"), "--reference-adapter", at("a")});
    EXPECT_NEAR(itself.at("rewards/margins").get<double>(), 0, 1e-5);
    EXPECT_NEAR(itself.at("logps/chosen").get<double>(), adapted.at("logps/chosen").get<double>(),
                1e-5);
  }
}

TEST_F(EvaluationInTraining, ClorasEvalRefusesOptionsOfOtherLosses) {
  const auto error = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"eval", "--model", at("model"), "--data", at("data/valid.jsonl")};
    all.insert(all.end(), more.begin(), more.end());
    return run_clora(all).err;
  };
  EXPECT_THAT(error({"--loss", "dpo", "--choices"}), HasSubstr("--choices is for --loss sft"));
  EXPECT_THAT(error({"--loss", "orpo", "--reference-adapter", at("model")}),
              HasSubstr("--reference-adapter is for --loss dpo, ipo or kto, got orpo"));
  EXPECT_THAT(error({"--loss", "dpo"}), HasSubstr("valid.jsonl: line 1"));
}

TEST_F(EvaluationInTraining, ClorasEvalScoresChoices) {
  (void)evaluations({});
  const ProgramResult result = run_clora({"eval", "--model", at("model"), "--adapter", at("a"),
                                          "--data", at("choices.jsonl"), "--choices", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.json_lines().at(0),
            (nlohmann::json{{"records", 2}, {"accuracy", 1.0}, {"normalised_accuracy", 1.0}}));
}

// ---- Choices

class Choices : public EvaluationInTraining {
 protected:
  std::vector<ChoiceQuestion> read(const std::string& lines, std::size_t max_seq_length = 64) {
    test::write_file(folder_ / "q.jsonl", lines);
    const ModelText text(folder_ / "model");
    return read_choice_questions(folder_ / "q.jsonl", text.tokenizer(), text.find_chat_template(),
                                 {.max_seq_length = max_seq_length});
  }
  void expect_refused(const std::string& line, const char* part, std::size_t length = 64) {
    SCOPED_TRACE(line);
    CLORA_EXPECT_ERROR(read(choices() + line, length), ErrorCode::invalid_data, part);
  }
};

TEST_F(Choices, AreReadAsCompletionsWithTheirLengthsInCharacters) {
  const auto questions =
      read(R"({"prompt":"a","choices":[" été","  b c","d"],"answer":"d","other":1})"
           "\n"
           R"({"prompt":[{"role":"user","content":"a"}],"choices":["x","yz"],"answer":0})");
  ASSERT_EQ(questions.size(), 2U);
  EXPECT_THAT(questions[0].lengths, ElementsAre(3, 3, 1));
  EXPECT_EQ(questions[0].answer, 2U);
  EXPECT_THAT(questions[0].choices[2].is_target, ElementsAre(0, 1));  // no end of text
  EXPECT_THAT(questions[1].lengths, ElementsAre(1, 2));
  EXPECT_GT(questions[1].choices[0].ids.size(), 4U);  // in the chat template
}

TEST_F(Choices, OfAnotherFormAreRefusedWithFileAndLine) {
  expect_refused(R"({"prompt":"a","choices":["b","c"]})", "q.jsonl: line 3: a record with choices");
  expect_refused("[]", "line 3: a record with choices");
  expect_refused(R"({"prompt":"a","choices":["b"],"answer":0})", "a list of 2 to 1000 texts");
  expect_refused(R"({"prompt":"a","choices":["b",1],"answer":0})",
                 "a choice must be a text, got 1");
  expect_refused(R"({"prompt":"a","choices":["b","c"],"answer":2})", "index from 0 to 1, got 2");
  expect_refused(R"({"prompt":"a","choices":["b","c"],"answer":"d"})", "got \"d\"");
  expect_refused(R"({"prompt":"a","choices":["b"," "],"answer":0})", "a choice is empty");
  expect_refused(R"({"prompt":"","choices":["b","c"],"answer":0})", "the prompt is empty");
  expect_refused(R"({"prompt":"a long prompt","choices":["b","c"],"answer":0})",
                 "but at most 12 are read", 12);
}

// Values by hand: (a) is likeliest, (b) per character; of equal ones the first counts.
TEST(LikeliestChoice, IsThatOfTheSumOrPerCharacter) {
  const std::vector<double> values{-2, -3, -8};
  EXPECT_EQ(likeliest(values), 0U);
  EXPECT_EQ(likeliest_per_character(values, {1, 4, 8}), 1U);
  EXPECT_EQ(likeliest({-1, -1}), 0U);
  EXPECT_EQ(likeliest_per_character({-2, -4, -1}, {2, 4, 1}), 0U);
}

// ---- A user's own command

TEST(ScoringCommand, GetsTheRepliesAndReturnsItsScores) {
  const std::vector<Answer> answers{{"p", "r", "a \"b\"\n"}, {"q", "s", "é"}};
  EXPECT_EQ(scores_by_command("cat >&2; printf '{\"x\": 0.5, \"y\": 2}'", 60, answers),
            (nlohmann::ordered_json{{"x", 0.5}, {"y", 2}}));
  const auto error = test::caught([&] { (void)scores_by_command("cat >&2; exit 1", 60, answers); });
  ASSERT_TRUE(error.has_value());
  EXPECT_THAT(error->message,
              HasSubstr("{\"prompt\":\"p\",\"reference\":\"r\",\"reply\":\"a \\\"b\\\"\\n\"}\n"
                        "{\"prompt\":\"q\",\"reference\":\"s\",\"reply\":\"é\"}"));
}

TEST(ScoringCommand, ThatFailsOrPrintsNoScoresIsAnError) {
  const auto expect_error = [](const std::string& command, const char* part, double seconds = 60) {
    CLORA_EXPECT_ERROR((void)scores_by_command(command, seconds, {}), ErrorCode::invalid_data,
                       part);
  };
  expect_error("exit 4", "'exit 4' ended with exit code 4");
  expect_error("no_such_program_here", "ended with exit code 127");
  expect_error("sleep 30 & sleep 30", "did not finish in", 0.3);
  expect_error("kill -9 $$", "was killed by signal 9");
  expect_error("echo 12", "must be a JSON object, got 12");
  expect_error("echo '{\"a\": \"b\"}'", "the score \"a\" must be a number, got \"b\"");
  expect_error("echo hello", "a JSON object of scores is required");
}

TEST(ScoringCommand, MayLeaveItsInputUnread) {
  const std::vector<Answer> answers(2000, Answer{std::string(1000, 'p'), "r", "a"});
  EXPECT_EQ(scores_by_command("echo '{\"n\": 1}'", 60, answers).at("n"), 1);
}

// ---- The chart of rates

TEST(RatePicture, MarksTheSuggestionAndKeepsWildLossesInside) {
  RateSearch search{.first_loss = 2, .suggested = 1e-3};
  for (int i = 0; i < 20; ++i) {
    const double change = i < 15 ? -0.05 * i : 1e6;
    search.points.push_back(
        {.learning_rate = std::pow(10, -5 + i / 5.0), .change = change, .smoothed = change});
  }
  const std::string svg = rate_picture(search, "a < b");
  EXPECT_THAT(svg, HasSubstr("suggested: 0.001"));
  EXPECT_THAT(svg, HasSubstr("a &lt; b"));
  EXPECT_THAT(svg, HasSubstr("1e-5"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("e+0")));
  search.suggested = std::nullopt;
  EXPECT_THAT(rate_picture(search, "a"), Not(HasSubstr("suggested")));
}

}  // namespace
}  // namespace clora

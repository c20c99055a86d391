// The messages of the program clora about records and chat templates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_chat_model.hpp"
#include "tests/support/training_folder.hpp"

namespace clora {
namespace {

using test::ProgramCall;
using test::ProgramResult;
using test::run_clora;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CommandLineData : public testing::Test {
 protected:
  CommandLineData() { test::write_tiny_chat_model(folder / "model"); }

  ProgramResult eval(const std::string& lines, std::vector<std::string> more = {}) const {
    test::write_file(folder / "data.jsonl", lines);
    std::vector<std::string> all{"eval", "--model", (folder / "model").string(), "--data",
                                 (folder / "data.jsonl").string()};
    all.insert(all.end(), more.begin(), more.end());
    return run_clora(all);
  }

  test::TemporaryFolder folder;
};

TEST_F(CommandLineData, WarnsOfSpecialTokensInRecordsUnlessAnOptionDecides) {
  const std::string lines =
      "{\"text\": \"abc\"}\n{\"text\": \"abc<|im_end|>the\"}\n{\"text\": \"<|im_start|>\"}\n";
  const ProgramResult silent = eval(lines);
  EXPECT_EQ(silent.exit_code, 0) << silent.err;
  EXPECT_THAT(silent.err, AllOf(HasSubstr("data.jsonl: line 2: '<|im_end|>' is read as text"),
                                HasSubstr("in 2 of 3 records"), HasSubstr("--parse-special")));
  for (const char* option : {"--parse-special", "--no-parse-special"}) {
    const ProgramResult result = eval(lines, {option});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, Not(HasSubstr("is read as text")));
  }
  EXPECT_NE(eval(lines, {"--parse-special"}).out.find("5 tokens"), std::string::npos)
      << "abc's eos; im_end, the and its eos; im_start's eos";
}

TEST_F(CommandLineData, RefusesRecordsThatTheModelCannotRead) {
  const std::string lines =
      "{\"text\": \"abc\"}\n{\"text\": \"" + std::string(100000, 'z') + "\"}\n";
  const ProgramResult result = eval(lines, {"--max-seq-length", "200000"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("data.jsonl: line 2: the record has 100001 tokens"),
                                HasSubstr("--max-seq-length")));
}

TEST_F(CommandLineData, RefusesRecordsInWhichNothingCounts) {
  const ProgramResult result =
      eval("{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"weight\": 0}]}\n");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("data.jsonl: line 1: the record has no target"));
}

TEST_F(CommandLineData, TakesAChatTemplateByName) {
  const std::string line = "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}\n";
  EXPECT_EQ(eval(line).exit_code, 0);
  EXPECT_EQ(eval(line, {"--chat-template", "qwen2.5"}).exit_code, 0);
  const ProgramResult refused = eval(line, {"--chat-template", "mistral-v3"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("line 1: chat template mistral-v3: roles must alternate"));
  const ProgramResult missing = eval(line, {"--chat-template", "llama3"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("'<|start_header_id|>' must be a single token"));
  const ProgramResult unknown = eval(line, {"--chat-template", "chatmk"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("--chat-template"), HasSubstr("qwen2.5")));
}

TEST_F(CommandLineData, TakesAChatTemplateFromAFile) {
  const std::string line = "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}\n";
  const std::filesystem::path path = folder / "own.jinja";
  test::write_file(path, "{{ raise_exception('not today') }}");
  EXPECT_THAT(eval(line, {"--chat-template", path}).err,
              HasSubstr("line 1: chat template: not today"));
}

TEST_F(CommandLineData, ShowsWhatIsTrained) {
  const auto masks = [&](const std::string& lines, std::vector<std::string> more = {}) {
    test::write_file(folder / "masks.jsonl", lines);
    std::vector<std::string> arguments = {"tokenize", "--model", folder / "model", "--mask",
                                          folder / "masks.jsonl"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_clora(arguments);
  };
  const std::string talk =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "
      "\"content\": \"a\\u001b\"}]}\n";
  const std::string rest = "{\"prompt\": \"p\", \"completion\": \"c\"}\n{\"text\": \"xy\"}\n";
  const ProgramResult shown = masks(talk + rest);
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_EQ(shown.out,
            "What is trained is between \u27E6 and \u27E7; the rest is only read.\n"
            "--- record 1: 24 tokens, 3 of them trained, in 1 run\n"
            "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n\u27E6a\\x1b<|im_end|>\u27E7\n\n"
            "--- record 2: 3 tokens, 2 of them trained, in 1 run\np\u27E6c<|im_end|>\u27E7\n"
            "--- record 3: 3 tokens, 2 of them trained, in 1 run\nx\u27E6y<|im_end|>\u27E7\n");
  EXPECT_THAT(masks(talk + rest, {"--limit", "1"}).out, testing::Not(HasSubstr("record 2")));
  const std::string answer = R"({"role": "assistant", "content": "xy"}, )";
  const std::string question = R"({"role": "user", "content": "q"}, )";
  const std::string last = R"({"role": "assistant", "content": "a"})";
  EXPECT_THAT(masks(R"({"messages": [)" + question + answer + question + last + "]}\n").out,
              HasSubstr("5 of them trained, in 2 runs (3, 2)\n"));
  const auto json = nlohmann::json::parse(masks(rest, {"--json", "--limit", "1"}).out);
  EXPECT_EQ(json.at("is_target"), nlohmann::json({0, 1, 1}));
  EXPECT_EQ(run_clora({"tokenize", "--model", folder / "model"}).exit_code, 2);
}

TEST_F(CommandLineData, ReportsWhyAModelHasNoChatTemplate) {
  const auto path = folder / "model/tokenizer_config.json";
  nlohmann::json config = nlohmann::json::parse(test::read_file(path));
  config["chat_template"] = "{{ messages }";
  test::write_file(path, config.dump());
  const std::string line = "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}\n";
  const ProgramResult result = eval(line);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("line 1: messages need a chat template"),
                                HasSubstr("chat template: line 1: "),
                                HasSubstr("set --chat-template to that name: chatml")));
  EXPECT_EQ(eval(line, {"--chat-template", "chatml"}).exit_code, 0);
}

TEST_F(CommandLineData, ReportsWhatDataSetsAre) {
  const std::string lines =
      "{\"text\": \"abc\"}\n{\"prompt\": \"the\", \"completion\": \"b\"}\n{\"text\": \"abc\"}\n";
  std::filesystem::create_directory(folder / "data");
  test::write_file(folder / "data/train.jsonl", lines);
  test::write_file(folder / "data/test.json", "[{\"text\": \"hello hello\"}, {\"text\": \"abc\"}]");
  const std::vector<std::string> call{"data", "--model", (folder / "model").string(),
                                      (folder / "data").string()};
  const ProgramResult text = run_clora(call);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  for (const char* part :
       {"records     3 (prompt and completion 1, text 2)", "% of them are trained",
        "duplicates  1; record 3 repeats record 1", "longest 3", "truncated   0 at 512 tokens",
        "1 of 2 records of ", "test.json are also in ", "record 2 is its record 1"}) {
    EXPECT_THAT(text.out, HasSubstr(part));
  }
  std::vector<std::string> json = call;
  json.emplace_back("--json");
  const auto objects = run_clora(json).json_lines();
  ASSERT_EQ(objects.size(), 3U);
  EXPECT_EQ(objects[0].at("records"), 3);
  EXPECT_EQ(objects[0].at("forms").at("text"), 2);
  EXPECT_EQ(objects[0].at("duplicate_records"), 1);
  EXPECT_EQ(objects[0].at("tokens"), 2 + 3 + 2);
  EXPECT_EQ(objects[0].at("trained_tokens"), 1 + 2 + 1);
  EXPECT_EQ(objects[1].at("records"), 2);
  EXPECT_EQ(objects[2].at("shared_records").at(0).at("records"), 1);
}

TEST_F(CommandLineData, WarnsLoudlyIfMostRecordsAreTruncated) {
  const std::string lines = "{\"text\": \"hello hello\"}\n{\"text\": \"hello\"}\n";
  EXPECT_THAT(eval(lines, {"--max-seq-length", "2"}).err,
              HasSubstr("more than half of the records were truncated or skipped"));
  EXPECT_THAT(eval(lines).err, Not(HasSubstr("more than half")));
}

TEST_F(CommandLineData, TellsWhatIsWrongWithFilesOfOtherKinds) {
  const auto error = [&](const std::string& content) {
    const ProgramResult result = eval(content);
    EXPECT_EQ(result.exit_code, 1) << content;
    return result.err;
  };
  EXPECT_THAT(error(""), HasSubstr("the data set has no records"));
  EXPECT_THAT(error("prompt,completion\na,b\n"), HasSubstr("read_csv"));
  EXPECT_THAT(error("PAR1"), HasSubstr("read_parquet"));
  EXPECT_THAT(error("\xff\xfe{"), HasSubstr("iconv -f UTF-16 -t UTF-8"));
  EXPECT_THAT(error(std::string("\x7f"
                                "ELF\0",
                                5)),
              HasSubstr("the file is binary"));
  EXPECT_THAT(error("{\n  \"text\": \"abc\"\n}\n"),
              HasSubstr("line 1, column 2: not valid JSON: unexpected end of text; a record"));
  EXPECT_THAT(error(R"({"question": "a", "answer": "b"})"),
              HasSubstr("got keys: question, answer"));
}

TEST_F(CommandLineData, KeepsRecordsInATemporaryFileBeyondTheirMemory) {
  std::string lines;
  for (int i = 0; i < 30'000; ++i) lines += "{\"text\": \"zzzzzzzzzzzzzzzz\"}\n";
  test::write_file(folder / "data.jsonl", lines);
  const ProgramCall call{.arguments = {"data", "--model", (folder / "model").string(),
                                       "--data-memory", "1MiB", (folder / "data.jsonl").string()},
                         .environment = {"TMPDIR=" + (folder / "none").string()}};
  const ProgramResult result = run_clora(call);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("set TMPDIR to a folder with more space, or raise"));
  std::vector<std::string> more = call.arguments;
  more[4] = "64MiB";
  EXPECT_EQ(run_clora(ProgramCall{.arguments = more, .environment = call.environment}).exit_code,
            0);
}

using CommandLineMixtures = test::TrainingFolder;

TEST_F(CommandLineMixtures, TrainOnSeveralFilesByTheirWeights) {
  const std::string lines = records();
  test::write_file(folder_ / "rare.jsonl", lines.substr(0, lines.find('\n') + 1));
  const auto run = [&](const std::string& weight, const char* out,
                       std::vector<std::string> more = {}) {
    std::vector<std::string> all{"train",     "--model",
                                 at("model"), "--adapter-out",
                                 at(out),     "--batch-size",
                                 "4",         "--epochs",
                                 "2",         "--json",
                                 "--data",    at("data"),
                                 "--data",    at("rare.jsonl") + weight};
    all.insert(all.end(), more.begin(), more.end());
    return run_clora(all);
  };
  const ProgramResult plain = run("", "a");
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_EQ(plain.json_lines().at(0).at("steps"), 6) << "8 + 1 records in batches of 4, twice";
  const ProgramResult weighted = run("=4.5", "b", {"--save-every", "3"});
  ASSERT_EQ(weighted.exit_code, 0) << weighted.err;
  EXPECT_EQ(weighted.json_lines().at(0).at("steps"), 8) << "8 + 4.5 records, twice";
  EXPECT_EQ(weighted.json_lines().at(0).at("records"), 9);

  const std::string toml = test::read_file(folder_ / "b/run.toml");
  EXPECT_THAT(toml, HasSubstr("rare.jsonl=4.5\"]"));
  const ProgramResult again = run_clora(
      {"train", "--config", at("b/run.toml"), "--resume", at("b"), "--json", "--epochs", "3"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  const ProgramResult other = run("=4", "b", {"--save-every", "3", "--resume", at("b")});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("weights of the data sets was 1 x 8 records, 4.5 x 1 records"));
  const ProgramResult refused = run("=-1", "c");
  EXPECT_THAT(refused.err, HasSubstr("rare.jsonl' must be above 0 and at most 1000, got -1"));
}

TEST_F(CommandLineMixtures, AreEvaluatedWithoutWeights) {
  const auto eval = [&](std::vector<std::string> data) {
    std::vector<std::string> all{"eval", "--model", at("model"), "--json", "--data"};
    all.insert(all.end(), data.begin(), data.end());
    return run_clora(all);
  };
  const std::string file = at("data/train.jsonl");
  EXPECT_EQ(eval({file, file}).json_lines().at(0).at("records"), 16);
  EXPECT_THAT(eval({file + "=2"}).err, HasSubstr("every record is read once"));
  EXPECT_THAT(eval({at("data")}).err, HasSubstr("is a folder; name a file in it"));
  EXPECT_THAT(eval({at("none=2x")}).err, HasSubstr("none=2x' does not exist"));
}

}  // namespace
}  // namespace clora

// The messages of the program clora about records and chat templates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_chat_model.hpp"

namespace clora {
namespace {

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

}  // namespace
}  // namespace clora

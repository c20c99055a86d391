// The program clora as a user runs it: help, mistakes, exit codes, streams and small commands.
// command_line_training_test.cpp covers training and what follows it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/gguf_parts.hpp"
#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_chat_model.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using test::run_clora;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CommandLine : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = new test::TemporaryFolder;
    model = *folder / "model";
    test::write_tiny_chat_model(model);
  }
  static void TearDownTestSuite() { delete folder; }

  static void expect_usage_error(const std::vector<std::string>& arguments,
                                 const std::string& words) {
    const ProgramResult result = run_clora(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("clora: error: " + words));
    EXPECT_THAT(result.out, IsEmpty());
  }

  static inline test::TemporaryFolder* folder = nullptr;
  static inline std::string model;
};

TEST_F(CommandLine, EveryCommandsHelpHasAnExampleOnStdout) {
  for (const std::string command :
       {"train", "compare", "plan", "eval", "data", "generate", "chat", "serve", "tokenize", "fuse",
        "quantize", "convert", "adapters", "devices", "doctor", "info", "sweep"}) {
    const ProgramResult result = run_clora({command, "--help"});
    EXPECT_EQ(result.exit_code, 0) << command;
    EXPECT_THAT(result.out, HasSubstr("  clora " + command + " ")) << command;
    EXPECT_THAT(result.out, HasSubstr("--json")) << command;
    EXPECT_THAT(result.err, IsEmpty()) << command;
  }
}

TEST_F(CommandLine, HelpOfTrainingListsTheDefaults) {
  const std::string help = run_clora({"train", "--help"}).out;
  for (const char* words : {"=0.0002", "--rank INT:1..65536=8", "=16", "=512", "=all-linear",
                            "=constant", "--no-shuffle", "--no-append-eos", "CLORA_DEVICE"}) {
    EXPECT_THAT(help, HasSubstr(words));
  }
}

TEST_F(CommandLine, AWrongOptionIsNamedWithTheRightOne) {
  expect_usage_error({"train", "--lerning-rate", "1"},
                     "unknown option --lerning-rate; did you mean --lr?");
  expect_usage_error({"generate", "--model", model, "--promt", "x"},
                     "unknown option --promt; did you mean --prompt?");
  expect_usage_error({"eval", "--xyzzy"}, "unknown option --xyzzy; 'clora eval --help'");
}

TEST_F(CommandLine, HelpIsACommandToo) {
  EXPECT_EQ(run_clora({"help"}).out, run_clora({"--help"}).out);
  for (const std::string command : {"train", "bench", "tokenize"}) {
    const ProgramResult result = run_clora({"help", command});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.out, run_clora({command, "--help"}).out);
  }
  expect_usage_error({"help", "trian"}, "unknown command 'trian'; did you mean 'train'?");
}

TEST_F(CommandLine, TheVersionHasAShortOption) {
  const ProgramResult result = run_clora({"-V"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, testing::MatchesRegex("clora [0-9.]+\n"));
  EXPECT_EQ(run_clora({"--version"}).out, result.out);
}

TEST_F(CommandLine, WrongOptionsOfTheProgramAndOfOneDashAreNamed) {
  expect_usage_error({"--verison"}, "unknown option --verison; did you mean --version?");
  expect_usage_error({"--modle", "m"}, "unknown option --modle; 'clora --help' lists them");
  expect_usage_error({"train", "-lr", "1"}, "unknown option -lr; did you mean --lr?");
  expect_usage_error({"generate", "-p", "x"}, "unknown option -p; ");
}

TEST_F(CommandLine, AWrongCommandIsNamedWithTheRightOne) {
  expect_usage_error({"trian"}, "unknown command 'trian'; did you mean 'train'?");
  expect_usage_error({}, "a command is required");
}

TEST_F(CommandLine, ValuesOutOfRangeAreUsageErrors) {
  expect_usage_error(
      {"train", "--model", model, "--data", "d", "--adapter-out", "o", "--rank", "0"}, "--rank");
  expect_usage_error({"generate", "--model", model, "--prompt", "x", "--top-p", "2"}, "--top-p");
  expect_usage_error({"generate", "--model", model}, "one of --prompt and --prompt-ids");
  expect_usage_error({"train", "--model", model, "--data", "d", "--adapter-out", "o", "--steps",
                      "1", "--epochs", "1"},
                     "--steps excludes --epochs");
}

TEST_F(CommandLine, AnOptionsValueMayLookLikeAnOption) {
  const ProgramResult result =
      run_clora({"generate", "--model", model, "--prompt", "--nonsense", "--max-tokens", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(CommandLine, DevicesAreListedWithTheOneThatWouldBeSelected) {
  const ProgramResult result = run_clora({"devices", "--json"});
  if (result.exit_code != 0) GTEST_SKIP() << "no OpenCL device: " << result.err;
  const auto devices = result.json_lines().at(0).at("devices");
  int selected = 0;
  for (const auto& device : devices) selected += device.at("taken").get<bool>() ? 1 : 0;
  EXPECT_EQ(selected, 1);
  EXPECT_GT(devices.at(0).at("memory_bytes").get<double>(), 0);
}

TEST_F(CommandLine, WithoutADeviceThePackageThatBringsOneIsNamed) {
  const ProgramResult result = run_clora(
      test::ProgramCall{.arguments = {"devices"}, .environment = {"OCL_ICD_VENDORS=/nonexistent"}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("pocl-opencl-icd"));
}

TEST_F(CommandLine, TheDeviceMayComeFromTheEnvironment) {
  const ProgramResult result = run_clora(
      test::ProgramCall{.arguments = {"devices"}, .environment = {"CLORA_DEVICE=no-such-thing"}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("no device matches 'no-such-thing'"));
}

TEST_F(CommandLine, APrecisionIsAcceptedOrRefusedWithThoseThatTheDeviceHas) {
  const ProgramResult result =
      run_clora({"generate", "--model", model, "--prompt", "a", "--precision", "bf16"});
  const auto devices = run_clora({"devices", "--json"}).json_lines().at(0).at("devices");
  const auto selected = std::ranges::find_if(devices, [](const auto& d) { return d.at("taken"); });
  if (selected->at("matrix_unit") != "none") {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return;
  }
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("use f32"));
}

TEST_F(CommandLine, TheKvCacheHasATypeOfThose) {
  const auto logprobs_with = [&](const char* precision, const char* type) {
    const ProgramResult result = run_clora(
        {"generate", "--model", model, "--prompt", "the people of the", "--max-tokens", "4",
         "--logprobs", "0", "--json", "--precision", precision, "--kv-cache-type", type});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.json_lines().back().at("logprobs").get<std::vector<double>>();
  };
  const auto exact = logprobs_with("f32", "f32");
  EXPECT_EQ(logprobs_with("f32", "auto"), exact);
  for (const char* type : {"bf16", "f16"}) EXPECT_NE(logprobs_with("f32", type), exact) << type;
  EXPECT_EQ(logprobs_with("auto", "auto"), logprobs_with("auto", "bf16"));
  EXPECT_NE(logprobs_with("auto", "auto"), logprobs_with("auto", "f32"));
  const auto refusal_of = [&](const char* type) {
    const ProgramResult refused =
        run_clora({"generate", "--model", model, "--prompt", "a", "--kv-cache-type", type});
    EXPECT_NE(refused.exit_code, 0);
    return refused.err;
  };
  EXPECT_THAT(refusal_of("q4_0"), HasSubstr("--kv-cache-type"));
  EXPECT_THAT(refusal_of("q8_0"), HasSubstr("requires heads of a multiple of 32 elements"));
}

// The weights of the small model begin at any byte of its file, and these kernels read vectors.
TEST_F(CommandLine, ThePortableKernelsReadAModelWhereverItsFileHasTheWeights) {
  const ProgramResult result =
      run_clora(test::ProgramCall{.arguments = {"generate", "--model", model, "--prompt", "a"},
                                  .environment = {"CLORA_VARIANT=portable"}});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(CommandLine, TokenizeGivesIdsOfArgumentsAndOfStandardInput) {
  const ProgramResult words = run_clora({"tokenize", "--model", model, "the"});
  const ProgramResult object = run_clora(test::ProgramCall{
      .arguments = {"tokenize", "--model", model, "--json", "-"}, .input = "the"});
  EXPECT_EQ(words.exit_code, 0) << words.err;
  EXPECT_THAT(object.json_lines().at(0).at("ids"), ElementsAre(257));
  EXPECT_EQ(words.out, "257\n");
}

TEST_F(CommandLine, TokenizePutsAnEncodersSpecialTokensAroundTheText) {
  const test::TemporaryFolder encoder;
  test::write_file(encoder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nlow\n##er\n");
  const ProgramResult ids = run_clora({"tokenize", "--model", encoder.path(), "Lower"});
  EXPECT_EQ(ids.exit_code, 0) << ids.err;
  EXPECT_EQ(ids.out, "2,4,5,3\n");
}

TEST_F(CommandLine, TextOfSpecialTokensIsTextUnlessRequested) {
  const auto count = [](const char* option) {
    return run_clora({"tokenize", "--model", model, "--json", option, "<|im_end|>"})
        .json_lines()
        .at(0)
        .at("ids")
        .size();
  };
  EXPECT_EQ(count("--special"), 1U);
  EXPECT_GT(count("--no-special"), 1U);
}

TEST_F(CommandLine, InfoDescribesAModel) {
  const auto object = run_clora({"info", model, "--json"}).json_lines().at(0);
  EXPECT_EQ(object.at("architecture"), "llama");
  EXPECT_EQ(object.at("layers"), 2);
  EXPECT_EQ(object.at("chat_template").at("system"), true);
  EXPECT_EQ(object.at("chat_template").at("tools"), false);
  EXPECT_GT(object.at("parameters").get<int>(), 1000);
  EXPECT_EQ(object.at("tensors").at("f32").at("elements"), object.at("parameters"));
}

TEST_F(CommandLine, InfoTakesAnyPartOfASplitModel) {
  CLORA_REQUIRE_TEST_DATA(stories, "models/stories260k/stories260K.gguf");
  const test::TemporaryFolder parts;
  test::write_gguf_parts(GgufFile::open(stories), parts.path(), "stories", 2);
  const std::string second = parts / test::gguf_part_file("stories", 2, 2);
  const auto object = run_clora({"info", second, "--json"}).json_lines().at(0);
  EXPECT_EQ(object.at("layers"), 5);
  EXPECT_EQ(object.at("tokenizer").at("vocabulary"), 512);
  EXPECT_THAT(object.at("files"),
              ElementsAre("stories-00001-of-00002.gguf", "stories-00002-of-00002.gguf"));
  EXPECT_THAT(run_clora({"info", second}).out,
              HasSubstr("in 2 files, the first is stories-00001-of-00002.gguf"));
}

TEST_F(CommandLine, AMissingModelIsOneClearLine) {
  const ProgramResult result = run_clora({"info", "/nonexistent/model.gguf", "--json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, HasSubstr("/nonexistent/model.gguf"));
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1);
}

TEST_F(CommandLine, GenerateGivesOneObjectWithLogprobs) {
  const auto object = run_clora({"generate", "--model", model, "--prompt-ids", "1,2,3",
                                 "--max-tokens", "4", "--json", "--logprobs", "2"})
                          .json_lines()
                          .at(0);
  EXPECT_THAT(object.at("prompt_ids"), ElementsAre(1, 2, 3));
  const std::size_t tokens = object.at("ids").size();
  ASSERT_GT(tokens, 0U);
  EXPECT_EQ(object.at("logprobs").size(), tokens);
  EXPECT_EQ(object.at("top_logprobs").size(), tokens);
  EXPECT_EQ(object.at("top_logprobs").at(0).at(0).at("id"), object.at("ids").at(0));
  EXPECT_EQ(object.at("top_logprobs").at(0).at(0).at("logprob"), object.at("logprobs").at(0));
  for (const char* key : {"text", "finish_reason", "prompt_tokens_per_s", "decode_tokens_per_s"}) {
    EXPECT_TRUE(object.contains(key)) << key;
  }
}

TEST_F(CommandLine, AStopTextEndsTheReplyAndIsCutOff) {
  const auto generate = [](std::vector<std::string> more) {
    std::vector<std::string> all{"generate", "--model",      model, "--prompt",
                                 "abc",      "--max-tokens", "12",  "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return run_clora(all).json_lines().at(0);
  };
  const std::string complete = generate({}).at("text");
  ASSERT_GE(complete.size(), 4U);
  // A position at a character boundary, so the stop text is valid UTF-8.
  std::size_t at = 2;
  while ((static_cast<unsigned char>(complete[at]) & 0xC0) == 0x80) ++at;
  const std::string stop = complete.substr(at);
  const auto cut = generate({"--stop", stop});
  EXPECT_EQ(cut.at("text"), complete.substr(0, complete.find(stop)));
  EXPECT_EQ(cut.at("finish_reason"), "stop");
}

TEST_F(CommandLine, ThePromptMayComeFromStandardInput) {
  const std::vector<std::string> tail{"--max-tokens", "3", "--json"};
  const ProgramResult piped = run_clora(test::ProgramCall{
      .arguments = {"generate", "--model", model, "--max-tokens", "3", "--json", "--prompt", "-"},
      .input = "the\n"});
  EXPECT_THAT(piped.json_lines().at(0).at("prompt_ids"), ElementsAre(257));
}

TEST_F(CommandLine, ChatKeepsItsTurnsUntilReset) {
  const ProgramResult result = run_clora(test::ProgramCall{
      .arguments = {"chat", "--model", model, "--max-tokens", "3", "--json", "--context", "200"},
      .input = "ab\nab\n/reset\nab\n/exit\nnever\n"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto lines = result.json_lines();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].at("ids"), lines[2].at("ids"));
}

// The cache has full pages of 16 tokens.
TEST_F(CommandLine, ATurnOfAChatComputesOnlyWhatIsNew) {
  const ProgramResult result = run_clora(test::ProgramCall{
      .arguments = {"chat", "--model", model, "--max-tokens", "3", "--json", "--context", "250"},
      .input = "ab abc the llo ab\nab\n"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto lines = result.json_lines();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].at("cached_tokens"), 0);
  const auto of_first = lines[0].at("prompt_tokens").get<int>();
  ASSERT_GE(of_first, 16);
  EXPECT_GE(lines[1].at("cached_tokens").get<int>(), of_first / 16 * 16);
  EXPECT_LT(lines[1].at("cached_tokens").get<int>(), lines[1].at("prompt_tokens").get<int>());
}

class ChatSession : public CommandLine {
 protected:
  ~ChatSession() override {
    std::filesystem::remove(file_);
    std::filesystem::remove(keys_);
  }
  ProgramResult chat(const std::string& input, const std::vector<std::string>& options = {}) {
    std::vector<std::string> all{"chat",   "--model",   model, "--max-tokens", "3",
                                 "--json", "--context", "250", "--session",    file_};
    all.insert(all.end(), options.begin(), options.end());
    return run_clora(test::ProgramCall{.arguments = all, .input = input});
  }
  // Of the reply with this number.
  static nlohmann::json reply(const ProgramResult& result, std::size_t number = 0) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.json_lines().at(number);
  }
  nlohmann::json messages() { return nlohmann::json::parse(test::read_file(file_)).at("messages"); }

  std::string file_ = *folder / "session.json", keys_ = file_ + ".safetensors";
};

TEST_F(ChatSession, GoesOnWhereItEndedWithoutComputingItAgain) {
  const std::string first = "ab abc the llo ab", second = "ab";
  const nlohmann::json at_once = reply(chat(first + "\n" + second + "\n"), 1);
  std::filesystem::remove(file_);
  const nlohmann::json before = reply(chat(first + "\n", {"--system", "the"}));
  EXPECT_EQ(messages().size(), 3U);
  EXPECT_EQ(messages()[0], (nlohmann::json{{"role", "system"}, {"content", "the"}}));
  EXPECT_EQ(messages()[1], (nlohmann::json{{"role", "user"}, {"content", first}}));
  EXPECT_EQ(messages()[2], (nlohmann::json{{"role", "assistant"}, {"content", before["text"]}}));
  const nlohmann::json after = reply(chat(second + "\n"));
  EXPECT_GE(after["cached_tokens"].get<int>(), before["prompt_tokens"].get<int>() / 16 * 16);
  EXPECT_EQ(messages().size(), 5U);
  std::filesystem::remove(file_);
  reply(chat(first + "\n"));
  const nlohmann::json resumed = reply(chat(second + "\n"));
  EXPECT_EQ(resumed["ids"], at_once["ids"]);
  EXPECT_EQ(resumed["prompt_tokens"], at_once["prompt_tokens"]);
}

TEST_F(ChatSession, IsComputedAgainIfItsKeysDoNotFit) {
  const std::string first = "ab abc the llo ab\n";
  const nlohmann::json before = reply(chat(first + "ab\n"), 1);
  std::filesystem::remove(file_);
  reply(chat(first));
  ProgramResult result = chat("ab\n", {"--kv-cache-type", "f16"});
  EXPECT_THAT(result.err, HasSubstr("warning: engine: '" + keys_));
  EXPECT_THAT(result.err, HasSubstr("the conversation is computed again"));
  EXPECT_EQ(reply(result)["cached_tokens"], 0);
  std::filesystem::remove(file_);
  reply(chat(first));
  test::write_file(keys_, "damaged");
  result = chat("ab\n");
  EXPECT_THAT(result.err, HasSubstr("the conversation is computed again"));
  EXPECT_EQ(reply(result)["ids"], before["ids"]);
  EXPECT_GT(reply(chat("ab\n"))["cached_tokens"], 0) << "the keys were saved again";
}

TEST_F(ChatSession, EndsWithAReset) {
  reply(chat("ab\n/reset\n", {"--system", "the"}));
  EXPECT_EQ(messages(), nlohmann::json({{{"role", "system"}, {"content", "the"}}}));
  reply(chat("ab\n"));
  EXPECT_EQ(messages().size(), 3U);
}

TEST_F(ChatSession, IsAConversationInTurnsWithItsSystemMessage) {
  const std::string user = R"({"role": "user", "content": "ab"})",
                    assistant = R"({"role": "assistant", "content": "ab"})";
  const auto expect_refused = [&](const std::string& content, const std::string& words) {
    test::write_file(file_, content);
    const ProgramResult result = chat("ab\n");
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr(words));
    EXPECT_EQ(test::read_file(file_), content);
  };
  expect_refused("[]", "session.json: the document must be an object");
  expect_refused("{}", "session.json: messages must be a list");
  expect_refused(R"({"messages": [)" + user + "]}", "the last message must be of the assistant");
  expect_refused(R"({"messages": [)" + assistant + "]}", "messages[0].role must be 'user', got");
  expect_refused(R"({"messages": [{"role": "user"}]})", "messages[0].content is missing");
  expect_refused(R"({"messages": [{"role": "user", "content": "", "name": "x"}]})",
                 "messages[0] must have role and content only, got 'name'");
  test::write_file(file_, R"({"messages": [)" + user + "," + assistant + "]}");
  const ProgramResult other = chat("ab\n", {"--system", "the"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("--system must be left out"));
  EXPECT_EQ(reply(chat("ab\n"))["cached_tokens"], 0);
}

// The text of the reply to "ab" with more options.
std::string reply_with(const std::string& model, const std::vector<std::string>& options) {
  std::vector<std::string> all{"generate", "--model", model, "--prompt", "ab", "--json"};
  all.insert(all.end(), options.begin(), options.end());
  const ProgramResult result = run_clora(all);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.json_lines().at(0).at("text");
}

TEST_F(CommandLine, ARepliesGrammarComesFromAFile) {
  const std::string grammar = *folder / "answers.gbnf", schema = *folder / "schema.json";
  test::write_file(grammar, R"(root ::= "maybe " ("yes" | "no"))");
  test::write_file(schema, R"({"type": "object", "properties": {"ok": {"type": "boolean"}},
                               "required": ["ok"], "additionalProperties": false})");
  EXPECT_THAT(reply_with(model, {"--grammar", grammar}), testing::MatchesRegex("maybe (yes|no)"));
  const std::string object = reply_with(model, {"--json-schema", schema, "--max-tokens", "80"});
  EXPECT_TRUE(nlohmann::json::parse(object).at("ok").is_boolean()) << object;
  EXPECT_THAT(reply_with(model, {"--json-object", "--max-tokens", "5"}), testing::StartsWith("{"));
  const ProgramResult chat = run_clora(test::ProgramCall{
      .arguments = {"chat", "--model", model, "--grammar", grammar}, .input = "ab\n"});
  EXPECT_TRUE(chat.out.ends_with("\nmaybe yes\n") || chat.out.ends_with("\nmaybe no\n"))
      << chat.out << chat.err;
}

TEST_F(CommandLine, AGrammarThatCannotBeReadIsOneLineWithItsFile) {
  const std::string grammar = *folder / "wrong.gbnf";
  test::write_file(grammar, "root ::= (");
  const std::vector<std::string> call{"generate", "--model", model, "--prompt", "ab"};
  const auto fails = [&](std::vector<std::string> options, int exit_code, const char* part) {
    options.insert(options.begin(), call.begin(), call.end());
    const ProgramResult result = run_clora(options);
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_THAT(result.err, HasSubstr(part));
  };
  fails({"--grammar", grammar}, 1, "wrong.gbnf: grammar: line 1");
  fails({"--json-schema", grammar}, 1, "wrong.gbnf: json schema");
  fails({"--grammar", "/no/grammar"}, 1, "/no/grammar");
  fails({"--grammar", grammar, "--json-object"}, 2, "--json-object excludes --grammar");
}

TEST_F(CommandLine, PenaltiesAndFiltersChangeAReplyAndGuessedTokensDoNot) {
  const std::string greedy = reply_with(model, {"--max-tokens", "40"});
  EXPECT_EQ(reply_with(model, {"--max-tokens", "40", "--draft-tokens", "4"}), greedy);
  EXPECT_NE(reply_with(model, {"--max-tokens", "40", "--presence-penalty", "100"}), greedy);
  EXPECT_NE(reply_with(model, {"--max-tokens", "40", "--frequency-penalty", "100"}), greedy);
  const std::string drawn = reply_with(model, {"--max-tokens", "40", "--temperature", "1"});
  EXPECT_NE(reply_with(model, {"--max-tokens", "40", "--temperature", "1", "--typical-p", "0.01"}),
            drawn);
}

TEST_F(CommandLine, AClosedOutputPipeIsNotACrash) {
  const ProgramResult result = run_clora(test::ProgramCall{
      .arguments = {"generate", "--model", model, "--prompt", "abc"}, .close_output = true});
  EXPECT_LT(result.exit_code, 128) << result.exit_code;
}

}  // namespace
}  // namespace clora

#include "model/records.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/tokenizer_files.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora {
namespace {

using Ids = std::vector<std::int32_t>;
using Marks = std::vector<std::uint8_t>;

const Tokenizer& tokenizer() {
  static const Tokenizer instance(test::byte_level_spec());
  return instance;
}

const ChatTemplate& chatml() {
  static const ChatTemplate instance =
      ChatTemplate::recognise("<|im_start|>' + role<|im_end|>", tokenizer());
  return instance;
}

std::int32_t id(const char* text) { return tokenizer().id_of(text).value_or(-1); }

Record read(const char* line, const RecordOptions& options = {}) {
  return read_record(line, tokenizer(), &chatml(), options);
}

Records load(const std::string& content, const RecordOptions& options = {}) {
  const test::TemporaryFolder folder;
  test::write_whole_file(folder / "data.jsonl", content);
  return load_records(folder / "data.jsonl", tokenizer(), &chatml(), options);
}

TEST(Records, CountEveryTokenOfATextButTheFirst) {
  const Record record = read(R"({"text": "the the"})");
  EXPECT_EQ(record.ids, (Ids{id("the"), id("\u0120the"), id("<|im_end|>")}));
  EXPECT_EQ(record.is_target, (Marks{0, 1, 1}));
  EXPECT_EQ(read(R"({"text": "the the"})", {.append_eos = false}).ids.size(), 2u);
}

TEST(Records, CountTheCompletionOnly) {
  const Record record = read(R"({"prompt": "the", "completion": " theb"})");
  EXPECT_EQ(record.ids, (Ids{id("the"), id("\u0120the"), id("b"), id("<|im_end|>")}));
  EXPECT_EQ(record.is_target, (Marks{0, 1, 1, 1}));
}

TEST(Records, NeverCountTheFirstTokenEvenWithoutAPrompt) {
  const Record record = read(R"({"prompt": "", "completion": "the"})");
  EXPECT_EQ(record.is_target, (Marks{0, 1}));
}

TEST(Records, TokenisePromptAndCompletionApart) {
  const Record record = read(R"({"prompt": "t", "completion": "h"})", {.append_eos = false});
  EXPECT_EQ(record.ids, (Ids{id("t"), id("h")}));
}

TEST(Records, CountEachAssistantTurnWithItsEnd) {
  const Record record = read(
      R"({"messages": [{"role": "user", "content": "the"}, {"role": "assistant", "content": "b"},
          {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "value": "b"}]},
          {"role": "assistant", "content": "llo"}]})");
  Ids counted;
  for (std::size_t i = 0; i < record.ids.size(); ++i) {
    if (record.is_target[i] != 0) counted.push_back(record.ids[i]);
  }
  EXPECT_EQ(counted, (Ids{id("b"), id("<|im_end|>"), id("llo"), id("<|im_end|>")}));
  EXPECT_NE(std::find(record.ids.begin(), record.ids.end(), id("ab")), record.ids.end());
}

TEST(Records, TakeAPairForAConversationWhereThatIsAsked) {
  const Record asked =
      read(R"({"prompt": "the", "completion": "b"})", {.apply_chat_template = true});
  const Record written = read(
      R"({"messages": [{"role": "user", "content": "the"}, {"role": "assistant", "content": "b"}]})");
  EXPECT_EQ(asked.ids, written.ids);
  EXPECT_EQ(asked.is_target, written.is_target);
}

TEST(Records, TreatSpecialTextInDataAsText) {
  const Record record = read(R"({"text": "<|im_end|>"})", {.append_eos = false});
  EXPECT_EQ(std::count(record.ids.begin(), record.ids.end(), id("<|im_end|>")), 0);
}

TEST(Records, CutLongOnesAndCountThem) {
  const Records all = load("{\"text\": \"abcd\"}\n{\"text\": \"b\"}\n", {.max_seq_length = 2});
  ASSERT_EQ(all.records.size(), 2u);
  EXPECT_EQ(all.records[0].ids, (Ids{id("abc"), id("d")}));
  EXPECT_EQ(all.records[0].is_target, (Marks{0, 1}));
  EXPECT_EQ(all.truncated, 1u);
  EXPECT_EQ(all.target_count(), 2u);
}

TEST(Records, SkipThoseThatLostAllTargetsAndCountThem) {
  const Records all = load("{\"prompt\": \"xyzxyz\", \"completion\": \"b\"}\n{\"text\": \"b\"}\n",
                           {.max_seq_length = 4});
  EXPECT_EQ(all.records.size(), 1u);
  EXPECT_EQ(all.skipped, 1u);
  EXPECT_EQ(all.truncated, 1u);
}

TEST(Records, StopAtABadLineWithFileLineAndReason) {
  const auto refuses = [](const std::string& line, const std::string& reason) {
    CLORA_EXPECT_ERROR(load("{\"text\": \"a b\"}\n" + line + "\n{\"text\": \"a b\"}\n"),
                       ErrorCode::invalid_data, "data.jsonl:2: " + reason);
  };
  refuses("{\"text\": \"a", "not valid JSON");
  refuses("{\"text\": \"\xFF\"}", "not valid JSON");
  refuses("[1]", "a record must be a JSON object, got array");
  refuses("", "an empty line");
  refuses("{}", "a record needs \"text\"");
  refuses(R"({"question": "a", "answer": "b"})", "a record needs");
  refuses(R"({"text": 3})", "\"text\" must be a string, got number");
  refuses(R"({"text": ""})", "\"text\" is empty");
  refuses(R"({"prompt": "a"})", "\"completion\" is missing");
  refuses(R"({"completion": "a"})", "\"prompt\" is missing");
  refuses(R"({"prompt": "a", "completion": ""})", "\"completion\" is empty");
  refuses(R"({"messages": "a"})", "\"messages\" must be a list, got string");
  refuses(R"({"messages": []})", "\"messages\" is empty");
  refuses(R"({"messages": [3]})", "a message must be an object");
  refuses(R"({"messages": [{"content": "a"}]})", "\"role\" is missing");
  refuses(R"({"messages": [{"role": "user"}]})", "\"content\" is missing");
  refuses(R"({"messages": [{"role": "tool", "content": "a"}]})", "\"role\" must be");
  refuses(R"({"messages": [{"role": "user", "content": []}]})", "\"content\" is an empty list");
  refuses(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})",
          "a part of \"content\" must be of type text, got 'image'");
}

TEST(Records, NeedATemplateForMessages) {
  CLORA_EXPECT_ERROR(
      read_record(R"({"messages": [{"role": "user", "content": "a"}]})", tokenizer(), nullptr),
      ErrorCode::invalid_data, "chat template");
}

TEST(Records, NeedAnEosTokenToAppendIt) {
  TokenizerSpec spec = test::byte_level_spec();
  spec.eos.reset();
  CLORA_EXPECT_ERROR(read_record(R"({"text": "a"})", Tokenizer(spec), nullptr),
                     ErrorCode::invalid_argument, "eos");
}

TEST(Records, RefuseAFileWithoutAny) {
  CLORA_EXPECT_ERROR(load(""), ErrorCode::invalid_data, "no records");
  CLORA_EXPECT_ERROR(load("\n\n"), ErrorCode::invalid_data, "no records");
  const test::TemporaryFolder folder;
  for (const auto& path : {folder / "none.jsonl", folder.path()}) {
    CLORA_EXPECT_ERROR(load_records(path, tokenizer(), nullptr), ErrorCode::not_found,
                       path.string());
  }
}

TEST(Records, ReadOnlyAsManyAsTheLimit) {
  const std::string lines = "{\"text\": \"ab c\"}\n{\"text\": \"b c\"}\nnot JSON\n";
  EXPECT_EQ(load(lines, {.limit = 2}).records.size(), 2u);
  EXPECT_EQ(load(lines, {.limit = 1}).records.size(), 1u);
}

TEST(Records, AcceptCarriageReturnsAndEmptyLinesAtTheEnd) {
  EXPECT_EQ(load("{\"text\": \"a b\"}\r\n{\"text\": \"a\"}\r\n\r\n\n").records.size(), 2u);
}

TEST(Records, FindTheSplitsOfAFolder) {
  const test::TemporaryFolder folder;
  test::write_whole_file(folder / "train.jsonl", "");
  EXPECT_EQ(find_split(folder.path(), "train"), folder / "train.jsonl");
  EXPECT_EQ(find_split(folder.path(), "valid"), std::nullopt);
}

TEST(Records, OfWikiSqlHaveTheIdsOfTheReference) {
  CLORA_FILE_OR_SKIP(model, test::cached_model("SmolLM2-135M-Instruct.Q4_1.gguf"),
                     "the demo model");
  CLORA_FILE_OR_SKIP(path, test::test_data("models/reference/SmolLM2-135M-Instruct.Q4_1.json"),
                     "the reference");
  CLORA_FILE_OR_SKIP(data, test::test_data("datasets/wikisql"), "the data set");
  const Tokenizer smol = load_tokenizer(model);
  const nlohmann::json reference = nlohmann::json::parse(test::read_whole_file(path));
  const auto expect_ids = [&](const char* split, const nlohmann::json& expected,
                              RecordOptions options) {
    options.append_eos = false;
    options.limit = expected.size();
    const Records all = load_records(*find_split(data, split), smol, nullptr, options);
    ASSERT_EQ(all.records.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(all.records[i].ids, expected[i].get<Ids>()) << split << " " << i;
    }
  };
  expect_ids("valid", reference.at("wikisql_valid").at("ids"), {});
  expect_ids("train", reference.at("lora_training").at("ids"), {.max_seq_length = 128});
  RecordOptions options{.append_eos = false, .limit = 20};
  EXPECT_EQ(load_records(data / "valid.jsonl", smol, nullptr, options).target_count(),
            reference.at("wikisql_valid").at("target_tokens").get<std::size_t>());
}

TEST(Records, OfMessagesInPartsAreAllRead) {
  CLORA_FILE_OR_SKIP(model, test::cached_model("SmolLM2-135M-Instruct.Q4_1.gguf"),
                     "the demo model");
  CLORA_FILE_OR_SKIP(data, test::test_data("datasets/v1_sft_demo.jsonl"), "the data set");
  const Tokenizer smol = load_tokenizer(model);
  const ChatTemplate chat = ChatTemplate::recognise(smol.chat_template(), smol);
  const Records all = load_records(data, smol, &chat, {.max_seq_length = 2048});
  EXPECT_EQ(all.records.size() + all.skipped, 500u);
  EXPECT_EQ(all.skipped, 0u);
}

}  // namespace
}  // namespace clora

#include "clora/model/data/records.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "clora/model/text/tokenizer_files.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/owned_records.hpp"
#include "tests/support/peak_memory.hpp"
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
  static const ChatTemplate instance = ChatTemplate::named("chatml", tokenizer());
  return instance;
}

std::int32_t id(const char* text) { return tokenizer().id_of(text).value_or(-1); }

Record read(const char* line, const RecordOptions& options = {}) {
  return read_record(line, tokenizer(), &chatml(), options);
}

Records load(const std::string& content, const RecordOptions& options = {}) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "data.jsonl", content);
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
  Ids labelled;
  for (std::size_t i = 0; i < record.ids.size(); ++i) {
    if (record.is_target[i] != 0) labelled.push_back(record.ids[i]);
  }
  EXPECT_EQ(labelled, (Ids{id("b"), id("<|im_end|>"), id("llo"), id("<|im_end|>")}));
  EXPECT_NE(std::find(record.ids.begin(), record.ids.end(), id("ab")), record.ids.end());
}

TEST(Records, ReadAPairAsAConversationIfRequested) {
  const Record parsed =
      read(R"({"prompt": "the", "completion": "b"})", {.apply_chat_template = true});
  const Record written = read(
      R"({"messages": [{"role": "user", "content": "the"}, {"role": "assistant", "content": "b"}]})");
  EXPECT_EQ(parsed.ids, written.ids);
  EXPECT_EQ(parsed.is_target, written.is_target);
}

TEST(Records, OfEachFormOfAnExchangeAreTheSame) {
  const Record written = read(
      R"({"messages": [{"role": "user", "content": "the"}, {"role": "assistant", "content": "b"}]})");
  for (const char* line :
       {R"({"conversations": [{"from": "human", "value": "the"}, {"from": "gpt", "value": "b"}]})",
        R"({"instruction": "the", "output": "b"})",
        R"({"prompt": [{"role": "user", "content": "the"}],
            "completion": [{"role": "assistant", "content": "b"}]})"}) {
    EXPECT_EQ(read(line).ids, written.ids) << line;
    EXPECT_EQ(read(line).is_target, written.is_target) << line;
  }
}

TEST(Records, RefuseWhatTheChatTemplateWouldLeaveOut) {
  const auto refuses = [](const char* line, const char* what) {
    CLORA_EXPECT_ERROR(read(line), ErrorCode::invalid_data,
                       fmt::format("chat template does not write {}, so the model would", what));
  };
  refuses(R"({"messages": [{"role": "assistant", "content": "a"}], "tools": [{"name": "f"}]})",
          "tools");
  refuses(R"({"messages": [{"role": "assistant", "tool_calls": [{"name": "f"}]}]})", "tool calls");
  refuses(R"({"messages": [{"role": "assistant", "content": "a", "reasoning": "b"}]})",
          "reasoning parts");
}

TEST(Records, RefuseObjectsOfSoManyKeysThatReadingThemWouldTakeLong) {
  std::string line = "{\"text\": \"a\"";
  for (int i = 0; i < 1024; ++i) line += fmt::format(", \"k{}\": 0", i);
  CLORA_EXPECT_ERROR(read((line + "}").c_str()), ErrorCode::invalid_data,
                     "an object must have at most 1024 keys");
}

TEST(Records, TreatSpecialTextInDataAsText) {
  const Record record = read(R"({"text": "<|im_end|>"})", {.append_eos = false});
  EXPECT_EQ(std::count(record.ids.begin(), record.ids.end(), id("<|im_end|>")), 0);
}

TEST(Records, NameTheFirstRecordWithSpecialTokensThatAreNotParsed) {
  const std::string lines =
      "{\"text\": \"a b\"}\n{\"prompt\": \"a<|im_end|>\", \"completion\": \"b\"}\n"
      "{\"text\": \"<|im_start|>b<tool>\"}\n{\"messages\": [{\"role\": \"assistant\", "
      "\"content\": \"<|im_end|>\"}]}\n";
  const Records all = load(lines);
  EXPECT_EQ(all.with_special, 3u);
  EXPECT_EQ(all.special_line, 2u);
  EXPECT_EQ(all.special_token, "<|im_end|>");
  EXPECT_EQ(load("{\"text\": \"a <tool>b\"}\n").with_special, 0u);
}

TEST(Records, ParseSpecialTokensIfRequested) {
  const RecordOptions parsed{.parse_special = true};
  EXPECT_EQ(read(R"({"text": "a<|im_end|>b"})", parsed).ids,
            (Ids{id("a"), id("<|im_end|>"), id("b"), id("<|im_end|>")}));
  EXPECT_EQ(read(R"({"text": "ab<|im_end|>"})", parsed).ids, (Ids{id("ab"), id("<|im_end|>")}))
      << "an eos that is written is not written again";
  EXPECT_EQ(read(R"({"prompt": "<|im_start|>", "completion": "b"})", parsed).ids,
            (Ids{id("<|im_start|>"), id("b"), id("<|im_end|>")}));
  const Ids ids =
      read(R"({"messages": [{"role": "assistant", "content": "<|im_end|>"}]})", parsed).ids;
  EXPECT_EQ(std::count(ids.begin(), ids.end(), id("<|im_end|>")), 2);
  EXPECT_EQ(load("{\"text\": \"<|im_end|>b\"}\n", parsed).with_special, 0u);
}

TEST(Records, BeginWithOneBosIfThePromptIsEmpty) {
  TokenizerSpec spec = test::byte_level_spec();
  spec.add_bos = true;
  const Tokenizer with_bos(std::move(spec));
  EXPECT_EQ(read_record(R"({"prompt": "", "completion": "b"})", with_bos, nullptr).ids,
            (Ids{id("<|bos|>"), id("b"), id("<|im_end|>")}));
  EXPECT_EQ(read_record(R"({"prompt": "a", "completion": "b"})", with_bos, nullptr).ids,
            (Ids{id("<|bos|>"), id("a"), id("b"), id("<|im_end|>")}));
}

TEST(Records, RefuseOnesThatTheModelCannotRead) {
  const std::string lines = "{\"text\": \"b\"}\n{\"text\": \"xyzxyz\"}\n";
  CLORA_EXPECT_ERROR(
      load(lines, {.max_positions = 4}), ErrorCode::invalid_data,
      "data.jsonl: line 2: the record has 7 tokens, but the model supports at most 4");
  CLORA_EXPECT_ERROR(load(lines, {.max_seq_length = 5, .max_positions = 4}),
                     ErrorCode::invalid_data, "the record has 5 tokens");
  EXPECT_EQ(load(lines, {.max_seq_length = 4, .max_positions = 4}).truncated, 1u);
  EXPECT_EQ(load(lines, {.max_positions = 7}).truncated, 0u);
}

TEST(Records, RefuseADataSetInWhichNothingCounts) {
  CLORA_EXPECT_ERROR(
      load("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n"
           "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"weight\": 0}]}\n"),
      ErrorCode::invalid_data, "data.jsonl: line 1: the record has no target");
}

TEST(Records, AreReadInBoundedMemory) {
  CLORA_EXPECT_ERROR(
      load_records("/dev/zero", tokenizer(), nullptr), ErrorCode::invalid_data,
      "/dev/zero: records must be JSON Lines or a JSON array, but the file is binary");
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "{\"text\": \"a b\"}\n";
  CLORA_EXPECT_ERROR(load(lines, {.max_bytes = 2000}), ErrorCode::out_of_memory,
                     "take more than 2000 bytes");
  CLORA_EXPECT_ERROR(load("{\"text\": \"a b\"}\n" + std::string(1 << 21, '\n')),
                     ErrorCode::invalid_data, "line 2: an empty line before the end");
}

TEST(Records, OfAFileLargerThanTheLimitAreKeptOutsideOfMemory) {
  const test::TemporaryFolder folder;
  std::ofstream file(folder / "data.jsonl");
  constexpr std::size_t kCount = 60'000;
  for (std::size_t i = 0; i < kCount; ++i) {
    file << "{\"text\": \"" << std::string(200 + i % 97, 'z') << "\"}\n";
  }
  file.close();
  const auto before = test::peak_mebibytes();
  const Records all = load_records(folder / "data.jsonl", tokenizer(), nullptr,
                                   {.memory = {.max_resident_bytes = std::size_t{1} << 20U}});
  ASSERT_EQ(all.records.size(), kCount);
  EXPECT_GT(all.records.bytes(), std::size_t{60} << 20U);
  EXPECT_EQ(all.target_count(), [&] {
    std::size_t count = 0;
    for (std::size_t i = 0; i < kCount; ++i) count += 200 + i % 97;
    return count;
  }());
  EXPECT_LT(test::peak_mebibytes().value_or(0) - before.value_or(0), 16);
}

TEST(Records, AreReadAcrossTheBoundariesOfTheBuffer) {
  std::string lines;
  for (int i = 0; i < 3000; ++i) {
    lines += "{\"text\": \"" + std::string(static_cast<std::size_t>(1 + i % 97), 'z') + "\"}\n";
  }
  lines += "{\"text\": \"" + std::string(200000, 'z') + "\"}";
  const Records all = load(lines, {.max_seq_length = 1U << 20U, .append_eos = false});
  ASSERT_EQ(all.records.size() + all.skipped, 3001u);
  EXPECT_EQ(test::owned(all.records[0]).ids.size(), 2u);
  EXPECT_EQ(all.records.back().ids.size(), 200000u);
}

TEST(Records, CutLongOnesAndCountThem) {
  const Records all = load("{\"text\": \"abcd\"}\n{\"text\": \"b\"}\n", {.max_seq_length = 2});
  ASSERT_EQ(all.records.size(), 2u);
  EXPECT_EQ(test::owned(all.records[0]).ids, (Ids{id("abc"), id("d")}));
  EXPECT_EQ(test::owned(all.records[0]).is_target, (Marks{0, 1}));
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
                       ErrorCode::invalid_data, "data.jsonl: line 2" + reason);
  };
  refuses("{\"text\": \"a", ", column 12: not valid JSON: unexpected end of text");
  refuses("{\"text\": \"\xFF\"}", ", column 11: not valid JSON: unexpected byte 0xff");
  refuses(std::string(100000, '['), ", column 65: arrays and objects must be nested at most 64");
  refuses("[1]", ": a record must be a JSON object, got an array of length 1");
  refuses("", ": an empty line");
  refuses("{}", ": a record needs \"text\"");
  refuses(R"({"question": "a", "answer": "b"})", ": a record needs");
  refuses(R"({"text": 3})", ": \"text\" must be a string, got 3");
  refuses(R"({"text": ""})", ": \"text\" is empty");
  refuses(R"({"prompt": "a"})", ": \"completion\" is missing");
  refuses(R"({"completion": "a"})", ": \"prompt\" is missing");
  refuses(R"({"prompt": "a", "completion": ""})", ": \"completion\" is empty");
  refuses(R"({"messages": "a"})", ": \"messages\" must be a list, got \"a\"");
  refuses(R"({"messages": []})", ": \"messages\" is empty");
  refuses(R"({"messages": [3]})", ": a message must be an object");
  refuses(R"({"messages": [{"content": "a"}]})", ": \"role\" is missing");
  refuses(R"({"messages": [{"role": "user"}]})", ": \"content\" is missing");
  refuses(R"({"messages": [{"role": "narrator", "content": "a"}]})", ": \"role\" must be");
  refuses(R"({"messages": [{"role": "user", "content": []}]})", ": \"content\" is an empty list");
  refuses(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})",
          ": a part of \"content\" must be of type text, thinking or reasoning, got 'image'");
}

TEST(Records, NeedATemplateForMessages) {
  const char* line = R"({"messages": [{"role": "user", "content": "a"}]})";
  CLORA_EXPECT_ERROR(read_record(R"({"instruction": "a", "output": "b"})", tokenizer(), nullptr),
                     ErrorCode::invalid_data,
                     "Alpaca's instructions need a chat template: the model has no");
  CLORA_EXPECT_ERROR(read_record(line, tokenizer(), nullptr), ErrorCode::invalid_data,
                     "messages need a chat template: the model has no supported one");
  CLORA_EXPECT_ERROR(
      read_record(line, tokenizer(), nullptr, {.chat_template_problem = "it is Gemma's"}),
      ErrorCode::invalid_data, "messages need a chat template: it is Gemma's");
}

TEST(Records, LeaveOutTurnsOfWeightZeroAndRefuseOtherWeights) {
  const auto line = [](const char* first, const char* second) {
    return fmt::format(
        R"({{"messages": [{{"role": "user", "content": "the"{}}}, {{"role": "assistant", "content": "b"{}}},
            {{"role": "user", "content": "a"}}, {{"role": "assistant", "content": "llo"}}]}})",
        first, second);
  };
  const auto labelled = [](const Record& record) {
    Ids ids;
    for (std::size_t i = 0; i < record.ids.size(); ++i) {
      if (record.is_target[i] != 0) ids.push_back(record.ids[i]);
    }
    return ids;
  };
  const Record all = read(line("", "").c_str());
  const Record last = read(line("", R"(, "weight": 0)").c_str());
  EXPECT_EQ(last.ids, all.ids);
  EXPECT_EQ(labelled(last), (Ids{id("llo"), id("<|im_end|>")}));
  for (const char* same : {R"(, "weight": 1)", R"(, "weight": null)", R"(, "name": "x")"}) {
    EXPECT_EQ(read(line("", same).c_str()).is_target, all.is_target) << same;
  }
  EXPECT_EQ(read(line(R"(, "weight": 0)", "").c_str()).is_target, all.is_target);
  for (const char* other : {"0.5", "2", "-1", "true", "\"0\""}) {
    const std::string weight = fmt::format(R"(, "weight": {})", other);
    CLORA_EXPECT_ERROR(read(line("", weight.c_str()).c_str()), ErrorCode::invalid_data,
                       fmt::format("\"weight\" of a message must be 0 or 1, got {}", other));
  }
  CLORA_EXPECT_ERROR(read(line(R"(, "weight": 1)", "").c_str()), ErrorCode::invalid_data,
                     "\"weight\" of a message of the user must be 0 or absent, got 1");
}

TEST(Records, HaveTheWeightOfTheirLosses) {
  EXPECT_EQ(read(R"({"text": "a b"})").weight, 1);
  EXPECT_EQ(read(R"({"text": "a b", "weight": null})").weight, 1);
  EXPECT_EQ(read(R"({"text": "a b", "weight": 2})").weight, 2);
  EXPECT_EQ(read(R"({"prompt": "a", "completion": "b", "weight": 0.25})").weight, 0.25F);
  EXPECT_EQ(read(R"({"messages": [{"role": "assistant", "content": "b"}], "weight": 3})").weight,
            3);
  const Records records = load("{\"text\": \"a b\", \"weight\": 0.5}\n{\"text\": \"a b c\"}\n");
  EXPECT_EQ(records.records[0].weight, 0.5F);
  EXPECT_EQ(records.records[1].weight, 1);
}

TEST(Records, OfWeightZeroHaveNoTarget) {
  const Records records =
      load("{\"text\": \"a b\"}\n{\"text\": \"a b c\", \"weight\": 0}\n{\"text\": \"a\"}\n");
  EXPECT_EQ(records.skipped, 1U);
  EXPECT_EQ(records.records.size(), 2U);
}

TEST(Records, RefuseWeightsThatAreNoFactorsWithFileAndLine) {
  for (const char* weight : {"\"2\"", "\"\"", "-0.5", "true", "[1]", "1e39"}) {
    CLORA_EXPECT_ERROR(
        load(fmt::format("{{\"text\": \"a b\"}}\n{{\"text\": \"a b\", \"weight\": {}}}\n", weight)),
        ErrorCode::invalid_data,
        "data.jsonl: line 2: \"weight\" must be a finite number of 0 or more, got ");
  }
  CLORA_EXPECT_ERROR(
      read(R"({"anchor": "a", "positive": "b", "weight": 2})", {.pairs = TextPairOptions{}}),
      ErrorCode::invalid_data, "\"weight\" of a record is not supported, got 2");
  CLORA_EXPECT_ERROR(read(R"({"prompt": "a", "chosen": "b", "rejected": "c", "weight": 2})",
                          {.preference = PreferenceForm::pairs}),
                     ErrorCode::invalid_data, "\"weight\" of a record is not supported, got 2");
}

TEST(Records, RefuseKeysThatChangeWhatIsTrainedByName) {
  for (const char* key :
       {"tools", "tool_choice", "function_call", "images", "chosen", "rejected", "label", "labels",
        "input_ids", "train", "system", "functions", "chat_template_kwargs"}) {
    const std::string line = fmt::format(R"({{"text": "a b", "{}": 7}})", key);
    CLORA_EXPECT_ERROR(read(line.c_str()), ErrorCode::invalid_data,
                       fmt::format("\"{}\" of a record", key));
    CLORA_EXPECT_ERROR(read(line.c_str()), ErrorCode::invalid_data, "is not supported, got 7");
    for (const char* nothing : {"null", "[]", "{}", "\"\""}) {
      const std::string empty = fmt::format(R"({{"text": "a b", "{}": {}}})", key, nothing);
      EXPECT_EQ(read(empty.c_str()).ids, read(R"({"text": "a b"})").ids) << empty;
    }
  }
  for (const char* key : {"audio", "images", "videos", "refusal", "prefix"}) {
    const std::string line = fmt::format(
        R"({{"messages": [{{"role": "assistant", "content": "b", "{}": true}}]}})", key);
    CLORA_EXPECT_ERROR(read(line.c_str()), ErrorCode::invalid_data,
                       fmt::format("\"{}\" of a message is not supported, got true", key));
  }
  EXPECT_EQ(read(R"({"text": "a b", "id": 7, "meta": {"x": 1}, "url": "u"})").ids,
            read(R"({"text": "a b"})").ids);
}

TEST(Records, SayAConversationThatTheTemplateRefuses) {
  const ChatTemplate mistral = ChatTemplate::named("mistral-v3", tokenizer());
  CLORA_EXPECT_ERROR(read_record(R"({"messages": [{"role": "assistant", "content": "a"}]})",
                                 tokenizer(), &mistral),
                     ErrorCode::invalid_data,
                     "record: line 1: chat template mistral-v3: roles must alternate");
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

TEST(Records, OfSeveralFilesFollowOneAnotherWithTheirWeights) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "a.jsonl", "{\"text\": \"a b\"}\n{\"text\": \"b\"}\n");
  test::write_file(folder / "b.json",
                   "[{\"text\": \"the\"}, {\"prompt\": \"xyzxyz\", "
                   "\"completion\": \"b<|im_end|>\"}]");
  const std::vector<DataFile> files{{folder / "a.jsonl"}, {folder / "b.json", 2.5}};
  const Records all = load_records(files, tokenizer(), nullptr, {.max_seq_length = 4});
  ASSERT_EQ(all.records.size(), 3u);
  EXPECT_EQ(all.records[2].ids[0], id("the"));
  EXPECT_EQ(all.skipped, 1u);
  EXPECT_EQ(all.special_file, (folder / "b.json").string());
  EXPECT_EQ(all.data_shares(), (std::vector<DataShare>{{2, 1}, {1, 2.5}}));
  test::write_file(folder / "c.jsonl", "{\"prompt\": \"xyzxyz\", \"completion\": \"b\"}\n");
  CLORA_EXPECT_ERROR(load_records(std::vector<DataFile>{{folder / "a.jsonl"}, {folder / "c.jsonl"}},
                                  tokenizer(), nullptr, {.max_seq_length = 4}),
                     ErrorCode::invalid_data, "c.jsonl: line 1: the record has no target");
}

TEST(Records, FindTheSplitsOfAFolder) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "train.jsonl", "");
  EXPECT_EQ(find_split(folder.path(), "train"), folder / "train.jsonl");
  EXPECT_EQ(find_split(folder.path(), "valid"), std::nullopt);
  test::write_file(folder / "valid.json.gz", "");
  EXPECT_EQ(find_split(folder.path(), "valid"), folder / "valid.json.gz");
  test::write_file(folder / "valid.jsonl", "");
  CLORA_EXPECT_ERROR(find_split(folder.path(), "valid"), ErrorCode::invalid_data,
                     "both exist; name the one to use");
}

TEST(Records, OfWikiSqlHaveTheIdsOfTheReference) {
  CLORA_DEMO_MODEL_OR_SKIP(model);
  CLORA_REQUIRE_TEST_DATA(path, "models/reference/SmolLM2-135M-Instruct.Q4_1.json");
  CLORA_REQUIRE_TEST_DATA(data, "datasets/wikisql");
  const Tokenizer smol = load_tokenizer(model);
  const nlohmann::json reference = nlohmann::json::parse(test::read_file(path));
  const auto expect_ids = [&](const char* split, const nlohmann::json& expected,
                              RecordOptions options) {
    options.append_eos = false;
    options.limit = expected.size();
    const Records all = load_records(*find_split(data, split), smol, nullptr, options);
    ASSERT_EQ(all.records.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(test::owned(all.records[i]).ids, expected[i].get<Ids>()) << split << " " << i;
    }
  };
  expect_ids("valid", reference.at("wikisql_valid").at("ids"), {});
  expect_ids("train", reference.at("lora_training").at("ids"), {.max_seq_length = 128});
  RecordOptions options{.append_eos = false, .limit = 20};
  EXPECT_EQ(load_records(data / "valid.jsonl", smol, nullptr, options).target_count(),
            reference.at("wikisql_valid").at("target_tokens").get<std::size_t>());
}

TEST(Records, OfMessagesInPartsAreAllRead) {
  CLORA_DEMO_MODEL_OR_SKIP(model);
  CLORA_REQUIRE_TEST_DATA(data, "datasets/v1_sft_demo.jsonl");
  const Tokenizer smol = load_tokenizer(model);
  const ChatTemplate chat = ChatTemplate::parse(smol.chat_template(), smol);
  const Records all = load_records(data, smol, &chat, {.max_seq_length = 2048});
  EXPECT_EQ(all.records.size() + all.skipped, 500u);
  EXPECT_EQ(all.skipped, 0u);
}

RecordOptions of_pairs(const char* query = "", const char* document = "") {
  return {.pairs = TextPairOptions{.query_prefix = query, .document_prefix = document}};
}

TEST(TextPairs, MarkTheFirstTokenOfEachText) {
  const Record pair = read(R"({"anchor": "the the", "positive": "the"})", of_pairs());
  EXPECT_EQ(pair.ids, (Ids{id("the"), id("\u0120the"), id("the")}));
  EXPECT_EQ(pair.is_target, (Marks{1, 0, 1}));
  const Record triplet =
      read(R"({"anchor": "the", "positive": "the the", "negative": "t", "id": 3})", of_pairs());
  EXPECT_EQ(triplet.ids, (Ids{id("the"), id("the"), id("\u0120the"), id("t")}));
  EXPECT_EQ(triplet.is_target, (Marks{1, 1, 0, 1}));
}

TEST(TextPairs, BeginWithTheirPrefixes) {
  const auto with = [](const char* line) { return read(line, of_pairs("b", "the ")).ids; };
  EXPECT_EQ(with(R"({"anchor": "b", "positive": "the", "negative": "b"})"),
            (Ids{id("b"), id("b"), id("the"), id("\u0120the"), id("the"), id("\u0120"), id("b")}));
  EXPECT_EQ(with(R"({"sentence1": "b", "sentence2": "the", "score": 1})"),
            (Ids{id("b"), id("b"), id("b"), id("the")}));
}

TEST(TextPairs, AreTruncatedTextByText) {
  RecordOptions options = of_pairs();
  options.max_seq_length = 2;
  const Records records = load(R"({"anchor": "the the the", "positive": "the the the the"})"
                               "\n"
                               R"({"anchor": "the the", "positive": "t"})",
                               options);
  EXPECT_EQ(records.truncated, 1u);
  EXPECT_EQ(test::owned(records.records[0]).is_target, (Marks{1, 0, 1, 0}));
  EXPECT_EQ(test::owned(records.records[1]).is_target, (Marks{1, 0, 1}));
  options.max_seq_length = 512;
  options.max_positions = 3;
  EXPECT_EQ(load(R"({"anchor": "the the the the", "positive": "t"})", options).records.length(0),
            4u);
}

TEST(TextPairs, HaveScoresOrNone) {
  const std::string scored = R"({"sentence1": "t", "sentence2": "h", "score": 0.5})";
  const Records records = load(scored + "\n" + scored, of_pairs());
  EXPECT_EQ(records.scores, (std::vector{0.5, 0.5}));
  const std::string pair = R"({"anchor": "t", "positive": "h"})";
  EXPECT_TRUE(load(pair, of_pairs()).scores.empty());
  const auto error = [](const std::string& content) {
    return test::error_of([&] { load(content, of_pairs()); });
  };
  EXPECT_NE(error(scored + "\n" + pair).find("line 2: pairs with a score and pairs without"),
            std::string::npos);
  EXPECT_NE(error(pair + "\n" + scored).find("line 2: pairs with a score and pairs without"),
            std::string::npos);
}

TEST(TextPairs, NameWhatIsMissing) {
  const auto error = [](const char* line) {
    return test::error_of([&] { read(line, of_pairs()); });
  };
  EXPECT_NE(error(R"({"anchor": "t"})").find("\"positive\" is missing"), std::string::npos);
  EXPECT_NE(error(R"({"text": "t"})").find("\"anchor\" is missing"), std::string::npos);
  EXPECT_NE(error(R"({"anchor": "t", "positive": ""})").find("\"positive\" is empty"),
            std::string::npos);
  EXPECT_NE(error(R"({"sentence1": "t", "sentence2": "h"})").find("\"score\" must be a number"),
            std::string::npos);
  EXPECT_NE(error(R"({"anchor": "t", "positive": "h", "labels": [1]})").find("is not supported"),
            std::string::npos);
}

}  // namespace
}  // namespace clora

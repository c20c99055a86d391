// Records of prompts with answers that are compared, and their report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clora/model/data/data_report.hpp"
#include "model/data/preference_packing.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora {
namespace {

using Ids = std::vector<std::int32_t>;

const Tokenizer& tokenizer() {
  static const Tokenizer instance(test::byte_level_spec());
  return instance;
}

const ChatTemplate& chatml() {
  static const ChatTemplate instance = ChatTemplate::named("chatml", tokenizer());
  return instance;
}

RecordOptions options_of(PreferenceForm form) { return {.preference = form}; }

Record read(const std::string& line, PreferenceForm form = PreferenceForm::pairs) {
  return read_record(line, tokenizer(), &chatml(), options_of(form));
}

Ids ids_of(std::span<const std::int32_t> ids) { return {ids.begin(), ids.end()}; }
Ids joined(Ids first, const Ids& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// A pair is what two records with a completion are.
void expect_pair(const Record& got, const std::string& chosen, const std::string& rejected) {
  const PromptAnswers all = answers_of(got);
  const Record c = read_record(chosen, tokenizer(), &chatml());
  const Record r = read_record(rejected, tokenizer(), &chatml());
  EXPECT_EQ(joined(ids_of(all.prompt), ids_of(all.chosen)), c.ids);
  EXPECT_EQ(joined(ids_of(all.prompt), ids_of(all.rejected)), r.ids);
  const auto begin = std::ranges::find(c.is_target, 1) - c.is_target.begin();
  EXPECT_EQ(all.prompt.size(), static_cast<std::size_t>(begin));
}

TEST(PreferenceRecords, OfTextsAreAPromptWithTwoAnswers) {
  expect_pair(read(R"({"prompt": "the", "chosen": " theb", "rejected": " thea"})"),
              R"({"prompt": "the", "completion": " theb"})",
              R"({"prompt": "the", "completion": " thea"})");
}

TEST(PreferenceRecords, OfTextsWithoutAPromptBeginWithIt) {
  expect_pair(read(R"({"chosen": "the theb", "rejected": "the a"})"),
              R"({"prompt": "the", "completion": " theb"})",
              R"({"prompt": "the", "completion": " a"})");
  // Both are two bytes, of which the first is the same.
  expect_pair(read("{\"chosen\": \"a\u00e9\", \"rejected\": \"a\u00e8\"}"),
              "{\"prompt\": \"a\", \"completion\": \"\u00e9\"}",
              "{\"prompt\": \"a\", \"completion\": \"\u00e8\"}");
}

constexpr const char* kUser = R"({"role": "user", "content": "the"})";
std::string assistant(const char* text) {
  return std::string(R"({"role": "assistant", "content": ")") + text + "\"}";
}

TEST(PreferenceRecords, OfMessagesHaveThePromptApartOrAsTheirBeginning) {
  const std::string user = kUser;
  const std::string chosen = "{\"messages\": [" + user + ", " + assistant("b") + "]}";
  const std::string rejected = "{\"messages\": [" + user + ", " + assistant("llo") + "]}";
  expect_pair(read("{\"prompt\": [" + user + "], \"chosen\": [" + assistant("b") +
                   "], \"rejected\": [" + assistant("llo") + "]}"),
              chosen, rejected);
  expect_pair(read("{\"chosen\": [" + user + ", " + assistant("b") + "], \"rejected\": [" + user +
                   ", " + assistant("llo") + "]}"),
              chosen, rejected);
}

TEST(PreferenceRecords, WithALabelHaveOneAnswer) {
  for (const bool label : {true, false}) {
    const Record got = read(std::string(R"({"prompt": "the", "completion": " theb", "label": )") +
                                (label ? "true}" : "false}"),
                            PreferenceForm::labelled);
    const PromptAnswers all = answers_of(got);
    const Record want =
        read_record(R"({"prompt": "the", "completion": " theb"})", tokenizer(), nullptr);
    EXPECT_EQ(got.ids, want.ids);
    EXPECT_EQ(all.prompt.size(), 1U);
    EXPECT_EQ(all.chosen.empty(), !label);
    EXPECT_EQ(all.rejected.empty(), label);
  }
}

TEST(PreferenceRecords, AreRefusedWithTheReason) {
  const auto refuses = [](const char* line, const std::string& reason,
                          PreferenceForm form = PreferenceForm::pairs) {
    CLORA_EXPECT_ERROR(read(line, form), ErrorCode::invalid_data, reason);
  };
  refuses(R"({"prompt": "a", "chosen": "b"})", "record: line 1: \"rejected\" is missing or empty");
  refuses(R"({"prompt": "a", "chosen": "b", "rejected": 3})", "must be a text or a list");
  refuses(R"({"prompt": "a", "chosen": [{"role": "assistant", "content": "b"}], "rejected": "b"})",
          "\"prompt\", \"chosen\" and \"rejected\" must be all texts or all lists of messages");
  refuses(R"({"prompt": "a", "chosen": "b", "rejected": "b", "images": ["x"]})",
          "\"images\" of a record is not supported");
  refuses(R"({"chosen": "the", "rejected": "the b"})", "\"chosen\" and \"rejected\" must differ");
  refuses(R"({"chosen": [{"role": "user", "content": "a"}],
              "rejected": [{"role": "user", "content": "b"}]})",
          "must begin with the same messages");
  refuses(R"({"prompt": "a", "completion": "b", "label": 1})", "\"label\" must be true or false",
          PreferenceForm::labelled);
  refuses(R"({"prompt": "a", "completion": "b"})", "\"label\" must be true or false, got nothing",
          PreferenceForm::labelled);
  CLORA_EXPECT_ERROR(
      read_record(R"({"prompt": "a", "completion": "b", "chosen": "c"})", tokenizer(), nullptr),
      ErrorCode::invalid_data, "\"chosen\" of a record is not supported");
}

TEST(PreferenceRecords, AreCutSkippedAndReportedByTheirDocuments) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "data.jsonl",
                   "{\"prompt\": \"a\", \"chosen\": \"bbbb\", \"rejected\": \"bb\"}\n"
                   "{\"prompt\": \"aaaaa\", \"chosen\": \"b\", \"rejected\": \"bb\"}\n");
  DataReport report;
  RecordOptions options = options_of(PreferenceForm::pairs);
  options.max_seq_length = 4;
  options.append_eos = false;
  options.report = &report;
  const Records records = load_records(folder / "data.jsonl", tokenizer(), nullptr, options);
  ASSERT_EQ(records.records.size(), 1U);
  const PromptAnswers all = answers_of(records.records[0]);
  EXPECT_EQ(all.prompt.size(), 1U);
  EXPECT_EQ(all.chosen.size(), 3U);
  EXPECT_EQ(all.rejected.size(), 2U);
  EXPECT_EQ(records.truncated, 2U);
  EXPECT_EQ(records.skipped, 1U);
  EXPECT_EQ(report.by_form[static_cast<std::size_t>(RecordForm::answer_pair)], 2U);
  EXPECT_EQ(report.trained_tokens, 5U);
  EXPECT_EQ(records.target_count(), 5U);
}

}  // namespace
}  // namespace clora

// clora embed, with a tiny random encoder and its tokenizer.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "clora/runtime/files/json.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::ProgramResult;
using test::run_clora;
using testing::HasSubstr;

class EmbedCommand : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<test::FamilyModel> models = test::encoder_models();
    test::write_family_model(folder_ / "model", models.front());
    write("model/vocab.txt", test::tiny_encoder_vocabulary());
    write("model/tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})");
    write("texts.txt", "abc de\n\nz\n");
  }
  void write(const std::string& name, const std::string& text) {
    test::write_file(folder_ / name, text);
  }
  ProgramResult embed(std::vector<std::string> options) {
    std::vector<std::string> all{"embed", "--model", folder_ / "model"};
    all.insert(all.end(), options.begin(), options.end());
    return run_clora(all);
  }
  // The vectors that --json prints.
  static std::vector<std::vector<double>> vectors(const ProgramResult& result) {
    std::vector<std::vector<double>> all;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      all.push_back(json::parse(line).at("embedding").get<std::vector<double>>());
    }
    return all;
  }
  static double length(const std::vector<double>& vector) {
    double squares = 0;
    for (const double v : vector) squares += v * v;
    return std::sqrt(squares);
  }
  test::TemporaryFolder folder_;
};

TEST_F(EmbedCommand, PrintsAVectorForEachLine) {
  const ProgramResult result = embed({"--data", folder_ / "texts.txt", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto all = vectors(result);
  ASSERT_EQ(all.size(), 3U) << "an empty line is a text, too";
  for (const auto& vector : all) {
    EXPECT_EQ(vector.size(), 24U);
    EXPECT_NEAR(length(vector), 1, 1e-5);
  }
  EXPECT_NE(all[0], all[2]);
}

TEST_F(EmbedCommand, WritesANumPyFile) {
  const std::string out = folder_ / "out.npy";
  const ProgramResult result = embed({"--data", folder_ / "texts.txt", "--out", out});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("3 vectors of 24 numbers"));
  const std::string bytes = test::read_file(out);
  EXPECT_THAT(bytes, HasSubstr("'shape': (3, 24)"));
  EXPECT_EQ(bytes.size() % 64, (3U * 24 * 4) % 64);
}

TEST_F(EmbedCommand, ReadsTextsFromJsonLinesByTheirKey) {
  write("texts.jsonl", "{\"q\": \"abc de\"}\n{\"q\": \"z\"}\n");
  const auto by_lines = vectors(embed({"--data", folder_ / "texts.txt", "--json"}));
  const auto by_key = vectors(embed({"--data", folder_ / "texts.jsonl", "--key", "q", "--json"}));
  ASSERT_EQ(by_key.size(), 2U);
  for (std::size_t d = 0; d < 24; ++d) EXPECT_NEAR(by_key[0][d], by_lines[0][d], 1e-6);
  const ProgramResult missing = embed({"--data", folder_ / "texts.jsonl"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("texts.jsonl:1: the key text is missing"));
}

TEST_F(EmbedCommand, FollowsTheFilesOfSentenceTransformersUnlessToldOtherwise) {
  write("model/modules.json", R"([
      {"type": "sentence_transformers.models.Transformer", "path": ""},
      {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}])");
  std::filesystem::create_directories(folder_ / "model/1_Pooling");
  write("model/1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  write("model/sentence_bert_config.json", R"({"max_seq_length": 4})");
  write("model/config_sentence_transformers.json",
        R"({"prompts": {"query": "q "}, "default_prompt_name": "query"})");
  const std::string data = folder_ / "texts.txt";
  const auto by_files = vectors(embed({"--data", data, "--json"}));
  EXPECT_GT(std::abs(length(by_files[0]) - 1), 1e-3) << "no module normalises";
  const auto said = vectors(embed({"--data", data, "--json", "--pooling", "first", "--no-normalize",
                                   "--prefix", "q ", "--max-length", "4"}));
  EXPECT_EQ(by_files, said);
  EXPECT_NE(by_files, vectors(embed({"--data", data, "--json", "--prefix", ""})));
  EXPECT_NE(by_files, vectors(embed({"--data", data, "--json", "--pooling", "mean"})));
  EXPECT_NE(by_files, vectors(embed({"--data", data, "--json", "--max-length", "8"})));
  EXPECT_THAT(embed({"--data", data, "--out", folder_ / "o.npy"}).err,
              HasSubstr("1 texts were cut to 4 tokens"));
}

TEST_F(EmbedCommand, RefusesModulesAndPoolingsThatItDoesNotCompute) {
  write("model/modules.json", R"([{"type": "sentence_transformers.models.Dense", "path": "2"}])");
  ProgramResult result = embed({"--data", folder_ / "texts.txt", "--json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("modules.json: the module Dense is not supported"));
  write("model/modules.json", R"([{"type": "x.Pooling", "path": "p"}])");
  std::filesystem::create_directories(folder_ / "model/p");
  write("model/p/config.json",
        R"({"pooling_mode_cls_token": true, "pooling_mode_max_tokens": true})");
  result = embed({"--data", folder_ / "texts.txt", "--json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("the pooling must be one of mean_tokens"));
}

class EmbeddingTask : public EmbedCommand {
 protected:
  void SetUp() override {
    EmbedCommand::SetUp();
    std::filesystem::create_directories(folder_ / "data");
    std::string pairs;
    for (const char* text : {"a", "b c", "d", "e f", "g h i", "k"}) {
      pairs += fmt::format("{{\"anchor\": \"{0} x\", \"positive\": \"{0} y\"}}\n", text);
    }
    write("data/train.jsonl", pairs);
    write("data/valid.jsonl", pairs);
  }
  ProgramResult run(const std::string& command, std::vector<std::string> options) {
    std::vector<std::string> all{command, "--model", folder_ / "model", "--task", "embedding"};
    all.insert(all.end(), options.begin(), options.end());
    return run_clora(all);
  }
  ProgramResult train(const std::string& out, std::vector<std::string> options = {}) {
    std::vector<std::string> all{
        "--data", folder_ / "data", "--adapter-out", folder_ / out, "--steps", "4", "--lr", "0.02"};
    all.insert(all.end(), options.begin(), options.end());
    return run("train", all);
  }
  std::string adapter(const std::string& out) {
    return test::read_file(folder_ / out / "adapter_model.safetensors");
  }
};

TEST_F(EmbeddingTask, TrainsAnAdapterThatChangesTheVectors) {
  const ProgramResult result = train("out");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("held-out recall@1"));
  EXPECT_THAT(test::read_file(folder_ / "out/adapter_config.json"),
              HasSubstr("\"task_type\": \"FEATURE_EXTRACTION\""));
  EXPECT_THAT(test::read_file(folder_ / "out/log.jsonl"), HasSubstr("\"recall_at_10\":"));
  const std::string data = folder_ / "texts.txt";
  const auto with = vectors(embed({"--data", data, "--json", "--adapter", folder_ / "out"}));
  EXPECT_NE(with, vectors(embed({"--data", data, "--json"})));
  const ProgramResult again = run_clora(
      {"train", "--config", folder_ / "out/run.toml", "--adapter-out", folder_ / "again"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(adapter("again"), adapter("out")) << "run.toml holds the task";
}

TEST_F(EmbeddingTask, HasTheModelsPromptsUnlessOptionsGiveOthers) {
  ASSERT_EQ(train("plain").exit_code, 0);
  write("model/modules.json",
        R"([{"type": "sentence_transformers.models.Transformer", "path": ""}])");
  write("model/config_sentence_transformers.json",
        R"({"prompts": {"query": "q ", "passage": "p "}})");
  ASSERT_EQ(train("prompts").exit_code, 0);
  EXPECT_NE(adapter("prompts"), adapter("plain"));
  ASSERT_EQ(train("same", {"--query-prefix", "q ", "--document-prefix", "p "}).exit_code, 0);
  EXPECT_EQ(adapter("same"), adapter("prompts"));
  ASSERT_EQ(train("none", {"--query-prefix", "", "--document-prefix", ""}).exit_code, 0);
  EXPECT_EQ(adapter("none"), adapter("plain"));
}

TEST_F(EmbeddingTask, EvaluatesRecallAndRankCorrelation) {
  ProgramResult result = run("eval", {"--data", folder_ / "data/valid.jsonl"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("@10 1.0000  6 records"));
  write("scored.jsonl", R"({"sentence1": "a b", "sentence2": "a b", "score": 5}
{"sentence1": "a b", "sentence2": "a c", "score": 3}
{"sentence1": "a b", "sentence2": "x y z w 1 2 3", "score": 0})");
  result = run("eval", {"--data", folder_ / "scored.jsonl", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_DOUBLE_EQ(json::parse(result.out).at("spearman").get<double>(), 1);
  write("data/train.jsonl", test::read_file(folder_ / "scored.jsonl"));
  EXPECT_THAT(train("out").err, HasSubstr("scored pairs have no contrastive loss"));
}

TEST_F(EmbeddingTask, IsEvaluatedOnScoredPairsDuringTraining) {
  write("data/valid.jsonl", R"({"sentence1": "a b", "sentence2": "a b", "score": 5}
{"sentence1": "a b", "sentence2": "x y z w 1 2 3", "score": 0})");
  const ProgramResult result = train("out", {"--eval-every", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("step 2  held-out Spearman 1.0000"));
  EXPECT_THAT(test::read_file(folder_ / "out/log.jsonl"), HasSubstr("\"spearman\":1.0"));
}

}  // namespace
}  // namespace clora

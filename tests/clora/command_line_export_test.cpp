// clora fuse and clora quantize: formats, types, verification, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "clora/model/files/gguf.hpp"
#include "clora/model/weights/weights.hpp"
#include "tests/support/program.hpp"
#include "tests/support/training_folder.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::ProgramResult;
using test::run_clora;
using testing::HasSubstr;
using testing::Not;

class CommandLineExport : public test::TrainingFolder {
 protected:
  static void SetUpTestSuite() { trained = new Trained; }
  static void TearDownTestSuite() { delete trained; }

  // One adapter for all tests.
  struct Trained : test::TrainingFolder {
    Trained() { result = run_clora(training("a")); }
    void TestBody() override {}
    using test::TrainingFolder::at;
    ProgramResult result;
  };

  CommandLineExport() {
    EXPECT_EQ(trained->result.exit_code, 0) << trained->result.err;
    std::filesystem::copy(trained->at("a"), folder_ / "a",
                          std::filesystem::copy_options::recursive);
  }

  ProgramResult fuse(const std::vector<std::string>& more) const {
    std::vector<std::string> all{"fuse", "--model", at("model"), "--adapter", at("a"), "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return run_clora(all);
  }
  ProgramResult quantize(const std::vector<std::string>& more) const {
    std::vector<std::string> all{"quantize", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return run_clora(all);
  }
  static json result_of(const ProgramResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? result.json_lines().at(0) : json::object();
  }
  json reply_of(const std::vector<std::string>& model) const {
    std::vector<std::string> all{"generate", "--prompt",    "say lo:", "--max-tokens",
                                 "6",        "--precision", "f32",     "--json"};
    all.insert(all.end(), model.begin(), model.end());
    return result_of(run_clora(all)).at("ids");
  }
  void expect_no_partial_files() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("partial")));
    }
  }

  static inline Trained* trained = nullptr;
};

TEST_F(CommandLineExport, FuseWritesAGgufFileThatRepliesAsTheModelWithTheAdapter) {
  const json written = result_of(fuse({"--out", at("m.gguf")}));
  EXPECT_EQ(written.at("format"), "gguf");
  EXPECT_EQ(written.at("type"), "keep");
  EXPECT_EQ(written.at("bytes"), std::filesystem::file_size(folder_ / "m.gguf"));
  EXPECT_EQ(written.at("equal_greedy_tokens"), written.at("greedy_tokens"));
  EXPECT_LT(written.at("largest_logit_difference").get<double>(),
            1e-4 * written.at("largest_logit").get<double>());
  const json adapted = reply_of({"--model", at("model"), "--adapter", at("a")});
  EXPECT_EQ(reply_of({"--model", at("m.gguf")}), adapted);
  EXPECT_NE(reply_of({"--model", at("model")}), adapted);
  EXPECT_EQ(test::read_file(folder_ / "m.Modelfile"),
            "FROM ./m.gguf\nPARAMETER stop \"<|im_end|>\"\n");
  expect_no_partial_files();
}

TEST_F(CommandLineExport, AFusedGgufFileIsABaseForTheNextOne) {
  result_of(fuse({"--out", at("m.gguf"), "--no-modelfile"}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "m.Modelfile"));
  const ProgramResult again = run_clora(
      {"fuse", "--model", at("m.gguf"), "--adapter", at("a"), "--out", at("twice.gguf"), "--json"});
  const json written = result_of(again);
  EXPECT_EQ(written.at("equal_greedy_tokens"), written.at("greedy_tokens"));
  EXPECT_GT(written.at("copied_tensors"), 0);
  EXPECT_GT(written.at("converted_tensors"), 0);
}

TEST_F(CommandLineExport, QuantizeReportsHowFarEachTypeIsFromTheOriginal) {
  CLORA_REQUIRE_TEST_DATA(stories, "models/tinystories-656k");
  double before = -1;
  for (const char* type : {"f32", "f16", "q8_0", "q4_0"}) {
    const std::string out = at(type) + ".gguf";
    const json written =
        result_of(quantize({"--model", stories.string(), "--type", type, "--out", out}));
    EXPECT_EQ(written.at("type"), type);
    const double difference = written.at("largest_logit_difference").get<double>();
    EXPECT_GE(difference, before) << type;  // 0 for f16, too: the model's values are f16's
    EXPECT_LT(difference, 0.5 * written.at("largest_logit").get<double>()) << type;
    EXPECT_LT(written.at("divergence").get<double>(), 0.5) << type;
    before = difference;
  }
  EXPECT_GT(before, 0);
  const json again = result_of(
      quantize({"--model", at("q8_0") + ".gguf", "--type", "q4_0", "--out", at("again.gguf")}));
  EXPECT_GT(again.at("divergence").get<double>(), 0);
}

TEST_F(CommandLineExport, QuantizeNamesTensorsWhoseRowsDoNotFitTheType) {
  const ProgramResult result =
      quantize({"--model", at("model"), "--type", "q4_0", "--out", at("m.gguf")});
  EXPECT_THAT(result.err, HasSubstr("no multiple of the blocks of q4_0"));
  EXPECT_GT(result_of(result).at("other_types").size(), 0U);
}

TEST_F(CommandLineExport, PromptsOfAFileAreTextsOrTokenIds) {
  test::write_file(folder_ / "prompts.txt", "say lo:\n\n[1, 2, 3]\nsay abc:\n");
  const json written =
      result_of(fuse({"--out", at("m.gguf"), "--verify-prompts", at("prompts.txt")}));
  EXPECT_EQ(written.at("greedy_tokens"), 3 * 16);
  test::write_file(folder_ / "bad.txt", "say lo:\n[1, 99999]\n");
  const ProgramResult bad = fuse({"--out", at("n.gguf"), "--verify-prompts", at("bad.txt")});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.err, HasSubstr("bad.txt: line 2: ids of tokens must be integers from 0 to"));
  test::write_file(folder_ / "empty.txt", "\n");
  EXPECT_THAT(fuse({"--out", at("n.gguf"), "--verify-prompts", at("empty.txt")}).err,
              HasSubstr("has no prompts"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "n.gguf"));
}

TEST_F(CommandLineExport, WithoutVerificationNothingIsCompared) {
  const json written = result_of(fuse({"--out", at("m.gguf"), "--no-verify"}));
  EXPECT_FALSE(written.contains("largest_logit_difference"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "m.gguf"));
}

TEST_F(CommandLineExport, SafetensorsHaveATypeAndShards) {
  result_of(fuse({"--out", at("bf16"), "--type", "bf16", "--max-shard-size", "8KiB"}));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "bf16/model.safetensors.index.json"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "bf16/tokenizer.json"));
  const WeightFiles files = WeightFiles::open(folder_ / "bf16");
  for (const WeightView& view : files.all()) EXPECT_EQ(view.type, DType::bf16);
  // One file in place of the shards would leave them as parts of another model.
  const ProgramResult other = fuse({"--out", at("bf16"), "--overwrite"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("of another model; move it away"));
}

TEST_F(CommandLineExport, AnExistingFileIsReplacedOnlyOnRequest) {
  test::write_file(folder_ / "m.gguf", "mine");
  const ProgramResult refused = fuse({"--out", at("m.gguf")});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("add --overwrite"));
  EXPECT_EQ(test::read_file(folder_ / "m.gguf"), "mine");
  result_of(fuse({"--out", at("m.gguf"), "--overwrite"}));
  const std::string written = test::read_file(folder_ / "m.gguf");
  const ProgramResult input = run_clora({"quantize", "--model", at("m.gguf"), "--type", "q8_0",
                                         "--out", at("m.gguf"), "--overwrite"});
  EXPECT_EQ(input.exit_code, 1);
  EXPECT_THAT(input.err, HasSubstr("is also an input"));
  EXPECT_TRUE(test::read_file(folder_ / "m.gguf") == written);
}

TEST_F(CommandLineExport, TypesAreOfTheirFormat) {
  EXPECT_THAT(fuse({"--out", at("m"), "--type", "q4_k"}).err,
              HasSubstr("--type q4_k needs a GGUF file (--out NAME.gguf)"));
  EXPECT_THAT(fuse({"--out", at("m.gguf"), "--type", "q3_k"}).err,
              HasSubstr("--type must be one of keep, f32, f16"));
  EXPECT_THAT(fuse({"--out", at("m"), "--type", "keep"}).err,
              HasSubstr("--type must be one of f32, f16, bf16"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "m"));
  expect_no_partial_files();
}

TEST_F(CommandLineExport, AFileThatTheDiskCannotHoldIsRemoved) {
  const ProgramResult limited = test::run_program(
      "/bin/bash", {.arguments = {"-c", "ulimit -f 4; exec \"$@\"", "bash",
                                  test::built_program("tools/clora").string(), "fuse", "--model",
                                  at("model"), "--adapter", at("a"), "--out", at("m.gguf")}});
  EXPECT_EQ(limited.exit_code, 1) << limited.err;  // an error, not the signal's 153
  EXPECT_FALSE(std::filesystem::exists(folder_ / "m.gguf"));
  expect_no_partial_files();
}

}  // namespace
}  // namespace clora

// The programs of examples/embedding, which docs/embedding.md quotes, run on a tiny model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/family_models.hpp"
#include "tests/support/program.hpp"
#include "tests/support/random_adapter.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_chat_model.hpp"

namespace clora {
namespace {

using testing::HasSubstr;

class EmbeddingExamples : public testing::Test {
 protected:
  EmbeddingExamples() { test::write_tiny_chat_model(model()); }
  std::string model() const { return folder_ / "model"; }
  test::ProgramResult run(const std::string& name, std::vector<std::string> arguments) {
    return test::run_program(test::built_program("examples/" + name),
                             {.arguments = std::move(arguments)});
  }
  test::TemporaryFolder folder_;
};

TEST_F(EmbeddingExamples, CppAndCGiveTheSameText) {
  const test::ProgramResult cpp = run("embedding_generate", {model(), "the llo"});
  const test::ProgramResult c = run("embedding_generate_c", {model(), "the llo"});
  EXPECT_EQ(cpp.exit_code, 0) << cpp.err;
  EXPECT_EQ(c.exit_code, 0) << c.err;
  EXPECT_GT(cpp.out.size(), 5U);
  EXPECT_EQ(cpp.out, c.out);
}

TEST_F(EmbeddingExamples, BothReportErrors) {
  for (const char* name : {"embedding_generate", "embedding_generate_c"}) {
    const test::ProgramResult absent = run(name, {"/no/model", "x"});
    EXPECT_EQ(absent.exit_code, 1) << name;
    EXPECT_THAT(absent.err, HasSubstr("/no/model")) << name;
    const test::ProgramResult adapter = run(name, {model(), "x", "/no/adapter"});
    EXPECT_EQ(adapter.exit_code, 1) << name;
    EXPECT_THAT(adapter.err, HasSubstr("/no/adapter")) << name;
  }
}

TEST_F(EmbeddingExamples, ALoopServesPromptsWithTwoAdaptersAsEachAloneWouldBe) {
  const std::vector<std::string> adapters{folder_ / "first", folder_ / "second"};
  {
    test::OpenModel open(model());
    test::write_random_adapter(open.model, adapters[0], 1);
    test::write_random_adapter(open.model, adapters[1], 100);
  }
  const std::vector<std::string> prompts{"the llo", "the llo", "abc"};
  const test::ProgramResult served = run(
      "embedding_serve_c", {model(), adapters[0], adapters[1], prompts[0], prompts[1], prompts[2]});
  EXPECT_EQ(served.exit_code, 0) << served.err;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const test::ProgramResult alone =
        run("embedding_generate_c", {model(), prompts[i], adapters[i % 2]});
    EXPECT_EQ(alone.exit_code, 0) << alone.err;
    EXPECT_THAT(served.out,
                HasSubstr(std::to_string(i) + (i % 2 == 0 ? " first: " : " second: ") + alone.out));
  }
  const test::ProgramResult absent =
      run("embedding_serve_c", {model(), adapters[0], "/no/adapter", "x"});
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_THAT(absent.err, HasSubstr("/no/adapter"));
}

TEST_F(EmbeddingExamples, TrainingLowersTheLossAndSavesAnAdapter) {
  const test::ProgramResult trained =
      run("embedding_train_c", {model(), folder_ / "out", "the llo abc", "abcabc"});
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  const auto loss_after = [&](const std::string& words) {
    const std::size_t at = trained.out.find(words);
    EXPECT_NE(at, std::string::npos) << words;
    return std::stod(trained.out.substr(at + words.size()));
  };
  EXPECT_LT(loss_after("loss of the adapter "), 0.8 * loss_after("step 1  loss "));
  const test::ProgramResult replies =
      run("embedding_generate_c", {model(), "the llo", folder_ / "out"});
  EXPECT_EQ(replies.exit_code, 0) << replies.err;
}

TEST_F(EmbeddingExamples, AQueueOfTheProgramsOwnGetsTheLogits) {
  const test::ProgramResult result = run("embedding_own_queue", {model()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("after the logits -1.000000"));
  EXPECT_THAT(result.out, testing::Not(HasSubstr("first logit -1.000000")));
}

TEST_F(EmbeddingExamples, ASearchPrintsTheNearestLinesFirst) {
  const test::FamilyModel encoder = test::encoder_models().front();
  test::write_family_model(folder_ / "encoder", encoder);
  test::write_file(folder_ / "encoder/vocab.txt", test::tiny_encoder_vocabulary());
  test::write_file(folder_ / "encoder/tokenizer_config.json",
                   R"({"tokenizer_class": "BertTokenizer"})");
  test::write_file(folder_ / "texts.txt", "xyz xyz\nabc de\nz\nq q q\n");
  const test::ProgramResult result =
      run("embedding_search", {folder_ / "encoder", folder_ / "texts.txt", "abc de"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, testing::StartsWith("1.0000  abc de\n"));
  EXPECT_EQ(std::ranges::count(result.out, '\n'), 3);
  const test::ProgramResult absent = run("embedding_search", {"/no/model", "x", "y"});
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_THAT(absent.err, HasSubstr("/no/model"));
}

}  // namespace
}  // namespace clora

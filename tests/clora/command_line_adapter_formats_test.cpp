// clora train --adapter-out-format, and commands that use adapters of other formats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clora/model/adapter_files/adapter_files.hpp"
#include "model/adapter_files/adapter_comparison.hpp"
#include "model/weights/base_config.hpp"
#include "tests/support/program.hpp"
#include "tests/support/training_folder.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using test::run_clora;
using testing::HasSubstr;

class AdapterFormats : public test::TrainingFolder {
 protected:
  AdapterValues adapter(const char* name) const {
    return read_adapter(folder_ / name, read_model_config(folder_ / "model"));
  }
  std::string reply(const std::string& adapter) const {
    const ProgramResult result = run_clora({"generate", "--model", at("model"), "--adapter",
                                            adapter, "--prompt", "say lo:", "--max-tokens", "12"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
};

TEST_F(AdapterFormats, OfARunAreNextToPeftsFiles) {
  for (const auto& [format, name] : {std::pair{"gguf", "adapter.gguf"}, std::pair{"mlx", "mlx"}}) {
    const ProgramResult result =
        run_clora(training(format, {"--adapter-out-format", format, "--ema", "0.5"}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::string peft = format, average = peft + "/ema";
    for (const std::string& folder : {peft, average}) {
      const AdapterValues original = adapter(folder.c_str());
      EXPECT_EQ(largest_difference(original, adapter((folder + "/" + name).c_str())), 0);
    }
    EXPECT_EQ(reply(at(format)), reply(at(format) + "/" + name));
  }
}

TEST_F(AdapterFormats, OfARunThatResumesAreThoseOfAnUnbrokenOne) {
  const std::vector<std::string> gguf{"--adapter-out-format", "gguf", "--save-every", "3"};
  const auto run = [&](const char* out, const std::vector<std::string>& more) {
    std::vector<std::string> all = gguf;
    all.insert(all.end(), more.begin(), more.end());
    return run_clora(training(out, all));
  };
  ASSERT_EQ(run("unbroken", {"--steps", "6"}).exit_code, 0);
  ASSERT_EQ(run("a", {"--steps", "3"}).exit_code, 0);
  ASSERT_EQ(run("a", {"--steps", "6", "--resume", at("a")}).exit_code, 0);
  EXPECT_EQ(test::read_file(folder_ / "a/adapter.gguf"),
            test::read_file(folder_ / "unbroken/adapter.gguf"));
}

TEST_F(AdapterFormats, ThatCannotHoldTheAdapterAreRefusedBeforeTheFirstStep) {
  const ProgramResult result = run_clora(training("a", {"--adapter-out-format", "gguf", "--dora"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("use_dora"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a/adapter_model.safetensors"));
}

TEST_F(AdapterFormats, ContinueTrainingFuseAndEvaluate) {
  ASSERT_EQ(run_clora(training("a", {"--adapter-out-format", "gguf"})).exit_code, 0);
  const std::string gguf = at("a/adapter.gguf");
  ASSERT_EQ(run_clora(training("from-peft", {"--adapter-init", at("a")})).exit_code, 0);
  ASSERT_EQ(run_clora(training("from-gguf", {"--adapter-init", gguf})).exit_code, 0);
  EXPECT_EQ(largest_difference(adapter("from-peft"), adapter("from-gguf")), 0);
  EXPECT_EQ(run_clora({"fuse", "--model", at("model"), "--adapter", gguf, "--out", at("fused")})
                .exit_code,
            0);
  EXPECT_EQ(run_clora({"eval", "--model", at("model"), "--adapter", gguf, "--data",
                       at("data/train.jsonl")})
                .exit_code,
            0);
}

}  // namespace
}  // namespace clora

// clora convert, and adapters of other formats in the other commands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "clora/model/adapter_files/adapter_files.hpp"
#include "model/adapter_files/adapter_comparison.hpp"
#include "tests/support/program.hpp"
#include "tests/support/random_adapter_values.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using test::run_clora;
using testing::HasSubstr;

// A tiny model, and a PEFT adapter of it with two scales.
class Conversions : public testing::Test {
 protected:
  Conversions() {
    test::write_tiny_model(folder_ / "model", model_);
    adapter_ = test::random_adapter_values(model_);
    adapter_.modules.front().scale = 0.7F;
    adapter_ = test::adapter_of(std::move(adapter_.modules), model_);
    (void)write_adapter(adapter_, AdapterFormat::peft, model_, folder_ / "peft");
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  ProgramResult convert(const std::string& from, const std::string& to, const std::string& out,
                        const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"convert", "--model", path("model"), "--adapter", path(from),
                                       "--to",    to,        "--out",       path(out),   "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_clora(arguments);
  }

  test::TemporaryFolder folder_;
  ModelConfig model_ = test::tiny_config("Llama");
  AdapterValues adapter_;
};

TEST_F(Conversions, GoThroughEveryFormatAndSayWhatChanged) {
  const ProgramResult gguf = convert("peft", "gguf", "adapter.gguf");
  ASSERT_EQ(gguf.exit_code, 0) << gguf.err;
  const auto object = gguf.json_lines().front();
  EXPECT_EQ(object.at("from"), "peft");
  EXPECT_EQ(object.at("modules"), 14);
  EXPECT_EQ(object.at("folded"), 1);
  EXPECT_EQ(object.at("rounded"), 1);
  EXPECT_LT(object.at("largest_relative_difference").get<double>(), 1e-7);
  ASSERT_EQ(convert("adapter.gguf", "mlx", "mlx").exit_code, 0);
  const ProgramResult back = convert("mlx", "peft", "back");
  ASSERT_EQ(back.exit_code, 0) << back.err;
  EXPECT_EQ(back.json_lines().front().at("from"), "mlx");
  const AdapterValues read = read_adapter(folder_ / "back", model_);
  EXPECT_LT(largest_difference(adapter_, read), 1e-7);
  EXPECT_EQ(read.config.base_model, path("model"));
}

TEST_F(Conversions, NeedOnlyTheConfigurationOfTheModel) {
  std::filesystem::remove(folder_ / "model/model.safetensors");
  const ProgramResult result = convert("peft", "gguf", "new/folder/adapter.gguf");
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(Conversions, ReplaceOnlyAnAdapterOfTheSameFormat) {
  ASSERT_EQ(convert("peft", "gguf", "adapter.gguf").exit_code, 0);
  EXPECT_THAT(convert("peft", "gguf", "adapter.gguf").err, HasSubstr("--overwrite"));
  EXPECT_EQ(convert("peft", "gguf", "adapter.gguf", {"--overwrite"}).exit_code, 0);
  ASSERT_EQ(convert("peft", "mlx", "mlx").exit_code, 0);
  EXPECT_THAT(convert("adapter.gguf", "peft", "mlx", {"--overwrite"}).err,
              HasSubstr("in the format mlx"));
  EXPECT_THAT(convert("peft", "peft", "peft", {"--overwrite"}).err, HasSubstr("also the input"));
  EXPECT_THAT(convert("peft", "gguf", "mlx", {"--overwrite"}).err, HasSubstr("is a folder"));
}

TEST_F(Conversions, LeaveNothingBehindWhenTheyAreRefused) {
  AdapterConfig dora;
  dora.use_dora = true;
  (void)write_adapter(test::random_adapter_values(model_, 2, 1, dora), AdapterFormat::peft, model_,
                      folder_ / "dora");
  const ProgramResult result = convert("dora", "gguf", "out.gguf");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("use_dora"));
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr("out.gguf")));
  }
}

TEST_F(Conversions, ReadAModelAndAnAdapterFromTheCacheOfTheHub) {
  const auto in_cache = [&](const char* name, const char* what) {
    const auto repository = folder_ / "cache" / (std::string("models--me--") + name);
    std::filesystem::create_directories(repository / "snapshots");
    std::filesystem::create_directories(repository / "refs");
    test::write_file(repository / "refs/main", "abc");
    std::filesystem::rename(folder_ / what, repository / "snapshots/abc");
  };
  in_cache("model", "model");
  in_cache("adapter", "peft");
  const ProgramResult result =
      run_clora({.arguments = {"convert", "--model", "hf://me/model", "--adapter",
                               "hf://me/adapter", "--to", "peft", "--out", path("out")},
                 .environment = {"HF_HUB_CACHE=" + path("cache")}});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(read_adapter(folder_ / "out", model_).config.base_model, "me/model");
  const ProgramResult missing = run_clora(
      {.arguments = {"info", "hf://me/none"}, .environment = {"HF_HUB_CACHE=" + path("cache")}});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("hf download me/none"));
}

TEST_F(Conversions, AreDescribedByInfo) {
  ASSERT_EQ(convert("peft", "gguf", "adapter.gguf").exit_code, 0);
  ASSERT_EQ(convert("peft", "mlx", "mlx").exit_code, 0);
  for (const auto& [name, format] : {std::pair{"adapter.gguf", "gguf"}, std::pair{"mlx", "mlx"}}) {
    const ProgramResult result = run_clora({"info", "--json", path(name)});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.json_lines().front().at("kind"), "adapter");
    EXPECT_EQ(result.json_lines().front().at("format"), format);
  }
}

TEST_F(Conversions, AreNamedWherePeftsFormatIsRequired) {
  ASSERT_EQ(convert("peft", "mlx", "mlx").exit_code, 0);
  const ProgramResult result =
      run_clora({"adapters", "add", path("mlx"), path("peft"), "--out", path("sum")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("clora convert"));
}

}  // namespace
}  // namespace clora

// clora adapters: its subcommands on adapters in files, and the losses of --data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "clora/lora/adapter_matrices.hpp"
#include "clora/lora/peft_files.hpp"
#include "clora/model/text/tokenizer_files.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "clora/model/weights/fuse.hpp"
#include "clora/model/weights/weights.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/program.hpp"
#include "tests/support/training_folder.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using test::run_clora;
using testing::HasSubstr;
using testing::IsEmpty;

class CommandLineAdapters : public test::TrainingFolder {
 protected:
  CommandLineAdapters() {
    write_adapter("one", 4, 1);
    write_adapter("two", 4, 2);
    write_adapter("small", 2, 3);
  }

  // Of the model's first two linear layers.
  void write_adapter(const char* name, std::int64_t rank, int seed) const {
    AdapterMatrices adapter{.config = {.rank = rank, .alpha = 8}, .modules = {}};
    const auto sites = adapter_sites(WeightFiles::open(at("model")).config());
    for (const AdapterSite& site : {sites[0], sites[1]}) {
      adapter.config.target_modules.push_back(site.path);
      ModuleMatrices& module = adapter.modules.emplace_back();
      module.site = site;
      module.rank = rank;
      module.scale = 8 / static_cast<double>(rank);
      for (int i = 0; i < rank * site.inputs; ++i)
        module.a.push_back((i * 37 + seed * 11) % 19 / 9.0 - 1);
      for (int i = 0; i < rank * site.outputs; ++i)
        module.b.push_back((i * 53 + seed * 29) % 23 / 11.0 - 1);
    }
    std::ranges::sort(adapter.modules, {}, [](const auto& module) { return module.site.path; });
    write_adapter_matrices(adapter, folder_ / name);
  }

  ProgramResult run(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all{"adapters"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run_clora(all);
  }
  nlohmann::json json(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const auto lines = result.json_lines();
    return lines.empty() ? nlohmann::json() : lines.back();
  }
  void expect_error(const std::vector<std::string>& arguments, int code,
                    const std::string& words) const {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(words));
    EXPECT_THAT(result.out, IsEmpty());
  }
};

TEST_F(CommandLineAdapters, HelpOfEachHasAnExample) {
  for (const std::string command :
       {"add", "subtract", "convert", "extract", "resize", "prune", "diff", "quantise"}) {
    const ProgramResult result = run({command, "--help"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, HasSubstr("  clora adapters " + command + " "));
    EXPECT_THAT(result.out, HasSubstr("--json"));
  }
  EXPECT_THAT(run({"--help"}).out, HasSubstr("quantise"));
}

TEST_F(CommandLineAdapters, AddSubtractResizeAndDiffGoTogether) {
  const auto sum = json({"add", at("one") + "=0.5", at("two") + "=-2", "--out", at("sum")});
  EXPECT_EQ(sum.at("type"), "cat");
  EXPECT_EQ(sum.at("modules").at(0).at("rank"), 8);
  EXPECT_LT(sum.at("relative_error").get<double>(), 1e-6);
  json({"subtract", at("sum"), at("two") + "=-2", "--out", at("back")});
  const auto half = json({"resize", at("back"), "--rank", "4", "--out", at("half")});
  EXPECT_GT(half.at("kept_energy").get<double>(), 0.99999);
  const auto same = json({"diff", at("half"), at("one")});
  EXPECT_NEAR(same.at("cosine").get<double>(), 1, 1e-6);
  EXPECT_NEAR(same.at("other_norm").get<double>(), 2 * same.at("norm").get<double>(), 1e-4);
  EXPECT_EQ(same.at("by_layer").at(0).at("layer"), "0");
  EXPECT_EQ(same.at("modules"), 2);
  EXPECT_EQ(json({"diff", at("one"), "--modules"}).at("by_module").size(), 2U);
}

// "one" as if its training had begun with the matrices of "two" taken out of the base model.
TEST_F(CommandLineAdapters, ConvertWritesThePlainAdapterOfTheDifference) {
  std::filesystem::copy(at("one"), at("pissa"));
  const std::filesystem::path file = folder_ / "pissa" / "adapter_config.json";
  nlohmann::json config = nlohmann::json::parse(test::read_file(file));
  config["init_lora_weights"] = "pissa";
  test::write_file(file, config.dump());
  expect_error({"diff", at("pissa")}, 1, "clora adapters convert");
  const auto plain = json({"convert", at("pissa"), "--initial", at("two"), "--out", at("plain")});
  EXPECT_EQ(plain.at("modules").at(0).at("rank"), 8);
  json({"subtract", at("one"), at("two"), "--out", at("difference")});
  const auto same = json({"diff", at("plain"), at("difference")});
  EXPECT_NEAR(same.at("cosine").get<double>(), 1, 1e-6);
  EXPECT_NEAR(same.at("other_norm").get<double>(), same.at("norm").get<double>(), 1e-6);
  expect_error({"convert", at("one"), "--initial", at("two"), "--out", at("out")}, 1,
               "needs no conversion");
}

TEST_F(CommandLineAdapters, TextNamesTheErrorAndTheWorstModule) {
  const ProgramResult result = run({"resize", at("one"), "--rank", "2", "--out", at("out")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 modules, rank 2; relative error "));
  EXPECT_THAT(result.out, HasSubstr("worst: model.layers.0."));
  EXPECT_THAT(result.out, HasSubstr("kept energy "));
  EXPECT_THAT(run({"diff", at("one")}).out, HasSubstr("layer"));
  EXPECT_THAT(run({"prune", at("one"), "--rank-share", "0.2", "--out", at("pruned")}).out,
              HasSubstr("dropped 0 of 2 modules"));
}

TEST_F(CommandLineAdapters, QuantiseWritesTheTypeAndStatesItsError) {
  const auto half = json({"quantise", at("one"), "--dtype", "bf16", "--out", at("half")});
  EXPECT_GT(half.at("relative_error").get<double>(), 1e-5);
  EXPECT_LT(half.at("relative_error").get<double>(), 1e-2);
  EXPECT_THAT(adapter_bytes("half"), HasSubstr("BF16"));
  expect_error({"quantise", at("one"), "--dtype", "q8_0", "--out", at("q8")}, 2, "q8_0");
}

TEST_F(CommandLineAdapters, OptionsThatATypeDoesNotHaveAreMistakes) {
  const std::vector<std::string> add{"add", at("one"), at("two"), "--out", at("out")};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = add;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  expect_error(with({"--rank", "4"}), 2, "--rank is for --type svd");
  expect_error(with({"--density", "0.5"}), 2, "--density is for --type");
  expect_error(with({"--type", "ties"}), 2, "requires --density");
  expect_error(with({"--type", "ties", "--density", "0.5", "--seed", "1"}), 2, "--seed is for");
  expect_error(with({"--type", "svd", "--majority-sign", "total"}), 2, "--majority-sign is for");
  expect_error(with({"--type", "mean"}), 2, "mean");
  expect_error(with({"--data", at("data/train.jsonl")}), 2, "--model");
  expect_error({"add", at("one") + "=0", "--out", at("out")}, 2, "other than 0");
  expect_error({"subtract", at("one"), "--out", at("out")}, 2, "at least one to subtract");
  expect_error({"resize", at("one"), "--out", at("out")}, 2, "--rank or --energy");
  expect_error({"prune", at("one"), "--out", at("out")}, 2, "--module-share or --rank-share");
  expect_error({"add", at("one"), at("small"), "--type", "linear", "--out", at("out")}, 1,
               "use 'cat' or 'svd'");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(CommandLineAdapters, AFolderThatIsNotEmptyIsReplacedOnlyWithOverwrite) {
  const std::vector<std::string> add{"add", at("one"), "--out", at("two")};
  const std::string before = adapter_bytes("two");
  expect_error(add, 1, "exists and is not empty");
  EXPECT_EQ(adapter_bytes("two"), before);
  test::write_file(folder_ / "two/notes", "kept");
  std::vector<std::string> again = add;
  again.emplace_back("--overwrite");
  ASSERT_EQ(run(again).exit_code, 0);
  EXPECT_NE(adapter_bytes("two"), before);
  EXPECT_EQ(test::read_file(folder_ / "two/notes"), "kept");
  expect_error({"add", at("one"), "--out", at("one"), "--overwrite"}, 1, "is also an input");
}

TEST_F(CommandLineAdapters, DataGivesTheLossesBeforeAndAfter) {
  const auto losses = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--model", at("model"), "--data", at("data/train.jsonl")});
    const nlohmann::json object = json(arguments);
    std::vector<double> all;
    for (const auto& each : object.at("losses")) all.push_back(each.at("loss").get<double>());
    return all;
  };
  const auto sum = losses({"add", at("one"), at("two"), "--out", at("sum")});
  ASSERT_EQ(sum.size(), 4U);  // base model, one, two, sum
  EXPECT_GT(std::abs(sum[1] - sum[0]), 0.01);
  EXPECT_GT(std::abs(sum[3] - sum[1]), 5e-3);
  const auto back = losses({"subtract", at("sum"), at("two"), "--out", at("back")});
  EXPECT_NEAR(back.back(), sum[1], 1e-3);
  EXPECT_NEAR(back[0], sum[0], 1e-9);
}

TEST_F(CommandLineAdapters, ExtractFindsTheAdapterOfAFusedModel) {
  Context& context = test::context_of(Variant::portable);
  const WeightFiles base = WeightFiles::open(at("model"));
  const Adapter adapter = load_adapter(context, at("one"), adapter_sites(base.config()));
  write_fused_model(base, adapter, folder_ / "fused");
  write_tokenizer_files(at("model"), folder_ / "fused");
  const auto extracted = json({"extract", "--model", at("model"), "--tuned", at("fused"), "--rank",
                               "4", "--out", at("again"), "--data", at("data/train.jsonl")});
  EXPECT_GT(extracted.at("kept_energy").get<double>(), 0.999999);
  EXPECT_EQ(extracted.at("modules").size(), 2U);
  EXPECT_THAT(extracted.at("left_out"), IsEmpty());
  ASSERT_EQ(extracted.at("losses").size(), 3U);  // fine-tuned model, base model, result
  EXPECT_NEAR(extracted["losses"][0].at("loss").get<double>(),
              extracted["losses"][2].at("loss").get<double>(), 2e-3);
  EXPECT_NEAR(json({"diff", at("again"), at("one")}).at("cosine").get<double>(), 1, 1e-6);
  const auto without_data = json({"extract", "--model", at("model"), "--tuned", at("fused"),
                                  "--rank", "4", "--out", at("without data")});
  EXPECT_EQ(without_data.at("modules"), extracted.at("modules"));
}

}  // namespace
}  // namespace clora

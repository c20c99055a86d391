// clc cache warm builds everything that a first training run and a first generation need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "clora/model/generation/generator.hpp"
#include "clora/model/training/training_run.hpp"
#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;
using test::ProgramResult;
using testing::HasSubstr;

std::size_t files_in(const fs::path& folder) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) count += entry.is_regular_file() ? 1 : 0;
  return count;
}

std::string name_of_model(const testing::TestParamInfo<test::TinyModel>& model) {
  return model.param.name;
}

class ClcCacheWarm : public testing::TestWithParam<test::TinyModel> {
 protected:
  ClcCacheWarm() { test::write_tiny_model(folder_ / "model", GetParam().config); }

  ProgramResult warm(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{"cache",
                                       "warm",
                                       "--model",
                                       (folder_ / "model").string(),
                                       "--max-seq-length",
                                       "40",
                                       "--rank",
                                       "4",
                                       "--batch-size",
                                       "3",
                                       "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return test::run_clc(
        {.arguments = std::move(arguments),
         .environment = {"CLORA_CACHE_DIR=" + cache().string(), "CLORA_SELF_TEST=1"}});
  }

  fs::path cache() const { return folder_ / "cache"; }

  // The cached programs: their files and options.
  std::set<std::string> programs() const {
    const ProgramResult listed =
        test::run_clc({.arguments = {"cache", "list", "--json"},
                       .environment = {"CLORA_CACHE_DIR=" + cache().string()}});
    const auto line = listed.json_lines().at(0);
    std::set<std::string> found;
    for (const auto& program : line["programs"]) {
      found.insert(program["file"].get<std::string>() + program["options"].get<std::string>());
    }
    return found;
  }

  // The configuration of clora's own commands, with a count of each metric that the cache reports.
  ContextConfig watched(std::map<std::string, int>& metrics) const {
    ContextConfig config = config_from_environment();
    config.precision = Precision::automatic;
    config.cache_folder = cache();
    config.self_test = true;
    config.hooks.metric = [&metrics](std::string_view name, double) {
      ++metrics[std::string(name)];
    };
    return config;
  }

  // Records of various lengths up to 40. All tokens except the first are labelled.
  Records records(std::int32_t count) const {
    Records all;
    for (std::int32_t r = 0; r < count; ++r) {
      Record record;
      record.ids.resize(static_cast<std::size_t>(2 + r * 17 % 39));
      std::iota(record.ids.begin(), record.ids.end(), r);
      record.is_target.resize(record.ids.size(), 1);
      record.is_target.front() = 0;
      all.records.push_back(std::move(record));
    }
    return all;
  }

  void train(Context& context) const {
    const WeightFiles files = WeightFiles::open(folder_ / "model");
    LanguageModel model(context, files);
    Adapter adapter(context, adapter_sites(model.config()), {.rank = 4});
    adapter.initialise(1);
    const Records valid = records(5);
    run_training(model, adapter, records(18), &valid,
                 {.batch_size = 3, .adapter_out = folder_ / "out"}, {}, {});
  }

  void generate(Context& context) const {
    const WeightFiles files = WeightFiles::open(folder_ / "model");
    LanguageModel model(context, files);
    for (const std::size_t length : {1U, 20U, 100U}) {
      const std::vector<std::int32_t> prompt(length, 3);
      Generator(model, nullptr, 110)
          .generate(prompt, {.max_tokens = 4, .sampling = {.temperature = 0.5}});
    }
  }

  test::TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Models, ClcCacheWarm, testing::ValuesIn(test::tiny_models()),
                         name_of_model);

TEST_P(ClcCacheWarm, LeavesNothingToBuildForATrainingRunAndAGeneration) {
  const ProgramResult result = warm();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_GT(result.json_lines().at(0)["built"], 5);
  const std::size_t outcomes = files_in(cache() / "self_tests");
  EXPECT_GT(outcomes, 0U);
  const std::set<std::string> warmed = programs();
  EXPECT_GT(warmed.size(), 5U);
  std::map<std::string, int> metrics;
  {
    Context context(watched(metrics));
    train(context);
    generate(context);
  }
  EXPECT_GT(metrics["program_cache.hits"], 5);
  EXPECT_EQ(metrics["program_cache.misses"], 0);
  EXPECT_EQ(programs(), warmed);
  EXPECT_EQ(metrics["program_cache.build_seconds"], 0);
  EXPECT_EQ(files_in(cache() / "self_tests"), outcomes);
}

TEST_P(ClcCacheWarm, BuildsNothingASecondTime) {
  const auto first = warm({"--for", "generate"}).json_lines().at(0);
  const auto second = warm({"--for", "generate"}).json_lines().at(0);
  EXPECT_EQ(second["built"], 0);
  EXPECT_GT(second["found"], 5);  // excludes the portable references of self-tests
  EXPECT_LE(second["found"], first["built"]);
  EXPECT_EQ(files_in(cache() / "programs"), first["built"]);
  const auto all = warm().json_lines().at(0);
  EXPECT_GT(all["built"], 0);  // what training needs in addition
}

class ClcCacheWarmErrors : public testing::Test {};

TEST_F(ClcCacheWarmErrors, ReportWhatIsMissing) {
  const auto error = [](std::vector<std::string> arguments, std::vector<std::string> environment) {
    arguments.insert(arguments.begin(), {"cache", "warm"});
    return test::run_clc(
        {.arguments = std::move(arguments), .environment = std::move(environment)});
  };
  const ProgramResult no_model = error({}, {});
  EXPECT_EQ(no_model.exit_code, 2);
  EXPECT_THAT(no_model.err, HasSubstr("--model is required"));
  const ProgramResult no_file = error({"--model", "nowhere.gguf"}, {});
  EXPECT_EQ(no_file.exit_code, 1);
  EXPECT_THAT(no_file.err, HasSubstr("nowhere.gguf"));
  const ProgramResult no_folder =
      error({"--model", "nowhere.gguf"}, {"CLORA_CACHE_DIR=", "XDG_CACHE_HOME=", "HOME="});
  EXPECT_EQ(no_folder.exit_code, 1);
  EXPECT_THAT(no_folder.err, HasSubstr("set CLORA_CACHE_DIR"));
}

}  // namespace
}  // namespace clora

// clc tune as a user runs it: a kernel with good, slow, wrong and refused candidates.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/tuned/tuned_table.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// HARD repeats the work without changing its sum. The condition excludes WG 3, WG 5 does not build,
// and KIND 1 gives other results.
constexpr const char* kKernel = R"(// twice: y = 2 x
//! clc: build WG=16 HARD=40 KIND=0
//! clc: grid ceil(n/WG)*WG by WG
//! clc: tune WG={3,5,16} HARD={1,40} KIND={0,1} where WG != 3 && KIND * HARD <= 1
#if WG == 5
#error five is no size
#endif
__kernel void twice(__global float* y, __global const float* x, int n) {
  const int i = get_global_id(0);
  if (i >= n) return;
  float value = x[i];
  for (int k = 0; k < 4 * HARD * HARD; ++k) value = fma(value, 0.5f, 0.5f * x[i]);
  y[i] = 2 * value + KIND;
}
)";

class ClcTune : public testing::Test {
 protected:
  ClcTune() { test::write_file(folder_ / "twice.cl", kKernel); }

  ProgramResult tune(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"tune",      (folder_ / "twice.cl").string(),
                                       "--arg",     "n=1000",
                                       "--arg",     "x=rand(f32,1000,seed=1)",
                                       "--arg",     "y=out(f32,1000)",
                                       "--seconds", "0.005"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return test::run_clc({.arguments = arguments,
                          .environment = {"CLORA_CACHE_DIR=" + (folder_ / "cache").string()}});
  }

  static std::vector<std::string> ends_in(const nlohmann::json& result) {
    std::vector<std::string> ends;
    for (const auto& each : result.at("candidates")) {
      ends.push_back(fmt::format("{} {} {} {}", each.at("values").at("WG").get<int>(),
                                 each.at("values").at("HARD").get<int>(),
                                 each.at("values").at("KIND").get<int>(),
                                 each.at("end").get<std::string>()));
    }
    return ends;
  }

  test::TemporaryFolder folder_;
};

TEST_F(ClcTune, FindsTheFastestOfThoseThatAreRightAndWritesTheTable) {
  const ProgramResult result = tune({"--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json found = result.json_lines().at(0);
  EXPECT_EQ(found.at("best").at("values").at("HARD"), 1);
  EXPECT_EQ(found.at("untuned").at("values").at("HARD"), 40);
  EXPECT_GT(found.at("best").at("gain"), 1);
  EXPECT_THAT(ends_in(found), Contains("16 1 0 timed"));
  EXPECT_THAT(ends_in(found), Contains("16 1 1 wrong"));
  EXPECT_THAT(ends_in(found), Contains("5 1 0 refused"));
  EXPECT_THAT(result.err, HasSubstr("'y' differ"));

  const TunedTable table = TunedTable::read(folder_ / "cache/tuned.json");
  ASSERT_EQ(table.entries().size(), 1U);
  const TunedEntry& entry = table.entries()[0];
  EXPECT_EQ(entry.of.kernel, "twice");
  EXPECT_EQ(entry.of.options, "");
  EXPECT_EQ(entry.of.sizes, (NamedNumbers{{"n", 1000}}));
  EXPECT_EQ(entry.values, (NamedNumbers{{"HARD", 1}, {"KIND", 0}, {"WG", 16}}));
}

TEST_F(ClcTune, ResumesWhereItWasStopped) {
  const ProgramResult first = tune({"--search", "random", "--most", "2", "--json", "--dry-run"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache/tuned.json"));
  EXPECT_EQ(first.json_lines().at(0).at("resumed"), 0);
  const ProgramResult second = tune({"--json"});
  EXPECT_EQ(second.json_lines().at(0).at("resumed"), 2);
  EXPECT_THAT(second.err, HasSubstr("reused from an earlier run"));
  EXPECT_EQ(tune({"--json", "--fresh"}).json_lines().at(0).at("resumed"), 0);
}

TEST_F(ClcTune, ComparesWithAFileThatIsGiven) {
  const std::string run = (folder_ / "y.npy").string();
  ASSERT_EQ(test::run_clc({"run", (folder_ / "twice.cl").string(), "-D", "WG=16", "-D", "HARD=1",
                           "-D", "KIND=1", "--arg", "n=1000", "--arg", "x=rand(f32,1000,seed=1)",
                           "--arg", "y=out(f32,1000)", "--save", "y=" + run})
                .exit_code,
            0);
  const ProgramResult result = tune({"--compare", "y=" + run, "--json"});
  EXPECT_EQ(result.json_lines().at(0).at("best").at("values").at("KIND"), 1);
  EXPECT_THAT(result.err, HasSubstr("untuned,"));
}

// NumPy has no bf16, so files hold its 16 bits.
TEST_F(ClcTune, ComparesBf16WithAFile) {
  test::write_file(folder_ / "halves.cl",
                   "// halves\n//! clc: build WG=8\n//! clc: tune WG={8,16}\n"
                   "__kernel void copy(__global ushort* y, __global const ushort* x) {\n"
                   "  y[get_global_id(0)] = x[get_global_id(0)];\n}\n");
  const std::string x = "x=rand(bf16,64,seed=1)", saved = (folder_ / "x.npy").string();
  const std::string file = (folder_ / "halves.cl").string();
  const auto call = [&](const std::string& command, std::vector<std::string> more) {
    std::vector<std::string> arguments{command, file,    "--global", "64",    "--local",
                                       "8",     "--arg", x,          "--arg", "y=out(bf16,64)"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return test::run_clc(arguments);
  };
  ASSERT_EQ(call("run", {"--save", "x=" + saved}).exit_code, 0);
  const ProgramResult result =
      call("tune", {"--compare", "y=" + saved, "--fresh", "--dry-run", "--seconds", "0.005"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("0 wrong"));
}

TEST_F(ClcTune, WritesNoEntryIfNothingIsGained) {
  const ProgramResult result = tune(
      {"-D", "WG=16", "-D", "HARD=1", "-D", "KIND=0", "--table", (folder_ / "mine.json").string()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("no gain"));
  EXPECT_THAT(TunedTable::read(folder_ / "mine.json").entries(), testing::IsEmpty());
}

TEST_F(ClcTune, NamesWhatIsMissing) {
  test::write_file(folder_ / "plain.cl", "__kernel void k(__global int* y) { y[0] = 1; }\n");
  const auto plain = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"tune", (folder_ / "plain.cl").string()});
    const ProgramResult result = test::run_clc(arguments);
    EXPECT_EQ(result.exit_code, 2);
    return result.err;
  };
  EXPECT_THAT(plain({"--arg", "y=out(i32,1)"}), HasSubstr("--global is required"));
  EXPECT_THAT(plain({"--global", "1", "--arg", "y=out(i32,1)"}),
              HasSubstr("declares nothing to tune"));
}

TEST_F(ClcTune, OfCostsNamesTheModelsThatAreForOtherDevices) {
  if (!test::is_for_this_device(Variant::cpu)) GTEST_SKIP() << "for CPU devices";
  const ProgramResult result = test::run_clc({"tune", "--costs", "gemm_wgmma"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("gemm_wgmma: not on this device: it needs wgmma"));
}

TEST_F(ClcTune, OfCostsTakesAModelAndNoFile) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"tune"}, {"tune", "gemm.cl", "--costs", "all"}}) {
    const ProgramResult result = test::run_clc(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("requires a kernel file or --costs"));
  }
  const ProgramResult unknown = test::run_clc({"tune", "--costs", "gemm_abacus"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("no model is called 'gemm_abacus'"));
}

}  // namespace
}  // namespace clora

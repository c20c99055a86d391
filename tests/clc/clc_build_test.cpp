// clc build and clc matrix as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ClcBuild : public ::testing::Test {
 protected:
  std::string file(const std::string& name, std::string_view text) const {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    std::ofstream(folder_.path() / name) << text;
    return (folder_.path() / name).string();
  }
  std::string folder(const std::string& name) const { return (folder_.path() / name).string(); }

  test::ProgramResult clc(std::vector<std::string> arguments, const std::string& environment = {}) {
    arguments.push_back("--device=" + device());
    test::ProgramCall call{.arguments = std::move(arguments)};
    if (!environment.empty()) call.environment = {environment};
    return test::run_clc(call);
  }

  // A library to preload before the OpenCL loader.
  static std::string crashing_compiler() {
    return "LD_PRELOAD=" + test::built_program("tests/libclora_crashing_compiler.so").string();
  }

 private:
  static std::string device() {
    const char* wanted = std::getenv("CLORA_DEVICE");
    return wanted == nullptr ? "0" : wanted;
  }
  test::TemporaryFolder folder_;
};

constexpr std::string_view kDoubles =
    "__kernel void doubles(__global float* x) { x[get_global_id(0)] *= 2.0f; }\n";

TEST_F(ClcBuild, BuildsAFileAndNamesItsKernels) {
  const auto done = clc({"build", file("k.cl", kDoubles)});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("k.cl on "));
  EXPECT_THAT(done.out, HasSubstr(": doubles\n"));
}

TEST_F(ClcBuild, ShowsAnErrorWithItsPlaceItsLineAndAMark) {
  const auto done =
      clc({"build", file("k.cl", "// k\n__kernel void f(__global float* x) {\n  x[0] = y;\n}\n")});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.out, HasSubstr("k.cl:3:10: error: use of undeclared identifier 'y'\n"
                                  "    x[0] = y;\n"
                                  "           ^\n"));
}

TEST_F(ClcBuild, MapsAnErrorToTheIncludedFile) {
  file("more/part.clh", "// a part\nfloat part() { return nothing; }\n");
  const std::string path = file(
      "k.cl", "# include \"part.clh\"\n__kernel void f(__global float* x) { x[0] = part(); }\n");
  const auto without = clc({"build", path});
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_THAT(without.err, HasSubstr("'part.clh' (required by k.cl) is not in "));
  const auto done = clc({"build", path, "-I", folder("more")});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.out, HasSubstr("part.clh:2:23: error: use of undeclared identifier 'nothing'\n"
                                  "  float part() { return nothing; }"));
}

TEST_F(ClcBuild, BuildsEverySetOfTheHeadUnlessOptionsAreGiven) {
  const std::string path =
      file("k.cl",
           "//! clc: build TYPE={float,int} N=2\n//! clc: build on wgmma: TYPE=none\n"
           "__kernel void f(__global TYPE* x) { x[0] *= N; }\n");
  const auto sets = clc({"build", path, "--json"}).json_lines().at(0).at("builds");
  ASSERT_GE(sets.size(), 2U);
  EXPECT_EQ(sets[0].at("options"), "-D TYPE=float -D N=2");
  EXPECT_EQ(sets[1].at("options"), "-D TYPE=int -D N=2");
  const auto given =
      clc({"build", path, "-D", "TYPE=uint", "-DN=3", "--options=-cl-mad-enable", "--json"});
  EXPECT_EQ(given.exit_code, 0);
  EXPECT_EQ(given.json_lines().at(0).at("builds").at(0).at("options"),
            "-D TYPE=uint -D N=3 -cl-mad-enable");
}

TEST_F(ClcBuild, ADriverThatCrashesIsAFindingAndTheNextBuildContinues) {
  const std::string path = file("k.cl", "//! clc: build A={CRASH,well}\n" + std::string(kDoubles));
  const auto done = clc({"build", path}, crashing_compiler());
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.out, HasSubstr("-D A=CRASH on "));
  EXPECT_THAT(done.out, HasSubstr("crashed\nthe driver's compiler was killed by signal 6"));
  EXPECT_THAT(done.out, HasSubstr(": doubles\n"));
}

TEST_F(ClcBuild, ADriverThatHangsIsEndedAtTheLimit) {
  const auto done =
      clc({"build", file("k.cl", kDoubles), "-D", "HANG", "--limit", "1"}, crashing_compiler());
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.out, HasSubstr("out of time\nthe driver's compiler did not finish in 1 s"));
}

TEST_F(ClcBuild, TakesBuiltInFilesByNameAndReportsWhichAreAlike) {
  EXPECT_EQ(clc({"build", "rope_cpu.cl"}).exit_code, 0);
  const auto done = clc({"build", "sofmax.cl"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.err,
              HasSubstr("'sofmax.cl' does not exist; did you mean the built-in 'softmax.cl'?"));
}

TEST_F(ClcBuild, AUsageErrorHasTheExitCodeTwo) {
  EXPECT_EQ(clc({"build"}).exit_code, 2);
  EXPECT_EQ(clc({"build", "k.cl", "--limit", "none"}).exit_code, 2);
  const auto done = clc({"biuld", "k.cl"});
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_THAT(done.err, HasSubstr("did you mean 'build'?"));
}

TEST_F(ClcBuild, TheMatrixCountsBuildsAndReportsTheReasonsOfFailures) {
  const std::string good = file("good.cl", "//! clc: build N={1,2}\n" + std::string(kDoubles));
  const std::string bad = file(
      "bad.cl", "//! clc: build N={1,2}\n#if N == 2\n#error two\n#endif\n" + std::string(kDoubles));
  const std::string other =
      file("other.cl", "//! clc: build on amx,wgmma: N=1\n" + std::string(kDoubles));
  const auto done = clc({"matrix", good, bad, other});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.out, HasSubstr(" 2 built "));
  EXPECT_THAT(done.out, HasSubstr(" 1 built, 1 refused "));
  EXPECT_THAT(done.out, HasSubstr("[-D N=2] bad.cl:3:2: "));
}

}  // namespace
}  // namespace clora

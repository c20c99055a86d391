// clc lint on files: clang's diagnostics, sets of options, exceptions, and the command itself.
#include <gmock/gmock.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/support/lint_folder.hpp"
#include "tools/clc/commands/command_line.hpp"
#include "tools/clc/lint/lint_rules.hpp"

namespace clora {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ClcLintFiles : public test::LintFolder {};

TEST_F(ClcLintFiles, PassesOnWhatClangWarnsOf) {
  EXPECT_THAT(found("__kernel void k(__global float* y) {\nint unused; *y = 0;}"),
              ElementsAre("clang-warning 2"));
}

TEST_F(ClcLintFiles, LetsPassWhatAnIncludeHasForOtherFiles) {
  write("part.clh", "#pragma once\nstatic int one(void) { return 1; }\n");
  EXPECT_THAT(found("#include \"part.clh\"\n"
                    "static int two(void) { return 2; }\n"
                    "__kernel void k(__global float* y) { *y = 0; }\n"),
              ElementsAre("clang-warning 2"));
}

TEST_F(ClcLintFiles, LetsPassWhatOneSetOfOptionsLeavesUnused) {
  const std::string text =
      "__kernel void k(__global float* y) {\nint n = 3; *y = 0;\n"
      "#ifdef A\ny[n] = 0;\n#endif\n}\n";
  EXPECT_THAT(found("//! clc: build A\n//! clc: build B\n" + text), IsEmpty());
  EXPECT_THAT(found("//! clc: build B\n//! clc: build C\n" + text), ElementsAre("clang-warning 4"));
}

TEST_F(ClcLintFiles, ReportsWhereAFileFailsToCompileThroughItsIncludes) {
  write("part.clh", "// a part\nfloat one() { return 1.0f }\n");
  const auto wrong = findings(
      "#include \"part.clh\"\n"
      "__kernel void k(__global float* y) { *y = one(); }\n");
  ASSERT_EQ(wrong.size(), 1U);
  EXPECT_EQ(wrong[0].rule, "does-not-compile");
  EXPECT_EQ(wrong[0].location, (SourceLocation{"part.clh", 2, 26}));
  EXPECT_THAT(wrong[0].text, HasSubstr("expected ';'"));
}

TEST_F(ClcLintFiles, LocatesFindingsAfterIncludesAndInMacros) {
  write("part.clh", "#define AT(m, c) y[(m) * n + (c)]\n#define HALF 0.5\n");
  const std::string text =
      "#include \"part.clh\"\n\n"
      "__kernel void k(__global float* y, int n, int m) {\n"
      "  AT(m, 1) = HALF;\n  y[m * n] = 0;\n}\n";
  std::vector<SourceLocation> locations;
  for (const LintFinding& each : findings(text)) locations.push_back(each.location);
  EXPECT_THAT(locations,
              ElementsAre(SourceLocation{"part.clh", 1, 20}, SourceLocation{"part.clh", 2, 14},
                          SourceLocation{"test.cl", 5, 5}));
}

TEST_F(ClcLintFiles, ReportsThatDefinitionsAreMissing) {
  const std::string text =
      "#ifndef TILE\n#error \"TILE is required\"\n#endif\n"
      "__kernel void k(__global float* y) { float s[TILE]; *y = s[0] = 0; }\n";
  const auto wrong = findings(text);
  ASSERT_EQ(wrong.size(), 1U);
  EXPECT_EQ(wrong[0].rule, "needs-definitions");
  EXPECT_THAT(wrong[0].text, HasSubstr("TILE is required"));
  EXPECT_THAT(found(text, {{.devices = {}, .options = "-D TILE=4"}}), IsEmpty());
  EXPECT_THAT(found("//! clc: build TILE=4\n" + text), IsEmpty());
  EXPECT_THAT(found(text, {{.devices = {}, .options = "-D TITLE=4"}}),
              Contains("does-not-compile 2"));
}

TEST_F(ClcLintFiles, ReportsOnceWhatSeveralSetsShowAndAllThatOneShows) {
  const std::string text =
      "//! clc: build on cpu: A\n//! clc: build on gpu: B={1,2}\n"
      "__kernel void k(__global float* y, int n) {\n"
      "y[n * n] = 0;\n#ifdef B\ny[1] = B / 2.0;\n#endif\n}\n";
  EXPECT_THAT(found(text), ElementsAre("index-overflow 4", "unsuffixed-constant 6"));
}

TEST_F(ClcLintFiles, ReadsAssemblyOfCpusAndOfNvidiaGpus) {
  EXPECT_THAT(found("__kernel void k(__global float* y) {"
                    " float16 v = 0.0f; asm(\"\" : \"+v\"(v)); *y = v.s0 + 1.0; }"),
              ElementsAre("unsuffixed-constant 1"));
  EXPECT_THAT(found("__kernel void k(__global float* y) {"
                    " float v; asm(\"mov.f32 %0, 0f00000000;\" : \"=f\"(v)); *y = v + 1.0; }"),
              ElementsAre("unsuffixed-constant 1"));
}

TEST_F(ClcLintFiles, IsSilentIfTheFileAllowsIt) {
  const std::string begin = "__kernel void k(__global float* y, int n) {\n";
  const std::string wrong = "y[n * n] = 0;";
  EXPECT_THAT(found(begin + wrong + "  // clc: allow index-overflow n is 2\n}"), IsEmpty());
  EXPECT_THAT(found(begin + "  // clc: allow index-overflow n is 2\n// so it is\n" + wrong + "\n}"),
              IsEmpty());
  EXPECT_THAT(found("//! clc: allow index-overflow n is 2\n" + begin + wrong + "\n}"), IsEmpty());
  EXPECT_THAT(found(begin + "y[0] = 0;  // clc: allow index-overflow n is 2\n" + wrong + "\n}"),
              ElementsAre("index-overflow 3"));
  EXPECT_THAT(found(begin + wrong + "  // clc: allow implicit-double n is 2\n}"),
              ElementsAre("index-overflow 2"));
}

TEST_F(ClcLintFiles, IsSilentIfAMacroIsUsedOrWrittenOnAnAllowedLine) {
  const std::string kernel = "__kernel void k(__global float* y, int n) {\nAT(n) = 0;";
  const std::string macro = "#define AT(i) y[(i) * n]\n";
  const std::string allow = "// clc: allow index-overflow n is 2\n";
  EXPECT_THAT(found(macro + kernel + allow + "}"), IsEmpty());
  EXPECT_THAT(found(allow + macro + kernel + "\n}"), IsEmpty());
  EXPECT_THAT(found(macro + kernel + "\n}"), ElementsAre("index-overflow 1"));
}

TEST_F(ClcLintFiles, RequiresARuleAndAReasonForAnException) {
  EXPECT_THAT(found("// clc: allow index-overflow\n"), ElementsAre("allow-without-reason 1"));
  const auto wrong = findings("//! clc: allow index-overflo it is small\n");
  ASSERT_EQ(wrong.size(), 1U);
  EXPECT_THAT(wrong[0].text, HasSubstr("did you mean index-overflow?"));
}

// --- The command

struct Call {
  int code = 0;
  std::string out, err;
};

Call run(const std::vector<std::string>& arguments) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Call call;
  call.code = run_clc(arguments);
  std::fflush(stdout);
  call.out = testing::internal::GetCapturedStdout();
  call.err = testing::internal::GetCapturedStderr();
  return call;
}

TEST_F(ClcLintFiles, PrintsFindingsAsCompilersDo) {
  const std::string path =
      write("test.cl", "__kernel void k(__global float* y, int n) {\n  y[n * n] = 0;\n}\n");
  const Call call = run({"lint", "--quiet", path});
  EXPECT_EQ(call.code, 1);
  EXPECT_THAT(call.out, HasSubstr(path + ":2:5: warning: a 32-bit product in an index"));
  EXPECT_THAT(call.out, HasSubstr("[index-overflow]\n  y[n * n] = 0;\n    ^\n"));
}

TEST_F(ClcLintFiles, PrintsOneObjectAFinding) {
  const std::string path =
      write("test.cl", "__kernel void k(__global float* y, int n) {\n  y[n * n] = 0;\n}\n");
  const Call call = run({"lint", "--json", path});
  const auto object = nlohmann::json::parse(call.out);
  EXPECT_EQ(object["rule"], "index-overflow");
  EXPECT_EQ(object["file"], path);
  EXPECT_EQ(object["line"], 2);
  EXPECT_EQ(object["column"], 5);
  EXPECT_EQ(object["severity"], "warning");
}

TEST_F(ClcLintFiles, NotesAreNotFailures) {
  const std::string path =
      write("test.cl", "__kernel void k(__global int* y, __global const int* x) { *y = *x; }\n");
  const Call call = run({"lint", path});
  EXPECT_EQ(call.code, 0);
  EXPECT_THAT(call.out, HasSubstr("files: 1, errors and warnings: 0, notes: 1"));
}

TEST_F(ClcLintFiles, ListsItsRulesWithReasonAndFix) {
  const Call call = run({"lint", "--rules"});
  EXPECT_EQ(call.code, 0);
  for (const LintRule& rule : lint_rules()) {
    EXPECT_THAT(call.out, HasSubstr(std::string(rule.id)));
    EXPECT_THAT(call.out, HasSubstr(std::string(rule.reason)));
    EXPECT_THAT(call.out, HasSubstr(std::string(rule.fix)));
  }
}

TEST_F(ClcLintFiles, WithoutAFileIsAMistakeInTheCall) { EXPECT_EQ(run({"lint"}).code, 2); }

TEST_F(ClcLintFiles, NamesThePackageIfClangIsMissing) {
  const std::string path = write("test.cl", "__kernel void k(__global float* y) { *y = 0; }\n");
  const std::string before = std::getenv("PATH");
  ::setenv("PATH", folder_.path().c_str(), 1);
  const Call call = run({"lint", path});
  ::setenv("PATH", before.c_str(), 1);
  EXPECT_EQ(call.code, 1);
  EXPECT_THAT(call.err, HasSubstr("install the Debian package clang-14"));
}

}  // namespace
}  // namespace clora

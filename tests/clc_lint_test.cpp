// clc lint: each rule with a kernel that breaks it and one that does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/error.hpp"
#include "tools/clc/command_line.hpp"
#include "tools/clc/lint.hpp"
#include "tools/clc/lint_rules.hpp"
#include "tools/clc/process.hpp"

namespace clora {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A folder of kernel files, which goes with the test.
class ClcLint : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_program("clang-14")) GTEST_SKIP() << "clang-14 is not there";
    folder_ = std::filesystem::temp_directory_path() / ("clc_lint_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  std::vector<Finding> findings(const std::string& text, const std::vector<BuildSet>& sets = {},
                                const std::string& name = "test.cl", bool house = false) const {
    const KernelFile file = open_kernel_file(write(name, text));
    return lint(file, sets.empty() ? file.head.builds : sets, {.house = house});
  }

  // "rule line", without notes on restrict, which most kernels here earn.
  std::vector<std::string> found(const std::string& text, const std::vector<BuildSet>& sets = {},
                                 const std::string& name = "test.cl", bool house = false) const {
    std::vector<std::string> told;
    for (const Finding& each : findings(text, sets, name, house)) {
      if (each.rule == "non-restrict-pointer") continue;
      told.push_back(each.rule + " " + std::to_string(each.place.line));
    }
    return told;
  }

  std::filesystem::path folder_;
};

// A kernel of 64 items: its lines begin with 2.
std::string group_kernel(const std::string& body) {
  return "__attribute__((reqd_work_group_size(64, 1, 1))) __kernel void k(__global float* y, uint n) {\n" +
         body + "\n}\n";
}

constexpr const char* kBarrier = "barrier(CLK_LOCAL_MEM_FENCE);";

TEST_F(ClcLint, FindsABarrierUnderAConditionOnTheItem) {
  EXPECT_THAT(found(group_kernel("if (get_local_id(0) < 3)\n" + std::string(kBarrier))),
              ElementsAre("barrier-in-divergent-flow 3"));
  EXPECT_THAT(found(group_kernel("for (uint i = get_local_id(0); i < n; i += 64)\n" +
                                 std::string(kBarrier))),
              ElementsAre("barrier-in-divergent-flow 3"));
  EXPECT_THAT(found(group_kernel("if (n > 3)\n" + std::string(kBarrier))), IsEmpty());
  EXPECT_THAT(found(group_kernel("for (uint i = get_group_id(0); i < n; ++i)\n" +
                                 std::string(kBarrier))),
              IsEmpty());
}

TEST_F(ClcLint, FollowsTheItemThroughVariablesToABarrier) {
  EXPECT_THAT(found(group_kernel("uint item = get_local_id(0), m = 0;\nif (item == 0) m = n;\nif (m)\n" +
                                 std::string(kBarrier))),
              ElementsAre("barrier-in-divergent-flow 5"));
  EXPECT_THAT(found(group_kernel("uint item = get_local_id(0), m = 0;\nif (n == 0) m = n;\nif (m)\n" +
                                 std::string(kBarrier) + "\ny[item] = 0;")),
              IsEmpty());
}

TEST_F(ClcLint, FindsABarrierBehindAReturnOfSomeItems) {
  EXPECT_THAT(found(group_kernel("if (get_global_id(0) >= n) return;\n" + std::string(kBarrier))),
              ElementsAre("barrier-in-divergent-flow 3"));
  EXPECT_THAT(found(group_kernel("if (get_group_id(0) >= n) return;\n" + std::string(kBarrier))),
              IsEmpty());
}

TEST_F(ClcLint, FindsABarrierThatABreakOrContinueOfSomeItemsGoesAround) {
  const std::string loop = "for (uint i = 0; i < n; ++i) {\n";
  EXPECT_THAT(found(group_kernel(loop + kBarrier + "\nif (get_local_id(0) == i) break;}")),
              ElementsAre("barrier-in-divergent-flow 3"));
  EXPECT_THAT(found(group_kernel(loop + "if (get_local_id(0) == i) continue;\n" + kBarrier + "}")),
              ElementsAre("barrier-in-divergent-flow 4"));
  EXPECT_THAT(found(group_kernel(loop + "if (get_local_id(0) == i) continue;}\n" + kBarrier)), IsEmpty());
}

TEST_F(ClcLint, FollowsCallsToABarrier) {
  const std::string meet = "void meet(uint i) {\nif (i == 0) " + std::string(kBarrier) + "\n}\n";
  EXPECT_THAT(found(meet + group_kernel("meet(get_local_id(0));")),
              ElementsAre("barrier-in-divergent-flow 2"));
  EXPECT_THAT(found(meet + group_kernel("if (get_local_id(0)) meet(n);")),
              ElementsAre("barrier-in-divergent-flow 5"));
  EXPECT_THAT(found(meet + group_kernel("meet(n); y[get_local_id(0)] = 0;")), IsEmpty());
}

TEST_F(ClcLint, FindsLocalMemoryAndBarriersInFilesForCpus) {
  const std::string text = group_kernel("__local float s[64]; s[get_local_id(0)] = 0;\n" +
                                        std::string(kBarrier) + " y[n] = s[0];");
  EXPECT_THAT(found(text, {}, "sums_cpu.cl"),
              ElementsAre("local-memory-on-cpu 2", "local-memory-on-cpu 3"));
  EXPECT_THAT(found(text, {{.devices = {"cpu"}, .options = ""}}),
              ElementsAre("local-memory-on-cpu 2", "local-memory-on-cpu 3"));
  EXPECT_THAT(found(text, {{.devices = {"cpu", "gpu"}, .options = ""}}), IsEmpty());
  EXPECT_THAT(found(text), IsEmpty());
}

TEST_F(ClcLint, WantsTheWorkGroupSizeOfKernelsThatCountOnIt) {
  EXPECT_THAT(found("__kernel void k(__global float* y) { y[get_local_id(0)] = 0; }"),
              ElementsAre("missing-reqd-work-group-size 1"));
  EXPECT_THAT(found("void meet() { barrier(CLK_LOCAL_MEM_FENCE); }\n"
                    "__kernel void k(__global float* y) { meet(); }"),
              ElementsAre("missing-reqd-work-group-size 2"));
  EXPECT_THAT(found("__kernel void k(__global float* y) { y[get_global_id(0)] = 0; }"), IsEmpty());
}

TEST_F(ClcLint, FindsIndicesMadeIn32Bits) {
  for (const char* index : {"y[m * n + 1] = 0;", "y[(size_t)(m * n)] = 0;", "*(y + m * n) = 0;",
                            "y[m << n] = 0;", "const int at = m * n; y[at + 1] = 0;",
                            "vstore4((float4)(0.0f), m * n, y);", "y += m * n; y[0] = 0;"}) {
    EXPECT_THAT(found("__kernel void k(__global float* y, int m, int n) {\n" + std::string(index) + "}"),
                ElementsAre("index-overflow 2"))
        << index;
  }
}

TEST_F(ClcLint, TakesIndicesThatCannotOverflow) {
  for (const char* index :
       {"y[(size_t)m * n + 1] = 0;", "y[m * (long)n] = 0;", "y[m * 64 + n] = 0;", "y[m % 8 * n] = 0;",
        "for (int i = 0; i < 4; ++i) y[i * n] = 0;", "float s[4]; s[m * n] = 0; y[0] = s[0];",
        "y[(size_t)(m * n + 1) * n] = 0;", "const size_t row = (size_t)m * n; y[row + m * n] = 0;"}) {
    EXPECT_THAT(found("__kernel void k(__global float* y, int m, int n) {\n" + std::string(index) + "}"),
                Not(Contains(HasSubstr("index-overflow"))))
        << index;
  }
}

TEST_F(ClcLint, FindsDoublesThatNobodyAskedFor) {
  const std::string begin = "__kernel void k(__global float* y) {\n";
  EXPECT_THAT(found(begin + "y[0] = y[1] * 2.0;}"), ElementsAre("unsuffixed-constant 2"));
  EXPECT_THAT(found(begin + "y[0] = 1.5;}"), ElementsAre("unsuffixed-constant 2"));
  EXPECT_THAT(found(begin + "y[0] = y[1] * 2.0f;}"), IsEmpty());
  EXPECT_THAT(found(begin + "double d;\nd = y[0]; y[1] = (float)d;}"),
              ElementsAre("extension-unchecked 2", "implicit-double 3"));
  EXPECT_THAT(found(begin + "printf(\"%f\", y[0]);}"), IsEmpty());
}

TEST_F(ClcLint, TakesDoublesThatAreAskedFor) {
  const std::string begin =
      "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n__kernel void k(__global float* y) {\n";
  EXPECT_THAT(found(begin + "double d = y[0];\nd += 1.0; y[0] = d;}"), IsEmpty());
  EXPECT_THAT(found(begin + "y[0] = y[1] * 2.0;}"), ElementsAre("unsuffixed-constant 3"));
}

TEST_F(ClcLint, NotesPointersWithoutRestrict) {
  const auto notes = findings("__kernel void k(__global float* y, __global const float* x) { *y = *x; }");
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].rule, "non-restrict-pointer");
  EXPECT_EQ(notes[0].severity, Severity::note);
  EXPECT_THAT(findings("__kernel void k(__global float* restrict y, __global const float* restrict x)"
                       "{ *y = *x; }"),
              IsEmpty());
  EXPECT_THAT(findings("__kernel void k(__global float* y) { *y = 0; }"), IsEmpty());
}

TEST_F(ClcLint, FindsExtensionsThatNothingAsksFor) {
  EXPECT_THAT(found("__kernel void k(__global long* y) {\natom_add(y, 1L);\n}"),
              ElementsAre("extension-unchecked 2"));
  EXPECT_THAT(found("#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n"
                    "__kernel void k(__global long* y) {\natom_add(y, 1L);\n}"),
              IsEmpty());
  EXPECT_THAT(found("__kernel void k(__global int* y) { atom_add(y, 1); }"), IsEmpty());
  EXPECT_THAT(found("__kernel void k(__global float* y) {\nhalf h = 1;\ny[0] = h;\n}"),
              ElementsAre("extension-unchecked 2"));
  const std::string sum = "__kernel void k(__global float* y) {\n*y = sub_group_reduce_add(1.0f);\n}";
  EXPECT_THAT(found(sum), ElementsAre("extension-unchecked 2"));
  EXPECT_THAT(found("#pragma OPENCL EXTENSION cl_khr_subgroups : enable\n" + sum), IsEmpty());
}

TEST_F(ClcLint, FindsArgumentsThatTheHostCannotSet) {
  for (const char* argument : {"bool n", "size_t n", "ptrdiff_t n", "float3 n", "__global int3* n",
                               "__global float* __global* n", "struct S n",
                               "Parts n"}) {
    EXPECT_THAT(found("struct S { __global float* p; }; typedef struct { __global int* p; } Parts;\n"
                      "__kernel void k(__global float* y,\n" +
                      std::string(argument) + ") { *y = 0; }"),
                ElementsAre("host-argument 3"))
        << argument;
  }
  EXPECT_THAT(found("__kernel void k(__global float* y, long n, float4 v, __local int* s) { *y = 0; }"),
              Not(Contains(HasSubstr("host-argument"))));
}

TEST_F(ClcLint, WantsTheHousesHeaderWhereItIsAskedTo) {
  const std::string kernel = "__kernel void k(__global float* y) { *y = 0; }\n";
  EXPECT_THAT(found("// y = 0.\n" + kernel), IsEmpty());
  EXPECT_THAT(found("// y = 0.\n" + kernel, {}, "test.cl", true), ElementsAre("missing-header 1"));
  EXPECT_THAT(found("// k, for all devices: y = 0.\n// Shapes: y [1]\n// Types: f32\n// Work: none\n"
                    "// Cost: 4 bytes\n// Numerics: exact\n" + kernel, {}, "test.cl", true),
              IsEmpty());
  EXPECT_THAT(found("// A table.\n__constant int table[2] = {1, 2};\n", {}, "test.cl", true), IsEmpty());
}

TEST_F(ClcLint, PassesOnWhatClangWarnsOf) {
  EXPECT_THAT(found("__kernel void k(__global float* y) {\nint unused; *y = 0;}"),
              ElementsAre("clang-warning 2"));
}

TEST_F(ClcLint, LetsPassWhatOneSetOfOptionsLeavesUnused) {
  const std::string text = "__kernel void k(__global float* y) {\nint n = 3; *y = 0;\n"
                           "#ifdef A\ny[n] = 0;\n#endif\n}\n";
  EXPECT_THAT(found("//! clc: build A\n//! clc: build B\n" + text), IsEmpty());
  EXPECT_THAT(found("//! clc: build B\n//! clc: build C\n" + text), ElementsAre("clang-warning 4"));
}

TEST_F(ClcLint, KnowsThatOtherItemsWriteLocalMemory) {
  EXPECT_THAT(found(group_kernel("__local uint a; if (get_local_id(0) == 0) *&a = n;\n" +
                                 std::string(kBarrier) + "\nuint b; y[a] = b;")),
              ElementsAre("clang-warning 4"));
  EXPECT_THAT(found(group_kernel("__local uint a;\n" + std::string(kBarrier) + "\ny[a] = 0;")),
              IsEmpty());
}

TEST_F(ClcLint, TellsWhereAFileDoesNotCompileThroughItsIncludes) {
  write("part.clh", "// a part\nfloat one() { return 1.0f }\n");
  const auto wrong = findings("#include \"part.clh\"\n__kernel void k(__global float* y) { *y = one(); }\n");
  ASSERT_EQ(wrong.size(), 1U);
  EXPECT_EQ(wrong[0].rule, "does-not-compile");
  EXPECT_EQ(wrong[0].place, (SourcePlace{"part.clh", 2, 26}));
  EXPECT_THAT(wrong[0].text, HasSubstr("expected ';'"));
}

TEST_F(ClcLint, PlacesFindingsBehindIncludesAndInMacros) {
  write("part.clh", "#define AT(m, c) y[(m) * n + (c)]\n#define HALF 0.5\n");
  const std::string text = "#include \"part.clh\"\n\n"
                           "__kernel void k(__global float* y, int n, int m) {\n"
                           "  AT(m, 1) = HALF;\n  y[m * n] = 0;\n}\n";
  std::vector<SourcePlace> places;
  for (const Finding& each : findings(text)) places.push_back(each.place);
  EXPECT_THAT(places, ElementsAre(SourcePlace{"part.clh", 1, 20}, SourcePlace{"part.clh", 2, 14},
                                  SourcePlace{"test.cl", 5, 5}));
}

TEST_F(ClcLint, SaysThatDefinitionsAreMissing) {
  const std::string text = "#ifndef TILE\n#error \"TILE is required\"\n#endif\n"
                           "__kernel void k(__global float* y) { float s[TILE]; y[0] = s[0] = 0; }\n";
  const auto wrong = findings(text);
  ASSERT_EQ(wrong.size(), 1U);
  EXPECT_EQ(wrong[0].rule, "needs-definitions");
  EXPECT_THAT(wrong[0].text, HasSubstr("TILE is required"));
  EXPECT_THAT(found(text, {{.devices = {}, .options = "-D TILE=4"}}), IsEmpty());
  EXPECT_THAT(found("//! clc: build TILE=4\n" + text), IsEmpty());
  EXPECT_THAT(found(text, {{.devices = {}, .options = "-D TITLE=4"}}),
              Contains("does-not-compile 2"));
}

TEST_F(ClcLint, TellsOnceWhatSeveralSetsShowAndAllThatOneShows) {
  const std::string text = "//! clc: build on cpu: A\n//! clc: build on gpu: B={1,2}\n"
                           "__kernel void k(__global float* y, int n) {\n"
                           "y[n * n] = 0;\n#ifdef B\ny[1] = B / 2.0;\n#endif\n}\n";
  EXPECT_THAT(found(text), ElementsAre("index-overflow 4", "unsuffixed-constant 6"));
}

TEST_F(ClcLint, ReadsAssemblyOfCpusAndOfNvidiasCards) {
  EXPECT_THAT(found("__kernel void k(__global float* y) { float16 v = 0.0f; asm(\"\" : \"+v\"(v)); *y = "
                    "v.s0 + 1.0; }"),
              ElementsAre("unsuffixed-constant 1"));
  EXPECT_THAT(found("__kernel void k(__global float* y) { float v; asm(\"mov.f32 %0, 0f00000000;\" : "
                    "\"=f\"(v)); *y = v + 1.0; }"),
              ElementsAre("unsuffixed-constant 1"));
}

TEST_F(ClcLint, IsSilentWhereTheFileAllowsIt) {
  const std::string begin = "__kernel void k(__global float* y, int n) {\n", wrong = "y[n * n] = 0;";
  EXPECT_THAT(found(begin + wrong + "  // clc: allow index-overflow n is 2\n}"), IsEmpty());
  EXPECT_THAT(found(begin + "  // clc: allow index-overflow n is 2\n// so it is\n" + wrong + "\n}"),
              IsEmpty());
  EXPECT_THAT(found("//! clc: allow index-overflow n is 2\n" + begin + wrong + "\n}"), IsEmpty());
  EXPECT_THAT(found(begin + "y[0] = 0;  // clc: allow index-overflow n is 2\n" + wrong + "\n}"),
              ElementsAre("index-overflow 3"));
  EXPECT_THAT(found(begin + wrong + "  // clc: allow implicit-double n is 2\n}"),
              ElementsAre("index-overflow 2"));
}

TEST_F(ClcLint, IsSilentWhereAMacroIsUsedOrWrittenOnAnAllowedLine) {
  const std::string kernel = "__kernel void k(__global float* y, int n) {\nAT(n) = 0;";
  EXPECT_THAT(found("#define AT(i) y[(i) * n]\n" + kernel + "  // clc: allow index-overflow n is 2\n}"),
              IsEmpty());
  EXPECT_THAT(found("// clc: allow index-overflow n is 2\n#define AT(i) y[(i) * n]\n" + kernel + "\n}"),
              IsEmpty());
}

TEST_F(ClcLint, WantsARuleAndAReasonForAnException) {
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

TEST_F(ClcLint, PrintsFindingsAsCompilersDo) {
  const std::string path =
      write("test.cl", "__kernel void k(__global float* y, int n) {\n  y[n * n] = 0;\n}\n");
  const Call call = run({"lint", "--quiet", path});
  EXPECT_EQ(call.code, 1);
  EXPECT_THAT(call.out, HasSubstr(path + ":2:5: warning: an index into global memory"));
  EXPECT_THAT(call.out, HasSubstr("[index-overflow]\n  y[n * n] = 0;\n    ^\n"));
}

TEST_F(ClcLint, PrintsOneObjectAFinding) {
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

TEST_F(ClcLint, NotesAreNoFailure) {
  const std::string path =
      write("test.cl", "__kernel void k(__global float* y, __global const float* x) { *y = *x; }\n");
  const Call call = run({"lint", path});
  EXPECT_EQ(call.code, 0);
  EXPECT_THAT(call.out, HasSubstr("1 file, 0 errors and warnings, 1 notes"));
}

TEST_F(ClcLint, ListsItsRulesWithReasonAndFix) {
  const Call call = run({"lint", "--rules"});
  EXPECT_EQ(call.code, 0);
  for (const LintRule& rule : lint_rules()) {
    EXPECT_THAT(call.out, HasSubstr(std::string(rule.id)));
    EXPECT_THAT(call.out, HasSubstr(std::string(rule.reason)));
    EXPECT_THAT(call.out, HasSubstr(std::string(rule.fix)));
  }
}

TEST_F(ClcLint, WithoutAFileIsAMistakeInTheCall) { EXPECT_EQ(run({"lint"}).code, 2); }

TEST_F(ClcLint, NamesThePackageWhereClangIsMissing) {
  const std::string path = write("test.cl", "__kernel void k(__global float* y) { *y = 0; }\n");
  const std::string before = std::getenv("PATH");
  ::setenv("PATH", folder_.c_str(), 1);
  const Call call = run({"lint", path});
  ::setenv("PATH", before.c_str(), 1);
  EXPECT_EQ(call.code, 1);
  EXPECT_THAT(call.err, HasSubstr("install Debian's package clang-14"));
}

}  // namespace
}  // namespace clora

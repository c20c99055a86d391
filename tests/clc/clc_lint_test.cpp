// The rules of clc lint, each with a kernel that breaks it and one that does not.
#include <gmock/gmock.h>

#include "tests/support/lint_folder.hpp"

namespace clora {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class ClcLint : public test::LintFolder {};

// A kernel with a work-group of 64. The body begins at line 2.
std::string group_kernel(const std::string& body) {
  return "__attribute__((reqd_work_group_size(64, 1, 1)))"
         " __kernel void k(__global float* y, uint n) {\n" +
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
  EXPECT_THAT(
      found(group_kernel("for (uint i = get_group_id(0); i < n; ++i)\n" + std::string(kBarrier))),
      IsEmpty());
}

TEST_F(ClcLint, FollowsTheItemThroughVariablesToABarrier) {
  const std::string begin = "uint item = get_local_id(0), m = 0;\n";
  EXPECT_THAT(
      found(group_kernel(begin + "if (item == 0) m = n;\nif (m)\n" + std::string(kBarrier))),
      ElementsAre("barrier-in-divergent-flow 5"));
  EXPECT_THAT(found(group_kernel(begin + "if (n == 0) m = n;\nif (m)\n" + std::string(kBarrier) +
                                 "\ny[item] = 0;")),
              IsEmpty());
}

TEST_F(ClcLint, FindsABarrierAfterAReturnOfSomeItems) {
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
  EXPECT_THAT(found(group_kernel(loop + "if (get_local_id(0) == i) continue;}\n" + kBarrier)),
              IsEmpty());
}

TEST_F(ClcLint, FollowsCallsToABarrier) {
  const std::string wait_all =
      "void wait_all(uint i) {\nif (i == 0) " + std::string(kBarrier) + "\n}\n";
  EXPECT_THAT(found(wait_all + group_kernel("wait_all(get_local_id(0));")),
              ElementsAre("barrier-in-divergent-flow 2"));
  EXPECT_THAT(found(wait_all + group_kernel("if (get_local_id(0)) wait_all(n);")),
              ElementsAre("barrier-in-divergent-flow 5"));
  EXPECT_THAT(found(wait_all + group_kernel("wait_all(n); y[get_local_id(0)] = 0;")), IsEmpty());
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

TEST_F(ClcLint, RequiresTheWorkGroupSizeOfKernelsThatRelyOnIt) {
  EXPECT_THAT(found("__kernel void k(__global float* y) { y[get_local_id(0)] = 0; }"),
              ElementsAre("missing-reqd-work-group-size 1"));
  EXPECT_THAT(found("void wait_all() { barrier(CLK_LOCAL_MEM_FENCE); }\n"
                    "__kernel void k(__global float* y) { wait_all(); }"),
              ElementsAre("missing-reqd-work-group-size 2"));
  EXPECT_THAT(found("__kernel void k(__global float* y) { y[get_global_id(0)] = 0; }"), IsEmpty());
}

const std::string kOfTwo = "__kernel void k(__global float* y, int m, int n) {\n";

TEST_F(ClcLint, FindsIndicesComputedIn32Bits) {
  for (const char* index : {"y[m * n + 1] = 0;", "y[(size_t)(m * n)] = 0;", "*(y + m * n) = 0;",
                            "y[m << n] = 0;", "const int at = m * n; y[at + 1] = 0;",
                            "vstore4((float4)(0.0f), m * n, y);", "y += m * n; y[0] = 0;"}) {
    EXPECT_THAT(found(kOfTwo + index + "}"), ElementsAre("index-overflow 2")) << index;
  }
}

TEST_F(ClcLint, TakesIndicesThatCannotOverflow) {
  for (const char* index :
       {"y[(size_t)m * n + 1] = 0;", "y[m * (long)n] = 0;", "y[m * 64 + n] = 0;",
        "y[m % 8 * n] = 0;", "for (int i = 0; i < 4; ++i) y[i * n] = 0;",
        "float s[4]; s[m * n] = 0; y[0] = s[0];", "y[(size_t)(m * n + 1) * n] = 0;",
        "const size_t row = (size_t)m * n; y[row + m * n] = 0;"}) {
    EXPECT_THAT(found(kOfTwo + index + "}"), Not(Contains(HasSubstr("index-overflow")))) << index;
  }
}

TEST_F(ClcLint, FindsUnintendedDoubles) {
  const std::string begin = "__kernel void k(__global float* y) {\n";
  EXPECT_THAT(found(begin + "y[0] = y[1] * 2.0;}"), ElementsAre("unsuffixed-constant 2"));
  EXPECT_THAT(found(begin + "y[0] = 1.5;}"), ElementsAre("unsuffixed-constant 2"));
  EXPECT_THAT(found(begin + "y[0] = y[1] * 2.0f;}"), IsEmpty());
  EXPECT_THAT(found(begin + "double d;\nd = y[0]; y[1] = (float)d;}"),
              ElementsAre("extension-unchecked 2", "implicit-double 3"));
  EXPECT_THAT(found(begin + "printf(\"%f\", y[0]);}"), IsEmpty());
}

TEST_F(ClcLint, AcceptsDoublesThatAreEnabled) {
  const std::string begin =
      "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n__kernel void k(__global float* y) {\n";
  EXPECT_THAT(found(begin + "double d = y[0];\nd += 1.0; y[0] = d;}"), IsEmpty());
  EXPECT_THAT(found(begin + "y[0] = y[1] * 2.0;}"), ElementsAre("unsuffixed-constant 3"));
}

TEST_F(ClcLint, NotesPointersWithoutRestrict) {
  const auto notes =
      findings("__kernel void k(__global float* y, __global const float* x) { *y = *x; }");
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].rule, "non-restrict-pointer");
  EXPECT_EQ(notes[0].severity, Severity::note);
  EXPECT_THAT(findings("__kernel void k(__global float* restrict y,"
                       " __global const float* restrict x) { *y = *x; }"),
              IsEmpty());
  EXPECT_THAT(findings("__kernel void k(__global float* y) { *y = 0; }"), IsEmpty());
}

TEST_F(ClcLint, FindsExtensionsThatAreNotEnabled) {
  EXPECT_THAT(found("__kernel void k(__global long* y) {\natom_add(y, 1L);\n}"),
              ElementsAre("extension-unchecked 2"));
  EXPECT_THAT(found("#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n"
                    "__kernel void k(__global long* y) {\natom_add(y, 1L);\n}"),
              IsEmpty());
  EXPECT_THAT(found("__kernel void k(__global int* y) { atom_add(y, 1); }"), IsEmpty());
  EXPECT_THAT(found("__kernel void k(__global float* y) {\nhalf h = 1;\ny[0] = h;\n}"),
              ElementsAre("extension-unchecked 2"));
  const std::string sum =
      "__kernel void k(__global float* y) {\n*y = sub_group_reduce_add(1.0f);\n}";
  EXPECT_THAT(found(sum), ElementsAre("extension-unchecked 2"));
  EXPECT_THAT(found("#pragma OPENCL EXTENSION cl_khr_subgroups : enable\n" + sum), IsEmpty());
}

TEST_F(ClcLint, FindsArgumentsThatTheHostCannotSet) {
  for (const char* argument : {"bool n", "size_t n", "ptrdiff_t n", "float3 n", "__global int3* n",
                               "__global float* __global* n", "struct S n", "Parts n"}) {
    EXPECT_THAT(found("struct S { __global int* p; }; typedef struct { __global int* p; } Parts;\n"
                      "__kernel void k(__global float* y,\n" +
                      std::string(argument) + ") { *y = 0; }"),
                ElementsAre("host-argument 3"))
        << argument;
  }
  EXPECT_THAT(found("__kernel void k(__global int* y, long n, int4 v, __local int* s) {}"),
              Not(Contains(HasSubstr("host-argument"))));
}

TEST_F(ClcLint, RequiresTheProjectsHeaderIfRequested) {
  const std::string kernel = "__kernel void k(__global float* y) { *y = 0; }\n";
  EXPECT_THAT(found("// y = 0.\n" + kernel), IsEmpty());
  EXPECT_THAT(found("// y = 0.\n" + kernel, {}, "test.cl", true), ElementsAre("missing-header 1"));
  EXPECT_THAT(found("// k, for all devices: y = 0.\n// Shapes: y [1]\n// Types: f32\n"
                    "// Work: none\n// Cost: 4 bytes\n// Numerics: exact\n" +
                        kernel,
                    {}, "test.cl", true),
              IsEmpty());
  EXPECT_THAT(found("// A table.\n__constant int table[2] = {1, 2};\n", {}, "test.cl", true),
              IsEmpty());
}

TEST_F(ClcLint, AssumesThatOtherItemsWriteLocalMemory) {
  EXPECT_THAT(found(group_kernel("__local uint a; if (get_local_id(0) == 0) *&a = n;\n" +
                                 std::string(kBarrier) + "\nuint b; y[a] = b;")),
              ElementsAre("clang-warning 4"));
  EXPECT_THAT(found(group_kernel("__local uint a;\n" + std::string(kBarrier) + "\ny[a] = 0;")),
              IsEmpty());
}

}  // namespace
}  // namespace clora

// Dispatch between a fast kernel and the portable one: the effects of a self-test that fails or
// cannot run, and where its outcome is stored. tests/ops/broken_kernels_test.cpp covers the
// families.
#include "ops/dispatch/variant_dispatch.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clora/ops/gemm/gemm.hpp"
#include "clora/ops/rowwise/softmax.hpp"
#include "ops/dispatch/cpu_kernel.hpp"
#include "runtime/fail.hpp"
#include "tests/support/copied_kernels.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;
using test::Folders;
using test::Observed;
using test::read_file;
using test::same;
using testing::HasSubstr;

// One kernel represents all.
constexpr CpuKernel kSoftmax{"softmax", "softmax_cpu.cl", "softmax_forward"};
void softmax(SelfTest& t) { record_softmax(t.batch(), t.output({9, 40}), t.input({9, 40})); }

// softmax in `observed` runs the portable kernel, and the reason is logged once.
void expect_portable_with_a_warning(const Folders& folders, const Observed& observed,
                                    const char* reason) {
  EXPECT_TRUE(same(observed.run(softmax), Observed(folders, Variant::portable).run(softmax)));
  ASSERT_EQ(observed.warnings->size(), 1U);
  EXPECT_THAT(observed.warnings->front(), HasSubstr(reason));
}

TEST(VariantDispatch, KeepsARightKernelWithoutAWord) {
  const Folders folders;
  const Observed tested(folders);
  const auto got = tested.run(softmax);
  EXPECT_TRUE(tested.warnings->empty());
  EXPECT_TRUE(same(got, Observed(folders, Variant::cpu, false).run(softmax)));
  EXPECT_TRUE(takes_cpu_kernel(*tested.context, kSoftmax, {}));
}

// A product uses one of several kernels depending on its size. Each is tested alone, even if this
// variant prefers another one.
TEST(VariantDispatch, EachKernelThatAProductMayTakePasses) {
  for (const Variant variant :
       {Variant::cpu, Variant::cpu_int8, Variant::avx512_bf16, Variant::amx}) {
    if (!test::is_for_this_device(variant)) continue;
    const Folders folders;
    const Observed tested(folders, variant);
    (void)tested.run([](SelfTest& t) {
      for (const DType type : {DType::f32, DType::q4_1}) {
        for (const std::int64_t rows : {3, 40}) {
          for (const std::int64_t columns : {16, 64}) {
            record_gemm(t.batch(), t.output({rows, columns}), t.input({rows, 64}),
                        t.weights({columns, 64}, type));
          }
        }
      }
    });
    EXPECT_TRUE(tested.warnings->empty()) << name_of(variant) << ": " << tested.warnings->front();
    for (const char* name : {"gemm_tiles f32", "gemm_skinny f32"}) {
      EXPECT_TRUE(passed_self_test(*tested.context, {"gemm_cpu.cl", name}, {})) << name;
    }
  }
}

TEST(VariantDispatch, OfAPortableContextIsPortableWithoutATest) {
  const Folders folders;
  const Observed portable(folders, Variant::portable);
  EXPECT_FALSE(takes_cpu_kernel(*portable.context, {"softmax", "softmax_cpu.cl", "any"}, {}));
  EXPECT_TRUE(folders.outcomes().empty());
}

TEST(VariantDispatch, AKernelThatDoesNotBuildIsReplaced) {
  const Folders folders;
  folders.replace("softmax_cpu.cl", "__kernel", "this does not build __kernel");
  const Observed tested(folders);
  expect_portable_with_a_warning(folders, tested, "does not build");
}

TEST(VariantDispatch, AKernelWithTheKnownSumsNeedsNoPortableOne) {
  const Folders folders;
  folders.replace("softmax.cl", "__kernel", "this does not build __kernel");
  const Observed tested(folders);
  (void)tested.run(softmax);
  EXPECT_TRUE(takes_cpu_kernel(*tested.context, kSoftmax, {}));
  EXPECT_TRUE(read_file(folders.outcomes().at(0)).ends_with("right\n"));
}

TEST(VariantDispatch, WithoutAPortableKernelThereIsNoChoiceAndNothingIsStored) {
  const Folders folders;
  folders.replace("softmax.cl", "__kernel", "this does not build __kernel");
  folders.replace("group_range.clh", "get_group_id(0)", "0");
  const Observed tested(folders);
  (void)tested.run(softmax);
  EXPECT_TRUE(takes_cpu_kernel(*tested.context, kSoftmax, {}));
  EXPECT_TRUE(folders.outcomes().empty());
}

// Changes the content of the single outcome file.
void plant(const Folders& folders, const std::string& instead) {
  const std::vector<fs::path> files = folders.outcomes();
  ASSERT_EQ(files.size(), 1U);
  const std::string text = read_file(files[0]);
  ASSERT_TRUE(text.ends_with("right\n"));
  std::ofstream(files[0], std::ios::binary)
      << text.substr(0, text.size() - std::string("right\n").size()) << instead;
}

TEST(VariantDispatch, OutcomesAreStoredForTheNextContext) {
  const Folders folders;
  (void)Observed(folders).run(softmax);
  plant(folders, "wrong: planted\n");
  const Observed next(folders);
  expect_portable_with_a_warning(folders, next, "planted");
}

TEST(VariantDispatch, ADamagedOutcomeIsTestedAgainAndReplaced) {
  const Folders folders;
  (void)Observed(folders).run(softmax);
  const fs::path file = folders.outcomes().at(0);
  const std::string intact = read_file(file);
  for (const std::string& damaged : {std::string(), intact.substr(0, intact.size() - 1),
                                     "x" + intact.substr(1), intact + "wrong: x\n"}) {
    std::ofstream(file, std::ios::binary) << damaged;
    const Observed next(folders);
    (void)next.run(softmax);
    EXPECT_TRUE(next.warnings->empty());
    EXPECT_EQ(read_file(file), intact);
  }
}

TEST(VariantDispatch, AnAttemptIsNotedWhileTheTestRuns) {
  const Folders folders;
  std::vector<std::string> seen;
  const Observed tested(folders);
  (void)passed_self_test(*tested.context, {"softmax_cpu.cl", "noted"}, [&](SelfTest& test) {
    (void)test.changed(test.input({4}));
    for (const fs::path& file : folders.outcomes()) seen.push_back(read_file(file));
  });
  ASSERT_EQ(seen.size(), 2U);  // the portable run and the fast one
  EXPECT_TRUE(seen[0].ends_with(fmt::format("tried by {}\n", ::getpid())));
  EXPECT_TRUE(read_file(folders.outcomes().at(0)).ends_with("right\n"));
}

TEST(VariantDispatch, AnAttemptThatFailsForOtherReasonsLeavesNoNote) {
  const Folders folders;
  const Observed tested(folders);
  const FastKernel kernel{"softmax_cpu.cl", "noted"};
  const auto record = [](SelfTest&) { fail(ErrorCode::out_of_memory, "no memory"); };
  EXPECT_THROW((void)passed_self_test(*tested.context, kernel, record), Error);
  EXPECT_TRUE(folders.outcomes().empty());
}

constexpr int kNoProcess = 1 << 30;  // above Linux's largest process id

TEST(VariantDispatch, AKernelThatTookTwoProcessesWithItIsNotTriedAgain) {
  const Folders folders;
  (void)Observed(folders).run(softmax);
  plant(folders, fmt::format("tried by {} {}\n", kNoProcess, kNoProcess + 1));
  const Observed next(folders);
  expect_portable_with_a_warning(folders, next, "2 processes ended during the test");
}

TEST(VariantDispatch, AProcessThatIsStillThereIsNoLostAttempt) {
  const Folders folders;
  (void)Observed(folders).run(softmax);
  plant(folders, fmt::format("tried by {} {}\n", kNoProcess, ::getpid()));
  const Observed next(folders);
  (void)next.run(softmax);
  EXPECT_TRUE(next.warnings->empty());
  EXPECT_TRUE(read_file(folders.outcomes().at(0)).ends_with("right\n"));
}

TEST(VariantDispatch, AnotherKernelTextIsTestedAgain) {
  const Folders folders;
  (void)Observed(folders).run(softmax);
  plant(folders, "wrong: planted\n");
  folders.replace("float16_math.clh", "// The sum of the lanes", "// All lanes' sum");
  const Observed next(folders);
  (void)next.run(softmax);
  EXPECT_TRUE(next.warnings->empty());
  EXPECT_EQ(folders.outcomes().size(), 2U);
}

// Several programs of one kernel: a broken program does not disable the others.
TEST(VariantDispatch, OutcomesAreOfOneProgramByItsOptions) {
  const Folders folders;
  const auto passes = [&](const Observed& in, std::string_view options, bool breaks) {
    return passed_self_test(
        *in.context, {"softmax_cpu.cl", "planned", 1e-4, options}, [&](SelfTest& test) {
          const bool wrong = breaks && !makes_reference(*in.context);
          (void)test.changed(test.input({1}, std::vector<float>{wrong ? 2.0F : 1.0F}));
        });
  };
  const Observed tested(folders);
  EXPECT_TRUE(passes(tested, " -D TILE=64", false));
  EXPECT_FALSE(passes(tested, " -D TILE=128", true));
  ASSERT_EQ(tested.warnings->size(), 1U);
  EXPECT_THAT(tested.warnings->front(), HasSubstr("planned (softmax_cpu.cl -D TILE=128)"));
  EXPECT_EQ(folders.outcomes().size(), 2U);
  const Observed next(folders);  // reads the stored outcomes
  EXPECT_TRUE(passes(next, " -D TILE=64", true));
  EXPECT_FALSE(passes(next, " -D TILE=128", false));
}

// A model's weights may hold NaN, which is not a fault of the kernel under test.
TEST(VariantDispatch, ATestWithoutAFiniteReferenceDecidesNothingForLater) {
  const Folders folders;
  const Observed tested(folders);
  const auto record = [](SelfTest& test) {
    (void)test.changed(test.input({1}, std::vector<float>{NAN}));
  };
  EXPECT_FALSE(passed_self_test(*tested.context, {"softmax_cpu.cl", "not finite"}, record));
  EXPECT_THAT(tested.warnings->at(0), HasSubstr("its reference is not finite"));
  EXPECT_TRUE(folders.outcomes().empty());
}

TEST(VariantDispatch, ACacheThatCannotBeWrittenCostsTheTestOnly) {
  const Folders folders;
  std::ofstream(folders.cache()) << "a file in the folder's place";
  const Observed tested(folders);
  EXPECT_NO_THROW((void)tested.run(softmax));
  EXPECT_TRUE(tested.warnings->empty());
}

}  // namespace
}  // namespace clora

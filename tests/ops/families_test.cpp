// Forced implementations, and the report of those that ops take.
#include "ops/dispatch/families.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>

#include "clora/ops/gemm/gemm.hpp"
#include "clora/ops/rowwise/softmax.hpp"
#include "ops/dispatch/implementation_report.hpp"
#include "tests/support/copied_kernels.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Families : public test::OpTest {};
INSTANTIATE_TEST_SUITE_P(Variants, Families, test::all_variants(), test::variant_name);

TEST_P(Families, AllHaveATypicalProblemOfWhichAnImplementationIsReported) {
  std::set<std::string_view> missing(op_families().begin(), op_families().end());
  EXPECT_EQ(missing.size(), op_families().size()) << "a family is listed twice";
  const std::vector<ReportedChoice> report = implementation_report(context());
  for (const ReportedChoice& choice : report) {
    missing.erase(choice.family);
    EXPECT_EQ(choice.error, "") << choice.family;
    ASSERT_FALSE(choice.considered.empty()) << choice.family;
    EXPECT_EQ(choice.considered.back().reason, "") << choice.family << " takes none";
    for (const auto& [name, file, reason] :
         std::span(choice.considered).first(choice.considered.size() - 1)) {
      EXPECT_NE(reason, "") << choice.family << ':' << name;
    }
  }
  EXPECT_THAT(missing, testing::IsEmpty());
}

// The stems of families that the sources of ops/ choose for.
std::set<std::string> stems_in_sources() {
  static const std::regex kStem(
      R"re((?:ImplementationList<\w+> \w+|takes_cpu_kernel\([^{;]*|kernel_of|\.stem = )[({]?"(\w+)")re");
  const char* source = std::getenv("CLORA_SOURCE_DIR");
  std::set<std::string> stems;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           std::filesystem::path(source == nullptr ? "." : source) / "ops")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = test::read_file(entry.path());
    for (std::sregex_iterator at(text.begin(), text.end(), kStem), end; at != end; ++at) {
      stems.insert((*at)[1]);
    }
  }
  return stems;
}

TEST(OpFamilies, AreThoseThatTheSourcesChooseFor) {
  EXPECT_THAT(stems_in_sources(), testing::UnorderedElementsAreArray(op_families()));
}

TEST(ImplementationReport, OfThePortableVariantHasOnlyPortableOnes) {
  for (const ReportedChoice& choice : implementation_report(test::context_of(Variant::portable))) {
    EXPECT_THAT(choice.considered.back().name,
                testing::AnyOf("portable", "skinny", "decode", "flash"))
        << choice.family;
  }
}

struct Setting {
  std::string implementations = {};
  Variant variant = Variant::cpu;
  const test::Folders* self_tested = nullptr;  // copied kernels, if self-tests are to run
};

std::unique_ptr<Context> context_of(const Setting& setting) {
  ContextConfig config = config_from_environment();
  config.variant = setting.variant;
  config.implementations = setting.implementations;
  config.self_test = setting.self_tested != nullptr;
  if (config.self_test) {
    config.kernel_folders = {setting.self_tested->kernels()};
    config.cache_folder = setting.self_tested->cache();
  }
  return std::make_unique<Context>(config);
}

// What was considered for a softmax.
std::vector<ConsideredImplementation> considered(const Setting& setting) {
  const std::unique_ptr<Context> context = context_of(setting);
  const ChoiceLog log(*context);
  Batch batch(*context);
  record_softmax(batch, batch.temporary({9, 40}, DType::f32, "y"),
                 batch.temporary({9, 40}, DType::f32, "x"));
  EXPECT_EQ(log.choices().size(), 1U);
  return log.choices().at(0).considered;
}

class ForSoftmaxOnCpus : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::is_for_this_device(Variant::cpu)) GTEST_SKIP() << "softmax has a kernel for CPUs";
  }
};

TEST_F(ForSoftmaxOnCpus, TheForcedImplementationIsTaken) {
  EXPECT_EQ(considered({}).back().name, "cpu");
  EXPECT_EQ(considered({"gemm:cpu,softmax:portable"}).back().name, "portable");
  EXPECT_EQ(considered({"softmax:portable"}).size(), 1U);
}

TEST_F(ForSoftmaxOnCpus, AFailedSelfTestIsReported) {
  const test::Folders folders;
  folders.replace("group_range.clh", "get_group_id(0)", "0");
  const auto all = considered({.self_tested = &folders});
  EXPECT_EQ(all.front().name, "cpu");
  EXPECT_EQ(all.front().reason, kNotPassed);
  EXPECT_EQ(all.back().name, "portable");
}

TEST_F(ForSoftmaxOnCpus, SelfTestsIgnoreTheForcedImplementation) {
  const test::Folders folders;
  EXPECT_EQ(considered({.implementations = "softmax:cpu", .self_tested = &folders}).size(), 1U);
  const test::Folders broken;
  broken.replace("group_range.clh", "get_group_id(0)", "0");
  EXPECT_THAT(test::error_of(
                  [&] { considered({.implementations = "softmax:cpu", .self_tested = &broken}); }),
              HasSubstr("softmax:cpu cannot be used here: it has not passed its self-test"));
}

// Records a product of one row.
std::string error_of_gemm(const std::string& implementations) {
  const auto context = context_of({implementations, Variant::portable});
  Batch batch(*context);
  const auto tensor = [&](Shape shape) { return batch.temporary(shape, DType::f32, "t"); };
  return test::error_of([&] {
    record_gemm(batch, tensor({1, 64}), tensor({1, 64}), tensor({64, 64}));
  });
}

TEST(ForcedImplementations, MustExistAndSupportTheProblem) {
  EXPECT_THAT(error_of_gemm("gem:portable"),
              AllOf(HasSubstr("there is no family 'gem'"), HasSubstr("attention_backward")));
  EXPECT_THAT(error_of_gemm("gemm"), HasSubstr("'gemm' must be FAMILY:NAME"));
  EXPECT_THAT(error_of_gemm("gemm:portable,gemm:skinny"), HasSubstr("gemm is given twice"));
  EXPECT_THAT(error_of_gemm("gemm:fastest"),
              AllOf(HasSubstr("gemm:fastest does not exist"), HasSubstr("wgmma, matrix, ")));
  EXPECT_THAT(error_of_gemm("gemm:wgmma"),
              AllOf(HasSubstr("gemm:wgmma cannot be used here: it needs wgmma"),
                    HasSubstr("are skinny, portable;")));
}

}  // namespace
}  // namespace clora

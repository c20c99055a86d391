// Sums that represent the results of a self-test: the differences that they detect, and the table's
// entries for weights of every type. tests/ops/broken_kernels_test.cpp covers the other kernels.
#include "ops/dispatch/self_test_sums.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "clora/ops/gemm/gemm.hpp"
#include "clora/ops/quant/quant.hpp"
#include "clora/ops/rowwise/embedding.hpp"
#include "tests/reference/quant_reference.hpp"
#include "tests/support/copied_kernels.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::Folders;
using test::Observed;

std::vector<SelfTestResult> as_result(const std::vector<float>& values) {
  SelfTestResult result{DType::f32, std::vector<std::byte>(values.size() * sizeof(float))};
  std::memcpy(result.bytes.data(), values.data(), result.bytes.size());
  return {result};
}

std::vector<float> waves(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = std::sin(0.7F * static_cast<float>(i));
  return values;
}

TEST(SelfTestSums, HoldForTheSameResultsAndForRoundingErrors) {
  std::vector<float> values = waves(5000);
  const std::string sums = self_test_sums(as_result(values));
  EXPECT_TRUE(have_sums(as_result(values), sums, 1e-4));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= i % 3 == 0 ? 1 + 1e-6F : 1 - 1e-6F;
  EXPECT_TRUE(have_sums(as_result(values), sums, 1e-4));
}

TEST(SelfTestSums, DetectRowsThatAreWrongMissingOrMoved) {
  const std::vector<float> right = waves(5000);
  const std::string sums = self_test_sums(as_result(right));
  std::vector<float> wrong = right;
  std::fill_n(wrong.begin() + 160, 16, 0.0F);
  EXPECT_FALSE(have_sums(as_result(wrong), sums, 1e-2)) << "sixteen lanes are missing";
  wrong = right;
  std::swap_ranges(wrong.begin(), wrong.begin() + 64, wrong.begin() + 64);
  EXPECT_FALSE(have_sums(as_result(wrong), sums, 1e-2)) << "two rows are exchanged";
  wrong = right;
  wrong[4999] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(have_sums(as_result(wrong), sums, 1e-2)) << "one element was not written";
  wrong.pop_back();
  EXPECT_FALSE(have_sums(as_result(right), sums + ";1 0 0 0 0 0 0 0 0", 1e-2));
  EXPECT_FALSE(have_sums(as_result(right), "1 0 0", 1e-2)) << "a row that is cut";
  EXPECT_FALSE(have_sums({}, "", 1e-2));
}

TEST(SelfTestSums, DetectASingleElementOfFew) {
  std::vector<float> values{1, 2, 3, 4, 5};
  const std::string sums = self_test_sums(as_result(values));
  values[3] += 1e-2F;
  EXPECT_FALSE(have_sums(as_result(values), sums, 1e-4));
}

TEST(SelfTestSums, OfIntegersHoldForTheSameIntegersOnly) {
  const SelfTestResult right{DType::i32, {std::byte{1}, std::byte{0}, std::byte{0}, std::byte{0}}};
  SelfTestResult wrong = right;
  wrong.bytes[1] = std::byte{1};
  EXPECT_TRUE(have_sums({right}, self_test_sums({right}), 1));
  EXPECT_FALSE(have_sums({wrong}, self_test_sums({right}), 1));
}

TEST(SelfTestSums, AreTheSameForAllKernelsOfAnOpAndOthersForOtherInputs) {
  const Digest inputs{1, 2};
  EXPECT_EQ(self_test_key("gemm_tiles q4_1", inputs), self_test_key("gemm_skinny q4_1", inputs));
  EXPECT_NE(self_test_key("gemm_tiles q4_1", inputs), self_test_key("rms_norm_forward", inputs));
  EXPECT_NE(self_test_key("gemm_tiles q4_1", inputs), self_test_key("gemm_tiles q4_1", {1, 3}));
}

// Products of many and of few rows, forward and backward, single rows of a table, and full
// dequantisation.
void every_use(SelfTest& t, DType type, Layout layout) {
  const Tensor w = t.weights({64, 256}, type, layout);
  for (const std::int64_t rows : {3, 40}) {
    record_gemm(t.batch(), t.output({rows, 64}), t.input({rows, 256}), w);
  }
  record_gemm_backward(t.batch(), t.output({40, 256}), t.input({40, 64}), w, Accumulate::no);
  const std::vector<std::int32_t> ids{1, 0};
  record_embedding(t.batch(), t.output({2, 256}), t.input({2}, ids), w);
  record_dequantise(t.batch(), t.output({64, 256}), w);
}

class SumsOfWeights : public testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Variants, SumsOfWeights,
                         testing::Values(Variant::cpu, Variant::cpu_int8, Variant::avx512_bf16,
                                         Variant::amx),
                         [](const auto& given) { return std::string(name_of(given.param)); });

TEST_P(SumsOfWeights, AreKnownForEveryTypeAndLayout) {
  if (!test::is_for_this_device(GetParam())) GTEST_SKIP() << "the variant is for another device";
  const Folders folders;
  const Observed tested(folders, GetParam());
  for (const DType type : test::kWeightTypes) {
    (void)tested.run([type](SelfTest& t) { every_use(t, type, Layout::plain); });
    const WeightForm form = preferred_form(*tested.context, {64, 256}, type);
    if (form.layout == Layout::plain) continue;
    (void)tested.run([form](SelfTest& t) { every_use(t, form.type, form.layout); });
  }
  EXPECT_THAT(*tested.missing_sums, testing::IsEmpty());
  EXPECT_THAT(*tested.warnings, testing::IsEmpty());
}

}  // namespace
}  // namespace clora

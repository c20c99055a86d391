// A weight's bf16 copy (Tensor::bf16_copy), which products on matrix units read instead of
// converting the weight: tests give it other values than the weight, so that they see which one was
// read.
#include <gtest/gtest.h>

#include "clora/ops/gemm/bf16_rows.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

constexpr std::int64_t kRows = 48, kColumns = 24;

class Bf16Copy : public test::OpTest {
 protected:
  Tensor weight() {
    return test::upload(context(), {kRows, kColumns}, test::random_values(kRows * kColumns, 1));
  }
  Tensor other() {
    return test::upload_bf16(context(), {kRows, kColumns},
                             test::random_values(kRows * kColumns, 2));
  }
};

bool are_equal_views(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() && a.offset_bytes() == b.offset_bytes() &&
         a.shape() == b.shape();
}

TEST_P(Bf16Copy, IsReadInPlaceOfTheWeightWithoutALaunch) {
  const Tensor copy = other();
  Batch batch(context());
  const Bf16Rows rows = record_bf16_rows(batch, weight().with_bf16_copy(copy));
  EXPECT_TRUE(are_equal_views(rows.data, copy));
  EXPECT_EQ(rows.columns, kColumns);
  EXPECT_EQ(batch.commands(), 0U);
}

TEST_P(Bf16Copy, OfAScaledWeightIsNotRead) {
  const Tensor copy = other();
  Batch batch(context());
  const Bf16Rows rows = record_bf16_rows(batch, weight().with_bf16_copy(copy), 0.5F);
  EXPECT_FALSE(are_equal_views(rows.data, copy));
  EXPECT_EQ(batch.commands(), 1U);
}

TEST_P(Bf16Copy, BelongsToRowRangesButNotToOtherViews) {
  const Tensor copy = other(), w = weight().with_bf16_copy(copy);
  ASSERT_NE(w.rows(16, 32).bf16_copy(), nullptr);
  EXPECT_TRUE(are_equal_views(*w.rows(16, 32).bf16_copy(), copy.rows(16, 32)));
  EXPECT_EQ(w.reshape({kColumns, kRows}).bf16_copy(), nullptr);
  EXPECT_EQ(w.slice(0, {kRows, kColumns}, DType::f32).bf16_copy(), nullptr);
  EXPECT_EQ(w.in_layout(Layout::packed).bf16_copy(), nullptr);
}

TEST_P(Bf16Copy, MustHaveTheRowsOfTheWeightInBf16) {
  const Tensor w = weight();
  EXPECT_EQ(test::error_of([&] { (void)w.with_bf16_copy(w); }),
            "tensor: f32 [48, 24] cannot be the bf16 copy of f32 [48, 24]");
  EXPECT_EQ(test::error_of([&] { (void)w.with_bf16_copy(other().rows(0, 16)); }),
            "tensor: bf16 [16, 24] cannot be the bf16 copy of f32 [48, 24]");
}

INSTANTIATE_TEST_SUITE_P(Variants, Bf16Copy, test::all_variants(), test::variant_name);

}  // namespace
}  // namespace clora

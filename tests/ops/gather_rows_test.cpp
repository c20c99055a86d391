#include "clora/ops/rowwise/gather_rows.hpp"

#include <gmock/gmock.h>

#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::Output;
using testing::HasSubstr;
using Numbers = std::vector<std::int32_t>;

constexpr std::int64_t kRows = 5;  // of x

class GatherRows : public test::OpTest {
 protected:
  static Tensor tensor_of(const Numbers& numbers) {
    return test::upload(context(), {std::ssize(numbers)}, numbers);
  }

  // Rows first[a], and rows first[a] + second[a].
  void expect_rows(const Numbers& first, const Numbers& second, std::int64_t width, DType type) {
    auto x = test::random_values(static_cast<std::size_t>(kRows * width), 1);
    const Tensor rows = test::upload_as(context(), type, {kRows, width}, x);  // rounds x, too
    const std::int64_t A = std::ssize(first);
    const Output copies(context(), {A, width}, type), sums(context(), {A, width}, type);
    run([&](Batch& batch) {
      record_gather_rows(batch, copies.tensor(), rows, tensor_of(first));
      record_gather_row_sums(batch, sums.tensor(), rows, tensor_of(first), tensor_of(second));
    });
    std::vector<float> want_copies;
    std::vector<double> want_sums;
    for (std::size_t a = 0; a < first.size(); ++a) {
      for (std::int64_t c = 0; c < width; ++c) {
        const auto value = [&](std::int32_t row) {
          const bool is_row = row >= 0 && row < kRows;
          return is_row ? x[static_cast<std::size_t>(row * width + c)] : 0.0F;
        };
        want_copies.push_back(value(first[a]));
        want_sums.push_back(static_cast<double>(value(first[a]) + value(second[a])));
      }
    }
    const std::string what = rows.text();
    EXPECT_EQ(copies.values(), want_copies) << what;
    test::expect_close(sums.values(), want_sums, type == DType::f32 ? 1e-6 : 8e-3, what);
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, GatherRows, test::all_variants(), test::variant_name);

TEST_P(GatherRows, CopiesAndAddsRowsByTheirNumbers) {
  const auto expect = [&](std::int64_t width, DType type) {
    expect_rows({4, 0, 0, 3, 1, 2, -1}, {-1, 2, 0, -1, 4, kRows, -1}, width, type);
  };
  for (const std::int64_t width : {1, 67, 4, 260, 896}) expect(width, DType::f32);
  for (const std::int64_t width : {67, 260}) expect(width, DType::bf16);
  expect(260, DType::f16);
  expect_rows({2}, {kRows}, 64, DType::f32);
}

TEST_P(GatherRows, TakesMoreRowsThanAGridHas) {
  constexpr std::int64_t kMany = (1 << 15) + 3;
  CLORA_SKIP_UNLESS_AFFORDED(kMany * 8);
  Numbers first(kMany), second(kMany, -1);
  for (std::int32_t a = 0; a < kMany; ++a) first[static_cast<std::size_t>(a)] = a % 5;
  expect_rows(first, second, 4, DType::f32);
}

TEST_P(GatherRows, RefusesOtherRows) {
  const auto make = [&](Shape shape, DType type = DType::f32) {
    return context().allocate(shape, type, MemoryTag::scratch);
  };
  const Tensor x = make({4, 8}), numbers = make({3}, DType::i32);
  const auto error = [&](const Tensor& y, const Tensor& from, const Tensor& source) {
    return test::error_of([&] {
      Batch batch(context());
      record_gather_rows(batch, y, from, source);
    });
  };
  EXPECT_THAT(error(make({3, 7}), x, numbers), HasSubstr("rows as those of x, f32 [4, 8]"));
  EXPECT_THAT(error(make({3, 8}, DType::bf16), x, numbers), HasSubstr("got bf16 [3, 8]"));
  EXPECT_THAT(error(make({2, 8}), x, numbers), HasSubstr("the numbers of rows must be i32 [2]"));
  EXPECT_THAT(error(make({3, 8}, DType::i32), x, numbers), HasSubstr("must be f32 [3, 8]"));
  EXPECT_THAT(error({}, x, numbers), HasSubstr("got nothing"));
  EXPECT_THAT(error(x.rows(0, 3), x, numbers), HasSubstr("must not overlap"));
}

}  // namespace
}  // namespace clora

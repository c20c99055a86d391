#include "clora/ops/rowwise/columns.hpp"

#include <gmock/gmock.h>

#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::Output;
using testing::HasSubstr;

class Columns : public test::OpTest {
 protected:
  // Columns [begin, begin + count) of x [rows, width] come out of a wide matrix, and into one,
  // whose other columns keep their values.
  void expect_copies(std::int64_t rows, std::int64_t width, std::int64_t begin, std::int64_t count,
                     DType type) {
    auto wide = test::random_values(static_cast<std::size_t>(rows * width), 1);
    auto narrow = test::random_values(static_cast<std::size_t>(rows * count), 2);
    const Tensor x = test::upload_as(context(), type, {rows, width}, wide);
    const Tensor part = test::upload_as(context(), type, {rows, count}, narrow);
    const Output taken(context(), {rows, count}, type), put(context(), {rows, width}, type);
    run([&](Batch& batch) {
      record_take_columns(batch, taken.tensor(), x, begin);
      batch.copy(put.tensor(), x);
      record_put_columns(batch, put.tensor(), begin, part);
    });
    std::vector<float> want_taken;
    for (std::int64_t t = 0; t < rows; ++t) {
      for (std::int64_t c = 0; c < count; ++c) {
        auto& at = wide[static_cast<std::size_t>(t * width + begin + c)];
        want_taken.push_back(std::exchange(at, narrow[static_cast<std::size_t>(t * count + c)]));
      }
    }
    const std::string what = x.text() + " from " + std::to_string(begin);
    EXPECT_EQ(taken.values(), want_taken) << what;
    EXPECT_EQ(put.values(), wide) << what;
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Columns, test::all_variants(), test::variant_name);

TEST_P(Columns, AreCopiedInVectorsAndSingly) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    expect_copies(1, 1, 0, 1, type);
    expect_copies(3, 300, 8, 260, type);  // vectors
    expect_copies(3, 300, 8, 259, type);  // not: the width of the range
    expect_copies(3, 300, 6, 260, type);  // not: its begin
    expect_copies(3, 301, 0, 260, type);  // not: the width of the matrix
    expect_copies(5, 67, 66, 1, type);
    expect_copies(2, 64, 0, 64, type);  // all of it
  }
}

TEST_P(Columns, AreCopiedForMoreRowsThanAGridHas) {
  constexpr std::int64_t kRows = (1 << 15) + 3;
  CLORA_SKIP_UNLESS_AFFORDED(kRows * 8);
  expect_copies(kRows, 8, 4, 4, DType::f32);
}

TEST_P(Columns, RefuseRangesThatDoNotExistAndOverlap) {
  const auto make = [&](Shape shape, DType type = DType::f32) {
    return context().allocate(shape, type, MemoryTag::scratch);
  };
  const Tensor x = make({4, 8});
  const auto error = [&](const Tensor& y, std::int64_t begin) {
    return test::error_of([&] {
      Batch batch(context());
      record_take_columns(batch, y, x, begin);
    });
  };
  EXPECT_THAT(error(make({4, 5}), 4), HasSubstr("f32 [4, 8], has no columns 4 to 9"));
  EXPECT_THAT(error(make({4, 5}), -1), HasSubstr("has no columns -1 to 4"));
  EXPECT_THAT(error(make({3, 5}), 0), HasSubstr("for f32 [3, 5]"));
  EXPECT_THAT(error(make({4, 5}, DType::bf16), 0), HasSubstr("for bf16 [4, 5]"));
  EXPECT_THAT(error(make({4, 5}, DType::i32), 0), HasSubstr("must be f32 [4, 5]"));
  EXPECT_THAT(error(make({20}), 0), HasSubstr("must be matrices"));
  EXPECT_THAT(error({}, 0), HasSubstr("got nothing"));
  EXPECT_THAT(error(x, 0), HasSubstr("must not overlap"));
  EXPECT_THAT(test::error_of([&] {
                Batch batch(context());
                record_put_columns(batch, x, 4, make({4, 5}));
              }),
              HasSubstr("y, f32 [4, 8], has no columns 4 to 9"));
}

}  // namespace
}  // namespace clora

#include "clora/ops/rowwise/segment_mean.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::Output;

// Segments with gaps between them, of one row, of many, and an empty one.
const std::vector<std::int32_t> kBegin{0, 1, 9, 4}, kEnd{1, 4, 40, 4};
constexpr std::int64_t kRows = 41;

std::vector<std::int32_t> segment_of_rows() {
  std::vector<std::int32_t> segment(kRows, -1);
  for (std::size_t b = 0; b < kBegin.size(); ++b) {
    for (std::int32_t t = kBegin[b]; t < kEnd[b]; ++t) {
      segment[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(b);
    }
  }
  return segment;
}

class SegmentMean : public test::OpTest {
 protected:
  Tensor integers(const std::vector<std::int32_t>& values) {
    return test::upload(context(), {std::ssize(values)}, values);
  }
  Segments segments() { return {integers(kBegin), integers(kEnd)}; }
};
INSTANTIATE_TEST_SUITE_P(Variants, SegmentMean, test::all_variants(), test::variant_name);

TEST_P(SegmentMean, IsTheMeanOfEachSegmentsRows) {
  for (const std::int64_t D : {1, 7, 63, 64, 65, 384}) {
    const std::vector<float> x = test::random_values(static_cast<std::size_t>(kRows * D), 1);
    const Output y(context(), {std::ssize(kBegin), D});
    run([&](Batch& b) {
      record_segment_mean(b, y.tensor(), test::upload(context(), {kRows, D}, x), segments());
    });
    std::vector<double> want;
    for (std::size_t b = 0; b < kBegin.size(); ++b) {
      for (std::int64_t d = 0; d < D; ++d) {
        double sum = 0;
        for (std::int64_t t = kBegin[b]; t < kEnd[b]; ++t) {
          sum += x[static_cast<std::size_t>(t * D + d)];
        }
        want.push_back(kEnd[b] > kBegin[b] ? sum / (kEnd[b] - kBegin[b]) : 0);
      }
    }
    test::expect_close(y.values(), want, test::tolerance_of(40), std::to_string(D));
  }
}

TEST_P(SegmentMean, BackwardDividesAmongTheRowsOfTheSegment) {
  constexpr std::int64_t D = 65;
  const std::vector<float> dy = test::random_values(kBegin.size() * static_cast<std::size_t>(D), 1);
  const Output dx(context(), {kRows, D});
  run([&](Batch& b) {
    record_segment_mean_backward(b, dx.tensor(),
                                 test::upload(context(), {std::ssize(kBegin), D}, dy), segments(),
                                 integers(segment_of_rows()));
  });
  std::vector<double> want;
  for (const std::int32_t b : segment_of_rows()) {
    const auto at = static_cast<std::size_t>(std::max(b, 0));
    for (std::size_t d = 0; d < D; ++d) {
      want.push_back(b < 0 ? 0.0 : double{dy[at * D + d]} / (kEnd[at] - kBegin[at]));
    }
  }
  test::expect_close(dx.values(), want, test::tolerance_of(1), "dx");
}

TEST_P(SegmentMean, RefusesTensorsThatDoNotFit) {
  const Tensor x = test::upload(context(), {4, 3}, test::random_values(12, 1));
  const Tensor wide = test::upload(context(), {4, 4}, test::random_values(16, 1));
  Batch batch(context());
  EXPECT_THAT(test::error_of([&] { record_segment_mean(batch, wide, x, segments()); }),
              testing::HasSubstr("segment_mean: rows and means must be f32 [4, 3]"));
  EXPECT_THAT(test::error_of([&] {
                record_segment_mean(batch, x, x, {integers({0}), integers({1})});
              }),
              testing::HasSubstr("segment_mean: begin must be i32 [4]"));
}

}  // namespace
}  // namespace clora

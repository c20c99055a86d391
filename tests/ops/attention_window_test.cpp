#include "clora/ops/attention/attention_window.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using Rows = std::vector<std::int32_t>;

class AttentionWindow : public test::OpTest {
 protected:
  Tensor up(const Rows& rows) {
    return test::upload(context(), {static_cast<std::int64_t>(rows.size())}, rows);
  }
  Rows windowed(const Rows& first, const Rows& last, std::int64_t window) {
    const Tensor y = up(first);
    run([&](Batch& batch) { record_attention_window(batch, y, y, up(last), window); });
    return context().read<std::int32_t>(y);
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, AttentionWindow, test::all_variants(), test::variant_name);

TEST_P(AttentionWindow, KeepsRowsWithinTheirDocuments) {
  const Rows first{0, 0, 2, 2, 2, 2, 2}, last{0, 1, 2, 3, 4, 5, 6};
  EXPECT_EQ(windowed(first, last, 3), (Rows{0, 0, 2, 2, 2, 3, 4}));
  EXPECT_EQ(windowed(first, last, 1), last);
  EXPECT_EQ(windowed(first, last, 100), first);
  EXPECT_EQ(windowed(first, last, std::numeric_limits<std::int64_t>::max()), first);
}

TEST_P(AttentionWindow, CoversEveryRow) {
  for (const std::int32_t count : {1, 63, 64, 65, 1000}) {
    Rows last, want;
    for (std::int32_t t = 0; t < count; ++t) {
      last.push_back(t);
      want.push_back(std::max(0, t - 6));
    }
    EXPECT_EQ(windowed(Rows(last.size(), 0), last, 7), want) << count;
  }
}

TEST_P(AttentionWindow, RefusesWindowsAndRowsThatDoNotFit) {
  const Tensor four = up({0, 0, 0, 0}), three = up({0, 0, 0});
  const auto error = [&](const Tensor& y, const Tensor& last, std::int64_t window) {
    return test::error_of([&] {
      Batch batch(context());
      record_attention_window(batch, y, four, last, window);
    });
  };
  EXPECT_THAT(error(four, four, 0), testing::HasSubstr("the window must be at least 1, got 0"));
  EXPECT_THAT(error(three, four, 1), testing::HasSubstr("y must be i32 [4]"));
  EXPECT_THAT(error(four, three, 1), testing::HasSubstr("last must be i32 [4]"));
}

}  // namespace
}  // namespace clora

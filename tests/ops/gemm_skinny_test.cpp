// Which products cl/gemm/gemm_skinny.cl computes: up to how many rows is a cost of the device.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "clora/ops/gemm/gemm.hpp"
#include "ops/gemm/gemm_plan.hpp"
#include "ops/tuned/costs.hpp"
#include "tests/reference/gemm_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

constexpr std::int64_t kColumns = 67, kSteps = 48;

class RowsOfSkinnyProducts : public testing::Test {
 protected:
  void set_limit(double rows) {
    GemmSkinnyCosts costs = costs_of<GemmSkinnyCosts>(context_);
    costs.rows_portable = rows;
    costs.rows_matrix = 1;  // not of this Context
    set_costs(context_, costs);
  }

  // Whether gemm_skinny.cl computes y [M, 67] from x [M, 48]; y is checked.
  bool is_skinny_product(std::int64_t M) {
    const auto x = test::random_values(static_cast<std::size_t>(M * kSteps), 1);
    const auto w = test::random_values(static_cast<std::size_t>(kColumns * kSteps), 2);
    test::Output y(context_, {M, kColumns});
    Batch batch(context_);
    record_gemm(batch, y.tensor(), test::upload(context_, {M, kSteps}, x),
                test::upload(context_, {kColumns, kSteps}, w));
    const bool skinny = batch.launches_text().starts_with("gemm_skinny.cl");
    batch.submit().wait();
    const auto want = test::gemm_reference(test::to_double(x), test::to_double(w),
                                           {static_cast<std::size_t>(M), kColumns, kSteps});
    test::expect_close(y.values(), want, test::tolerance_of(kSteps), fmt::format("{} rows", M));
    return skinny;
  }

 private:
  static ContextConfig portable() {
    ContextConfig config = config_from_environment();
    config.variant = Variant::portable;
    return config;
  }
  Context context_{portable()};
};

TEST_F(RowsOfSkinnyProducts, EndWhereTheCostsSay) {
  set_limit(5);
  EXPECT_TRUE(is_skinny_product(1));
  EXPECT_TRUE(is_skinny_product(5));
  EXPECT_FALSE(is_skinny_product(6));
  set_limit(0);
  EXPECT_FALSE(is_skinny_product(1));
}

TEST_F(RowsOfSkinnyProducts, AreAtMostThoseOfTheKernel) {
  set_limit(kMaxCost);
  EXPECT_TRUE(is_skinny_product(GemmSkinnyCosts::kMaxRows));
  EXPECT_FALSE(is_skinny_product(GemmSkinnyCosts::kMaxRows + 1));
}

}  // namespace
}  // namespace clora

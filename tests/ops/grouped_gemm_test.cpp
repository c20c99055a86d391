#include "clora/ops/experts/grouped_gemm.hpp"

#include <gmock/gmock.h>

#include "tests/reference/experts_reference.hpp"
#include "tests/support/grouped_products.hpp"

namespace clora {
namespace {

using test::at;
using test::HostPlan;
using test::Output;
using testing::HasSubstr;

// Each type is programs of its own: bf16 for a few sizes.
std::vector<DType> types_for(const RoutingSize& size) {
  if (size.rows < 20) return {DType::f32, DType::bf16};
  return {DType::f32};
}

class GroupedGemm : public test::GroupedProductTest {
 protected:
  void expect_products(const test::GroupedSizes& sizes, DType type, ExpertRows rows);
};
INSTANTIATE_TEST_SUITE_P(Variants, GroupedGemm, test::all_variants(), test::variant_name);

std::span<const double> row_of(const std::vector<double>& x, std::size_t row, std::int64_t width) {
  return std::span(x).subspan(row * at(width), at(width));
}

void GroupedGemm::expect_products(const test::GroupedSizes& sizes, DType type, ExpertRows rows) {
  constexpr std::int64_t kRank = 5;
  constexpr float kScale = 8;  // so that the term exceeds the tolerance of the longest sums
  const auto& [size, n, k] = sizes;
  const bool gathers = rows == ExpertRows::of_entries;
  const Routing routing = route(size);
  const HostPlan plan(context(), routing.plan);
  const std::int64_t slots = routing.plan.slot_count(), x_rows = gathers ? size.rows : slots;
  auto x = test::random_values(at(x_rows * k), 5);
  auto w = test::random_values(at(size.experts * n * k), 6);
  auto s = test::random_values(at(slots * kRank), 7);
  const test::FlatMatrices u(size.experts, {kRank, n}, 8);
  const Tensor inputs = test::upload_as(context(), type, {x_rows, k}, x);
  const Tensor weights = test::upload_as(context(), type, {size.experts * n, k}, w);
  const ExpertLowRank term{test::upload(context(), {slots, kRank}, s),
                           test::upload(context(), {std::ssize(u.values)}, u.values),
                           u32(u.offsets), kScale};
  const Output plain(context(), {slots, n}, type), adapted(context(), {slots, n}, type);
  run([&](Batch& batch) {
    record_grouped_gemm(batch, plain.tensor(), inputs, rows, {weights}, routing.plan, {}, 2);
    record_grouped_gemm(batch, adapted.tensor(), inputs, rows, {weights}, routing.plan, term);
  });
  std::vector<double> want, want_adapted;
  const auto xs = test::to_double(x), ws = test::to_double(w), ss = test::to_double(s);
  const auto of_slots = test::slots_of(plan, routing, gathers);
  for (std::size_t slot = 0; slot < of_slots.size(); ++slot) {
    std::vector<double> y(at(n)), term_of_row(at(n));
    if (of_slots[slot]) {
      const auto [row, expert] = *of_slots[slot];
      y = reference::product_of_row(row_of(xs, row, k),
                                    std::span(ws).subspan(expert * at(n * k), at(n * k)), false);
      if (u.has(expert)) {
        term_of_row = reference::product_of_row(row_of(ss, slot, kRank), u.of(expert), true);
      }
    }
    for (std::size_t i = 0; i < y.size(); ++i) {
      want.push_back(2 * y[i]);
      want_adapted.push_back(y[i] + double{kScale} * term_of_row[i]);
    }
  }
  const double tolerance =
      test::product_tolerance_of(GetParam(), at(k + kRank)) + test::rounding_of(type);
  test::expect_close(plain.values(), want, tolerance, "plain");
  test::expect_close(adapted.values(), want_adapted, tolerance, "adapted");
}

TEST_P(GroupedGemm, MultipliesEachSlotWithItsExpertAndItsAdapter) {
  for (const test::GroupedSizes& sizes : test::kGroupedSizes) {
    const auto& [size, n, k] = sizes;
    if (!test::affords(size.rows * size.used * n * k)) continue;
    for (const DType type : types_for(size)) {
      for (const ExpertRows rows : {ExpertRows::of_entries, ExpertRows::of_slots}) {
        expect_products(sizes, type, rows);
      }
    }
  }
}

TEST_P(GroupedGemm, BackwardMultipliesWithTheTransposedAndAccumulates) {
  constexpr std::int64_t kRank = 9;
  for (const auto& [size, n, k] : test::kGroupedSizes) {
    if (!test::affords(size.rows * size.used * n * k)) continue;
    for (const DType type : types_for(size)) {
      const Routing routing = route(size);
      const HostPlan plan(context(), routing.plan);
      const std::int64_t slots = routing.plan.slot_count();
      auto dy = test::random_values(at(slots * n), 5);
      auto w = test::random_values(at(size.experts * n * k), 6);
      auto s = test::random_values(at(slots * kRank), 7);
      const test::FlatMatrices u(size.experts, {kRank, k}, 8);
      const Tensor gradients = test::upload_as(context(), type, {slots, n}, dy);
      const Tensor weights = test::upload_as(context(), type, {size.experts * n, k}, w);
      const ExpertLowRank term{test::upload(context(), {slots, kRank}, s),
                               test::upload(context(), {std::ssize(u.values)}, u.values),
                               u32(u.offsets)};
      const Output once(context(), {slots, k}, type), twice(context(), {slots, k}, type);
      run([&](Batch& batch) {
        record_grouped_gemm_backward(batch, once.tensor(), gradients, {weights}, routing.plan,
                                     Accumulate::no, term);
        batch.copy(twice.tensor(), once.tensor());
        record_grouped_gemm_backward(batch, twice.tensor(), gradients, {weights}, routing.plan,
                                     Accumulate::yes, term);
      });
      std::vector<double> want;
      const auto dys = test::to_double(dy), ws = test::to_double(w), ss = test::to_double(s);
      const auto of_slots = test::slots_of(plan, routing, false);
      for (std::size_t slot = 0; slot < of_slots.size(); ++slot) {
        std::vector<double> dx(at(k)), term_of_row(at(k));
        if (of_slots[slot]) {
          const std::size_t expert = of_slots[slot]->expert;
          dx = reference::product_of_row(
              row_of(dys, slot, n), std::span(ws).subspan(expert * at(n * k), at(n * k)), true);
          if (u.has(expert)) {
            term_of_row = reference::product_of_row(row_of(ss, slot, kRank), u.of(expert), true);
          }
        }
        for (std::size_t i = 0; i < dx.size(); ++i) want.push_back(dx[i] + term_of_row[i]);
      }
      const double tolerance =
          test::product_tolerance_of(GetParam(), at(n + kRank)) + test::rounding_of(type);
      test::expect_close(once.values(), want, tolerance, "once");
      for (double& value : want) value *= 2;
      test::expect_close(twice.values(), want, 2 * tolerance, "twice");
    }
  }
}

// As adapters' shrinks: the matrices are in a flat buffer.
TEST_P(GroupedGemm, MultipliesWithMatricesAtOffsetsOfABuffer) {
  for (const auto& [size, n, k] : test::kGroupedSizes) {
    if (!test::affords(size.rows * size.used * n * k)) continue;
    const Routing routing = route(size);
    const HostPlan plan(context(), routing.plan);
    const std::int64_t slots = routing.plan.slot_count();
    const auto x = test::random_values(at(size.rows * k), 5);
    const test::FlatMatrices a(size.experts, {n, k}, 6);
    const Output y(context(), {slots, n});
    run([&](Batch& batch) {
      record_grouped_gemm(
          batch, y.tensor(), test::upload(context(), {size.rows, k}, x), ExpertRows::of_entries,
          {test::upload(context(), {std::ssize(a.values)}, a.values), u32(a.offsets), {n, k}},
          routing.plan, {}, 0.5F);
    });
    std::vector<double> want;
    const auto xs = test::to_double(x);
    for (const auto& slot : test::slots_of(plan, routing, true)) {
      std::vector<double> row(at(n));
      if (slot && a.has(slot->expert)) {
        row = reference::product_of_row(row_of(xs, slot->row, k), a.of(slot->expert), false);
      }
      for (const double value : row) want.push_back(0.5 * value);
    }
    test::expect_close(y.values(), want, test::product_tolerance_of(GetParam(), at(k)), "shrink");
  }
}

TEST_P(GroupedGemm, RefusesTensorsThatDoNotFit) {
  const Routing routing = route({3, 4, 2});
  const std::int64_t slots = routing.plan.slot_count();
  const auto make = [&](Shape shape, DType type = DType::f32) {
    return context().allocate(shape, type, MemoryTag::scratch);
  };
  const auto error = [&](const Tensor& y, const Tensor& x, const ExpertMatrices& w) {
    return test::error_of([&] {
      Batch batch(context());
      record_grouped_gemm(batch, y, x, ExpertRows::of_slots, w, routing.plan);
    });
  };
  const Tensor y = make({slots, 8}), x = make({slots, 16});
  EXPECT_THAT(error(y, x, {make({33, 16})}), HasSubstr("the matrices of 4 experts in one part"));
  EXPECT_THAT(error(y, make({slots, 15}), {make({32, 16})}), HasSubstr("x must be"));
  EXPECT_THAT(error(make({slots, 9}), x, {make({32, 16})}), HasSubstr("y must be"));
  EXPECT_THAT(error(y, x, {make({999}), make({3}, DType::u32), {8, 16}}),
              HasSubstr("offsets must be u32 [4]"));
}

}  // namespace
}  // namespace clora

#include "clora/ops/experts/grouped_gemm.hpp"

#include <gmock/gmock.h>

#include <optional>
#include <tuple>

#include "clora/ops/quant/quant.hpp"
#include "tests/reference/experts_reference.hpp"
#include "tests/reference/quant_reference.hpp"
#include "tests/support/routed_rows.hpp"

namespace clora {
namespace {

using test::HostPlan;
using test::Output;
using testing::HasSubstr;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Sizes {
  RoutingSize routing;
  std::int64_t n, k;
};
// Tiles of 4, 16, 32, 64 and 128 rows; widths of 1, primes, around tiles of 16, 32, 64 and 128
// columns and of 8, 16 and 640 steps.
constexpr Sizes kSizes[] = {
    {{1, 1, 1}, 1, 1},     {{1, 8, 3}, 64, 64},    {{16, 5, 2}, 37, 23},   {{13, 40, 2}, 33, 65},
    {{67, 6, 2}, 15, 31},  {{130, 4, 1}, 65, 17},  {{150, 4, 3}, 129, 8},  {{450, 3, 2}, 24, 100},
    {{700, 5, 1}, 48, 16}, {{20, 4, 2}, 40, 1300}, {{9, 24, 8}, 67, 1304}, {{7, 40, 5}, 16, 320},
};

// Each type is programs of its own: bf16 for a few sizes.
std::vector<DType> types_for(const RoutingSize& size) {
  if (size.rows < 20) return {DType::f32, DType::bf16};
  return {DType::f32};
}

class GroupedGemm : public test::OpTest {
 protected:
  Routing route(const RoutingSize& size) {
    auto logits = test::random_values(at(size.rows * size.experts), 3, 4);
    // Expert 1 has no rows where others suffice.
    for (std::int64_t t = 0; t < size.rows && size.experts > size.used && size.experts > 1; ++t) {
      logits[at(t * size.experts + 1)] = -9;
    }
    const Routing routing = test::routing_of(context(), size);
    run([&](Batch& batch) {
      record_router(batch, routing, test::upload(context(), {size.rows, size.experts}, logits),
                    RouterWeights::normalised);
    });
    return routing;
  }
  void expect_products(const Sizes& sizes, DType type, ExpertRows rows);
  Tensor u32(const std::vector<std::uint32_t>& values) {
    return context().upload<std::uint32_t>({std::ssize(values)}, DType::u32, values,
                                           MemoryTag::scratch);
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, GroupedGemm, test::all_variants(), test::variant_name);

// Matrices [rows, columns] of experts in a flat buffer, in reverse order with gaps; expert 2 has
// none.
struct FlatMatrices {
  std::vector<float> values;
  std::vector<std::uint32_t> offsets;
  std::size_t each;

  FlatMatrices(std::int64_t experts, const Shape& shape, std::uint32_t seed)
      : each(at(shape.elements())) {
    const std::size_t step = (each + 63) / 64 * 64 + 64;
    values = test::random_values(at(experts) * step, seed);
    for (std::int64_t e = 0; e < experts; ++e) {
      const std::size_t offset = at(experts - 1 - e) * step;
      offsets.push_back(e == 2 ? kNoMatrix : static_cast<std::uint32_t>(offset));
    }
  }
  bool has(std::size_t expert) const { return offsets[expert] != kNoMatrix; }
  std::vector<double> of(std::size_t expert) const {
    return test::to_double(std::span(values).subspan(offsets[expert], each));
  }
};

// The rows of x that the slots read, or empty for unused slots; and their experts.
struct HostSlot {
  std::size_t row, expert;
};
std::vector<std::optional<HostSlot>> slots_of(const HostPlan& plan, const Routing& routing,
                                              bool gathers) {
  std::vector<std::optional<HostSlot>> slots(plan.entries.size());
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    if (plan.entries[slot] < 0) continue;
    const std::size_t row = at(plan.entries[slot]) / at(routing.plan.experts_of_row());
    slots[slot] =
        HostSlot{gathers ? row : slot, at(plan.tile_experts[slot / at(routing.plan.tile)])};
  }
  return slots;
}

std::span<const double> row_of(const std::vector<double>& x, std::size_t row, std::int64_t width) {
  return std::span(x).subspan(row * at(width), at(width));
}

void GroupedGemm::expect_products(const Sizes& sizes, DType type, ExpertRows rows) {
  constexpr std::int64_t kRank = 5;
  const auto& [size, n, k] = sizes;
  const bool gathers = rows == ExpertRows::of_entries;
  const Routing routing = route(size);
  const HostPlan plan(context(), routing.plan);
  const std::int64_t slots = routing.plan.slot_count(), x_rows = gathers ? size.rows : slots;
  auto x = test::random_values(at(x_rows * k), 5);
  auto w = test::random_values(at(size.experts * n * k), 6);
  auto s = test::random_values(at(slots * kRank), 7);
  const FlatMatrices u(size.experts, {kRank, n}, 8);
  const Tensor inputs = test::upload_as(context(), type, {x_rows, k}, x);
  const Tensor weights = test::upload_as(context(), type, {size.experts * n, k}, w);
  const ExpertLowRank term{test::upload(context(), {slots, kRank}, s),
                           test::upload(context(), {std::ssize(u.values)}, u.values),
                           u32(u.offsets), 0.5F};
  const Output plain(context(), {slots, n}, type), adapted(context(), {slots, n}, type);
  run([&](Batch& batch) {
    record_grouped_gemm(batch, plain.tensor(), inputs, rows, {weights}, routing.plan, {}, 2);
    record_grouped_gemm(batch, adapted.tensor(), inputs, rows, {weights}, routing.plan, term);
  });
  std::vector<double> want, want_adapted;
  const auto xs = test::to_double(x), ws = test::to_double(w), ss = test::to_double(s);
  const auto of_slots = slots_of(plan, routing, gathers);
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
      want_adapted.push_back(y[i] + 0.5 * term_of_row[i]);
    }
  }
  const double tolerance =
      test::product_tolerance_of(GetParam(), at(k + kRank)) + test::rounding_of(type);
  test::expect_close(plain.values(), want, tolerance, "plain");
  test::expect_close(adapted.values(), want_adapted, tolerance, "adapted");
}

TEST_P(GroupedGemm, MultipliesEachSlotWithItsExpertAndItsAdapter) {
  for (const Sizes& sizes : kSizes) {
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
  for (const auto& [size, n, k] : kSizes) {
    if (!test::affords(size.rows * size.used * n * k)) continue;
    for (const DType type : types_for(size)) {
      const Routing routing = route(size);
      const HostPlan plan(context(), routing.plan);
      const std::int64_t slots = routing.plan.slot_count();
      auto dy = test::random_values(at(slots * n), 5);
      auto w = test::random_values(at(size.experts * n * k), 6);
      auto s = test::random_values(at(slots * kRank), 7);
      const FlatMatrices u(size.experts, {kRank, k}, 8);
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
      const auto of_slots = slots_of(plan, routing, false);
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
  for (const auto& [size, n, k] : kSizes) {
    if (!test::affords(size.rows * size.used * n * k)) continue;
    const Routing routing = route(size);
    const HostPlan plan(context(), routing.plan);
    const std::int64_t slots = routing.plan.slot_count();
    const auto x = test::random_values(at(size.rows * k), 5);
    const FlatMatrices a(size.experts, {n, k}, 6);
    const Output y(context(), {slots, n});
    run([&](Batch& batch) {
      record_grouped_gemm(
          batch, y.tensor(), test::upload(context(), {size.rows, k}, x), ExpertRows::of_entries,
          {test::upload(context(), {std::ssize(a.values)}, a.values), u32(a.offsets), {n, k}},
          routing.plan, {}, 0.5F);
    });
    std::vector<double> want;
    const auto xs = test::to_double(x);
    for (const auto& slot : slots_of(plan, routing, true)) {
      std::vector<double> row(at(n));
      if (slot && a.has(slot->expert)) {
        row = reference::product_of_row(row_of(xs, slot->row, k), a.of(slot->expert), false);
      }
      for (const double value : row) want.push_back(0.5 * value);
    }
    test::expect_close(y.values(), want, test::product_tolerance_of(GetParam(), at(k)), "shrink");
  }
}

TEST_P(GroupedGemm, AddsTheGradientsOfTheAdapterOfEachExpert) {
  for (const std::int64_t rank : {1, 8, 11}) {
    for (const auto& [size, n, k] : kSizes) {
      if (!test::affords(size.rows * size.used * n * k)) continue;
      const Routing routing = route(size);
      const HostPlan plan(context(), routing.plan);
      const std::int64_t slots = routing.plan.slot_count();
      for (const bool gathers : {false, true}) {
        const auto s = test::random_values(at(slots * rank), 5);
        const auto x = test::random_values(at((gathers ? size.rows : slots) * n), 6);
        const FlatMatrices out(size.experts, {rank, n}, 7);
        const Tensor flat = test::upload(context(), {std::ssize(out.values)}, out.values);
        run([&](Batch& batch) {
          record_grouped_gradient(
              batch, {flat, u32(out.offsets), 0.5F}, test::upload(context(), {slots, rank}, s),
              test::upload(context(), {gathers ? size.rows : slots, n}, x),
              gathers ? ExpertRows::of_entries : ExpertRows::of_slots, routing.plan);
        });
        auto want = test::to_double(out.values);
        const auto of_slots = slots_of(plan, routing, gathers);
        for (std::size_t slot = 0; slot < of_slots.size(); ++slot) {
          if (!of_slots[slot] || !out.has(of_slots[slot]->expert)) continue;
          const auto [row, expert] = *of_slots[slot];
          for (std::size_t r = 0; r < at(rank); ++r) {
            for (std::size_t i = 0; i < at(n); ++i) {
              want[out.offsets[expert] + r * at(n) + i] +=
                  0.5 * double{s[slot * at(rank) + r]} * double{x[row * at(n) + i]};
            }
          }
        }
        test::expect_close(context().read<float>(flat), want, test::tolerance_of(at(size.rows)),
                           "gradients");
      }
    }
  }
}

// In the layouts in which models are loaded, against the same matrix in f32; of few rows of each
// expert, and of many.
class WeightTypes : public GroupedGemm {
 protected:
  void expect_as_f32(const RoutingSize& size);
};
INSTANTIATE_TEST_SUITE_P(Variants, WeightTypes, test::all_variants(), test::variant_name);

TEST_P(WeightTypes, OfEachKindAreRead) { expect_as_f32({37, 4, 2}); }
TEST_P(WeightTypes, OfEachKindAreReadForFewRows) { expect_as_f32({5, 4, 2}); }

void WeightTypes::expect_as_f32(const RoutingSize& size) {
  constexpr std::int64_t kWidth = 256;
  if (!test::affords(size.rows * size.used * kWidth * kWidth)) return;
  const Routing routing = route(size);
  const std::int64_t slots = routing.plan.slot_count();
  const auto x = test::random_values(at(size.rows * kWidth), 5);
  const auto dy = test::random_values(at(slots * kWidth), 6);
  const Tensor inputs = test::upload(context(), {size.rows, kWidth}, x);
  const Tensor gradients = test::upload(context(), {slots, kWidth}, dy);
  for (const DType type :
       {DType::f32, DType::f16, DType::bf16, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1,
        DType::q8_0, DType::q4_k, DType::q5_k, DType::q6_k}) {
    const Shape shape{size.experts * kWidth, kWidth};
    const WeightForm form = preferred_form(context(), {kWidth, kWidth}, type);
    const Tensor w = test::random_weights(type, shape[0], shape[1], 7).upload(context(), form);
    const Tensor plain = context().allocate(shape, DType::f32, MemoryTag::scratch);
    const Output y(context(), {slots, kWidth}), y_plain(context(), {slots, kWidth});
    const Output dx(context(), {slots, kWidth}), dx_plain(context(), {slots, kWidth});
    run([&](Batch& batch) {
      record_dequantise(batch, plain, w);
      for (const auto& [forward, backward, weights] :
           {std::tuple(y.tensor(), dx.tensor(), w), {y_plain.tensor(), dx_plain.tensor(), plain}}) {
        record_grouped_gemm(batch, forward, inputs, ExpertRows::of_entries, {weights},
                            routing.plan);
        record_grouped_gemm_backward(batch, backward, gradients, {weights}, routing.plan,
                                     Accumulate::no);
      }
    });
    const double tolerance = test::product_tolerance_of(GetParam(), at(kWidth));
    test::expect_close(y.values(), test::to_double(y_plain.values()), tolerance, w.text());
    test::expect_close(dx.values(), test::to_double(dx_plain.values()), tolerance, w.text());
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

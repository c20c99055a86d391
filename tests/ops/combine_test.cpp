#include "clora/ops/experts/combine.hpp"

#include <gmock/gmock.h>

#include "tests/support/routed_rows.hpp"

namespace clora {
namespace {

using test::HostPlan;
using test::Output;
using testing::HasSubstr;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Sizes {
  RoutingSize routing;
  std::int64_t width;
};
constexpr Sizes kSizes[] = {{{1, 1, 1}, 1},   {{1, 8, 3}, 64},   {{5, 4, 2}, 7},
                            {{67, 5, 2}, 36}, {{16, 9, 4}, 256}, {{3, 4, 4}, 1031}};

class Combine : public test::OpTest {
 protected:
  Routing route(const RoutingSize& size) {
    const auto logits = test::random_values(at(size.rows * size.experts), 3, 4);
    const Routing routing = test::routing_of(context(), size);
    run([&](Batch& batch) {
      record_router(batch, routing, test::upload(context(), {size.rows, size.experts}, logits),
                    RouterWeights::normalised);
    });
    return routing;
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Combine, test::all_variants(), test::variant_name);

TEST_P(Combine, AddsTheWeightedSlotsOfEachRowToTheResidual) {
  for (const auto& [size, D] : kSizes) {
    if (!test::affords(size.rows * size.used * D * 8)) continue;
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      const Routing routing = route(size);
      const HostPlan plan(context(), routing.plan);
      const auto weights = context().read<float>(routing.weights);
      auto x = test::random_values(plan.entries.size() * at(D), 5);
      auto residual = test::random_values(at(size.rows * D), 6);
      const Tensor slots = test::upload_as(context(), type, {std::ssize(plan.entries), D}, x);
      const Tensor added = test::upload_as(context(), type, {size.rows, D}, residual);
      const Output y(context(), {size.rows, D}, type), sums(context(), {size.rows, D});
      run([&](Batch& batch) {
        record_combine(batch, y.tensor(), slots, routing.plan, routing.weights, added);
        record_combine(batch, sums.tensor(), slots, routing.plan, {}, {});
      });
      std::vector<double> want, want_sums;
      for (std::int64_t t = 0; t < size.rows; ++t) {
        for (std::int64_t d = 0; d < D; ++d) {
          double sum = 0, weighted = 0;
          for (std::int64_t k = 0; k < size.used; ++k) {
            const std::size_t entry = at(t * size.used + k);
            const double value = x[at(plan.slots[entry] * D + d)];
            sum += value;
            weighted += double{weights[entry]} * value;
          }
          want.push_back(double{residual[at(t * D + d)]} + weighted);
          want_sums.push_back(sum);
        }
      }
      const double tolerance = test::tolerance_of(at(size.used + 1));
      test::expect_close(y.values(), want, tolerance + test::rounding_of(type), "y");
      test::expect_close(sums.values(), want_sums, tolerance, "sums");
    }
  }
}

TEST_P(Combine, BackwardGivesEachSlotItsShareAndTheWeightsTheirGradients) {
  for (const auto& [size, D] : kSizes) {
    if (!test::affords(size.rows * size.used * D * 8)) continue;
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      const Routing routing = route(size);
      const HostPlan plan(context(), routing.plan);
      const auto weights = context().read<float>(routing.weights);
      auto x = test::random_values(plan.entries.size() * at(D), 5);
      auto dy = test::random_values(at(size.rows * D), 6);
      const Shape slots{std::ssize(plan.entries), D};
      const Tensor outputs = test::upload_as(context(), type, slots, x);
      const Tensor gradient = test::upload_as(context(), type, {size.rows, D}, dy);
      const Output dx(context(), slots, type), dweights(context(), {size.rows, size.used});
      run([&](Batch& batch) {
        record_combine_backward(batch, {dx.tensor(), dweights.tensor()}, gradient, outputs,
                                routing.plan, routing.weights);
      });
      std::vector<double> want_dx(x.size()), want(at(size.rows * size.used));
      for (std::size_t slot = 0; slot < plan.entries.size(); ++slot) {
        if (plan.entries[slot] < 0) continue;
        const std::size_t entry = at(plan.entries[slot]);
        for (std::int64_t d = 0; d < D; ++d) {
          const double of_row = dy[entry / at(size.used) * at(D) + at(d)];
          want_dx[slot * at(D) + at(d)] = double{weights[entry]} * of_row;
          want[entry] += of_row * double{x[slot * at(D) + at(d)]};
        }
      }
      test::expect_close(dx.values(), want_dx, test::tolerance_of(1) + test::rounding_of(type),
                         "dx");
      test::expect_close(dweights.values(), want, test::tolerance_of(at(D)), "dweights");
    }
  }
}

TEST_P(Combine, RefusesTensorsThatDoNotFitAndAliases) {
  const Routing routing = route({3, 4, 2});
  const auto make = [&](Shape shape) {
    return context().allocate(shape, DType::f32, MemoryTag::scratch);
  };
  const std::int64_t slots = routing.plan.slot_count();
  const auto error = [&](const Tensor& y, const Tensor& x, const Tensor& weights) {
    return test::error_of([&] {
      Batch batch(context());
      record_combine(batch, y, x, routing.plan, weights, {});
    });
  };
  EXPECT_THAT(error(make({4, 8}), make({slots, 8}), {}), HasSubstr("y must be"));
  EXPECT_THAT(error(make({3, 8}), make({slots, 9}), {}), HasSubstr("x must be"));
  EXPECT_THAT(error(make({3, 8}), make({slots, 8}), make({3, 3})), HasSubstr("weights must be"));
}

}  // namespace
}  // namespace clora

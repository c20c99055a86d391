// Gradients of experts' adapters (ops/experts/grouped_gemm.hpp).
#include <gtest/gtest.h>

#include "tests/support/grouped_products.hpp"

namespace clora {
namespace {

using test::at;
using test::HostPlan;

class GroupedGradient : public test::GroupedProductTest {};
INSTANTIATE_TEST_SUITE_P(Variants, GroupedGradient, test::all_variants(), test::variant_name);

TEST_P(GroupedGradient, AddsTheGradientsOfTheAdapterOfEachExpert) {
  for (const std::int64_t rank : {1, 8, 11}) {
    for (const auto& [size, n, k] : test::kGroupedSizes) {
      if (!test::affords(size.rows * size.used * n * k)) continue;
      const Routing routing = route(size);
      const HostPlan plan(context(), routing.plan);
      const std::int64_t slots = routing.plan.slot_count();
      for (const bool gathers : {false, true}) {
        const auto s = test::random_values(at(slots * rank), 5);
        const auto x = test::random_values(at((gathers ? size.rows : slots) * n), 6);
        const test::FlatMatrices out(size.experts, {rank, n}, 7);
        const Tensor flat = test::upload(context(), {std::ssize(out.values)}, out.values);
        run([&](Batch& batch) {
          record_grouped_gradient(
              batch, {flat, u32(out.offsets), 0.5F}, test::upload(context(), {slots, rank}, s),
              test::upload(context(), {gathers ? size.rows : slots, n}, x),
              gathers ? ExpertRows::of_entries : ExpertRows::of_slots, routing.plan);
        });
        auto want = test::to_double(out.values);
        const auto of_slots = test::slots_of(plan, routing, gathers);
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

}  // namespace
}  // namespace clora

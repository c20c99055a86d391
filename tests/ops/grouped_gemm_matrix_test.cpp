// grouped_gemm_matrix.cl on the emulated matrix unit, against the portable kernel on operands that
// bf16 stores. On GPUs with such a unit grouped_gemm_test runs it on the hardware.
#include <gtest/gtest.h>

#include "ops/experts/grouped_gemm_kernels.hpp"
#include "tests/support/routed_rows.hpp"

namespace clora {
namespace {

using test::Output;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Tiles that the emulation multiplies in seconds, with two sub-groups in each direction.
constexpr GemmMatrixTile kTile{
    .rows = 32, .columns = 64, .sub_rows = 16, .sub_columns = 32, .steps = 32, .stages = 3};

Context& context() { return test::context_of(Variant::portable); }

struct Way {
  std::int64_t n, k;
  ExpertRows rows = ExpertRows::of_slots;
  bool backward = false;
  bool accumulates = false;
  DType type = DType::f32;  // of y
  std::int64_t rank = 0;
};

// 45 rows, each of two of 3 experts, of which one has no rows: tiles of 32 rows.
void expect_as_portable(const Way& way) {
  if (!test::affords(90 * way.n * way.k)) return;
  constexpr RoutingSize kSize{45, 3, 2};
  auto logits = test::random_values(at(kSize.rows * kSize.experts), 3);
  for (std::int64_t t = 0; t < kSize.rows; ++t) logits[at(t * kSize.experts + 1)] = -9;
  const Routing routing = test::routing_of(context(), kSize);
  ASSERT_EQ(routing.plan.tile % kTile.rows, 0);
  const std::int64_t slots = routing.plan.slot_count();
  const bool gathers = way.rows == ExpertRows::of_entries;
  auto x = test::random_values(at((gathers ? kSize.rows : slots) * way.k), 5);
  auto w = test::random_values(at(kSize.experts * way.n * way.k), 6);
  auto before = test::random_values(at(slots * way.n), 7);
  const Shape each = way.backward ? Shape{way.k, way.n} : Shape{way.n, way.k};
  const Tensor inputs =
      test::upload_as(context(), DType::bf16, {gathers ? kSize.rows : slots, way.k}, x);
  const Tensor weights =
      test::upload_as(context(), DType::bf16, {kSize.experts * each[0], each[1]}, w);
  const Tensor added = test::upload_as(context(), way.type, {slots, way.n}, before);
  const Output got(context(), {slots, way.n}, way.type), want(context(), {slots, way.n}, way.type);
  GroupedProduct product{.y = got.tensor(),
                         .x = inputs,
                         .matrices = {weights},
                         .plan = routing.plan,
                         .rows = way.rows,
                         .scale = way.backward ? 1.0F : 0.5F,
                         .backward = way.backward,
                         .accumulates = way.accumulates};
  if (way.rank > 0) {
    const std::vector<std::uint32_t> offsets{0, kNoMatrix,
                                             static_cast<std::uint32_t>(way.rank * way.n)};
    product.low_rank = {
        test::upload(context(), {slots, way.rank}, test::random_values(at(slots * way.rank), 8)),
        test::upload(context(), {2 * way.rank * way.n},
                     test::random_values(at(2 * way.rank * way.n), 9)),
        context().upload<std::uint32_t>({3}, DType::u32, offsets, MemoryTag::scratch), 0.25F};
  }
  Batch batch(context());
  record_router(batch, routing, test::upload(context(), {kSize.rows, kSize.experts}, logits),
                RouterWeights::normalised);
  for (const Output* y : {&got, &want}) {
    if (way.accumulates) batch.copy(y->tensor(), added);
    product.y = y->tensor();
    if (y == &got) {
      record_grouped_matrix_with(batch, product, {MatrixUnit::mma, true}, kTile);
    } else {
      record_grouped_portable(batch, product);
    }
  }
  batch.submit().wait();
  const double tolerance = test::tolerance_of(at(way.k)) + 2 * test::rounding_of(way.type);
  test::expect_close(got.values(), test::to_double(want.values()), tolerance,
                     inputs.text() + " " + weights.text());
}

TEST(GroupedGemmMatrix, MultipliesAsThePortableKernelDoes) {
  expect_as_portable({.n = 64, .k = 32});
  expect_as_portable({.n = 37, .k = 23, .rows = ExpertRows::of_entries});
  expect_as_portable({.n = 72, .k = 136, .rows = ExpertRows::of_entries, .type = DType::bf16});
}

TEST(GroupedGemmMatrix, MultipliesWithTheTransposedAndAccumulates) {
  expect_as_portable({.n = 64, .k = 32, .backward = true});
  expect_as_portable({.n = 45, .k = 40, .backward = true, .accumulates = true});
  expect_as_portable(
      {.n = 136, .k = 72, .backward = true, .accumulates = true, .type = DType::bf16});
}

TEST(GroupedGemmMatrix, AddsTheTermsOfAdapters) {
  expect_as_portable({.n = 64, .k = 40, .rows = ExpertRows::of_entries, .rank = 5});
  expect_as_portable({.n = 72, .k = 64, .backward = true, .accumulates = true, .rank = 9});
}

}  // namespace
}  // namespace clora

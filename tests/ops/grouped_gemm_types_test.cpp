// grouped_gemm with weights of each storage type.
#include <gtest/gtest.h>

#include <tuple>

#include "clora/ops/quant/quant.hpp"
#include "tests/reference/quant_reference.hpp"
#include "tests/support/grouped_products.hpp"

namespace clora {
namespace {

using test::at;
using test::Output;

// In the layouts in which models are loaded, against the same matrix in f32; of few rows of each
// expert, and of many.
class WeightTypes : public test::GroupedProductTest {
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
    // Few rows are rounded to integers of 16 bits, as in dense products.
    const bool integers = multiplies_integers() && routing.plan.tile == kFewRowsTile &&
                          w.layout() == Layout::packed && is_quantised(w.type());
    test::expect_close(y.values(), test::to_double(y_plain.values()),
                       tolerance + (integers ? 5e-5 : 0), w.text());
    test::expect_close(dx.values(), test::to_double(dx_plain.values()), tolerance, w.text());
  }
}

}  // namespace
}  // namespace clora

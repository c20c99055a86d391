#include "clora/ops/rowwise/add.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/support/op_test.hpp"

namespace clora {
namespace {

class Add : public test::OpTest {
 protected:
  // y = x + 0.75 t, or 0.75 t, of n elements of these types.
  void expect_sum(std::int64_t n, DType of_x, DType of_t, DType of_y, bool has_x) {
    auto x = test::random_values(static_cast<std::size_t>(n), 1);
    auto t = test::random_values(static_cast<std::size_t>(n), 2);
    const Tensor more = test::upload_as(context(), of_t, {n}, t);
    const Tensor to = has_x ? test::upload_as(context(), of_x, {n}, x) : Tensor();
    const test::Output y(context(), {n}, of_y);
    run([&](Batch& batch) { record_add(batch, y.tensor(), to, more, 0.75F); });
    std::vector<double> want;
    for (std::size_t i = 0; i < t.size(); ++i) {
      want.push_back((has_x ? double{x[i]} : 0) + 0.75 * double{t[i]});
    }
    test::expect_close(y.values(), want, test::tolerance_of(1) + test::rounding_of(of_y),
                       fmt::format("{} elements of {} and {} to {}", n, name_of(of_x),
                                   name_of(of_t), name_of(of_y)));
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Add, test::all_variants(), test::variant_name);

TEST_P(Add, AddsInEveryTypeAndLength) {
  for (const std::int64_t n : {1, 3, 64, 1037, 4096}) {
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      expect_sum(n, DType::f32, type, DType::f32, true);
      expect_sum(n, type, DType::f32, type, true);
      expect_sum(n, type, type, DType::f32, false);
    }
  }
}

TEST_P(Add, MayOverwriteEitherInput) {
  const auto values = test::random_values(70, 1);
  const Tensor x = test::upload(context(), {70}, values), t = test::upload(context(), {70}, values);
  run([&](Batch& batch) {
    record_add(batch, x, x, t, 2);      // 3 v
    record_add(batch, t, {}, t, 0.5F);  // v / 2
    record_add(batch, t, x, t);         // 3.5 v
  });
  std::vector<double> want;
  for (const float value : values) want.push_back(3.5 * double{value});
  test::expect_close(context().read<float>(t), want, test::tolerance_of(2), "t");
}

TEST_P(Add, RefusesTensorsThatDoNotFit) {
  const auto of = [&](Shape shape, DType type) {
    return context().allocate(shape, type, MemoryTag::scratch);
  };
  const Tensor t = of({4, 6}, DType::f32);
  const auto error = [&](const Tensor& y, const Tensor& x, float factor) {
    return test::error_of([&] {
      Batch batch(context());
      record_add(batch, y, x, t, factor);
    });
  };
  EXPECT_THAT(error(of({4, 5}, DType::f32), {}, 1), testing::HasSubstr("y must be f32 [4, 6]"));
  EXPECT_THAT(error(t, of({6, 4}, DType::f32), 1), testing::HasSubstr("x must be f32 [4, 6]"));
  EXPECT_THAT(error(t, {}, std::numeric_limits<float>::infinity()),
              testing::HasSubstr("the factor must be finite"));
}

}  // namespace
}  // namespace clora

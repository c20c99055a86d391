#include "tests/support/norm_test.hpp"

#include "tests/support/row_cases.hpp"

namespace clora::test {

NormCase::NormCase(std::int64_t rows, std::int64_t width)
    : shape{rows, width}, epsilon(width < 4 ? 0.5F : 1e-5F) {
  const auto n = static_cast<std::size_t>(rows * width);
  x = random_values(n, 1, 3);
  w = random_values(static_cast<std::size_t>(width), 2);
  bias = random_values(static_cast<std::size_t>(width), 5);
  dy = random_values(n, 3);
  residual = random_values(n, 4);
}

std::vector<NormCase> norm_cases() {
  std::vector<NormCase> all;
  for (const std::int64_t width : {1, 2, 7, 15, 16, 17, 31, 32, 33, 49, 255, 256, 257, 1031}) {
    all.emplace_back(3, width);
  }
  all.emplace_back(1, 576);
  all.emplace_back(13, 576);
  all.emplace_back(257, 128);
  std::erase_if(all, [](const NormCase& c) { return !affords(c.shape.elements()); });
  return all;
}

std::vector<double> NormTest::backward_and_residual(double times, const NormCase& c) const {
  std::vector<double> sum = backward(c);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = times * sum[i] + c.residual[i];
  return sum;
}

void NormTest::expect_forward_agrees() {
  for (const NormCase& c : norm_cases()) {
    const Output y(context(), c.shape);
    run([&](Batch& b) { record_forward(b, y.tensor(), up(c.shape, c.x), c); });
    expect_close(y.values(), forward(c), c.tolerance(), c.shape.text());
  }
}

void NormTest::expect_forward_in_place_over_the_last_of_three_dimensions() {
  const NormCase c(15, 24);
  const Tensor x = up({5, 3, 24}, c.x);
  run([&](Batch& b) { record_forward(b, x, x, c); });
  expect_close(context().read<float>(x), forward(c), c.tolerance(), "in place");
}

void NormTest::expect_forward_takes_either_type_of_x_and_y() {
  for (NormCase c : vec_size_cases<NormCase>()) {
    for (const auto& [x_type, y_type] : kTwoTypes) {
      const Tensor x = upload_as(context(), x_type, c.shape, c.x);
      const Output y(context(), c.shape, y_type);
      run([&](Batch& b) { record_forward(b, y.tensor(), x, c); });
      expect_close(y.values(), forward(c), c.tolerance() + rounding_of(y_type),
                   x.text() + " to " + y.tensor().text());
    }
  }
}

void NormTest::expect_backward_agrees(OneColumn one_column) {
  for (const NormCase& c : norm_cases()) {
    if (c.w.size() == 1 && one_column == OneColumn::left_out) continue;
    const Output plain(context(), c.shape);
    const Output added(context(), c.shape);
    const Tensor dy = up(c.shape, c.dy);
    const Tensor x = up(c.shape, c.x);
    run([&](Batch& b) {
      record_backward(b, plain.tensor(), dy, x, {}, c);
      record_backward(b, added.tensor(), dy, x, up(c.shape, c.residual), c);
    });
    expect_close(plain.values(), backward(c), c.tolerance(), c.shape.text());
    expect_close(added.values(), backward_and_residual(1, c), c.tolerance(),
                 c.shape.text() + " with residual");
  }
}

void NormTest::expect_backward_accumulates_into_its_residual_and_overwrites_its_gradient() {
  const NormCase c(9, 100);
  const Tensor x = up(c.shape, c.x);
  const Tensor dy = up(c.shape, c.dy);
  const Tensor sum = up(c.shape, c.residual);
  run([&](Batch& b) {
    record_backward(b, sum, dy, x, sum, c);
    record_backward(b, sum, dy, x, sum, c);
    record_backward(b, dy, dy, x, {}, c);
  });
  expect_close(context().read<float>(sum), backward_and_residual(2, c), c.tolerance(),
               "two calls with dx as residual");
  expect_close(context().read<float>(dy), backward(c), c.tolerance(), "dx as dy");
}

void NormTest::expect_backward_takes_either_type_of_each_tensor() {
  for (const NormCase& whole : vec_size_cases<NormCase>()) {
    for (const auto& [x_type, dy_type, dx_type] : kThreeTypes) {
      NormCase c = whole;
      const Tensor x = upload_as(context(), x_type, c.shape, c.x);
      const Tensor dy = upload_as(context(), dy_type, c.shape, c.dy);
      const Tensor residual = upload_as(context(), dx_type, c.shape, c.residual);
      const Output dx(context(), c.shape, dx_type);
      run([&](Batch& b) { record_backward(b, dx.tensor(), dy, x, residual, c); });
      expect_close(dx.values(), backward_and_residual(1, c), c.tolerance() + rounding_of(dx_type),
                   x.text() + ", " + dy.text() + " to " + dx.tensor().text());
    }
  }
}

}  // namespace clora::test

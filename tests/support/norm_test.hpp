// Shared by the tests of norms over the last dimension: cases, and a fixture with the tests that
// hold for each norm. A test derives its fixture from NormTest.
#pragma once

#include <string>
#include <vector>

#include "tests/support/op_test.hpp"

namespace clora::test {

struct NormCase {
  std::vector<float> x, w, bias, dy, residual;  // rms_norm has no bias
  Shape shape;
  // In a row of few columns, differences and the terms of the gradient cancel to a multiple of
  // epsilon. With a large epsilon the remaining value is still comparable.
  float epsilon;

  NormCase(std::int64_t rows, std::int64_t width);
  double tolerance() const { return tolerance_of(w.size()); }
};

// Rows and widths around the cpu variant's 16 and 32 lanes and 8 groups, the portable variant's
// groups of 32 to 256, and those of real models (a head of Qwen3, SmolLM2, TinyStories).
std::vector<NormCase> norm_cases();

class NormTest : public OpTest {
 protected:
  // The naive loops.
  virtual std::vector<double> forward(const NormCase& c) const = 0;
  virtual std::vector<double> backward(const NormCase& c) const = 0;
  // The op, with w and bias of the case. An empty residual adds nothing.
  virtual void record_forward(Batch& batch, const Tensor& y, const Tensor& x,
                              const NormCase& c) = 0;
  virtual void record_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                               const Tensor& residual, const NormCase& c) = 0;

  Tensor up(const Shape& shape, const std::vector<float>& values) {
    return upload(context(), shape, values);
  }
  Tensor up_w(const NormCase& c) { return up({c.shape.last()}, c.w); }
  // times * backward + residual.
  std::vector<double> backward_and_residual(double times, const NormCase& c) const;

  void expect_forward_agrees();
  void expect_forward_in_place_over_the_last_of_three_dimensions();
  void expect_forward_takes_either_type_of_x_and_y();
  // With and without residual. A width of 1 is left out where the gradient is 0 up to rounding.
  enum class OneColumn { compared, left_out };
  void expect_backward_agrees(OneColumn one_column);
  void expect_backward_accumulates_into_its_residual_and_overwrites_its_gradient();
  void expect_backward_takes_either_type_of_each_tensor();
};

}  // namespace clora::test

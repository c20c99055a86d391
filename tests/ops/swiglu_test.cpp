#include "clora/ops/rowwise/swiglu.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "runtime/memory/half.hpp"
#include "tests/reference/swiglu_reference.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/row_cases.hpp"

namespace clora {
namespace {

using test::Output;

struct Case {
  std::vector<float> gate, up, dy;
  Shape shape;

  Case(std::int64_t rows, std::int64_t width) : shape{rows, width} {
    const auto n = static_cast<std::size_t>(rows * width);
    gate = test::random_values(n, 1, 8);
    up = test::random_values(n, 2);
    dy = test::random_values(n, 3);
  }
  std::vector<double> forward() const {
    return reference::swiglu(test::to_double(gate), test::to_double(up));
  }
  reference::SwigluGradients backward() const {
    return reference::swiglu_backward(test::to_double(dy), test::to_double(gate),
                                      test::to_double(up));
  }
};

// Widths around 16 lanes, a portable group of 128, a cpu group of 4096, and a real model's width.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t n : {1, 2, 13, 15, 16, 17, 31, 33, 127, 128, 129, 4095, 8191, 8193}) {
    all.emplace_back(1, n);
  }
  all.emplace_back(37, 1536);
  all.emplace_back(29, 1537);
  std::erase_if(all, [](const Case& c) { return !test::affords(c.shape.elements()); });
  return all;
}

const double kTolerance = test::tolerance_of(1);

class Swiglu : public test::OpTest {
 protected:
  Tensor upload(const Shape& shape, const std::vector<float>& values) {
    return test::upload(context(), shape, values);
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Swiglu, test::all_variants(), test::variant_name);

TEST_P(Swiglu, ForwardAgreesWithTheReference) {
  for (const Case& c : cases()) {
    const Output y(context(), c.shape);
    run([&](Batch& b) {
      record_swiglu(b, y.tensor(), upload(c.shape, c.gate), upload(c.shape, c.up));
    });
    test::expect_close(y.values(), c.forward(), kTolerance, c.shape.text());
  }
}

TEST_P(Swiglu, ForwardMayOverwriteEitherInput) {
  const Case c(3, 70);
  const Tensor gate = upload(c.shape, c.gate);
  const Tensor up = upload(c.shape, c.up);
  run([&](Batch& b) {
    record_swiglu(b, gate, gate, up);
    record_swiglu(b, up, upload(c.shape, c.gate), up);
  });
  test::expect_close(context().read<float>(gate), c.forward(), kTolerance, "y as gate");
  test::expect_close(context().read<float>(up), c.forward(), kTolerance, "y as up");
}

TEST_P(Swiglu, GatesFarFromZeroNeitherOverflowNorVanish) {
  const std::vector<float> gate = {-1000, -100, -89, -88, -30, 0, 30, 88, 89, 100, 1000};
  const std::vector<float> up(gate.size(), 1.0F);
  const Shape shape{static_cast<std::int64_t>(gate.size())};
  const Output y(context(), shape);
  const Output dgate(context(), shape);
  const Output dup(context(), shape);
  run([&](Batch& b) {
    const Tensor g = upload(shape, gate);
    record_swiglu(b, y.tensor(), g, upload(shape, up));
    record_swiglu_backward(b, dgate.tensor(), dup.tensor(), upload(shape, up), g,
                           upload(shape, up));
  });
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double want = reference::silu(gate[i]);
    EXPECT_NEAR(y.values()[i], want, 1e-6 * std::abs(want) + 1e-35) << gate[i];
    EXPECT_NEAR(dup.values()[i], want, 1e-6 * std::abs(want) + 1e-35) << gate[i];
    EXPECT_NEAR(dgate.values()[i], reference::silu_derivative(gate[i]), 1e-6) << gate[i];
  }
}

TEST_P(Swiglu, BackwardAgreesWithTheReference) {
  for (const Case& c : cases()) {
    const Output dgate(context(), c.shape);
    const Output dup(context(), c.shape);
    run([&](Batch& b) {
      record_swiglu_backward(b, dgate.tensor(), dup.tensor(), upload(c.shape, c.dy),
                             upload(c.shape, c.gate), upload(c.shape, c.up));
    });
    const reference::SwigluGradients want = c.backward();
    test::expect_close(dgate.values(), want.dgate, kTolerance, c.shape.text() + " dgate");
    test::expect_close(dup.values(), want.dup, kTolerance, c.shape.text() + " dup");
  }
}

TEST_P(Swiglu, GegluAgreesWithTheReferenceForwardAndBackward) {
  for (const Case& c : cases()) {
    const Output y(context(), c.shape), recomputed(context(), c.shape);
    const Output dgate(context(), c.shape), dup(context(), c.shape);
    const SwigluSaved saved{context().allocate(c.shape, DType::bf16, MemoryTag::scratch),
                            context().allocate(c.shape, DType::bf16, MemoryTag::scratch)};
    const Output saving(context(), c.shape);
    run([&](Batch& b) {
      const Tensor gate = upload(c.shape, c.gate), up = upload(c.shape, c.up);
      record_swiglu(b, y.tensor(), gate, up, {}, GateFunction::gelu);
      record_swiglu(b, saving.tensor(), gate, up, saved, GateFunction::gelu);
      record_swiglu_backward(b, dgate.tensor(), dup.tensor(), upload(c.shape, c.dy), gate, up,
                             recomputed.tensor(), GateFunction::gelu);
    });
    const auto want =
        reference::geglu(test::to_double(c.dy), test::to_double(c.gate), test::to_double(c.up));
    test::expect_close(y.values(), want.y, kTolerance, c.shape.text() + " y");
    test::expect_close(saving.values(), want.y, kTolerance, c.shape.text() + " y, saving");
    test::expect_close(recomputed.values(), want.y, kTolerance, c.shape.text() + " y again");
    // Its slope has more terms.
    test::expect_close(dgate.values(), want.dgate, 3 * kTolerance, c.shape.text() + " dgate");
    test::expect_close(dup.values(), want.dup, kTolerance, c.shape.text() + " dup");
  }
}

TEST_P(Swiglu, WithTheSigmoidAgreesWithTheReferenceForwardAndBackward) {
  for (const Case& c : cases()) {
    const Output y(context(), c.shape), recomputed(context(), c.shape);
    const Output dgate(context(), c.shape), dup(context(), c.shape);
    run([&](Batch& b) {
      const Tensor gate = upload(c.shape, c.gate), up = upload(c.shape, c.up);
      record_swiglu(b, y.tensor(), gate, up, {}, GateFunction::sigmoid);
      record_swiglu_backward(b, dgate.tensor(), dup.tensor(), upload(c.shape, c.dy), gate, up,
                             recomputed.tensor(), GateFunction::sigmoid);
    });
    const auto want = reference::sigmoid_gate(test::to_double(c.dy), test::to_double(c.gate),
                                              test::to_double(c.up));
    test::expect_close(y.values(), want.y, kTolerance, c.shape.text() + " y");
    test::expect_close(recomputed.values(), want.y, kTolerance, c.shape.text() + " y again");
    // 1 - s is a difference of numbers near 1 where the gate is far above 0.
    test::expect_close(dgate.values(), want.dgate, 3e-4, c.shape.text() + " dgate");
    test::expect_close(dup.values(), want.dup, kTolerance, c.shape.text() + " dup");
  }
}

TEST_P(Swiglu, GegluOfGatesFarFromZeroIsFinite) {
  const std::vector<float> gate = {-1e6F, -1000, -100, -30, 0, 30, 100, 1000, 1e6F};
  const Shape shape{static_cast<std::int64_t>(gate.size())};
  const Tensor ones = upload(shape, std::vector<float>(gate.size(), 1.0F));
  const Output y(context(), shape), dgate(context(), shape), dup(context(), shape);
  run([&](Batch& b) {
    const Tensor g = upload(shape, gate);
    record_swiglu(b, y.tensor(), g, ones, {}, GateFunction::gelu);
    record_swiglu_backward(b, dgate.tensor(), dup.tensor(), ones, g, ones, {}, GateFunction::gelu);
  });
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const float want = gate[i] > 0 ? gate[i] : 0;
    EXPECT_NEAR(y.values()[i], want, 1e-6 * want + 1e-20) << gate[i];
    EXPECT_NEAR(dgate.values()[i], gate[i] > 0 ? 1 : gate[i] < 0 ? 0 : 0.5, 1e-6) << gate[i];
  }
}

TEST_P(Swiglu, BackwardOverwritesItsOutputsAndMayDoSoInPlace) {
  const Case c(5, 45);
  const Tensor gate = upload(c.shape, c.gate);
  const Tensor up = upload(c.shape, c.up);
  const Output dgate(context(), c.shape);
  const Output dup(context(), c.shape);
  run([&](Batch& b) {
    const Tensor dy = upload(c.shape, c.dy);
    record_swiglu_backward(b, dgate.tensor(), dup.tensor(), dy, gate, up);
    record_swiglu_backward(b, dgate.tensor(), dup.tensor(), dy, gate, up);
    record_swiglu_backward(b, gate, up, dy, gate, up);
  });
  const reference::SwigluGradients want = c.backward();
  test::expect_close(dgate.values(), want.dgate, kTolerance, "second call, dgate");
  test::expect_close(dup.values(), want.dup, kTolerance, "second call, dup");
  test::expect_close(context().read<float>(gate), want.dgate, kTolerance, "dgate as gate");
  test::expect_close(context().read<float>(up), want.dup, kTolerance, "dup as up");
}

TEST_P(Swiglu, BackwardAlsoRecomputesTheForwardsResultWithTheSameGradients) {
  for (const Case& c : cases()) {
    const Output dgate(context(), c.shape), dup(context(), c.shape), y(context(), c.shape);
    const Output plain_dgate(context(), c.shape), plain_dup(context(), c.shape);
    run([&](Batch& b) {
      const Tensor gate = upload(c.shape, c.gate), up = upload(c.shape, c.up);
      const Tensor dy = upload(c.shape, c.dy);
      record_swiglu_backward(b, dgate.tensor(), dup.tensor(), dy, gate, up, y.tensor());
      record_swiglu_backward(b, plain_dgate.tensor(), plain_dup.tensor(), dy, gate, up);
    });
    test::expect_close(y.values(), c.forward(), kTolerance, c.shape.text() + " y");
    EXPECT_EQ(dgate.values(), plain_dgate.values()) << c.shape.text();
    EXPECT_EQ(dup.values(), plain_dup.values()) << c.shape.text();
  }
}

TEST_P(Swiglu, BackwardMayWriteTheForwardsResultOverAnyInput) {
  const Case c(5, 45);
  for (const std::size_t which : {0U, 1U, 2U}) {
    const std::array<Tensor, 3> inputs{upload(c.shape, c.dy), upload(c.shape, c.gate),
                                       upload(c.shape, c.up)};
    const Output dgate(context(), c.shape), dup(context(), c.shape);
    run([&](Batch& b) {
      record_swiglu_backward(b, dgate.tensor(), dup.tensor(), inputs[0], inputs[1], inputs[2],
                             inputs[which]);
    });
    const reference::SwigluGradients want = c.backward();
    test::expect_close(context().read<float>(inputs[which]), c.forward(), kTolerance, "y");
    test::expect_close(dgate.values(), want.dgate, kTolerance, "dgate");
    test::expect_close(dup.values(), want.dup, kTolerance, "dup");
  }
}

std::vector<std::uint16_t> to_bf16(const std::vector<float>& values) {
  std::vector<std::uint16_t> halves;
  for (const float value : values) halves.push_back(float_to_bf16(value));
  return halves;
}
std::vector<float> upcast(const std::vector<std::uint16_t>& halves) {
  std::vector<float> values;
  for (const std::uint16_t half : halves) values.push_back(bf16_to_float(half));
  return values;
}

TEST_P(Swiglu, AlsoSavesItsInputsInBf16WithTheSameResult) {
  for (const Case& c : cases()) {
    const Output y(context(), c.shape), unfused(context(), c.shape);
    const SwigluSaved saved{context().allocate(c.shape, DType::bf16, MemoryTag::scratch),
                            context().allocate(c.shape, DType::bf16, MemoryTag::scratch)};
    run([&](Batch& b) {
      const Tensor gate = upload(c.shape, c.gate), up = upload(c.shape, c.up);
      record_swiglu(b, y.tensor(), gate, up, saved);
      record_swiglu(b, unfused.tensor(), gate, up);
    });
    test::expect_close(y.values(), test::to_double(unfused.values()), kTolerance, c.shape.text());
    EXPECT_EQ(context().read<std::uint16_t>(saved.gate), to_bf16(c.gate)) << c.shape.text();
    EXPECT_EQ(context().read<std::uint16_t>(saved.up), to_bf16(c.up)) << c.shape.text();
  }
}

TEST_P(Swiglu, RoundsTiesToEvenAndKeepsNonFiniteValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> up = {1.00390625F, 1.01171875F, -1.00390625F, 0.0F,       -0.0F,
                           1e-40F,      3.4e38F,     kInfinity,    -kInfinity, 2.5F};
  const float nan = std::bit_cast<float>(0x7fffffffU);  // an increment would not be a NaN
  const std::size_t given = up.size();
  // Halfway between 1 and the next bf16, 1 + 2^-7, rounds down to 1, which is even. Halfway to the
  // one after that rounds up, to the even 1 + 2^-6.
  const std::vector<float> want = {
      1.0F,      1.015625F, -1.0F,      0.0F, -0.0F, bf16_to_float(float_to_bf16(1e-40F)),
      kInfinity, kInfinity, -kInfinity, 2.5F};
  for (const std::int64_t count : {17, 20}) {  // single elements, and full vectors
    up.resize(given);
    up.resize(static_cast<std::size_t>(count), nan);
    const Shape shape{count};
    const Output y(context(), shape);
    const SwigluSaved saved{context().allocate(shape, DType::bf16, MemoryTag::scratch),
                            context().allocate(shape, DType::bf16, MemoryTag::scratch)};
    run([&](Batch& b) {
      record_swiglu(b, y.tensor(), upload(shape, std::vector<float>(up.size())), upload(shape, up),
                    saved);
    });
    const std::vector<float> got = upcast(context().read<std::uint16_t>(saved.up));
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i], want[i]) << up[i];
    EXPECT_TRUE(std::signbit(got[4]));
    for (std::size_t i = want.size(); i < got.size(); ++i) EXPECT_TRUE(std::isnan(got[i])) << i;
  }
}

TEST_P(Swiglu, OfSavedInputsAgreesWithTheReferenceOfTheBf16Ones) {
  for (Case c : cases()) {
    const auto upload_halves = [&](std::vector<float>& values) {
      const std::vector<std::uint16_t> halves = to_bf16(values);
      values = upcast(halves);
      const Tensor tensor = context().allocate(c.shape, DType::bf16, MemoryTag::scratch);
      context().write(tensor, std::as_bytes(std::span(halves)));
      return tensor;
    };
    const Tensor gate = upload_halves(c.gate), up = upload_halves(c.up);
    const Output y(context(), c.shape), dgate(context(), c.shape), dup(context(), c.shape);
    const Output again(context(), c.shape), plain(context(), c.shape);
    run([&](Batch& b) {
      const Tensor dy = upload(c.shape, c.dy);
      record_swiglu(b, y.tensor(), gate, up);
      record_swiglu_backward(b, dgate.tensor(), dup.tensor(), dy, gate, up, again.tensor());
      record_swiglu_backward(b, plain.tensor(), dup.tensor(), dy, gate, up);
    });
    test::expect_close(y.values(), c.forward(), kTolerance, c.shape.text());
    test::expect_close(again.values(), c.forward(), kTolerance, c.shape.text() + " again");
    EXPECT_EQ(dgate.values(), plain.values()) << c.shape.text();
    const reference::SwigluGradients want = c.backward();
    test::expect_close(dgate.values(), want.dgate, kTolerance, c.shape.text() + " dgate");
    test::expect_close(dup.values(), want.dup, kTolerance, c.shape.text() + " dup");
  }
}

// Ranges that are multiples of 8, of 4, and of neither.
std::vector<Case> cases_of_types() {
  std::vector<Case> all;
  for (const std::int64_t n : {1, 8, 12, 1023, 1028, 4096}) all.emplace_back(1, n);
  return all;
}

TEST_P(Swiglu, ForwardTakesEitherTypeOfItsInputsAndOutput) {
  for (Case c : cases_of_types()) {
    for (const auto& [type, y_type] : test::kTwoTypes) {
      const Tensor gate = test::upload_as(context(), type, c.shape, c.gate);
      const Tensor up = test::upload_as(context(), type, c.shape, c.up);
      const Output y(context(), c.shape, y_type);
      run([&](Batch& b) { record_swiglu(b, y.tensor(), gate, up); });
      test::expect_close(y.values(), c.forward(), kTolerance + test::rounding_of(y_type),
                         gate.text() + " to " + y.tensor().text());
    }
  }
}

TEST_P(Swiglu, BackwardTakesEitherTypeOfEachTensorAndMayWorkInPlace) {
  for (const Case& whole : cases_of_types()) {
    for (const auto& [type, dy_type, d_type] : test::kThreeTypes) {
      Case c = whole;
      const Tensor gate = test::upload_as(context(), type, c.shape, c.gate);
      const Tensor up = test::upload_as(context(), type, c.shape, c.up);
      const Tensor dy = test::upload_as(context(), dy_type, c.shape, c.dy);
      const Output dgate(context(), c.shape, d_type), dup(context(), c.shape, d_type);
      const Output in_place(context(), c.shape, type);
      run([&](Batch& b) {
        record_swiglu_backward(b, dgate.tensor(), dup.tensor(), dy, gate, up);
        record_swiglu_backward(b, gate, up, dy, gate, up);
        b.copy(in_place.tensor(), gate);
      });
      const reference::SwigluGradients want = c.backward();
      const std::string what = gate.text() + ", " + dy.text() + " to " + dup.tensor().text();
      const double tolerance = kTolerance + test::rounding_of(d_type);
      test::expect_close(dgate.values(), want.dgate, tolerance, what);
      test::expect_close(dup.values(), want.dup, tolerance, what);
      test::expect_close(in_place.values(), want.dgate, kTolerance + test::rounding_of(type), what);
    }
  }
}

TEST_P(Swiglu, BackwardWritesTheForwardsResultInEitherType) {
  for (const Case& whole : cases_of_types()) {
    for (const auto& [y_type, type, d_type] : test::kThreeTypes) {
      Case c = whole;
      const Tensor gate = test::upload_as(context(), type, c.shape, c.gate);
      const Tensor up = test::upload_as(context(), type, c.shape, c.up);
      const Tensor dy = test::upload_as(context(), type, c.shape, c.dy);
      const Output dgate(context(), c.shape, d_type), dup(context(), c.shape, d_type);
      const Output y(context(), c.shape, y_type);
      run([&](Batch& b) {
        record_swiglu_backward(b, dgate.tensor(), dup.tensor(), dy, gate, up, y.tensor());
      });
      const reference::SwigluGradients want = c.backward();
      const std::string what =
          gate.text() + " to " + dup.tensor().text() + ", " + y.tensor().text();
      const double tolerance = kTolerance + test::rounding_of(d_type);
      test::expect_close(y.values(), c.forward(), kTolerance + test::rounding_of(y_type), what);
      test::expect_close(dgate.values(), want.dgate, tolerance, what);
      test::expect_close(dup.values(), want.dup, tolerance, what);
    }
  }
}

TEST_P(Swiglu, RefusesSavedTensorsThatDoNotMatch) {
  Batch b(context());
  const Case c(4, 32);
  const Tensor t = upload(c.shape, c.gate), y = upload(c.shape, c.gate);
  const auto halves = [&](const Shape& shape) {
    return context().allocate(shape, DType::bf16, MemoryTag::scratch);
  };
  const Tensor gate = halves(c.shape), up = halves(c.shape), wrong = halves({32, 4});
  const auto forward = [&](const Tensor& out, const Tensor& g, const Tensor& u,
                           const SwigluSaved& saved) {
    return test::error_of([&] { record_swiglu(b, out, g, u, saved); });
  };
  using testing::HasSubstr;
  EXPECT_THAT(forward(y, t, t, {gate, {}}), HasSubstr("saved.up must be bf16 [4, 32]"));
  EXPECT_THAT(forward(y, t, t, {wrong, up}), HasSubstr("saved.gate must be bf16 [4, 32]"));
  EXPECT_THAT(forward(y, t, t, {t, up}), HasSubstr("saved.gate must be bf16 [4, 32]"));
  EXPECT_THAT(forward(y, gate, up, {gate, up}), HasSubstr("gate must be f32 to save activations"));
  EXPECT_THAT(forward(y, gate, t, {}), HasSubstr("up must be bf16 [4, 32]"));
  EXPECT_THAT(forward(y, t, up, {}), HasSubstr("up must be f32 [4, 32]"));
  const Tensor both = context().allocate({4, 32}, DType::f32, MemoryTag::scratch);
  const Tensor first_half = both.slice(0, c.shape, DType::bf16);
  EXPECT_THAT(forward(both, first_half, up, {}),
              HasSubstr("y, f32 [4, 32], must not overlap the input bf16 [4, 32]"));
  EXPECT_THAT(forward(y, both, t, {first_half, up}),
              HasSubstr("saved.gate, bf16 [4, 32], must not overlap"));
  EXPECT_THAT(test::error_of([&] { record_swiglu_backward(b, both, y, t, first_half, up); }),
              HasSubstr("dgate, f32 [4, 32], must not overlap"));
  EXPECT_EQ(b.commands(), 0U);
}

TEST_P(Swiglu, RefusesTensorsThatDoNotMatch) {
  Batch b(context());
  const Case c(4, 6);
  const Tensor t = upload(c.shape, c.gate);
  const Tensor wrong = upload({6, 4}, c.gate);
  const auto forward = [&](const Tensor& y, const Tensor& gate, const Tensor& up) {
    return test::error_of([&] { record_swiglu(b, y, gate, up); });
  };
  const auto backward = [&](const Tensor& dgate, const Tensor& dup, const Tensor& dy,
                            const Tensor& gate, const Tensor& up, const Tensor& y = {}) {
    return test::error_of([&] { record_swiglu_backward(b, dgate, dup, dy, gate, up, y); });
  };
  using testing::HasSubstr;
  EXPECT_THAT(forward(wrong, t, t), HasSubstr("swiglu: y must be f32 [4, 6], got f32 [6, 4]"));
  EXPECT_THAT(forward(t, {}, t), HasSubstr("gate must"));
  EXPECT_THAT(forward(t, t, wrong), HasSubstr("up must"));
  EXPECT_THAT(backward(wrong, t, t, t, t), HasSubstr("dgate must"));
  EXPECT_THAT(backward(t, wrong, t, t, t), HasSubstr("dup must"));
  EXPECT_THAT(backward(t, t, wrong, t, t), HasSubstr("dy must"));
  EXPECT_THAT(backward(t, t, t, {}, t), HasSubstr("gate must"));
  EXPECT_THAT(backward(t, t, t, t, wrong), HasSubstr("up must"));
  EXPECT_THAT(backward(t, t, t, t, t, wrong), HasSubstr("y must be f32 [4, 6], got f32 [6, 4]"));
  EXPECT_THAT(backward(wrong.reshape({4, 6}), t, t, t, t, t), HasSubstr("y must alias neither"));
  const Tensor half_of_t = t.slice(0, c.shape, DType::bf16), other = upload(c.shape, c.up);
  EXPECT_THAT(backward(other, other, t, other, other, half_of_t),
              HasSubstr("y, bf16 [4, 6], must not overlap the input f32 [4, 6]"));
  EXPECT_EQ(b.commands(), 0U);
}

TEST(SwigluReference, BackwardIsTheDerivativeOfForward) {
  const Case c(1, 20);
  const std::vector<double> gate = test::to_double(c.gate);
  const std::vector<double> up = test::to_double(c.up);
  const std::vector<double> dy = test::to_double(c.dy);
  const auto loss = [&](const std::vector<double>& g, const std::vector<double>& u) {
    const std::vector<double> y = reference::swiglu(g, u);
    return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
  };
  const auto of_gate = [&](const std::vector<double>& g) { return loss(g, up); };
  const auto of_up = [&](const std::vector<double>& u) { return loss(gate, u); };
  const reference::SwigluGradients d = c.backward();
  test::expect_close(d.dgate, test::central_differences(of_gate, gate), 1e-8, "dgate");
  test::expect_close(d.dup, test::central_differences(of_up, up), 1e-8, "dup");
}

}  // namespace
}  // namespace clora

#include "clora/ops/optimizers/adamw.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/reference/adamw_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using reference::settings_of;
using testing::HasSubstr;

class Adamw : public test::OpTest {
 protected:
  // The parameters on the device and in the reference.
  struct Run {
    std::int64_t n;
    test::Output parameters, first_moment, second_moment, grad_norm;
    Tensor gradients, settings;
    reference::AdamwState state;

    Run(Context& context, std::int64_t count)
        : n(count),
          parameters(context, {n}),
          first_moment(context, {n}),
          second_moment(context, {n}),
          grad_norm(context, {1}),
          gradients(context.allocate({n}, DType::f32, MemoryTag::scratch)),
          settings(context.allocate({8}, DType::f32, MemoryTag::scratch)) {
      const auto size = static_cast<std::size_t>(n);
      const auto start = test::random_values(size, 1);
      const std::vector<float> zeros(size);
      context.write(parameters.tensor(), std::as_bytes(std::span(start)));
      context.write(first_moment.tensor(), std::as_bytes(std::span(zeros)));
      context.write(second_moment.tensor(), std::as_bytes(std::span(zeros)));
      state = {test::to_double(start), test::to_double(zeros), test::to_double(zeros)};
    }
    AdamwTensors tensors() const {
      return {parameters.tensor(), first_moment.tensor(), second_moment.tensor(), gradients,
              settings};
    }
  };

  // Runs one step on the device and in the reference. Returns the reference's norm.
  double step(Run& r, Batch& batch, const std::vector<float>& gradients,
              const UpdateSettings& settings) {
    context().write(r.gradients, std::as_bytes(std::span(gradients)));
    context().write(r.settings, std::as_bytes(std::span(&settings, 1)));
    batch.submit().wait();
    return reference::adamw(r.state, test::to_double(gradients), settings);
  }

  void expect_equal(const Run& r, const std::string& what) {
    const double tolerance = test::tolerance_of(4);
    test::expect_close(r.parameters.values(), r.state.parameters, tolerance, "parameters" + what);
    test::expect_close(r.first_moment.values(), r.state.first_moment, tolerance, "m" + what);
    test::expect_close(r.second_moment.values(), r.state.second_moment, tolerance, "v" + what);
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Adamw, test::all_variants(), test::variant_name);

TEST_P(Adamw, MatchesTheReferenceOverThreeReplayedStepsAtEverySize) {
  for (const std::int64_t n : {1, 2, 15, 16, 17, 127, 255, 256, 257, 1009, 4096, 70001}) {
    if (!test::affords(n)) continue;
    Run r(context(), n);
    Batch batch(context());
    record_adamw(batch, r.tensors(), r.grad_norm.tensor());
    for (int number = 1; number <= 3; ++number) {
      const auto gradients = test::random_values(static_cast<std::size_t>(n),
                                                 static_cast<std::uint32_t>(10 + number), 3);
      const double norm = step(r, batch, gradients, settings_of(number));
      EXPECT_NEAR(r.grad_norm.values()[0], norm, 4 * 0x1p-24 * norm) << n;
    }
    expect_equal(r, fmt::format(" of {}", n));
  }
}

TEST_P(Adamw, ClipsByTheGlobalNormAndReportsItBeforeClipping) {
  for (const float clip_norm : {0.5F, 1e6F}) {  // 0.5 clips, 1e6 does not
    Run r(context(), 3000);
    Batch batch(context());
    record_adamw(batch, r.tensors(), r.grad_norm.tensor());
    const auto gradients = test::random_values(3000, 4, 2);
    const double norm = step(r, batch, gradients, settings_of(1, clip_norm));
    EXPECT_NEAR(r.grad_norm.values()[0], norm, 4 * 0x1p-24 * norm);
    expect_equal(r, fmt::format(" clipped to {}", clip_norm));
  }
}

TEST_P(Adamw, TakesTheNormOfMillionsToAFewUlp) {
  const std::int64_t n = 5000011;
  CLORA_SKIP_UNLESS_AFFORDED(5000011);
  std::vector<float> gradients(static_cast<std::size_t>(n), 1.0F);
  gradients[0] = 4096;  // its square is 2^24; adding a single 1 to that is lost to rounding
  Run r(context(), n);
  Batch batch(context());
  record_adamw(batch, r.tensors(), r.grad_norm.tensor());
  const double norm = step(r, batch, gradients, settings_of(1));
  EXPECT_NEAR(r.grad_norm.values()[0], norm, 4 * 0x1p-24 * norm);
  const float first = r.grad_norm.values()[0];
  batch.submit().wait();
  EXPECT_EQ(r.grad_norm.values()[0], first) << "the same bits every run";
}

TEST_P(Adamw, ShowsAGradientThatIsNotFiniteInTheNorm) {
  Run r(context(), 100);
  Batch batch(context());
  record_adamw(batch, r.tensors(), r.grad_norm.tensor());
  std::vector<float> gradients(100, 1.0F);
  gradients[99] = std::numeric_limits<float>::quiet_NaN();
  step(r, batch, gradients, settings_of(1));
  EXPECT_TRUE(std::isnan(r.grad_norm.values()[0]));
  EXPECT_FALSE(std::isnan(r.parameters.values()[0])) << "updated as computed";
}

TEST_P(Adamw, RefusesTensorsThatDoNotFit) {
  const Tensor five = context().allocate({5}, DType::f32, MemoryTag::scratch);
  const Tensor four = context().allocate({4}, DType::f32, MemoryTag::scratch);
  const Tensor eight = context().allocate({8}, DType::f32, MemoryTag::scratch);
  const Tensor one = context().allocate({1}, DType::f32, MemoryTag::scratch);
  const auto message = [&](const AdamwTensors& tensors, const Tensor& norm) {
    return test::error_of([&] {
      Batch batch(context());
      record_adamw(batch, tensors, norm);
    });
  };
  EXPECT_THAT(message({{}, five, five, five, eight}, one), HasSubstr("parameters must be f32 [n]"));
  EXPECT_THAT(message({five, four, five, five, eight}, one),
              HasSubstr("first_moment must be f32 [5], got f32 [4]"));
  EXPECT_THAT(message({five, five, four, five, eight}, one), HasSubstr("second_moment must be"));
  EXPECT_THAT(message({five, five, five, four, eight}, one), HasSubstr("gradients must be"));
  EXPECT_THAT(message({five, five, five, five, five}, one),
              HasSubstr("settings must be f32 [8], got f32 [5]"));
  EXPECT_THAT(message({five, five, five, five, eight}, five),
              HasSubstr("grad_norm must be f32 [1]"));
}

}  // namespace
}  // namespace clora

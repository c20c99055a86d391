#include "clora/ops/optimizers/adamw_q8.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <numeric>

#include "tests/reference/adamw_reference.hpp"
#include "tests/support/moment_output.hpp"

namespace clora {
namespace {

using reference::settings_of;
using testing::Each;
using testing::HasSubstr;

class AdamwQ8 : public test::OpTest {
 protected:
  struct Run {
    std::int64_t n;
    test::Output parameters, grad_norm;
    test::MomentOutput first, root;
    Tensor gradients, settings;

    Run(Context& context, std::int64_t count)
        : n(count),
          parameters(context, {n}),
          grad_norm(context, {1}),
          first(context, n, true),
          root(context, n, false),
          gradients(context.allocate({n}, DType::f32, MemoryTag::scratch)),
          settings(context.allocate({8}, DType::f32, MemoryTag::scratch)) {
      const auto size = static_cast<std::size_t>(n);
      write(context, parameters.tensor(), test::random_values(size, 1));
      write_moment(context, first, std::vector<std::uint8_t>(size), 0);
      write_moment(context, root, std::vector<std::uint8_t>(size), 0);
    }
    template <class T>
    static void write(Context& context, const Tensor& tensor, const std::vector<T>& values) {
      context.write(tensor, std::as_bytes(std::span(values)));
    }
    void write_moment(Context& context, const test::MomentOutput& moment,
                      const std::vector<std::uint8_t>& codes, float scale) const {
      write(context, moment.codes.tensor(), codes);
      write(context, moment.scales.tensor(),
            std::vector<float>(static_cast<std::size_t>(moment_blocks(n)), scale));
    }
    AdamwQ8Tensors tensors() const {
      return {parameters.tensor(), first.tensors(), root.tensors(), gradients, settings};
    }
    // The moments as the device stores them, with v.
    reference::AdamwState state() const {
      reference::AdamwState state{test::to_double(parameters.values()), first.decoded(),
                                  root.decoded()};
      for (double& r : state.second_moment) r *= r;
      return state;
    }
  };

  void submit(Run& r, Batch& batch, const std::vector<float>& gradients,
              const UpdateSettings& settings) {
    Run::write(context(), r.gradients, gradients);
    context().write(r.settings, std::as_bytes(std::span(&settings, 1)));
    batch.submit().wait();
  }

  // Runs one step on the device, and in the reference from the moments that the device has stored.
  void expect_step(Run& r, Batch& batch, const std::vector<float>& gradients,
                   const UpdateSettings& settings) {
    reference::AdamwState want = r.state();
    const double norm = reference::adamw(want, test::to_double(gradients), settings);
    submit(r, batch, gradients, settings);
    EXPECT_NEAR(r.grad_norm.values()[0], norm, 4 * 0x1p-24 * norm);
    test::expect_close(r.parameters.values(), want.parameters, test::tolerance_of(4),
                       fmt::format("parameters of {}", r.n));
    for (double& v : want.second_moment) v = std::sqrt(v);
    expect_nearest(r.first, want.first_moment);
    expect_nearest(r.root, want.second_moment);
  }

  static void expect_nearest(const test::MomentOutput& moment, const std::vector<double>& want) {
    const std::vector<float> scales = moment.scales.values();
    test::expect_close(scales, reference::block_scales(want), test::tolerance_of(4), "scales");
    const std::vector<double> got = moment.decoded();
    const std::vector<std::uint8_t> codes = moment.codes.values();
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double scale = scales[i / kMomentBlock];
      const double nearest = reference::distance_to_nearest(want[i], scale, moment.has_sign);
      ASSERT_LE(std::abs(got[i] - want[i]), (nearest + 2e-6) * scale) << "at " << i;
      if (moment.has_sign) {
        ASSERT_NE(codes[i], 128) << "negative 0 at " << i;
      } else if (want[i] > 0) {
        ASSERT_GT(codes[i], 0) << "at " << i;
      }
    }
  }

  // The value of each code, as a step reads it: with the moments unchanged, p -= rate * m /
  // divisor.
  std::vector<float> values_on_device(bool has_sign) {
    Run r(context(), kMomentBlock);
    std::vector<std::uint8_t> all(kMomentBlock);
    std::iota(all.begin(), all.end(), std::uint8_t{0});
    Run::write(context(), r.parameters.tensor(), std::vector<float>(kMomentBlock));
    // m = 1 and v = value^2, or m = value and v = 0 with an epsilon of 1.
    r.write_moment(context(), r.first, has_sign ? all : std::vector<std::uint8_t>(256, 127), 1);
    if (!has_sign) r.write_moment(context(), r.root, all, 1);
    const UpdateSettings settings{
        .learning_rate = -1, .beta1 = 1, .beta2 = 1, .epsilon = has_sign ? 1.0F : 0.0F};
    Batch batch(context());
    record_adamw_q8(batch, r.tensors(), r.grad_norm.tensor());
    submit(r, batch, std::vector<float>(kMomentBlock), settings);
    const auto [first, root] = std::pair(r.first.codes.values(), r.root.codes.values());
    if (has_sign) all[128] = 0;  // -0 is not stored
    EXPECT_EQ((has_sign ? first : root), all) << "codes that are read are stored again";
    std::vector<float> values = r.parameters.values();
    if (!has_sign) {
      for (float& value : values) value = 1 / value;
    }
    return values;
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, AdamwQ8, test::all_variants(), test::variant_name);

// Gradients of different sizes within a block, some of them 0.
std::vector<float> spread_gradients(std::int64_t n, std::uint32_t seed) {
  std::vector<float> gradients = test::random_values(static_cast<std::size_t>(n), seed, 3);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    gradients[i] *= std::pow(10.0F, -static_cast<float>(i * 7 % 31) / 5);
    if (i % 11 == 5) gradients[i] = 0;
  }
  return gradients;
}

TEST_P(AdamwQ8, MatchesTheReferenceOverReplayedStepsAtEverySize) {
  for (const std::int64_t n :
       {1, 2, 3, 15, 16, 17, 127, 255, 256, 257, 511, 513, 1009, 4096, 70001}) {
    if (!test::affords(n)) continue;
    Run r(context(), n);
    Batch batch(context());
    record_adamw_q8(batch, r.tensors(), r.grad_norm.tensor());
    for (int number = 1; number <= 4; ++number) {
      expect_step(r, batch, spread_gradients(n, static_cast<std::uint32_t>(10 + number)),
                  settings_of(number));
    }
  }
}

TEST_P(AdamwQ8, ClipsByTheGlobalNormAndReportsItBeforeClipping) {
  for (const float clip_norm : {0.5F, 1e6F}) {  // 0.5 clips, 1e6 does not
    Run r(context(), 3000);
    Batch batch(context());
    record_adamw_q8(batch, r.tensors(), r.grad_norm.tensor());
    expect_step(r, batch, spread_gradients(3000, 4), settings_of(1, clip_norm));
  }
}

TEST_P(AdamwQ8, HasSymmetricRisingValuesOfFirstCodesWith0And1) {
  const std::vector<float> values = values_on_device(true);
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[127], 1);
  for (std::size_t code = 1; code < 128; ++code) {
    EXPECT_GT(values[code], values[code - 1]) << code;
    EXPECT_EQ(values[code + 128], -values[code]) << code;
  }
  std::vector<double> want = reference::code_values(true);
  for (std::size_t code = 0; code < 256; ++code) {
    EXPECT_NEAR(values[code], want[code], 1e-6 * std::abs(want[code])) << code;
  }
}

TEST_P(AdamwQ8, HasRisingValuesOfRootCodesWith0And1) {
  const std::vector<float> values = values_on_device(false);
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[255], 1);
  const std::vector<double> want = reference::code_values(false);
  for (std::size_t code = 1; code < 256; ++code) {
    EXPECT_GT(values[code], values[code - 1]) << code;
    EXPECT_NEAR(values[code], want[code], 1e-6 * want[code]) << code;
  }
}

// With a root of 0, the update of a parameter would be m / epsilon.
TEST_P(AdamwQ8, TakesNoLargeStepWhereAGradientIsTinyInItsBlockAndThen0) {
  Run r(context(), 256);
  Batch batch(context());
  record_adamw_q8(batch, r.tensors(), r.grad_norm.tensor());
  std::vector<float> gradients(256, 1e-9F);
  gradients[7] = 1;
  submit(r, batch, gradients, settings_of(1));
  const std::vector<std::uint8_t> roots = r.root.codes.values();
  EXPECT_EQ(roots[7], 255);
  EXPECT_EQ(roots[0], 1);
  // The first moments of the others are 0 by then; here they are not.
  std::vector<std::uint8_t> firsts(256, 1);
  r.write_moment(context(), r.first, firsts, 1);
  const std::vector<float> before = r.parameters.values();
  submit(r, batch, std::vector<float>(256), settings_of(2));
  const std::vector<float> after = r.parameters.values();
  for (std::size_t i = 0; i < 256; ++i) ASSERT_NEAR(after[i], before[i], 10) << i;
}

TEST_P(AdamwQ8, GivesTheSameBitsEveryTime) {
  const auto results = [&] {
    Run r(context(), 5000);
    Batch batch(context());
    record_adamw_q8(batch, r.tensors(), r.grad_norm.tensor());
    for (int step = 1; step <= 3; ++step) {
      submit(r, batch, spread_gradients(5000, static_cast<std::uint32_t>(step)), settings_of(step));
    }
    return std::tuple(r.parameters.values(), r.first.codes.values(), r.first.scales.values(),
                      r.root.codes.values(), r.root.scales.values());
  };
  EXPECT_EQ(results(), results());
}

TEST_P(AdamwQ8, ShowsGradientsThatAreNotFiniteInTheNormAndInTheScalesOfTheirBlocks) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), HUGE_VALF, 1e30F}) {
    Run r(context(), 600);
    Batch batch(context());
    record_adamw_q8(batch, r.tensors(), r.grad_norm.tensor());
    std::vector<float> gradients(600, 1.0F);
    gradients[300] = bad;
    submit(r, batch, gradients, settings_of(1));
    EXPECT_FALSE(std::isfinite(r.grad_norm.values()[0])) << bad;
    const std::vector<float> scales = r.root.scales.values();
    EXPECT_EQ(scales[1], HUGE_VALF) << bad;
    EXPECT_EQ(std::isfinite(r.first.scales.values()[1]), std::isfinite(bad)) << bad;
    EXPECT_TRUE(std::isfinite(scales[0]) && std::isfinite(scales[2])) << bad;
    EXPECT_FALSE(std::isnan(r.parameters.values()[0])) << "updated as computed";
  }
}

TEST_P(AdamwQ8, KeepsMomentsOf0WhileAllGradientsAre0) {
  Run r(context(), 300);
  Batch batch(context());
  record_adamw_q8(batch, r.tensors(), r.grad_norm.tensor());
  submit(r, batch, std::vector<float>(300), settings_of(1));
  EXPECT_THAT(r.first.codes.values(), Each(0));
  EXPECT_THAT(r.root.codes.values(), Each(0));
  EXPECT_THAT(r.first.scales.values(), Each(0));
  EXPECT_THAT(r.root.scales.values(), Each(0));
}

TEST_P(AdamwQ8, RefusesTensorsThatDoNotFit) {
  const auto f32 = [&](std::int64_t n) {
    return context().allocate({n}, DType::f32, MemoryTag::scratch);
  };
  const auto u8 = [&](std::int64_t n) {
    return context().allocate({n}, DType::u8, MemoryTag::scratch);
  };
  const auto message = [&](const std::function<void(AdamwQ8Tensors&)>& change, std::int64_t norms) {
    AdamwQ8Tensors tensors{f32(300), {u8(300), f32(2)}, {u8(300), f32(2)}, f32(300), f32(8)};
    change(tensors);
    return test::error_of([&] {
      Batch batch(context());
      record_adamw_q8(batch, tensors, f32(norms));
    });
  };
  EXPECT_THAT(message([](auto& t) { t.parameters = {}; }, 1),
              HasSubstr("adamw_q8: parameters must be f32 [n]"));
  EXPECT_THAT(message([&](auto& t) { t.first.codes = u8(299); }, 1),
              HasSubstr("first.codes must be u8 [300], got u8 [299]"));
  EXPECT_THAT(message([&](auto& t) { t.first.codes = f32(300); }, 1),
              HasSubstr("first.codes must be u8 [300], got f32 [300]"));
  EXPECT_THAT(message([&](auto& t) { t.first.scales = f32(1); }, 1),
              HasSubstr("first.scales must be f32 [2], got f32 [1]"));
  EXPECT_THAT(message([&](auto& t) { t.root.codes = u8(301); }, 1),
              HasSubstr("root.codes must be u8 [300], got u8 [301]"));
  EXPECT_THAT(message([&](auto& t) { t.root.scales = f32(3); }, 1),
              HasSubstr("root.scales must be f32 [2], got f32 [3]"));
  EXPECT_THAT(message([&](auto& t) { t.gradients = f32(4); }, 1), HasSubstr("gradients must be"));
  EXPECT_THAT(message([&](auto& t) { t.settings = f32(5); }, 1),
              HasSubstr("settings must be f32 [8], got f32 [5]"));
  EXPECT_THAT(message([](auto&) {}, 5), HasSubstr("grad_norm must be f32 [1]"));
}

TEST(AdamwQ8Cost, IsThatOfTwoBytesPerParameterAndMoment) {
  EXPECT_EQ(moment_blocks(1), 1);
  EXPECT_EQ(moment_blocks(256), 1);
  EXPECT_EQ(moment_blocks(257), 2);
  // Gradients twice, parameters read and written, two codes and four scales read and written.
  EXPECT_EQ(adamw_q8_cost(256).bytes, 256 * (8 + 8 + 4) + 16);
  EXPECT_LT(adamw_q8_cost(1 << 20).bytes, 0.63 * adamw_cost(1 << 20).bytes);
}

}  // namespace
}  // namespace clora

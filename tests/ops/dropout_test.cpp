#include "clora/ops/rowwise/dropout.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/support/op_test.hpp"

namespace clora {
namespace {

class Dropout : public test::OpTest {
 protected:
  struct Counters {
    std::uint32_t seed = 1;
    std::uint32_t step = 2;
    std::uint32_t site = 3;
  };
  Tensor upload_words(const Counters& counters) {
    const std::vector<std::uint32_t> words{counters.seed, counters.step};
    return context().upload<std::uint32_t>({2}, DType::u32, words, MemoryTag::scratch);
  }
  std::vector<float> dropped(std::span<const float> x, float probability,
                             const Counters& counters) {
    const auto n = static_cast<std::int64_t>(x.size());
    test::Output y(context(), {n});
    run([&](Batch& batch) {
      record_dropout(batch, y.tensor(), test::upload(context(), {n}, x), upload_words(counters),
                     {probability, counters.site}, false);
    });
    return y.values();
  }
  std::vector<float> mask(std::size_t n, float probability, const Counters& counters) {
    return dropped(std::vector<float>(n, 1.0F), probability, counters);
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Dropout, test::all_variants(), test::variant_name);

double share_of_equal(const std::vector<float>& a, const std::vector<float>& b) {
  double equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) equal += (a[i] == b[i]) ? 1 : 0;
  return equal / static_cast<double>(a.size());
}

TEST_P(Dropout, KeepsElementsScaledOrZeroesThem) {
  for (const std::size_t n : {1U, 15U, 16U, 17U, 1009U}) {
    const auto x = test::random_values(n, 1);
    const auto y = dropped(x, 0.5F, {});
    for (std::size_t i = 0; i < n; ++i) ASSERT_TRUE(y[i] == 0 || y[i] == 2 * x[i]) << i;
  }
}

TEST_P(Dropout, DropsAboutTheRequestedShare) {
  constexpr std::size_t kCount = 1 << 18;
  CLORA_SKIP_UNLESS_AFFORDED(kCount);
  for (const float p : {0.05F, 0.5F, 0.9F}) {
    for (const std::uint32_t seed : {0U, 1U, 12345U}) {
      const auto m = mask(kCount, p, {seed, 0, 0});
      const auto zeros = static_cast<double>(std::ranges::count(m, 0.0F)) / kCount;
      const double deviation = std::sqrt(p * (1.0 - p) / kCount);
      EXPECT_NEAR(zeros, p, 5 * deviation) << "p " << p << " seed " << seed;
    }
  }
}

TEST_P(Dropout, NeighboursAreIndependent) {
  constexpr std::size_t kCount = 1 << 18;
  CLORA_SKIP_UNLESS_AFFORDED(kCount);
  const auto m = mask(kCount, 0.5F, {});
  for (const std::size_t lag : {1U, 2U, 16U, 576U, 65536U}) {
    const std::vector<float> head(m.begin(), m.end() - static_cast<std::ptrdiff_t>(lag));
    const std::vector<float> tail(m.begin() + static_cast<std::ptrdiff_t>(lag), m.end());
    EXPECT_NEAR(share_of_equal(head, tail), 0.5, 5 * 0.5 / std::sqrt(head.size())) << lag;
  }
}

TEST_P(Dropout, TheSameCountersGiveTheSameMaskAndOthersAnother) {
  constexpr std::size_t kCount = 1 << 16;
  CLORA_SKIP_UNLESS_AFFORDED(kCount);
  const Counters counters{5, 6, 7};
  const auto m = mask(kCount, 0.5F, counters);
  EXPECT_EQ(m, mask(kCount, 0.5F, counters));
  for (const Counters other : {Counters{6, 6, 7}, Counters{5, 7, 7}, Counters{5, 6, 8},
                               Counters{6, 5, 7}, Counters{5, 7, 6}}) {
    EXPECT_NEAR(share_of_equal(m, mask(kCount, 0.5F, other)), 0.5, 5 * 0.5 / 256);
  }
}

TEST(DropoutVariants, MakeTheSameMask) {
  std::vector<std::vector<float>> results;
  for (const Variant variant : {Variant::portable, Variant::cpu}) {
    Context& context = test::context_of(variant);
    const std::vector<std::uint32_t> words{8, 9};
    const Tensor counters =
        context.upload<std::uint32_t>({2}, DType::u32, words, MemoryTag::scratch);
    const Tensor y = test::upload(context, {1003}, std::vector<float>(1003, 1.0F));
    Batch batch(context);
    record_dropout(batch, y, y, counters, {0.25F, 1}, false);
    batch.submit().wait();
    results.push_back(context.read<float>(y));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_P(Dropout, AccumulatesOnlyIfRequested) {
  const auto x = test::random_values(100, 1);
  const auto before = test::random_values(100, 2);
  const auto alone = dropped(x, 0.5F, {});
  const Tensor y = test::upload(context(), {100}, before);
  run([&](Batch& batch) {
    record_dropout(batch, y, test::upload(context(), {100}, x), upload_words({}), {0.5F, 3}, true);
  });
  const auto got = context().read<float>(y);
  for (std::size_t i = 0; i < 100; ++i) ASSERT_FLOAT_EQ(got[i], before[i] + alone[i]);
}

TEST_P(Dropout, WithProbabilityZeroItIsACopy) {
  const auto x = test::random_values(50, 1);
  EXPECT_EQ(dropped(x, 0, {}), x);
}

TEST_P(Dropout, RefusesProbabilitiesShapesAndCountersThatDoNotFit) {
  using testing::HasSubstr;
  const auto f32 = [&](Shape shape) {
    return context().allocate(shape, DType::f32, MemoryTag::scratch);
  };
  const auto error = [&](const Tensor& y, const Tensor& words, float p) {
    Batch batch(context());
    return test::error_of([&] { record_dropout(batch, y, f32({4}), words, {p, 0}, false); });
  };
  EXPECT_THAT(error(f32({4}), upload_words({}), 1), HasSubstr("below 1, got 1"));
  EXPECT_THAT(error(f32({4}), upload_words({}), -0.5F), HasSubstr("at least 0"));
  EXPECT_THAT(error(f32({5}), upload_words({}), 0.5F), HasSubstr("y must be f32 [4]"));
  EXPECT_THAT(error(f32({4}), f32({2}), 0.5F), HasSubstr("seed_and_step must be u32 [2]"));
}

}  // namespace
}  // namespace clora

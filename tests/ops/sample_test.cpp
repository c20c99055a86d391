#include "clora/ops/sample.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <numeric>
#include <set>

#include "tests/reference/sample_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// A sampler's state on the device.
struct Sampler {
  Context& context;
  Tensor token, seen, settings, logits;

  Sampler(Context& c, const std::vector<float>& values, std::vector<std::uint8_t> seen_before = {})
      : context(c) {
    const auto size = static_cast<std::int64_t>(values.size());
    seen_before.resize(values.size());
    token = test::upload(context, {1}, std::vector<std::int32_t>{-5});
    seen = context.upload<std::uint8_t>({size}, DType::u8, seen_before, MemoryTag::scratch);
    settings = context.allocate({8}, DType::u32, MemoryTag::scratch);
    logits = test::upload(context, {size}, values);
  }
  void set(const SampleSettings& s) const {
    context.write(settings, std::as_bytes(std::span(&s, 1)));
  }
  std::int32_t drawn() const { return context.read<std::int32_t>(token)[0]; }
};

class Sample : public test::OpTest {
 protected:
  std::int32_t sample(const std::vector<float>& logits, const SampleSettings& settings,
                      const std::vector<std::uint8_t>& seen = {}) {
    const Sampler sampler(context(), logits, seen);
    sampler.set(settings);
    run([&](Batch& b) {
      record_sample(b, sampler.token, sampler.seen, sampler.settings, sampler.logits);
    });
    return sampler.drawn();
  }

  // Draws at steps 0, 1, ... from one recorded batch. The op itself increments the step.
  std::vector<std::int32_t> draws(const std::vector<float>& logits, const SampleSettings& settings,
                                  int replays) {
    constexpr std::int64_t kEach = 100;
    const Sampler sampler(context(), logits);
    sampler.set(settings);
    const std::int64_t slot = std::max<std::int64_t>(context().device().base_alignment_bytes, 4);
    const Tensor tokens = context().allocate({kEach * slot / 4}, DType::i32, MemoryTag::scratch);
    Batch batch(context());
    for (std::int64_t i = 0; i < kEach; ++i) {
      const auto at = static_cast<std::size_t>(i * slot);
      record_sample(batch, tokens.slice(at, {1}, DType::i32), sampler.seen, sampler.settings,
                    sampler.logits);
    }
    std::vector<std::int32_t> all;
    for (int replay = 0; replay < replays; ++replay) {
      batch.submit().wait();
      const auto words = context().read<std::int32_t>(tokens);
      for (std::int64_t i = 0; i < kEach; ++i) {
        all.push_back(words[static_cast<std::size_t>(i * slot / 4)]);
      }
    }
    return all;
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Sample, test::all_variants(), test::variant_name);

TEST_P(Sample, TakesTheLargestLogitAndTheLowestIdAmongEqualsAtTemperatureZero) {
  for (const std::size_t size : {1, 2, 7, 15, 16, 17, 63, 64, 65, 1009, 49152, 152000}) {
    if (!test::affords(static_cast<double>(size))) continue;
    auto logits = test::random_values(size, 3, 4);
    for (const std::size_t at : {std::size_t{0}, size / 3, size - 1}) {
      auto peaked = logits;
      peaked[at] = 5;
      EXPECT_EQ(sample(peaked, {}), static_cast<std::int32_t>(at)) << size;
      if (at + 1 < size) peaked[size - 1] = 5;
      EXPECT_EQ(sample(peaked, {}), static_cast<std::int32_t>(at)) << "tie of " << size;
    }
  }
}

TEST_P(Sample, DrawsWhatAFullSortInDoubleDraws) {
  const std::vector<SampleSettings> forms{
      {.temperature = 1},
      {.temperature = 0.7F, .top_k = 40},
      {.temperature = 1.3F, .top_p = 0.9F},
      {.temperature = 1, .min_p = 0.05F},
      {.temperature = 0.8F, .top_k = 50, .top_p = 0.8F, .min_p = 0.02F, .repetition_penalty = 1.3F},
      {.temperature = 2, .top_p = 0.5F, .repetition_penalty = 0.7F}};
  int compared = 0;
  for (const std::size_t size : {1, 2, 17, 63, 64, 65, 1009, 49152}) {
    if (!test::affords(60.0 * static_cast<double>(size))) continue;  // 60 passes
    const auto logits = test::random_values(size, 11, 9);
    std::vector<std::uint8_t> seen(size);
    for (std::size_t v = 0; v < size; v += 3) seen[v] = 1;
    for (SampleSettings settings : forms) {
      for (std::uint32_t step = 0; step < (size > 2000 ? 3U : 8U); ++step) {
        settings.seed = 77;
        settings.step = step;
        const auto want = reference::sample(logits, seen, settings);
        if (want.margin < 1e-5) continue;  // within rounding, either neighbour is correct
        ++compared;
        ASSERT_EQ(sample(logits, settings, seen), want.token)
            << size << " top_k " << settings.top_k << " top_p " << settings.top_p << " min_p "
            << settings.min_p << " step " << step;
      }
    }
  }
  EXPECT_GT(compared, 200);
}

TEST_P(Sample, DrawsAllOfALargeVocabularyEquallyOftenByPhilox) {
  CLORA_SKIP_UNLESS_AFFORDED(200 * 1000);
  const std::vector<float> logits(1000, -2.5F);
  const auto got = draws(logits, {.temperature = 1, .seed = 1234567, .step = 0}, 2);
  for (std::uint32_t step = 0; step < got.size(); ++step) {
    const double u = reference::uniform_of({.seed = 1234567, .step = step});
    ASSERT_EQ(got[step], static_cast<std::int32_t>(u * 1000)) << step;
  }
}

TEST_P(Sample, DrawsInProportionToTheProbabilities) {
  CLORA_SKIP_UNLESS_AFFORDED(20'000 * 20);
  const auto logits = test::random_values(20, 8, 1.5F);
  for (const SampleSettings settings :
       {SampleSettings{.temperature = 0.9F, .seed = 42},
        SampleSettings{.temperature = 0.9F, .top_k = 12, .top_p = 0.85F, .seed = 43}}) {
    const auto p = reference::probabilities(test::to_double(logits), settings);
    std::vector<int> counts(20);
    for (const auto token : draws(logits, settings, 100)) ++counts[static_cast<std::size_t>(token)];
    double chi_square = 0;
    for (std::size_t v = 0; v < p.size(); ++v) {
      const double want = 10000 * p[v];
      if (p[v] == 0) {
        EXPECT_EQ(counts[v], 0) << v;
      } else {
        chi_square += (counts[v] - want) * (counts[v] - want) / want;
      }
    }
    EXPECT_LT(chi_square, 50);  // exceeded once in 8000 with 19 degrees of freedom
  }
}

TEST_P(Sample, KeepsLowerIdsIfTheLastPlacesTie) {
  CLORA_SKIP_UNLESS_AFFORDED(2000 * 130);
  std::vector<float> logits(130, 1.0F);
  logits[77] = 2;  // first in rank; the others are equal
  const auto set_of = [&](SampleSettings settings) {
    settings.temperature = 1;
    settings.seed = 5;
    const auto got = draws(logits, settings, 5);
    return std::set<std::int32_t>(got.begin(), got.end());
  };
  EXPECT_EQ(set_of({.top_k = 4}), (std::set<std::int32_t>{0, 1, 2, 77}));
  // exp(1) + n >= share * (exp(1) + 129): n = 4 holds 0.0509, n = 5 holds 0.0585
  EXPECT_EQ(set_of({.top_p = 0.055F}), (std::set<std::int32_t>{0, 1, 2, 3, 4, 77}));
  EXPECT_EQ(set_of({.min_p = 0.5F}), (std::set<std::int32_t>{77}));
  EXPECT_GT(set_of({.min_p = 0.3F}).size(), 100U);  // exp(-1) is above 0.3: all can be drawn
}

TEST_P(Sample, KeepsNoMoreThanReachesTopPExactly) {
  const auto got = draws({1.0F, 1.0F, 1.0F, 1.0F}, {.temperature = 1, .top_p = 0.5F}, 1);
  EXPECT_EQ(std::set<std::int32_t>(got.begin(), got.end()), (std::set<std::int32_t>{0, 1}));
}

TEST_P(Sample, NeverDrawsAWeightOfZeroEvenByTheRandomNumberZero) {
  const SampleSettings zero{.temperature = 1, .seed = 0, .step = 2901130};
  ASSERT_EQ(reference::uniform_of(zero), 0);
  EXPECT_EQ(sample({-1e30F, -1e30F, 0.5F, 0.5F}, zero), 2);
}

TEST_P(Sample, TakesTheBestAloneIfAFilterLeavesOne) {
  CLORA_SKIP_UNLESS_AFFORDED(20 * 3001);
  const auto logits = test::random_values(3001, 21, 3);
  const std::int32_t best = sample(logits, {});
  for (std::uint32_t step = 0; step < 5; ++step) {
    EXPECT_EQ(sample(logits, {.temperature = 5, .top_k = 1, .step = step}), best);
    EXPECT_EQ(sample(logits, {.temperature = 5, .top_p = 0, .step = step}), best);
    EXPECT_EQ(sample(logits, {.temperature = 5, .min_p = 1, .step = step}), best);
    EXPECT_EQ(sample(logits, {.temperature = 1e-6F, .step = step}), best);
  }
}

TEST_P(Sample, DividesPositiveAndMultipliesNegativeLogitsOfSeenTokens) {
  const std::vector<float> positive{3.0F, 2.5F, 1.0F};
  EXPECT_EQ(sample(positive, {.repetition_penalty = 1.1F}, {1, 0, 0}), 0);  // 2.73
  EXPECT_EQ(sample(positive, {.repetition_penalty = 1.5F}, {1, 0, 0}), 1);  // 2.0
  const std::vector<float> negative{-1.0F, -1.4F, -3.0F};
  EXPECT_EQ(sample(negative, {.repetition_penalty = 1.3F}, {1, 0, 0}), 0);  // -1.3
  EXPECT_EQ(sample(negative, {.repetition_penalty = 1.5F}, {1, 0, 0}), 1);  // -1.5
}

TEST_P(Sample, MarksTheTokenSeenAndRaisesTheStepOnly) {
  const auto logits = test::random_values(100, 9);
  std::vector<std::uint8_t> seen(100);
  seen[3] = 1;
  const Sampler sampler(context(), logits, seen);
  const SampleSettings settings{.temperature = 1, .top_k = 7, .seed = 9, .step = 41, .unused = 6};
  sampler.set(settings);
  run([&](Batch& b) {
    record_sample(b, sampler.token, sampler.seen, sampler.settings, sampler.logits);
  });
  seen[static_cast<std::size_t>(sampler.drawn())] = 1;
  EXPECT_EQ(context().read<std::uint8_t>(sampler.seen), seen);
  EXPECT_EQ(context().read<float>(sampler.logits), logits);
  const auto words = context().read<std::uint32_t>(sampler.settings);
  EXPECT_EQ(words[1], 7U);
  EXPECT_EQ(words[5], 9U);
  EXPECT_EQ(words[6], 42U);
  EXPECT_EQ(words[7], 6U);
}

TEST_P(Sample, GivesNoTokenIfALogitIsNotFinite) {
  struct Case {
    SampleSettings settings;
    double passes;  // approximate number of passes over the logits
  };
  const std::array<Case, 3> cases{
      {{{}, 2},
       {{.temperature = 1, .top_k = 3}, 100},
       {{.temperature = 0.7F, .top_p = 0.9F, .repetition_penalty = 1.3F}, 100}}};
  for (const std::size_t size : {1U, 5U, 16U, 17U, 33U, 64U, 1009U}) {
    for (const Case& each : cases) {
      if (!test::affords(9 * each.passes * static_cast<double>(size))) continue;
      for (const float bad : {kNaN, kInfinity, -kInfinity}) {
        for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
          auto logits = test::random_values(size, 3, 5);
          logits[at] = bad;
          const std::vector<std::uint8_t> seen(size, 1);
          ASSERT_EQ(sample(logits, each.settings, seen), kNoToken)
              << size << " at " << at << " " << bad;
        }
      }
    }
  }
  EXPECT_EQ(sample({kNaN, kNaN}, {}), kNoToken);
}

TEST_P(Sample, TakesTheLargestAndTheSmallestFiniteLogits) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(sample({-largest, -largest, 0.0F, largest, largest}, {}), 3);
  EXPECT_EQ(sample({-largest, -largest}, {}), 0);
}

TEST_P(Sample, KeepsSeenTokensUnchangedIfItGivesNone) {
  const Sampler sampler(context(), {1.0F, kNaN, 2.0F}, {0, 1, 0});
  sampler.set({.step = 4});
  run([&](Batch& b) {
    record_sample(b, sampler.token, sampler.seen, sampler.settings, sampler.logits);
  });
  EXPECT_EQ(sampler.drawn(), kNoToken);
  EXPECT_EQ(context().read<std::uint8_t>(sampler.seen), (std::vector<std::uint8_t>{0, 1, 0}));
}

TEST_P(Sample, GivesLogprobsOfTheTokenAndOfTheLikeliest) {
  for (const std::int64_t size : {1, 5, 17, 64, 1009, 49152}) {
    if (!test::affords(size)) continue;
    auto logits = test::random_values(static_cast<std::size_t>(size), 2, 6);
    if (size > 20) logits[19] = logits[3] = logits[7] = 6.5F;  // first by rank, lower id first
    const auto exact = test::to_double(logits);
    const auto order = reference::ranking(exact);
    double sum = 0;
    for (const double x : exact) sum += std::exp(x - exact[order[0]]);
    const double norm = exact[order[0]] + std::log(sum);
    const auto token = static_cast<std::int32_t>(size / 2);
    for (const std::int64_t k : {0, 1, 5, 32}) {
      if (k > size) continue;
      const test::Output logprob(context(), {1});
      const test::Output top(context(), {std::max<std::int64_t>(k, 1)});
      const Tensor ids =
          context().allocate({std::max<std::int64_t>(k, 1)}, DType::i32, MemoryTag::scratch);
      run([&](Batch& batch) {
        record_logprobs(batch,
                        {logprob.tensor(), k > 0 ? ids : Tensor(), k > 0 ? top.tensor() : Tensor()},
                        test::upload(context(), {size}, logits),
                        test::upload(context(), {1}, std::vector{token}));
      });
      EXPECT_NEAR(logprob.values()[0], exact[static_cast<std::size_t>(token)] - norm, 1e-5);
      const auto got_ids = context().read<std::int32_t>(ids);
      const auto got = top.values();
      for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
        ASSERT_EQ(got_ids[i], static_cast<std::int32_t>(order[i])) << size << " place " << i;
        ASSERT_NEAR(got[i], exact[order[i]] - norm, 1e-5) << size << " place " << i;
      }
    }
  }
}

TEST_P(Sample, RefusesShapesThatDoNotFit) {
  const auto make = [&](Shape shape, DType type) {
    return context().allocate(shape, type, MemoryTag::scratch);
  };
  const Tensor token = make({1}, DType::i32), seen = make({9}, DType::u8);
  const Tensor settings = make({8}, DType::u32), logits = make({9}, DType::f32);
  const auto message = [&](const Tensor& t, const Tensor& s, const Tensor& w, const Tensor& l) {
    return test::error_of([&] {
      Batch batch(context());
      record_sample(batch, t, s, w, l);
    });
  };
  EXPECT_THAT(message(token, seen, settings, {}), HasSubstr("logits must be f32 [V]"));
  EXPECT_THAT(message(token, seen, settings, token), HasSubstr("logits must be f32 [1], got i32"));
  EXPECT_THAT(message(logits, seen, settings, logits), HasSubstr("token must be i32 [1]"));
  EXPECT_THAT(message(token, logits, settings, logits), HasSubstr("seen must be u8 [9]"));
  EXPECT_THAT(message(token, seen, seen, logits), HasSubstr("settings must be u32 [8]"));

  const Tensor one = make({1}, DType::f32), ten = make({10}, DType::i32);
  const Tensor two = make({2}, DType::i32);
  const auto refused = [&](const LogprobOutputs& outputs, const Tensor& t) {
    return test::error_of([&] {
      Batch batch(context());
      record_logprobs(batch, outputs, logits, t);
    });
  };
  EXPECT_THAT(refused({{}, {}, {}}, token), HasSubstr("logprob must be f32 [1]"));
  EXPECT_THAT(refused({one, {}, {}}, one), HasSubstr("token must be i32 [1]"));
  EXPECT_THAT(refused({one, ten, logits}, token), HasSubstr("top_ids must be i32 [K] with 1 to 9"));
  EXPECT_THAT(refused({one, {}, logits}, token), HasSubstr("top_ids must be i32 [K]"));
  EXPECT_THAT(refused({one, two, one}, token), HasSubstr("top_logprobs must be f32 [2]"));
}

TEST(SampleReference, HasThePhiloxOfItsPaper) {
  using Words = std::pair<std::uint32_t, std::uint32_t>;
  EXPECT_EQ(reference::philox2x32(0, 0, 0), (Words{0xff1dae59U, 0x6cd10df2U}));
  EXPECT_EQ(reference::philox2x32(0xffffffffU, 0xffffffffU, 0xffffffffU),
            (Words{0x2c3f628bU, 0xab4fd7adU}));
  EXPECT_EQ(reference::philox2x32(0x243f6a88U, 0x85a308d3U, 0x13198a2eU),
            (Words{0xdd7ce038U, 0xf62a4c12U}));
}

}  // namespace
}  // namespace clora

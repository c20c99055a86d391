// The tokens that sample draws. sample_state_test.cpp: what it keeps, and rows without a token.
#include "clora/ops/sample.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <set>

#include "tests/support/sampled_rows.hpp"

namespace clora {
namespace {

using test::SampledRow;
using test::SampledRows;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Elements that take a simulator as long as the histograms of a draw.
constexpr double kDraw = 2000;
constexpr std::uint32_t kDrawsOfASet = 500;

class Sample : public test::OpTest {
 protected:
  std::vector<std::int32_t> sample(std::vector<SampledRow> given) {
    const SampledRows rows(context(), std::move(given));
    run([&](Batch& batch) { rows.record(batch); });
    return rows.tokens();
  }
  std::int32_t sample_one(const std::vector<float>& logits, const SampleSettings& settings,
                          const reference::SampleRowState& state = {}) {
    return sample({{logits, settings, state}})[0];
  }
  // Draws at the steps 0, 1, ...
  std::vector<std::int32_t> draws(const std::vector<float>& logits, SampleSettings settings,
                                  std::uint32_t count) {
    std::vector<SampledRow> rows;
    for (settings.step = 0; settings.step < count; ++settings.step) {
      rows.push_back({logits, settings});
    }
    return sample(std::move(rows));
  }
  std::set<std::int32_t> set_of(const std::vector<float>& logits, SampleSettings settings) {
    settings.temperature = 1;
    settings.seed = 5;
    const auto got = draws(logits, settings, kDrawsOfASet);
    return {got.begin(), got.end()};
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Sample, test::all_variants(), test::variant_name);

// Each filter and penalty alone, and together. `seed` makes the rows differ.
std::vector<SampleSettings> all_forms(std::uint32_t seed) {
  std::vector<SampleSettings> forms{
      {.temperature = 1},
      {.temperature = 0.7F, .top_k = 40},
      {.temperature = 1.3F, .top_p = 0.9F},
      {.temperature = 1, .min_p = 0.05F},
      {.temperature = 1, .typical_p = 0.6F},
      {.temperature = 1, .repetition_penalty = 1.5F},
      {.temperature = 1, .presence_penalty = 1.5F},
      {.temperature = 1, .frequency_penalty = 0.7F},
      {},
      {.repetition_penalty = 1.2F, .presence_penalty = 0.5F, .frequency_penalty = 0.3F},
      {.temperature = 2, .top_p = 0.5F, .repetition_penalty = 0.7F},
      {.temperature = 1, .top_k = 50, .typical_p = 0.9F},
      {.temperature = 3, .min_p = 0.1F, .typical_p = 0.3F},
      {.temperature = 0.3F, .top_k = 1000, .top_p = 0.99F, .min_p = 0.001F},
      {.temperature = 0.8F,
       .top_k = 50,
       .top_p = 0.8F,
       .min_p = 0.02F,
       .typical_p = 0.95F,
       .repetition_penalty = 1.3F,
       .presence_penalty = 0.2F,
       .frequency_penalty = 0.1F}};
  for (SampleSettings& form : forms) form.seed = seed;
  return forms;
}

// Counts of a prompt and a reply, biases (one excludes), and a mask of two in three tokens.
reference::SampleRowState some_state(std::size_t size, std::size_t n) {
  reference::SampleRowState state;
  std::vector<std::int32_t> prompt, reply;
  for (std::size_t v = n % 3; v < size; v += 3) prompt.push_back(static_cast<std::int32_t>(v));
  for (std::size_t v = 0; v < size; v += 2 + n % 2) {
    reply.insert(reply.end(), 1 + v % 3, static_cast<std::int32_t>(v));
  }
  state.counts = token_counts(static_cast<std::int64_t>(size), prompt, reply);
  if (n % 2 == 0) {
    for (std::size_t v = n % 5; v < size && state.biases.size() < 40; v += 4) {
      state.biases.emplace_back(static_cast<std::int32_t>(v), v % 3 == 1 ? 2.5F : -1.5F);
    }
    if (size > 4) state.biases.emplace_back(3, -kInfinity);
  }
  if (n % 3 == 0) {
    state.mask.assign((size + 31) / 32, 0xB6DB6DB6U);
    state.mask[0] |= 1;
  }
  return state;
}

std::vector<SampledRow> various_rows(std::size_t count, std::size_t size) {
  std::vector<SampledRow> rows;
  for (std::size_t n = 0; n < count; ++n) {
    const auto forms = all_forms(static_cast<std::uint32_t>(n / 15));
    auto settings = forms[n % forms.size()];
    settings.step = static_cast<std::uint32_t>(n * 7);
    rows.push_back({test::random_values(size, static_cast<std::uint32_t>(n + 3), 9), settings,
                    some_state(size, n)});
  }
  return rows;
}

TEST_P(Sample, TakesTheLargestLogitAndTheLowestIdAmongEqualsAtTemperatureZero) {
  for (const std::size_t size : {1, 2, 7, 15, 16, 17, 63, 64, 65, 1009, 49152, 152064}) {
    if (!test::affords(static_cast<double>(6 * size))) continue;
    auto logits = test::random_values(size, 3, 4);
    std::vector<SampledRow> rows;
    std::vector<std::int32_t> want;
    for (const std::size_t at : {std::size_t{0}, size / 3, size - 1}) {
      auto peaked = logits;
      peaked[at] = 5;
      rows.push_back({peaked});
      peaked[size - 1] = 5;
      rows.push_back({peaked});
      want.insert(want.end(), 2, static_cast<std::int32_t>(at));
    }
    EXPECT_EQ(sample(rows), want) << size;
  }
}

TEST_P(Sample, TreatsZerosOfBothSignsAsEqual) {
  EXPECT_EQ(sample_one({-1.0F, -0.0F, 0.0F}, {}), 1);
  EXPECT_EQ(sample_one({-1.0F, 0.0F, -0.0F}, {}), 1);
  EXPECT_EQ(sample_one({0.0F, -0.0F}, {.temperature = 1, .top_k = 1}), 0);
  EXPECT_EQ(sample_one({-0.0F, 0.0F}, {.temperature = 1, .top_k = 1}), 0);
}

// The reference's draws; sorting takes seconds, so that all variants share them.
const std::vector<reference::Draw>& wanted_draws(const std::string& key,
                                                 const std::vector<SampledRow>& rows) {
  static std::map<std::string, std::vector<reference::Draw>> known;
  std::vector<reference::Draw>& draws = known[key];
  for (std::size_t n = draws.size(); n < rows.size(); ++n) {
    draws.push_back(reference::sample(rows[n].logits, rows[n].settings, rows[n].state));
  }
  return draws;
}

// The number of rows that were compared: within rounding, a neighbour of a token is correct, too.
int expect_draws(std::span<const std::int32_t> got, std::span<const reference::Draw> want,
                 const std::string& what) {
  int compared = 0;
  for (std::size_t n = 0; n < got.size(); ++n) {
    if (want[n].margin < 2e-6) continue;
    ++compared;
    EXPECT_EQ(got[n], want[n].token) << what << ", row " << n << " of " << got.size();
  }
  return compared;
}

TEST_P(Sample, DrawsWhatAFullSortInDoubleDraws) {
  int compared = 0, rows_of_all = 0;
  for (const std::size_t size : {1, 5, 200, 1025, 49152}) {
    for (const std::size_t count : {1, 2, 7, 64}) {
      if (!test::affords(static_cast<double>(count) * (kDraw + 5.0 * static_cast<double>(size)))) {
        continue;
      }
      const auto rows = various_rows(count, size);
      const auto what = fmt::format("{} tokens", size);
      compared += expect_draws(sample(rows), wanted_draws(what, rows), what);
      rows_of_all += static_cast<int>(count);
    }
  }
  EXPECT_GT(compared, 0.97 * rows_of_all);
}

TEST_P(Sample, DrawsEachFormAtManyStepsAsTheReference) {
  const std::size_t size = test::affords(1e7) ? 601 : 130;
  const std::uint32_t steps = test::affords(1e7) ? 64 : 1;
  const auto logits = test::random_values(size, 8, 4);
  const reference::SampleRowState state = some_state(size, 1);
  int compared = 0;
  for (SampleSettings settings : all_forms(42)) {
    std::vector<SampledRow> rows;
    for (settings.step = 0; settings.step < steps; ++settings.step) {
      rows.push_back({logits, settings, state});
    }
    const auto what = fmt::format(
        "top_k {} top_p {} min_p {} typical_p {} temperature {} {} {} {}", settings.top_k,
        settings.top_p, settings.min_p, settings.typical_p, settings.temperature,
        settings.repetition_penalty, settings.presence_penalty, settings.frequency_penalty);
    compared += expect_draws(sample(rows), wanted_draws(what, rows), what);
  }
  EXPECT_GT(compared, 14 * steps);
}

TEST_P(Sample, DrawsForARowTheSameAloneAndAmongOthers) {
  for (const std::size_t size : {5, 200, 5003}) {
    const auto rows = various_rows(test::affords(1e7) ? 16 : 5, size);
    if (!test::affords(100.0 * static_cast<double>(size))) continue;
    SampledRows together(context(), rows);
    run([&](Batch& batch) { together.record(batch); });
    for (std::size_t n = 0; n < rows.size(); ++n) {
      SampledRows alone(context(), {rows[n]});
      run([&](Batch& batch) { alone.record(batch); });
      ASSERT_EQ(alone.tokens()[0], together.tokens()[n]) << size << " row " << n;
      ASSERT_EQ(alone.counts(0), together.counts(n)) << size << " row " << n;
    }
  }
}

TEST_P(Sample, DrawsTheSameInEveryRun) {
  const auto rows = test::affords(1e7) ? various_rows(15, 49152) : various_rows(3, 200);
  const auto first = sample(rows);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(sample(rows), first);
}

TEST_P(Sample, DrawsAllOfALargeVocabularyEquallyOftenByPhilox) {
  CLORA_SKIP_UNLESS_AFFORDED(200 * 1000);
  const std::vector<float> logits(1000, -2.5F);
  const auto got = draws(logits, {.temperature = 1, .seed = 1234567}, 200);
  for (std::uint32_t step = 0; step < got.size(); ++step) {
    const double u = reference::uniform_of({.seed = 1234567, .step = step});
    ASSERT_EQ(got[step], static_cast<std::int32_t>(u * 1000)) << step;
  }
}

TEST_P(Sample, DrawsFromAMillionEqualTokens) {
  CLORA_SKIP_UNLESS_AFFORDED(3'000'000);
  const std::vector<float> logits((1 << 20) + 1, 0.5F);  // more than BINS * BINS
  for (const std::uint32_t step : {0U, 1U}) {
    const SampleSettings settings{.temperature = 1, .seed = 3, .step = step};
    const std::vector<double> p(logits.size(), 1.0 / static_cast<double>(logits.size()));
    EXPECT_EQ(sample_one(logits, settings),
              reference::drawn(p, reference::uniform_of(settings)).token);
  }
}

TEST_P(Sample, KeepsLowerIdsIfTheLastPlacesTie) {
  CLORA_SKIP_UNLESS_AFFORDED(kDraw * 5 * kDrawsOfASet);
  std::vector<float> logits(130, 1.0F);
  logits[77] = 2;  // first in rank; the others are equal
  EXPECT_EQ(set_of(logits, {.top_k = 4}), (std::set<std::int32_t>{0, 1, 2, 77}));
  // exp(1) + n >= share * (exp(1) + 129): n = 4 holds 0.0509, n = 5 holds 0.0585
  EXPECT_EQ(set_of(logits, {.top_p = 0.055F}), (std::set<std::int32_t>{0, 1, 2, 3, 4, 77}));
  EXPECT_EQ(set_of(logits, {.min_p = 0.5F}), (std::set<std::int32_t>{77}));
  EXPECT_GT(set_of(logits, {.min_p = 0.3F}).size(),
            100U);  // exp(-1) is above 0.3: all can be drawn
}

TEST_P(Sample, TypicalKeepsTheTokensWhoseSurprisalIsNearestToTheEntropy) {
  CLORA_SKIP_UNLESS_AFFORDED(kDraw * kDrawsOfASet);
  // Probabilities 0.5, 0.25, 0.125, 0.125: the entropy is 1.75 bits, the surprisals 1, 2, 3, 3, so
  // the order is 1 (0.25), 0 (0.75), 2 and 3 (1.25).
  const std::vector<float> logits{std::log(0.5F), std::log(0.25F), std::log(0.125F),
                                  std::log(0.125F)};
  EXPECT_EQ(set_of(logits, {.typical_p = 0.2F}), (std::set<std::int32_t>{1}));
  EXPECT_EQ(set_of(logits, {.typical_p = 0.7F}), (std::set<std::int32_t>{0, 1}));
  EXPECT_EQ(set_of(logits, {.typical_p = 0.8F}), (std::set<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(set_of(logits, {.typical_p = 0.9F}), (std::set<std::int32_t>{0, 1, 2, 3}));
}

TEST_P(Sample, MinPIsRelativeToTheLikeliestTokenThatTypicalLeaves) {
  CLORA_SKIP_UNLESS_AFFORDED(kDraw * kDrawsOfASet);
  std::vector<float> logits{std::log(0.4F)};
  for (int i = 0; i < 6; ++i) logits.push_back(std::log(0.1F));  // nearest to the entropy
  const std::set<std::int32_t> six{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(set_of(logits, {.typical_p = 0.55F}), six);
  EXPECT_EQ(set_of(logits, {.min_p = 0.9F, .typical_p = 0.55F}), six);
  EXPECT_EQ(set_of(logits, {.min_p = 0.9F}), (std::set<std::int32_t>{0}));
}

TEST_P(Sample, KeepsNoMoreThanReachesTopPExactly) {
  CLORA_SKIP_UNLESS_AFFORDED(kDraw * kDrawsOfASet);
  EXPECT_EQ(set_of({1.0F, 1.0F, 1.0F, 1.0F}, {.top_p = 0.5F}), (std::set<std::int32_t>{0, 1}));
}

TEST_P(Sample, NeverDrawsAWeightOfZeroEvenByTheRandomNumberZero) {
  const SampleSettings zero{.temperature = 1, .seed = 0, .step = 2901130};
  ASSERT_EQ(reference::uniform_of(zero), 0);
  EXPECT_EQ(sample_one({-1e30F, -1e30F, 0.5F, 0.5F}, zero), 2);
}

TEST_P(Sample, TakesTheBestAloneIfAFilterLeavesOne) {
  const std::size_t size = test::affords(1e6) ? 3001 : 130;
  const auto logits = test::random_values(size, 21, 3);
  const std::int32_t best = sample_one(logits, {});
  std::vector<SampledRow> rows;
  for (std::uint32_t step = 0; step < 5; ++step) {
    rows.push_back({logits, {.temperature = 5, .top_k = 1, .step = step}});
    rows.push_back({logits, {.temperature = 5, .top_p = 0, .step = step}});
    rows.push_back({logits, {.temperature = 5, .min_p = 1, .step = step}});
    rows.push_back({logits, {.temperature = 1e-6F, .step = step}});
  }
  EXPECT_EQ(sample(rows), std::vector<std::int32_t>(rows.size(), best));
}

TEST_P(Sample, DividesPositiveAndMultipliesNegativeLogitsOfTokensOfThePrompt) {
  const reference::SampleRowState first{.counts = token_counts(3, std::array{0}, {})};
  const std::vector<float> positive{3.0F, 2.5F, 1.0F};
  EXPECT_EQ(sample_one(positive, {.repetition_penalty = 1.1F}, first), 0);  // 2.73
  EXPECT_EQ(sample_one(positive, {.repetition_penalty = 1.5F}, first), 1);  // 2.0
  const std::vector<float> negative{-1.0F, -1.4F, -3.0F};
  EXPECT_EQ(sample_one(negative, {.repetition_penalty = 1.3F}, first), 0);  // -1.3
  EXPECT_EQ(sample_one(negative, {.repetition_penalty = 1.5F}, first), 1);  // -1.5
}

TEST_P(Sample, SubtractsPresenceOnceAndFrequencyForEachTokenOfTheReplyOnly) {
  const std::vector<float> logits{3.0F, 2.0F};
  const reference::SampleRowState prompt{.counts = token_counts(2, std::array{0}, {})};
  const reference::SampleRowState once{.counts = token_counts(2, {}, std::array{0})};
  const reference::SampleRowState thrice{.counts = token_counts(2, {}, std::array{0, 0, 0})};
  EXPECT_EQ(sample_one(logits, {.presence_penalty = 2}, prompt), 0);
  EXPECT_EQ(sample_one(logits, {.frequency_penalty = 2}, prompt), 0);
  EXPECT_EQ(sample_one(logits, {.presence_penalty = 0.9F}, thrice), 0);
  EXPECT_EQ(sample_one(logits, {.presence_penalty = 1.1F}, once), 1);
  EXPECT_EQ(sample_one(logits, {.frequency_penalty = 0.4F}, once), 0);
  EXPECT_EQ(sample_one(logits, {.frequency_penalty = 0.4F}, thrice), 1);
  EXPECT_EQ(
      sample_one(logits, {.presence_penalty = -2}, {.counts = token_counts(2, {}, std::array{1})}),
      1);
}

TEST_P(Sample, AddsBiasesBeforePenalties) {
  // (-1 + 5) / 2 = 2 and (-1 + 3) / 2 = 1; in the other order -2 + 5 = 3 and -2 + 3 = 1.
  const std::vector<float> logits{-1.0F, 1.5F};
  const auto counts = token_counts(2, std::array{0}, {});
  EXPECT_EQ(sample_one(logits, {.repetition_penalty = 2}, {counts, {{0, 5.0F}}}), 0);
  EXPECT_EQ(sample_one(logits, {.repetition_penalty = 2}, {counts, {{0, 3.0F}}}), 1);
  EXPECT_EQ(sample_one({-1.0F, 2.5F}, {.repetition_penalty = 2}, {counts, {{0, 5.0F}}}), 1);
  EXPECT_EQ(sample_one(logits, {}, {{}, {{0, 3.0F}}}), 0);
  EXPECT_EQ(sample_one(logits, {}, {{}, {{0, 1.0F}, {0, 2.0F}}}), 0);  // they add up
}

TEST_P(Sample, DrawsOnlyWhatTheMaskAllows) {
  CLORA_SKIP_UNLESS_AFFORDED(kDraw * 70);
  const auto logits = test::random_values(70, 4, 3);
  std::vector<SampledRow> rows;
  std::vector<std::int32_t> want;
  for (std::int32_t allowed = 0; allowed < 70; ++allowed) {
    std::vector<std::uint32_t> mask(3);
    mask[static_cast<std::size_t>(allowed / 32)] = 1U << (static_cast<std::uint32_t>(allowed) % 32);
    rows.push_back({logits, {}, {{}, {}, mask}});
    rows.push_back({logits, {.temperature = 1}, {{}, {}, mask}});
    want.insert(want.end(), 2, allowed);
  }
  EXPECT_EQ(sample(rows), want);
}

TEST_P(Sample, TakesTheLargestAndTheSmallestFiniteLogits) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(sample_one({-largest, -largest, 0.0F, largest, largest}, {}), 3);
  EXPECT_EQ(sample_one({-largest, -largest}, {}), 0);
  EXPECT_EQ(sample_one({-largest, largest}, {.temperature = 1}), 1);
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

// What sample keeps of each sequence, rows that get no token, and the ids of the next step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "clora/ops/sample.hpp"
#include "tests/support/sampled_rows.hpp"

namespace clora {
namespace {

using test::SampledRow;
using test::SampledRows;
using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class SampleStates : public test::OpTest {
 protected:
  void sample(const SampledRows& rows) {
    run([&](Batch& batch) { rows.record(batch); });
  }
  std::vector<std::int32_t> tokens_of(std::vector<SampledRow> given) {
    const SampledRows rows(context(), std::move(given));
    sample(rows);
    return rows.tokens();
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, SampleStates, test::all_variants(), test::variant_name);

TEST_P(SampleStates, CountsTheTokenOfRowsWithPenaltiesOnly) {
  const auto before = token_counts(5, std::array{0, 3}, std::array{1, 3, 3});
  EXPECT_EQ(before, (std::vector<std::uint32_t>{0x80000000U, 1, 0, 0x80000002U, 0}));
  const std::vector<float> logits{0.0F, 0.0F, 0.0F, 9.0F, 0.0F};
  SampledRows rows(context(), {{logits, {.presence_penalty = 1}, {before}},
                               {logits, {.temperature = 1, .top_k = 1}, {before}},
                               {logits, {.repetition_penalty = 1.1F}, {before}},
                               {logits, {.frequency_penalty = -0.1F}, {before}}});
  sample(rows);
  auto after = before;
  after[3] = 0x80000003U;
  EXPECT_EQ(rows.counts(0), after);
  EXPECT_EQ(rows.counts(1), before);
  EXPECT_EQ(rows.counts(2), after);
  EXPECT_EQ(rows.counts(3), after);
  EXPECT_EQ(rows.latest(), (std::vector<std::int32_t>{3, 3, 3, 3}));
}

TEST_P(SampleStates, ACountStaysAtItsMaximum) {
  for (const std::uint32_t most : {0x7fffffffU, 0xffffffffU}) {
    SampledRows rows(context(), {{{2.0F}, {.repetition_penalty = 2}, {{most}}}});
    sample(rows);
    EXPECT_EQ(rows.counts(0), std::vector{most});
  }
}

// The op's own counts change the next draw.
TEST_P(SampleStates, APenaltyTakesTurnsAmongEqualTokens) {
  SampledRows rows(context(), {{std::vector<float>(4, 1.0F), {.frequency_penalty = 1}}});
  std::vector<std::int32_t> got;
  for (std::uint32_t step = 0; step < 6; ++step) {
    rows.set_step(step);
    sample(rows);
    got.push_back(rows.tokens()[0]);
  }
  EXPECT_EQ(got, (std::vector<std::int32_t>{0, 1, 2, 3, 0, 1}));
}

TEST_P(SampleStates, ChangesNeitherLogitsNorSettings) {
  const auto logits = test::random_values(200, 9, 5);
  SampledRows rows(context(), {{logits,
                                {.temperature = 1, .top_k = 7, .repetition_penalty = 2, .step = 41},
                                {token_counts(200, std::array{1}, {}), {{4, 2.0F}}}}});
  const auto settings = context().read<std::uint32_t>(rows.settings_tensor());
  sample(rows);
  EXPECT_EQ(context().read<float>(rows.logits_tensor()), logits);
  EXPECT_EQ(context().read<std::uint32_t>(rows.settings_tensor()), settings);
}

TEST_P(SampleStates, DoesNotTouchPaddingRows) {
  const auto counts = token_counts(3, std::array{1}, {});
  const std::vector<float> healthy{1.0F, 3.0F, 2.0F}, bad{kNaN, 3.0F, 2.0F};
  SampledRow padding{bad, {.temperature = 1, .repetition_penalty = 2}, {counts}, true};
  SampledRows rows(context(),
                   {padding, {healthy, {.repetition_penalty = 2}, {counts}}, padding, {healthy}});
  sample(rows);
  EXPECT_EQ(rows.tokens(), (std::vector<std::int32_t>{kNoToken, 2, kNoToken, 1}));
  EXPECT_EQ(rows.latest(), (std::vector<std::int32_t>{1, -7, 2, -7}));
  EXPECT_EQ(rows.counts(0), counts);
  EXPECT_EQ(rows.counts(2), counts);
}

TEST_P(SampleStates, KeepsTheLatestTokenOnlyIfTheRowAsksForIt) {
  SampledRows rows(context(),
                   {{{1.0F, 2.0F}, {.keeps_latest = 0}}, {{1.0F, 2.0F}, {.keeps_latest = 1}}});
  sample(rows);
  EXPECT_EQ(rows.tokens(), (std::vector<std::int32_t>{1, 1}));
  EXPECT_EQ(rows.latest(), (std::vector<std::int32_t>{1, -7}));
}

TEST_P(SampleStates, WorksWithoutAnyState) {
  SampledRows rows(context(), {{{1.0F, 2.0F}, {.temperature = 1, .top_k = 1}}, {{5.0F, 2.0F}}});
  rows.state() = {};
  sample(rows);
  EXPECT_EQ(rows.tokens(), (std::vector<std::int32_t>{1, 0}));
}

TEST_P(SampleStates, GivesNoTokenForSettingsThatUseAStateThatIsNotGiven) {
  const std::vector<float> logits{1.0F, 2.0F};
  SampledRows rows(context(), {{logits, {.temperature = 1, .presence_penalty = 1}},
                               {logits, {}, {{}, {{0, 1.0F}}}},
                               {logits, {}, {{}, {}, {1U}}},
                               {logits}});
  rows.state() = {.latest = rows.state().latest};
  sample(rows);
  EXPECT_EQ(rows.tokens(),
            (std::vector<std::int32_t>{kNoSampleState, kNoSampleState, kNoSampleState, 1}));
  EXPECT_EQ(rows.latest(), (std::vector<std::int32_t>{1, -7, -7, -7}));

  // The slots 3, 2, 1 and 0 of rows, of which latest has two.
  rows.state() = {.latest = test::upload(context(), {2}, std::vector<std::int32_t>{-7, -7})};
  SampledRows few(context(), {{logits}, {logits}, {logits}, {logits}});
  few.state() = rows.state();
  sample(few);
  EXPECT_EQ(few.tokens(), (std::vector<std::int32_t>{kNoSampleState, kNoSampleState, 1, 1}));
  EXPECT_EQ(few.latest(), (std::vector<std::int32_t>{1, 1}));
}

TEST_P(SampleStates, GivesNoTokenForABadRowAndTokensForItsNeighbours) {
  const std::array<SampleSettings, 3> forms{
      {{},
       {.temperature = 1, .top_k = 3},
       {.temperature = 0.7F, .top_p = 0.9F, .repetition_penalty = 1.3F}}};
  for (const std::size_t size : {1U, 5U, 16U, 17U, 33U, 64U, 1009U}) {
    if (!test::affords(40 * static_cast<double>(size))) continue;
    const auto healthy = test::random_values(size, 3, 5);
    std::vector<SampledRow> rows;
    std::vector<bool> has_token;
    for (const SampleSettings& settings : forms) {
      for (const float bad : {kNaN, kInfinity, -kInfinity}) {
        for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
          auto logits = healthy;
          logits[at] = bad;
          rows.push_back({logits, settings});
          has_token.push_back(false);
        }
        rows.push_back({healthy, settings});
        has_token.push_back(true);
      }
    }
    SampledRows all(context(), rows);
    sample(all);
    const auto tokens = all.tokens(), latest = all.latest();
    for (std::size_t n = 0; n < rows.size(); ++n) {
      ASSERT_EQ(tokens[n] >= 0, has_token[n]) << size << " row " << n;
      if (!has_token[n]) ASSERT_EQ(tokens[n], kNoToken) << size << " row " << n;
      ASSERT_EQ(latest[rows.size() - 1 - n], tokens[n]);
      if (!has_token[n]) ASSERT_EQ(all.counts(n), std::vector<std::uint32_t>(size));
    }
  }
}

TEST_P(SampleStates, ALogitThatIsExcludedNeedNotBeFinite) {
  const std::vector<std::uint32_t> mask{0b110};
  for (const float bad : {kNaN, kInfinity, -kInfinity}) {
    const std::vector<float> logits{bad, 1.0F, 2.0F};
    const auto counts = token_counts(3, std::array{0}, {});
    EXPECT_EQ(tokens_of({{logits, {}, {{}, {}, mask}},
                         {logits, {.temperature = 1, .top_k = 1}, {{}, {}, mask}},
                         {logits, {.repetition_penalty = 2}, {counts, {}, mask}},
                         {logits, {}, {{}, {{0, -kInfinity}}}},
                         {logits, {}, {{}, {{1, 1.0F}}}}}),
              (std::vector<std::int32_t>{2, 2, 2, 2, kNoToken}));
  }
}

TEST_P(SampleStates, ABiasThatIsNotFiniteGivesNoTokenUnlessItExcludes) {
  EXPECT_EQ(tokens_of({{{1.0F, 2.0F}, {}, {{}, {{0, kInfinity}}}},
                       {{1.0F, 2.0F}, {}, {{}, {{0, kNaN}}}},
                       {{1.0F, 2.0F}, {}, {{}, {{1, -kInfinity}}}}}),
            (std::vector<std::int32_t>{kNoToken, kNoToken, 0}));
}

TEST_P(SampleStates, SaysThatNothingIsAllowed) {
  const std::vector<float> logits{1.0F, 2.0F};
  const std::vector<float> bad{kNaN, 2.0F};
  EXPECT_EQ(tokens_of({{logits, {}, {{}, {}, {0U}}},
                       {logits, {.temperature = 1}, {{}, {}, {0U}}},
                       {logits, {}, {{}, {}, {0xfffffffcU}}},  // beyond the vocabulary
                       {logits, {}, {{}, {{0, -kInfinity}, {1, -kInfinity}}}},
                       {bad, {}, {{}, {}, {0U}}},
                       {logits}}),
            (std::vector<std::int32_t>{kNothingAllowed, kNothingAllowed, kNothingAllowed,
                                       kNothingAllowed, kNothingAllowed, 1}));
}

TEST_P(SampleStates, PicksIdsOfTheHostAndOfTheDevice) {
  for (const std::int64_t rows : {1, 63, 64, 65, 200}) {
    std::vector<std::int32_t> ids, source, want;
    const std::vector<std::int32_t> latest{11, kNoToken, 33, kNothingAllowed};
    for (std::int32_t t = 0; t < rows; ++t) {
      ids.push_back(1000 + t);
      source.push_back(t % 6 - 2);
      const std::array<std::int32_t, 6> picked{1000 + t, 1000 + t, 11, 0, 33, 0};
      want.push_back(picked[static_cast<std::size_t>(t % 6)]);
    }
    const Tensor in = test::upload(context(), {rows}, ids),
                 from = test::upload(context(), {rows}, source);
    const Tensor out = test::upload(context(), {rows}, std::vector<std::int32_t>(ids.size(), -9));
    run([&](Batch& batch) {
      record_pick_ids(batch, out, in, from, test::upload(context(), {4}, latest));
      record_pick_ids(batch, in, in, from, test::upload(context(), {4}, latest));
    });
    EXPECT_EQ(context().read<std::int32_t>(out), want);
    EXPECT_EQ(context().read<std::int32_t>(in), want);  // in place
  }
}

TEST_P(SampleStates, RefusesShapesThatDoNotFit) {
  const auto make = [&](Shape shape, DType type) {
    return context().allocate(shape, type, MemoryTag::scratch);
  };
  const Tensor tokens = make({2}, DType::i32), settings = make({2, 16}, DType::u32);
  const Tensor logits = make({2, 40}, DType::f32);
  const auto message = [&](const Tensor& t, const Tensor& w, const Tensor& l,
                           const SampleState& state = {}) {
    return test::error_of([&] {
      Batch batch(context());
      record_sample(batch, t, w, l, state);
    });
  };
  EXPECT_THAT(message(tokens, settings, {}), HasSubstr("logits must be f32 [N, V]"));
  EXPECT_THAT(message(tokens, settings, tokens), HasSubstr("logits must be f32 [N, V]"));
  EXPECT_THAT(message(tokens, settings, settings),
              HasSubstr("logits must be f32 [2, 16], got u32"));
  EXPECT_THAT(message(logits, settings, logits), HasSubstr("tokens must be i32 [2]"));
  EXPECT_THAT(message(tokens, tokens, logits), HasSubstr("settings must be u32 [2, 16]"));

  const auto refused = [&](const SampleState& state) {
    return message(tokens, settings, logits, state);
  };
  EXPECT_THAT(refused({.counts = logits}), HasSubstr("counts must be u32 [2, 40]"));
  EXPECT_THAT(refused({.bias_ids = tokens}), HasSubstr("bias_ids must be i32 [S, B]"));
  const Tensor ids = make({3, 4}, DType::i32);
  EXPECT_THAT(refused({.bias_ids = ids}), HasSubstr("bias_values must be f32 [3, 4], got i32"));
  EXPECT_THAT(refused({.bias_values = ids}), HasSubstr("bias_ids must be i32 [S, B], got nothing"));
  EXPECT_THAT(refused({.mask = settings}), HasSubstr("mask must be u32 [2, 2], got u32 [2, 16]"));
  EXPECT_THAT(refused({.latest = logits}), HasSubstr("latest must be i32 [2]"));
  EXPECT_THAT(refused({.bias_ids = ids, .bias_values = make({3, 4}, DType::f32), .latest = tokens}),
              HasSubstr("bias_ids must be i32 [2, 4], got i32 [3, 4]"));
}

TEST_P(SampleStates, RefusesIdsToPickThatDoNotFit) {
  const Tensor two = context().allocate({2}, DType::i32, MemoryTag::scratch);
  const Tensor three = context().allocate({3}, DType::i32, MemoryTag::scratch);
  const Tensor floats = context().allocate({2}, DType::f32, MemoryTag::scratch);
  const auto message = [&](const Tensor& out, const Tensor& ids, const Tensor& source,
                           const Tensor& latest) {
    return test::error_of([&] {
      Batch batch(context());
      record_pick_ids(batch, out, ids, source, latest);
    });
  };
  EXPECT_THAT(message(two, {}, two, two), HasSubstr("ids must be i32 [T], got nothing"));
  EXPECT_THAT(message(two, floats, two, two), HasSubstr("ids must be i32 [2], got f32"));
  EXPECT_THAT(message(three, two, two, two), HasSubstr("ids_out must be i32 [2]"));
  EXPECT_THAT(message(two, two, three, two), HasSubstr("source must be i32 [2]"));
  EXPECT_THAT(message(two, two, two, {}), HasSubstr("latest must be i32 [S], got nothing"));
  EXPECT_THAT(message(two, two, two, floats), HasSubstr("latest must be i32 [2], got f32"));
}

}  // namespace
}  // namespace clora

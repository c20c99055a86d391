// Training by several ranks: threads with a Context each give the results of one device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>

#include "clora/model/training/checkpoint.hpp"
#include "clora/model/training/rank_shares.hpp"
#include "clora/model/training/thread_ranks.hpp"
#include "clora/model/transformer/adapter_sites.hpp"
#include "model/data/preference_packing.hpp"
#include "model/training/gradient_exchange.hpp"
#include "runtime/fail.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/own_model.hpp"
#include "tests/support/training_runs.hpp"

namespace clora {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Ranks, AddUpInTheirOrderAndGetTheSameBits) {
  // In another order the small ones would be lost, or not: 1e8 + 1 - 1e8 is 0 in f32.
  const std::vector<float> of_rank{1e8F, 1.0F, -1e8F, 0.5F};
  constexpr std::size_t kCount = 2501;  // some blocks, and a part of one
  std::vector<std::vector<float>> sums(of_rank.size());
  run_thread_ranks(4, [&](Communicator& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank());
    std::vector<float> values(kCount, of_rank[rank]);
    values.back() = static_cast<float>(rank + 1);
    ranks.sum(values);
    sums[rank] = std::move(values);
  });
  std::vector<float> expected(kCount, ((1e8F + 1.0F) + -1e8F) + 0.5F);
  expected.back() = 10;
  for (const std::vector<float>& sum : sums) EXPECT_EQ(sum, expected);
}

TEST(Ranks, GatherTextsInTheirOrder) {
  run_thread_ranks(3, [&](Communicator& ranks) {
    const std::string own(static_cast<std::size_t>(ranks.rank()), 'x');
    EXPECT_THAT(ranks.all_gather(own), ElementsAre("", "x", "xx"));
    EXPECT_THAT(gather_values(ranks, ranks.rank() / 2.0), ElementsAre(0, 0.5, 1));
    EXPECT_TRUE(any_rank(ranks, ranks.rank() == 1));
    EXPECT_FALSE(any_rank(ranks, false));
  });
}

TEST(Ranks, EndWithTheFirstErrorOfARank) {
  std::atomic<int> cancelled = 0;
  const auto work = [&](Communicator& ranks) {
    if (ranks.rank() == 1) fail(ErrorCode::io, "rank 1 has lost its data");
    try {
      for (;;) (void)ranks.all_gather("x");
    } catch (const Error& error) {
      cancelled += error.code() == ErrorCode::cancelled ? 1 : 0;
      EXPECT_THAT(error.what(), HasSubstr("rank 1 has ended"));
      throw;
    }
  };
  EXPECT_THAT(error_of([&] { run_thread_ranks(3, work); }), HasSubstr("has lost its data"));
  EXPECT_EQ(cancelled, 2);
}

TEST(Ranks, RefuseSumsOfDifferentSizes) {
  EXPECT_THAT(error_of([] {
                run_thread_ranks(2, [](Communicator& ranks) {
                  std::vector<float> values(static_cast<std::size_t>(3 + ranks.rank()));
                  ranks.sum(values);
                });
              }),
              HasSubstr("3 and 4 values"));
}

TEST(RankShares, DealConsecutiveMicroBatches) {
  const std::vector<std::int64_t> shares{3, 1};
  EXPECT_EQ(range_of_rank(8, shares, 0), (MicroBatchRange{0, 6}));
  EXPECT_EQ(range_of_rank(8, shares, 1), (MicroBatchRange{6, 8}));
  EXPECT_EQ(range_of_rank(1, shares, 0), (MicroBatchRange{0, 0}));  // the end of an epoch
  EXPECT_EQ(range_of_rank(1, shares, 1), (MicroBatchRange{0, 1}));
}

TEST(RankShares, FollowTheSpeedOfDevices) {
  EXPECT_THAT(shares_by_speed(std::vector<double>{1, 1}, 4), ElementsAre(2, 2));
  EXPECT_THAT(shares_by_speed(std::vector<double>{1, 3}, 8), ElementsAre(6, 2));
  EXPECT_THAT(shares_by_speed(std::vector<double>{1, 100}, 8), ElementsAre(8, 0));
}

// Changes what a rank does; for tests of what must not differ.
struct Change {
  std::function<void(int rank, TrainingRunConfig&)> config = {};
  std::function<void(int rank, std::int64_t step, Adapter&)> after_step = {};
};

// Runs of a model of two layers by some ranks, each a thread with its own Context.
class SeveralRanks : public test::TrainingRunTest {
 protected:
  struct Result {
    std::vector<double> losses, norms, held_out;
    std::vector<double> margins, held_out_margins;  // of a preference loss
    std::vector<float> parameters;
    DeviceShares shares;
  };

  SeveralRanks() { valid_ = test::some_records(9, open_->model.config().vocabulary); }

  TrainingRunConfig config_of(const std::string& out) {
    TrainingRunConfig c = config(out);
    c.batch_size = 2;  // 11 micro-batches per epoch: its last step has fewer than the others
    c.grad_accumulation = 4;
    c.clip_norm = 1;
    c.eval_every = 5;
    return c;
  }

  Result train(int ranks, const TrainingRunConfig& c, const std::filesystem::path& resume = {},
               const Change& change = {}) {
    Result result;
    run_thread_ranks(ranks, [&](Communicator& communicator) {
      const int rank = communicator.rank();
      test::OwnModel own(folder_ / "model");
      // A preference loss does not train the head.
      const auto sites =
          c.preference ? adapter_sites(own.model.config()) : all_adapter_sites(own.model.config());
      Adapter adapter(own.model.context(), sites, {.rank = 4, .dropout = 0.1});
      adapter.initialise(11);
      TrainingRunConfig of_rank = c;
      if (ranks > 1) of_rank.ranks = &communicator;
      if (change.config) change.config(rank, of_rank);
      TrainingCallbacks callbacks;
      callbacks.on_step = [&](const StepResult& step, double) {
        if (rank == 0) {
          result.losses.push_back(step.loss);
          result.norms.push_back(step.grad_norm);
          add_margin(result.margins, step.preference);
        }
        if (change.after_step) change.after_step(rank, step.step, adapter);
      };
      if (rank == 0) {
        callbacks.on_eval = [&](const EvalResult& eval) {
          result.held_out.push_back(eval.loss);
          add_margin(result.held_out_margins, eval.preference);
        };
        callbacks.on_shares = [&](const DeviceShares& shares) { result.shares = shares; };
      }
      run_training(own.model, adapter, records_, &valid_, of_rank, resume, callbacks);
      if (rank == 0) {
        result.parameters = own.model.context().read<float>(adapter.parameters());
      }
    });
    return result;
  }

  static void add_margin(std::vector<double>& margins, const std::vector<PreferenceScore>& scores) {
    for (const PreferenceScore& score : scores) {
      if (std::string_view(score.name) == "rewards/margins") margins.push_back(score.value);
    }
  }

  static void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
  }

  Records valid_;
};

// Each block's gradients as a piece of its own, read as soon as the backward has completed them.
TEST_F(SeveralRanks, ExchangeGradientsBlockByBlock) {
  run_thread_ranks(2, [&](Communicator& ranks) {
    test::OwnModel own(folder_ / "model");
    Context& context = own.model.context();
    Adapter adapter(context, all_adapter_sites(own.model.config()), {.rank = 4});
    adapter.initialise(7);
    adapter.allocate_gradients();
    const Tensor& gradients = adapter.flat_gradients();
    const auto zero = [&](const Tensor& tensor) {
      context.write(tensor, std::vector<std::byte>(tensor.bytes()));
    };
    const Tensor loss = context.allocate({1}, DType::f32, MemoryTag::adapters);
    RecordedSteps steps(own.model, &adapter,
                        StepTask{.kind = StepKind::train, .marks_gradients = true}, {loss},
                        std::make_shared<Arena>());
    const std::vector<std::size_t> indices{static_cast<std::size_t>(ranks.rank()), 5};
    const PackedRows rows = pack_records(records_, indices);
    std::vector<std::int32_t> staging;
    const auto compute = [&] {
      zero(gradients);
      zero(loss);
      return steps.submit(rows, {.weight = 0.1F, .seed = 1, .step = 1}, staging);
    };
    compute().wait();
    std::vector<float> sum = context.read<float>(gradients),
                       sum_of_losses = context.read<float>(loss);
    ranks.sum(sum);
    ranks.sum(sum_of_losses);

    GradientExchange exchange(context, ranks, gradients, {loss}, 1);
    for (int turn = 0; turn < 20; ++turn) {
      Fence end = compute();
      if (turn == 0) exchange.set_parts(steps.latest().gradient_parts());
      exchange.begin(&steps.latest(), std::move(end));
      EXPECT_EQ(exchange.finish(), sum_of_losses);
      ASSERT_EQ(context.read<float>(gradients), sum) << turn;
    }
    ASSERT_GE(steps.latest().gradient_parts().size(), 2U);
    EXPECT_TRUE(steps.latest().gradient_parts().front().mark.has_value());
  });
}

TEST_F(SeveralRanks, GiveTheLossesOfOneWithAllTheirMicroBatches) {
  const Result one = train(1, config_of("one"));
  ASSERT_EQ(one.losses.size(), 9U);
  for (const int ranks : {2, 4}) {
    const Result several = train(ranks, config_of("several"));
    SCOPED_TRACE(ranks);
    expect_near(several.losses, one.losses);
    expect_near(several.norms, one.norms);
    expect_near(several.held_out, one.held_out);
    EXPECT_EQ(several.held_out.size(), 2U);
    EXPECT_EQ(several.shares.shares, std::vector<std::int64_t>(static_cast<std::size_t>(ranks), 1));
  }
}

// Prompts of 3 to 5 tokens with one or two answers of up to 6.
Records records_with_answers(std::int32_t count, std::int32_t vocabulary, bool pairs) {
  Records records;
  for (std::int32_t i = 0; i < count; ++i) {
    Record record;
    const auto add = [&](std::int32_t tokens, std::uint8_t mark) {
      for (std::int32_t t = 0; t < tokens; ++t) {
        record.ids.push_back((i * 31 + t * 17 + mark * 7) % vocabulary);
        record.is_target.push_back(mark);
      }
    };
    add(3 + i % 3, 0);
    if (pairs || i % 2 == 0) add(1 + i % 6, kChosen);
    if (pairs || i % 2 == 1) add(1 + i % 4, kRejected);
    records.records.push_back(std::move(record));
  }
  return records;
}

// The sums of pairs and the KL term of KTO are those of all ranks, also of the held-out records.
TEST_F(SeveralRanks, PreferWhatOneDoesWithAllTheirMicroBatches) {
  const auto vocabulary = static_cast<std::int32_t>(open_->model.config().vocabulary);
  for (const PreferenceKind kind :
       {PreferenceKind::dpo, PreferenceKind::orpo, PreferenceKind::kto}) {
    const bool pairs = kind != PreferenceKind::kto;
    records_ = records_with_answers(22, vocabulary, pairs);
    valid_ = records_with_answers(9, vocabulary, pairs);
    TrainingRunConfig c = config_of("out");
    c.steps = 6;
    c.preference = PreferenceLoss{{.kind = kind, .beta = 0.5F}};
    const Result one = train(1, c);
    ASSERT_EQ(one.losses.size(), 6U);
    ASSERT_EQ(one.held_out_margins.size(), 2U);
    EXPECT_GT(std::abs(one.margins.back()), 1e-3);
    for (const std::vector<std::int64_t>& shares :
         {std::vector<std::int64_t>{1, 1}, std::vector<std::int64_t>{9, 1}}) {
      SCOPED_TRACE(fmt::format("{}, shares {}", name_of(kind), shares[0]));
      c.device_shares = shares;
      const Result several = train(2, c);
      expect_near(several.losses, one.losses);
      expect_near(several.norms, one.norms);
      expect_near(several.margins, one.margins);
      expect_near(several.held_out, one.held_out);
      expect_near(several.held_out_margins, one.held_out_margins);
    }
  }
}

TEST_F(SeveralRanks, GiveTheSameBitsWhenRepeated) {
  const Result first = train(2, config_of("first")), again = train(2, config_of("again"));
  EXPECT_EQ(first.losses, again.losses);
  EXPECT_EQ(first.parameters, again.parameters);
  EXPECT_FALSE(first.parameters.empty());
}

TEST_F(SeveralRanks, MayHaveUnequalShares) {
  const Result one = train(1, config_of("one"));
  TrainingRunConfig c = config_of("unequal");
  c.device_shares = {3, 1};  // of three micro-batches at the end of an epoch, two and one
  const Result unequal = train(2, c);
  expect_near(unequal.losses, one.losses);
  EXPECT_EQ(unequal.shares.shares, c.device_shares);
  c.device_shares = {9, 1};  // of three micro-batches, rank 1 has one; of one, rank 0 has none
  expect_near(train(2, c).losses, one.losses);
}

TEST_F(SeveralRanks, ResumeInAnotherNumber) {
  TrainingRunConfig c = config_of("two");
  c.save_every = 4;
  const Result two = train(2, c);
  for (const int ranks : {1, 3}) {
    SCOPED_TRACE(ranks);
    TrainingRunConfig again = c;
    again.adapter_out = folder_ / "resumed";
    const Result resumed = train(ranks, again, folder_ / "two/checkpoint-4");
    expect_near(resumed.losses, {two.losses.begin() + 4, two.losses.end()});
  }
  const Result same = train(2, c, folder_ / "two/checkpoint-4");
  EXPECT_EQ(same.parameters, two.parameters);
}

TEST_F(SeveralRanks, RefuseARankWithOtherSettings) {
  const Change other{.config = [](int rank, TrainingRunConfig& c) {
    if (rank == 1) c.learning_rate = 5e-3;
  }};
  EXPECT_THAT(
      error_of([&] { train(2, config_of("out"), {}, other); }),
      testing::AllOf(HasSubstr("rank 1"), HasSubstr("learning rate was 0.01 and is 0.005")));
}

TEST_F(SeveralRanks, EndTheRunIfTheirParametersDiffer) {
  const Change damage{.after_step = [](int rank, std::int64_t step, Adapter& adapter) {
    if (rank != 1 || step != 6) return;
    std::vector<float> values = adapter.context().read<float>(adapter.parameters());
    values[5] += 1e-3F;
    adapter.context().write(adapter.parameters(), std::as_bytes(std::span(values)));
  }};
  TrainingRunConfig c = config_of("out");
  c.save_every = 4;
  EXPECT_THAT(
      error_of([&] { train(2, c, {}, damage); }),
      testing::AllOf(HasSubstr("after step 8"), HasSubstr("rank 1"), HasSubstr("checksum")));
  EXPECT_EQ(read_checkpoint(folder_ / "out/checkpoint-4").state.step, 4);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/checkpoint-8"));
}

TEST_F(SeveralRanks, RefuseSharesThatDoNotFitThem) {
  TrainingRunConfig c = config_of("out");
  c.device_shares = {1, 1, 1};
  EXPECT_THAT(error_of([&] { train(2, c); }), HasSubstr("must name 2 shares, got 3"));
  c.device_shares = {1, 0};
  EXPECT_THAT(error_of([&] { train(2, c); }), HasSubstr("above 0"));
}

}  // namespace
}  // namespace clora

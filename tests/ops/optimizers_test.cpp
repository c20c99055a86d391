// Optimizers besides AdamW, rates by group of all of them, and ten steps of each as PyTorch does
// them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "clora/ops/optimizers/adamw.hpp"
#include "clora/ops/optimizers/adamw_q8.hpp"
#include "clora/ops/optimizers/average.hpp"
#include "clora/ops/optimizers/lion.hpp"
#include "clora/ops/optimizers/muon.hpp"
#include "clora/ops/optimizers/sgd.hpp"
#include "tests/reference/adamw_reference.hpp"
#include "tests/reference/optimizer_reference.hpp"
#include "tests/reference/optimizer_steps.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using testing::HasSubstr;

constexpr double kNormTolerance = 4 * 0x1p-24;

std::span<const std::byte> bytes_in(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

// Two groups: the blocks of kRateBlock parameters alternate.
constexpr double kRate = 3, kDecay = 0.5;  // of the second group

class Optimizers : public test::OpTest {
 protected:
  // n parameters with one value of state each.
  struct Run {
    std::int64_t n;
    test::Output parameters, momentum, grad_norm;
    Tensor gradients, settings;
    ParameterRates rates = {};

    Run(Context& context, std::int64_t count)
        : n(count),
          parameters(context, {n}),
          momentum(context, {n}),
          grad_norm(context, {1}),
          gradients(context.allocate({n}, DType::f32, MemoryTag::scratch)),
          settings(context.allocate({8}, DType::f32, MemoryTag::scratch)) {
      const auto size = static_cast<std::size_t>(n);
      context.write(parameters.tensor(), bytes_in(test::random_values(size, 1)));
      context.write(momentum.tensor(), bytes_in(std::vector<float>(size)));
    }
    MomentumTensors tensors() const {
      return {parameters.tensor(), momentum.tensor(), gradients, settings, rates};
    }
    reference::MomentumState state() const {
      return {test::to_double(parameters.values()), test::to_double(momentum.values())};
    }
  };

  void submit(Run& r, Batch& batch, const std::vector<float>& gradients,
              const UpdateSettings& settings) {
    context().write(r.gradients, std::as_bytes(std::span(gradients)));
    context().write(r.settings, std::as_bytes(std::span(&settings, 1)));
    batch.submit().wait();
  }

  // record(batch, tensors, norm) on the device against update(state, gradients, settings), for
  // three replayed steps that clip, at every size.
  template <class Record, class Update>
  void expect_as_reference(Record record, Update update) {
    for (const std::int64_t n : {1, 2, 15, 16, 17, 127, 256, 257, 1009, 4096, 70001}) {
      if (!test::affords(n)) continue;
      Run r(context(), n);
      reference::MomentumState want = r.state();
      Batch batch(context());
      record(batch, r.tensors(), r.grad_norm.tensor());
      for (std::uint32_t step = 1; step <= 3; ++step) {
        const auto gradients = test::random_values(static_cast<std::size_t>(n), 10 + step, 3);
        const auto g = test::to_double(gradients);
        const UpdateSettings settings{.learning_rate = 2e-2F, .weight_decay = 0.1F, .clip_norm = 1};
        submit(r, batch, gradients, settings);
        update(want, g, settings);
        double squares = 0;
        for (const double value : g) squares += value * value;
        const double norm = std::sqrt(squares);
        EXPECT_NEAR(r.grad_norm.values()[0], norm, kNormTolerance * norm) << n;
      }
      const double tolerance = test::tolerance_of(4);
      test::expect_close(r.parameters.values(), want.parameters, tolerance, fmt::format("{}", n));
      test::expect_close(r.momentum.values(), want.momentum, tolerance, fmt::format("m of {}", n));
    }
  }

  ParameterRates two_groups(std::int64_t n) {
    std::vector<std::uint8_t> blocks(static_cast<std::size_t>(rate_blocks(n)));
    for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = i % 2;
    const std::vector<float> rates{1, 1, float{kRate}, float{kDecay}};
    return {context().upload<std::uint8_t>({rate_blocks(n)}, DType::u8, blocks, MemoryTag::scratch),
            context().upload<float>({2, 2}, DType::f32, rates, MemoryTag::scratch)};
  }
  static bool in_second_group(std::size_t i) { return i / kRateBlock % 2 == 1; }
};
INSTANTIATE_TEST_SUITE_P(Variants, Optimizers, test::all_variants(), test::variant_name);

TEST_P(Optimizers, LionMatchesTheReferenceOverThreeReplayedStepsAtEverySize) {
  expect_as_reference(record_lion, reference::lion);
}

TEST_P(Optimizers, SgdMatchesTheReferenceWithBothMomenta) {
  for (const bool nesterov : {false, true}) {
    expect_as_reference(
        [&](Batch& batch, const MomentumTensors& tensors, const Tensor& norm) {
          record_sgd(batch, tensors, nesterov ? Nesterov::yes : Nesterov::no, norm);
        },
        [&](reference::MomentumState& state, std::span<const double> g,
            const UpdateSettings& settings) { reference::sgd(state, g, settings, nesterov); });
  }
}

// A group's multipliers act as other settings would: the same launch with these settings for all.
TEST_P(Optimizers, ScaleTheRatesOfEachGroup) {
  constexpr std::int64_t n = 1009;
  const auto size = static_cast<std::size_t>(n);
  struct Outcome {
    std::vector<float> parameters, state;
  };
  const auto run = [&](int optimizer, const UpdateSettings& settings, const ParameterRates& rates) {
    Run r(context(), n);
    r.rates = rates;
    test::Output second(context(), {n});
    context().write(second.tensor(), bytes_in(std::vector<float>(size)));
    const auto moment = [&] {
      return QuantisedMoment{
          context().upload<std::uint8_t>({n}, DType::u8, std::vector<std::uint8_t>(size),
                                         MemoryTag::scratch),
          context().upload<float>({moment_blocks(n)}, DType::f32, std::vector<float>(4),
                                  MemoryTag::scratch)};
    };
    const auto [p, m, g, s, same_rates] = r.tensors();
    const Tensor norm = r.grad_norm.tensor();
    Batch batch(context());
    if (optimizer == 0) record_adamw(batch, {p, m, second.tensor(), g, s, rates}, norm);
    if (optimizer == 1) record_adamw_q8(batch, {p, moment(), moment(), g, s, rates}, norm);
    if (optimizer == 2) record_lion(batch, r.tensors(), norm);
    if (optimizer == 3) record_sgd(batch, r.tensors(), Nesterov::yes, norm);
    for (std::uint32_t step = 1; step <= 2; ++step) {
      submit(r, batch, test::random_values(size, 20 + step, 3), settings);
    }
    return Outcome{r.parameters.values(), r.momentum.values()};
  };
  for (int optimizer = 0; optimizer < 4; ++optimizer) {
    const UpdateSettings settings{.learning_rate = 2e-2F, .weight_decay = 0.1F, .clip_norm = 1};
    UpdateSettings scaled = settings;
    scaled.learning_rate *= float{kRate};
    scaled.weight_decay *= float{kDecay};
    const Outcome first = run(optimizer, settings, {}), second = run(optimizer, scaled, {});
    const Outcome both = run(optimizer, settings, two_groups(n));
    std::vector<double> want(size);
    for (std::size_t i = 0; i < size; ++i) {
      want[i] = double{(in_second_group(i) ? second : first).parameters[i]};
    }
    test::expect_close(both.parameters, want, test::tolerance_of(4), fmt::format("{}", optimizer));
    EXPECT_NE(first.parameters, second.parameters);
  }
}

TEST_P(Optimizers, AdamwClipsByTheSumsOfSquaresThatItIsGiven) {
  constexpr std::int64_t n = 300;
  Run r(context(), n);
  test::Output second(context(), {n});
  context().write(second.tensor(), bytes_in(std::vector<float>(n)));
  const auto parameters = test::to_double(r.parameters.values());
  const std::vector<float> parts{9, 7};  // a norm of 4
  const Tensor sums = test::upload(context(), {2}, parts);
  Batch batch(context());
  record_adamw(batch,
               {r.parameters.tensor(),
                r.momentum.tensor(),
                second.tensor(),
                r.gradients,
                r.settings,
                {},
                sums},
               r.grad_norm.tensor());
  const std::vector<float> ones(n, 1.0F);
  submit(r, batch, ones, reference::settings_of(1, 2));
  EXPECT_FLOAT_EQ(r.grad_norm.values()[0], 4);
  for (const float m : r.momentum.values()) ASSERT_NEAR(m, 0.1 * 0.5, 1e-6);
}

// The matrices of the test of muon: with a short and a long side, both ways, some larger than a
// tile; and parameters that are in none.
struct Shapes {
  std::int64_t rows, columns;
};
constexpr Shapes kMatrices[] = {{1, 7}, {3, 5}, {5, 3}, {8, 130}, {130, 8}, {16, 16}, {35, 70}};

TEST_P(Optimizers, MuonMovesEachMatrixByItsOrthogonalisedMomentum) {
  std::vector<MuonMatrix> matrices;
  std::int64_t n = 11;
  for (const auto& [rows, columns] : kMatrices) {
    matrices.push_back({.offset = n, .rows = rows, .columns = columns});
    n += rows * columns + 3;
  }
  matrices.back().rate = float{kRate};
  matrices.back().decay = float{kDecay};
  if (!test::affords(20 * n)) GTEST_SKIP() << "not with CLORA_TEST_SIZES=small";
  Run r(context(), n);
  const auto size = static_cast<std::size_t>(n);
  std::vector<double> want = test::to_double(r.parameters.values());
  std::vector<double> m(size);
  Batch batch(context());
  const Tensor sums = record_muon(batch, r.tensors(), matrices, 0.95F, r.grad_norm.tensor());
  EXPECT_EQ(sums.shape().rank(), 1);
  const UpdateSettings settings{.learning_rate = 2e-2F, .weight_decay = 0.1F, .clip_norm = 1};
  for (std::uint32_t step = 1; step <= 2; ++step) {
    const auto gradients = test::random_values(size, 30 + step, 3);
    submit(r, batch, gradients, settings);
    const auto g = test::to_double(gradients);
    const double clip = reference::clip_of(g, settings);
    for (std::size_t i = 0; i < size; ++i) m[i] = 0.95 * m[i] + 0.05 * clip * g[i];
    for (const MuonMatrix& x : matrices) {
      const auto rows = static_cast<std::size_t>(x.rows);
      const auto columns = static_cast<std::size_t>(x.columns);
      const auto begin = static_cast<std::size_t>(x.offset);
      std::vector<double> u(rows * columns);
      for (std::size_t i = 0; i < u.size(); ++i) {
        u[i] = 0.05 * clip * g[begin + i] + 0.95 * m[begin + i];
      }
      const auto o = reference::newton_schulz(u, rows, columns);
      const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
      for (std::size_t i = 0; i < o.size(); ++i) {
        double& p = want[begin + i];
        p -= settings.learning_rate * double{x.rate} *
             (scale * o[i] + settings.weight_decay * double{x.decay} * p);
      }
    }
  }
  test::expect_close(r.momentum.values(), m, test::tolerance_of(4), "m");
  // Small singular values are multiplied by 3.4445^5 = 485, and so are their rounding errors.
  test::expect_close(r.parameters.values(), want, 485 * test::tolerance_of(130), "parameters");
}

TEST_P(Optimizers, MuonLeavesMatricesWithoutGradientsAlone) {
  Run r(context(), 64);
  Batch batch(context());
  const std::vector<MuonMatrix> matrices{{.offset = 0, .rows = 8, .columns = 8}};
  record_muon(batch, r.tensors(), matrices, 0.95F, r.grad_norm.tensor());
  const auto before = r.parameters.values();
  submit(r, batch, std::vector<float>(64), {.learning_rate = 0.1F});
  EXPECT_EQ(r.parameters.values(), before);
}

TEST_P(Optimizers, TheAverageMovesTowardsTheParametersByTheRestOfItsDecay) {
  for (const std::int64_t n : {1, 255, 257, 4099}) {
    const auto size = static_cast<std::size_t>(n);
    test::Output average(context(), {n});
    const std::vector<float> start = test::random_values(size, 1), p = test::random_values(size, 2);
    context().write(average.tensor(), bytes_in(start));
    const Tensor parameters = test::upload(context(), {n}, p);
    Batch batch(context());
    record_average(batch, average.tensor(), parameters, 0.9);
    batch.submit();
    batch.submit().wait();
    std::vector<double> want(size);
    for (std::size_t i = 0; i < size; ++i) want[i] = 0.81 * double{start[i]} + 0.19 * double{p[i]};
    test::expect_close(average.values(), want, test::tolerance_of(4), fmt::format("{}", n));
  }
}

// The parameters and gradients of tests/reference/optimizer_steps.py: two matrices of 15 elements,
// each at the beginning of a block of rates.
class TenSteps : public Optimizers {
 protected:
  static constexpr std::int64_t kSecond = kRateBlock, kAll = kRateBlock + 15;
  static std::vector<float> placed(double (*function)(double), double slope, double offset) {
    std::vector<float> values(kAll);
    for (std::size_t i = 0; i < 30; ++i) {
      values[i < 15 ? i : i - 15 + kSecond] =
          static_cast<float>(function(slope * static_cast<double>(i) + offset));
    }
    return values;
  }

  template <class Record>
  void expect(std::span<const double> want, UpdateSettings settings, Record record,
              double tolerance = 2e-6) {
    Run r(context(), kAll);
    const auto start = placed([](double x) { return std::cos(x); }, 3, 0);
    context().write(r.parameters.tensor(), std::as_bytes(std::span(start)));
    const std::vector<std::uint8_t> blocks{0, 1};
    const std::vector<float> rates{1, 1, 4, 1};
    r.rates = {context().upload<std::uint8_t>({2}, DType::u8, blocks, MemoryTag::scratch),
               context().upload<float>({2, 2}, DType::f32, rates, MemoryTag::scratch)};
    test::Output second(context(), {kAll});
    context().write(second.tensor(), bytes_in(std::vector<float>(kAll)));
    Batch batch(context());
    record(batch, r, second.tensor());
    settings.learning_rate = 0.02F;
    settings.weight_decay = 0.1F;
    for (int step = 1; step <= 10; ++step) {
      settings.bias_correction1 =
          static_cast<float>(1 - std::pow(double{settings.beta1}, static_cast<double>(step)));
      settings.bias_correction2 =
          static_cast<float>(1 - std::pow(double{settings.beta2}, static_cast<double>(step)));
      submit(r, batch, placed([](double x) { return std::sin(x); }, 0.7, 1.3 * step), settings);
    }
    const std::vector<float> got = r.parameters.values();
    for (std::size_t i = 0; i < 30; ++i) {
      EXPECT_NEAR(got[i < 15 ? i : i - 15 + kSecond], want[i], tolerance) << i;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, TenSteps, test::all_variants(), test::variant_name);

TEST_P(TenSteps, OfAdamwAreThoseOfPyTorch) {
  expect(reference::kAdamWSteps, {}, [](Batch& batch, Run& r, const Tensor& second) {
    const auto [p, m, g, settings, rates] = r.tensors();
    record_adamw(batch, {p, m, second, g, settings, rates}, r.grad_norm.tensor());
  });
}

TEST_P(TenSteps, OfLionAreThoseOfLionPytorch) {
  expect(reference::kLionSteps, {.beta2 = 0.99F}, [](Batch& batch, Run& r, const Tensor&) {
    record_lion(batch, r.tensors(), r.grad_norm.tensor());
  });
}

TEST_P(TenSteps, OfSgdAreThoseOfPyTorch) {
  expect(reference::kSgdSteps, {}, [](Batch& batch, Run& r, const Tensor&) {
    record_sgd(batch, r.tensors(), Nesterov::no, r.grad_norm.tensor());
  });
  expect(reference::kSgdNesterovSteps, {}, [](Batch& batch, Run& r, const Tensor&) {
    record_sgd(batch, r.tensors(), Nesterov::yes, r.grad_norm.tensor());
  });
}

TEST_P(TenSteps, OfMuonAreThoseOfPyTorch) {
  const auto record = [](Batch& batch, Run& r, const Tensor&) {
    MomentumTensors tensors = r.tensors();
    tensors.rates = {};
    const std::vector<MuonMatrix> matrices{{.offset = 0, .rows = 3, .columns = 5},
                                           {.offset = kSecond, .rows = 5, .columns = 3, .rate = 4}};
    record_muon(batch, tensors, matrices, 0.95F, r.grad_norm.tensor());
  };
  expect(reference::kMuonSteps, {}, record, 1e-4);
}

TEST_P(Optimizers, RefuseTensorsThatDoNotFit) {
  Run r(context(), 100);
  const Tensor norm = r.grad_norm.tensor();
  const auto message = [&](auto record) {
    return test::error_of([&] {
      Batch batch(context());
      record(batch);
    });
  };
  MomentumTensors wrong = r.tensors();
  wrong.momentum = r.settings;
  EXPECT_THAT(message([&](Batch& b) { record_lion(b, wrong, norm); }),
              HasSubstr("lion: momentum must be f32 [100], got f32 [8]"));
  EXPECT_THAT(message([&](Batch& b) { record_sgd(b, wrong, Nesterov::no, norm); }),
              HasSubstr("sgd: momentum must be f32 [100]"));
  wrong = r.tensors();
  wrong.rates = two_groups(200);
  EXPECT_THAT(message([&](Batch& b) { record_lion(b, wrong, norm); }),
              HasSubstr("lion: rates.block_groups must be u8 [2], got u8 [4]"));
  wrong.rates = {two_groups(100).block_groups, r.settings};
  EXPECT_THAT(message([&](Batch& b) { record_lion(b, wrong, norm); }),
              HasSubstr("lion: rates.group_rates must be f32 [groups, 2]"));
  const auto muon = [&](const MomentumTensors& tensors, const std::vector<MuonMatrix>& matrices) {
    return message([&](Batch& b) { record_muon(b, tensors, matrices, 0.9F, norm); });
  };
  EXPECT_THAT(muon(r.tensors(), {}), HasSubstr("muon: there is no matrix to update"));
  EXPECT_THAT(muon(r.tensors(), {{.offset = 1, .rows = 10, .columns = 10}}),
              HasSubstr("muon: a matrix must be within the 100 parameters, got [10, 10] at 1"));
  wrong.rates = two_groups(100);
  EXPECT_THAT(muon(wrong, {{.offset = 0, .rows = 10, .columns = 10}}),
              HasSubstr("`rates` must be empty"));
}

TEST_P(Optimizers, RefuseAnAverageThatDoesNotFit) {
  const Tensor ten = context().allocate({10}, DType::f32, MemoryTag::scratch);
  const Tensor nine = context().allocate({9}, DType::f32, MemoryTag::scratch);
  const auto message = [&](const Tensor& average, double decay) {
    return test::error_of([&] {
      Batch batch(context());
      record_average(batch, average, ten, decay);
    });
  };
  EXPECT_THAT(message(nine, 0.9), HasSubstr("average: average must be f32 [10], got f32 [9]"));
  EXPECT_THAT(message(context().allocate({10}, DType::f32, MemoryTag::scratch), 1),
              HasSubstr("the decay must be in [0, 1), got 1"));
}

TEST(OptimizerCosts, CountStateThatIsReadAndWritten) {
  EXPECT_EQ(lion_cost(100).bytes, 100 * (4 + 20));
  EXPECT_EQ(sgd_cost(100).bytes, lion_cost(100).bytes);
  EXPECT_EQ(adamw_cost(100).bytes, 100 * (4 + 28));
  const std::vector<MuonMatrix> matrices{{.offset = 0, .rows = 4, .columns = 25}};
  EXPECT_GT(muon_cost(100, matrices).flops, 4.0 * 4 * 4 * 25);
}

}  // namespace
}  // namespace clora

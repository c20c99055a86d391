// Memory policies: what a step recomputes has the same bits, what it rounds stays near.
#include "clora/model/transformer/memory_policy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "clora/model/training/trainer.hpp"
#include "model/configuration/experts_layer.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_models.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora::test {
namespace {

// Documents of these lengths, of ids below 60, with every token but the first labelled.
PackedRows documents(const std::vector<std::size_t>& lengths) {
  std::vector<Record> records;
  std::size_t rows = 0;
  for (const std::size_t length : lengths) {
    Record& record = records.emplace_back();
    for (std::size_t i = 0; i < length; ++i) {
      record.ids.push_back(static_cast<std::int32_t>((rows + i * 7) % 60));
      record.is_target.push_back(i > 0);
    }
    rows += length;
  }
  return pack_rows(records, rows);
}

// What two steps of training give.
struct Outcome {
  std::vector<double> losses;
  std::vector<double> grad_norms;
  std::vector<float> parameters;

  bool operator==(const Outcome&) const = default;
};

struct Setting {
  Precision precision = Precision::f32;
  double dropout = 0;
  std::vector<std::size_t> lengths{9, 31};
};

class Policies {
 public:
  Policies(const ModelConfig& config, const Setting& setting) : setting_(setting) {
    write_tiny_model(folder_.path(), config);
    ContextConfig of_context = config_from_environment();
    of_context.precision = setting.precision;
    context_ = std::make_unique<Context>(of_context);
    model_ = std::make_unique<LanguageModel>(*context_, WeightFiles::open(folder_.path()));
  }

  Outcome train(const MemoryPolicy& policy) {
    Adapter adapter(*context_, adapter_sites(model_->config()),
                    {.rank = 2, .dropout = setting_.dropout});
    const auto values =
        random_values(static_cast<std::size_t>(adapter.parameters().elements()), 3, 0.3F);
    context_->write(adapter.parameters(), std::as_bytes(std::span(values)));
    const double balance = expert_layers(model_->config()) > 0 ? 0.1 : 0;
    Trainer trainer(*model_, adapter,
                    {.dropout_seed = 5, .router_aux_loss_coef = balance, .policy = policy});
    const std::vector<PackedRows> rows{documents(setting_.lengths)};
    Outcome outcome;
    for (int step = 0; step < 2; ++step) {
      (void)trainer.step(rows, 1e-2);
      const StepResult result = trainer.drain().value();
      outcome.losses.push_back(result.loss);
      outcome.grad_norms.push_back(result.grad_norm);
    }
    outcome.parameters = context_->read<float>(adapter.parameters());
    return outcome;
  }

 private:
  Setting setting_;
  TemporaryFolder folder_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<LanguageModel> model_;
};

class MemoryPolicyOf : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(TinyModels, MemoryPolicyOf,
                         testing::Range(std::size_t{0}, tiny_models().size()),
                         [](const auto& model) {
                           std::string name = tiny_models()[model.param].name;
                           std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
                           return name;
                         });

TEST_P(MemoryPolicyOf, CheckpointsGiveTheSameBits) {
  const ModelConfig config = tiny_models()[GetParam()].config;
  for (const Precision precision : {Precision::f32, Precision::automatic}) {
    const bool drops = expert_layers(config) == 0;  // experts support no dropout
    Policies policies(config, {.precision = precision, .dropout = drops ? 0.2 : 0});
    const Outcome kept = policies.train({});
    EXPECT_TRUE(std::isfinite(kept.losses.back()) && kept.grad_norms.back() > 0);
    for (const std::int64_t blocks : {1, 2, 3}) {
      EXPECT_EQ(policies.train({.blocks_per_checkpoint = blocks}), kept) << blocks;
    }
  }
}

TEST_P(MemoryPolicyOf, TilesOfTheFeedForwardGiveTheSameGradients) {
  const ModelConfig config = tiny_models()[GetParam()].config;
  Policies policies(config, {.lengths = {301, 280}});
  const Outcome whole = policies.train({});
  const Outcome tiled = policies.train({.feed_forward_rows = 256});
  for (std::size_t step = 0; step < 2; ++step) {
    EXPECT_NEAR(tiled.losses[step], whole.losses[step], 2e-5);
    EXPECT_NEAR(tiled.grad_norms[step], whole.grad_norms[step], 2e-4 * whole.grad_norms[step]);
  }
  EXPECT_EQ(policies.train({.blocks_per_checkpoint = 1, .feed_forward_rows = 256}), tiled);
}

TEST_P(MemoryPolicyOf, RoundedActivationsStayNear) {
  const ModelConfig config = tiny_models()[GetParam()].config;
  Policies policies(config, {});
  const Outcome exact = policies.train({});
  for (const std::int64_t blocks : {0, 1}) {
    for (const auto& [saved, tolerance] :
         {std::pair{SavedType::bf16, 5e-2}, {SavedType::f16, 1e-2}, {SavedType::q8, 5e-2}}) {
      const Outcome rounded = policies.train({.blocks_per_checkpoint = blocks, .saved = saved});
      EXPECT_EQ(rounded.losses[0], exact.losses[0]) << name_of(saved);  // the forward is exact
      EXPECT_NEAR(rounded.grad_norms[0], exact.grad_norms[0], tolerance * exact.grad_norms[0])
          << name_of(saved);
      EXPECT_NE(rounded.parameters, exact.parameters) << name_of(saved);
    }
  }
}

// Five blocks, so that segments of two and three end in shorter ones.
TEST(MemoryPolicy, SegmentsOfSeveralBlocksGiveTheSameBits) {
  ModelConfig config = tiny_config("Llama");
  config.layers = 5;
  Policies policies(config, {.dropout = 0.2});
  const Outcome kept = policies.train({});
  for (const std::int64_t blocks : {1, 2, 3, 4, 5, 8}) {
    EXPECT_EQ(policies.train({.blocks_per_checkpoint = blocks}), kept) << blocks;
  }
}

TEST(MemoryPolicy, DropoutIsTheSameInForwardAndBackwardOfATile) {
  Policies policies(tiny_config("Llama"), {.dropout = 0.3, .lengths = {301, 280}});
  const Outcome tiled = policies.train({.feed_forward_rows = 256});
  EXPECT_EQ(policies.train({.blocks_per_checkpoint = 2, .feed_forward_rows = 256}), tiled);
  EXPECT_NE(policies.train({.feed_forward_rows = 512}), tiled);  // other masks
}

TEST(MemoryPolicy, RefusesTilesThatKernelsCannotView) {
  EXPECT_EQ(error_of([] { check({.feed_forward_rows = 100}); }),
            "memory policy: feed_forward_rows must be a multiple of 256, or 0, got 100");
  EXPECT_EQ(error_of([] { check({.blocks_per_checkpoint = -1}); }),
            "memory policy: blocks_per_checkpoint must not be negative, got -1");
}

TEST(MemoryPolicy, TypesOfSavedActivationsHaveNames) {
  for (const SavedType type :
       {SavedType::as_computed, SavedType::bf16, SavedType::f16, SavedType::q8}) {
    EXPECT_EQ(named_saved_type(name_of(type)), type);
  }
  EXPECT_EQ(error_of([] { named_saved_type("q4"); }),
            "memory policy: saved activations must be computed, bf16, f16 or q8, got 'q4'");
}

TEST(MemoryPolicy, IsToldInWords) {
  EXPECT_EQ(text_of(MemoryPolicy{}), "everything kept");
  EXPECT_EQ(text_of({.blocks_per_checkpoint = 1}), "checkpoints of each block");
  EXPECT_EQ(
      text_of({.blocks_per_checkpoint = 4, .feed_forward_rows = 2048, .saved = SavedType::bf16}),
      "checkpoints every 4 blocks, feed-forward in tiles of 2048 rows, saved in bf16");
}

}  // namespace
}  // namespace clora::test

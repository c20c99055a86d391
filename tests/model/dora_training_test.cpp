// DoRA in whole models: ten training steps and logits as those of PEFT (tests/reference/dora.py),
// and every way to run such an adapter against the model that it is merged into.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "clora/lora/peft_files.hpp"
#include "clora/model/generation/engine.hpp"
#include "clora/model/generation/generator.hpp"
#include "clora/model/training/checkpoint.hpp"
#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/trainer.hpp"
#include "clora/model/transformer/column_scales.hpp"
#include "clora/model/transformer/forward_pass.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/merged_model.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/peft_steps.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::document;
using test::two_documents;
using testing::HasSubstr;

class DoraModel : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto models = test::family_models();
    const auto found = std::ranges::find(models, name(), &test::FamilyModel::name);
    ASSERT_NE(found, models.end());
    test::write_family_model(folder_ / "model", *found);
    open_.emplace(folder_ / "model");
  }
  virtual std::string name() const { return GetParam(); }

  LanguageModel& model() { return open_->model; }
  json want() const {
    const char* source = std::getenv("CLORA_SOURCE_DIR");
    const std::filesystem::path root = source == nullptr ? "." : source;
    return test::read_json(root / "tests/reference/dora.json").at("models").at(name());
  }

  Adapter new_adapter(double dropout = 0) {
    const json reference = want();
    Adapter adapter(model().context(),
                    select_sites(model().config(),
                                 reference.at("target_modules").get<std::vector<std::string>>(), 0),
                    {.rank = reference.at("rank").get<std::int64_t>(),
                     .alpha = reference.at("alpha").get<double>(),
                     .dropout = dropout,
                     .target_modules = {"q_proj"},
                     .use_dora = true});
    test::fill_reference_adapter(adapter);
    initialise_magnitudes(model(), adapter);
    return adapter;
  }
  // An adapter that changes every logit, with magnitudes that are not norms.
  Adapter random_adapter(double dropout = 0) {
    Adapter adapter = new_adapter(dropout);
    std::uint32_t seed = 0;
    for (const AdapterModule& module : adapter.modules()) {
      const std::string& path = module.site.path;
      const Tensor bt = adapter.weights(path).bt, magnitude = adapter.magnitude(path);
      const auto b = test::random_values(static_cast<std::size_t>(bt.elements()), ++seed, 0.5F);
      model().context().write(bt, std::as_bytes(std::span(b)));
      std::vector<float> m = model().context().read<float>(magnitude);
      const auto factors = test::random_values(m.size(), ++seed, 0.4F);
      for (std::size_t i = 0; i < m.size(); ++i) m[i] *= 1 + factors[i];
      model().context().write(magnitude, std::as_bytes(std::span(m)));
    }
    return adapter;
  }
  std::vector<std::int32_t> ids(int length = 13) {
    return document(length, 0, model().config().vocabulary).ids;
  }
  std::vector<float> logits(const Adapter* adapter) {
    return ForwardPass(model(), adapter).logits(ids());
  }

  test::TemporaryFolder folder_;
  std::optional<test::OpenModel> open_;
};
INSTANTIATE_TEST_SUITE_P(Families, DoraModel,
                         testing::Values("llama", "qwen3", "phi3", "gemma2", "lfm2"),
                         [](const auto& test) { return test.param; });

TEST_P(DoraModel, TrainsTenStepsAsPeftDoes) {
  const json reference = want();
  Adapter adapter = new_adapter();
  Trainer trainer(model(), adapter, {});
  test::expect_peft_steps(trainer, reference, model().config().vocabulary, 1e-4);
  test::expect_peft_logits(model(), adapter, reference);
}

TEST_P(DoraModel, ComputesWhatItsMergedModelDoes) {
  test::expect_same_as_merged(*open_, random_adapter(), folder_ / "fused");
}

TEST_P(DoraModel, WithInitialMagnitudesComputesWhatTheBaseModelDoes) {
  const Adapter adapter = new_adapter();
  test::expect_logits(logits(&adapter), test::to_double(logits(nullptr)), 1e-5);
}

// All gradients of a training step of a policy.
class DoraStep : public DoraModel {
 protected:
  std::string name() const override { return "llama"; }
  std::vector<float> gradients(Adapter& adapter, const PackedRows& rows, const MemoryPolicy& policy,
                               std::uint32_t dropout_seed = 1) {
    const std::vector<float> before = model().context().read<float>(adapter.parameters());
    {
      Trainer trainer(model(), adapter, {.dropout_seed = dropout_seed, .policy = policy});
      (void)trainer.step(std::span(&rows, 1), 0);
      loss_ = trainer.drain().value().loss;
    }
    model().context().write(adapter.parameters(), std::as_bytes(std::span(before)));
    return model().context().read<float>(adapter.flat_gradients());
  }
  double loss(Adapter& adapter, const PackedRows& rows) {
    (void)gradients(adapter, rows, {});
    return loss_;
  }
  PackedRows many_rows() {
    std::vector<Record> records;
    for (int i = 0; i < 12; ++i) {
      records.push_back(document(25, i, model().config().vocabulary));
    }
    return pack_rows(std::span<const Record>(records), 300);
  }

  double loss_ = 0;
};

TEST_F(DoraStep, HasTheSameGradientsUnderEveryMemoryPolicy) {
  Adapter adapter = random_adapter();
  const PackedRows rows = many_rows();
  const auto want = test::to_double(gradients(adapter, rows, {}));
  for (const std::int64_t blocks : {0, 1, 2}) {
    for (const std::int64_t tiles : {0, 256}) {
      const MemoryPolicy policy{.blocks_per_checkpoint = blocks, .feed_forward_rows = tiles};
      test::expect_close(gradients(adapter, rows, policy), want, 1e-5, text_of(policy));
    }
  }
  for (const SavedType saved : {SavedType::bf16, SavedType::f16, SavedType::q8}) {
    const MemoryPolicy policy{.saved = saved};
    test::expect_close(gradients(adapter, rows, policy), want, 2e-2, text_of(policy));
  }
}

// The loss is linear in the magnitudes of a layer's output before anything else reads it; norms do
// not depend on them, so the gradients are the derivatives, also with dropout.
TEST_F(DoraStep, HasTheDerivativesByMagnitudesWithAndWithoutDropout) {
  const PackedRows rows = two_documents(model().config().vocabulary);
  for (const double dropout : {0.0, 0.3}) {
    Adapter adapter = random_adapter(dropout);
    const std::vector<float> gradient = gradients(adapter, rows, {});
    for (const AdapterModule& module : adapter.modules()) {
      const Tensor magnitude = adapter.magnitude(module.site.path);
      const std::vector<float> at = model().context().read<float>(magnitude);
      const auto direction = test::random_values(at.size(), 3);
      double want = 0;
      const auto loss_at = [&](float h) {
        std::vector<float> moved = at;
        for (std::size_t i = 0; i < at.size(); ++i) moved[i] += h * direction[i];
        model().context().write(magnitude, std::as_bytes(std::span(moved)));
        return loss(adapter, rows);
      };
      for (std::size_t i = 0; i < at.size(); ++i) {
        want += static_cast<double>(gradient[module.magnitude_offset + i]) *
                static_cast<double>(direction[i]);
      }
      constexpr float kStep = 0x1p-7F;
      const double difference = (loss_at(kStep) - loss_at(-kStep)) / (2 * double{kStep});
      model().context().write(magnitude, std::as_bytes(std::span(at)));
      EXPECT_NEAR(want, difference, 3e-3 * (std::abs(difference) + 0.02))
          << module.site.path << " dropout " << dropout;
    }
  }
}

TEST_F(DoraStep, IsRestoredFromACheckpointWithTheSameBits) {
  const PackedRows rows = two_documents(model().config().vocabulary);
  const Fingerprint fingerprint{{"run", "dora"}};
  Adapter adapter = random_adapter(0.2);
  Trainer trainer(model(), adapter, {});
  (void)trainer.step(std::span(&rows, 1), 1e-2);
  (void)trainer.drain();
  save_checkpoint(folder_ / "checkpoint", adapter, trainer, fingerprint);
  (void)trainer.step(std::span(&rows, 1), 1e-2);
  (void)trainer.drain();
  Adapter resumed = new_adapter(0.2);
  Trainer again(model(), resumed, {});
  restore_checkpoint(folder_ / "checkpoint", resumed, again, fingerprint);
  (void)again.step(std::span(&rows, 1), 1e-2);
  (void)again.drain();
  EXPECT_EQ(model().context().read<float>(resumed.parameters()),
            model().context().read<float>(adapter.parameters()));
}

TEST_F(DoraStep, IsUpToDateForAnEvaluatorThatWasThereBefore) {
  const PackedRows rows = two_documents(model().config().vocabulary);
  Adapter adapter = random_adapter();
  Evaluator evaluator(model(), &adapter);
  ForwardPass forward(model(), &adapter);
  Generator generator(model(), &adapter, 64);
  (void)evaluator.loss_sum(rows);
  (void)forward.logits(ids());
  (void)generator.logits(ids());
  Trainer trainer(model(), adapter, {});
  (void)trainer.step(std::span(&rows, 1), 0.1);
  (void)trainer.drain();
  EXPECT_EQ(evaluator.loss_sum(rows), Evaluator(model(), &adapter).loss_sum(rows));
  EXPECT_EQ(forward.logits(ids()), logits(&adapter));
  EXPECT_EQ(generator.logits(ids()), Generator(model(), &adapter, 64).logits(ids()));
}

TEST_F(DoraStep, IsRefusedBeforeItHasMagnitudes) {
  Adapter adapter(model().context(), adapter_sites(model().config()), {.use_dora = true});
  adapter.initialise(1);
  EXPECT_THAT(test::error_of([&] { Trainer(model(), adapter, {}); }),
              HasSubstr("lora_magnitude_vector of model.layers.0.self_attn.q_proj contains NaN"));
}

TEST_F(DoraStep, IsRefusedAsOneOfSeveralAdaptersOfAnEngine) {
  const Adapter adapter = random_adapter();
  Engine engine(model(), {.max_positions = 64, .device_adapters = 1, .max_rank = 8});
  EXPECT_THAT(
      test::error_of([&] { engine.add_adapter("mine", adapter); }),
      testing::AllOf(HasSubstr("adapter 'mine'"), HasSubstr("DoRA"), HasSubstr("clora fuse")));
}

// Experts have no factors of columns.
class DoraExperts : public DoraModel {
 protected:
  std::string name() const override { return "qwen3_moe"; }
};

TEST_F(DoraExperts, AreRefusedByName) {
  Adapter adapter(model().context(), adapter_sites(model().config()), {.use_dora = true});
  EXPECT_THAT(
      test::error_of([&] { initialise_magnitudes(model(), adapter); }),
      testing::AllOf(HasSubstr("DoRA is not supported for experts"), HasSubstr(".experts.0.")));
}

}  // namespace
}  // namespace clora

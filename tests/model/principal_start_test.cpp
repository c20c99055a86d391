// Adapters that begin with a part of the weights (PiSSA, OLoRA): ten training steps and logits as
// those of PEFT (tests/reference/principal_start.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "clora/lora/peft_files.hpp"
#include "clora/model/training/trainer.hpp"
#include "clora/model/transformer/adapter_sites.hpp"
#include "clora/model/transformer/forward_pass.hpp"
#include "clora/model/transformer/principal_start.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/peft_steps.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::two_documents;
using testing::HasSubstr;

json reference_cases() {
  const char* source = std::getenv("CLORA_SOURCE_DIR");
  const std::filesystem::path root = source == nullptr ? "." : source;
  return test::read_json(root / "tests/reference/principal_start.json").at("cases");
}

class PrincipalStarts : public testing::Test {
 protected:
  void open(const json& reference) {
    reference_ = reference;
    const auto models = test::family_models();
    const auto found = std::ranges::find(models, reference.at("family").get<std::string>(),
                                         &test::FamilyModel::name);
    ASSERT_NE(found, models.end());
    open_.reset();
    folder_.emplace();
    test::write_family_model(*folder_ / "model", *found);
    open_.emplace(*folder_ / "model");
  }
  void open(const char* name) { open(reference_cases().at(name)); }

  LanguageModel& model() { return open_->model; }
  Context& context() { return model().context(); }
  std::int64_t rank() const { return reference_.at("rank").get<std::int64_t>(); }

  Adapter new_adapter(AdapterConfig config = {}) {
    config.target_modules = reference_.at("target_modules").get<std::vector<std::string>>();
    config.rank = 2 * rank();
    config.alpha = 2 * reference_.at("alpha").get<double>();
    return {context(), select_sites(model().config(), config.target_modules, 0), config};
  }
  Adapter begun() {
    Adapter adapter = new_adapter();
    const auto start = principal_start_of(reference_.at("start").get<std::string>());
    initialise_principal(model(), adapter, start.value());
    return adapter;
  }
  std::vector<float> logits(const Adapter* adapter) {
    return ForwardPass(model(), adapter)
        .logits(test::document(13, 0, model().config().vocabulary).ids);
  }
  // The rows of all matrices that are frozen.
  std::vector<float> frozen(const Adapter& adapter) {
    std::vector<float> all;
    for (const AdapterModule& module : adapter.modules()) {
      const LoraWeights weights = adapter.weights(module.site.path);
      for (const Tensor& matrix : {weights.a, weights.bt}) {
        const std::vector<float> values = context().read<float>(matrix);
        all.insert(all.end(), values.begin() + std::ssize(values) / 2, values.end());
      }
    }
    return all;
  }

  json reference_;
  std::optional<test::TemporaryFolder> folder_;
  std::optional<test::OpenModel> open_;
};

TEST_F(PrincipalStarts, TrainTenStepsAsPeftDoes) {
  const json cases = reference_cases();
  for (const auto& [name, reference] : cases.items()) {
    SCOPED_TRACE(name);
    open(reference);
    if (products_round_to_bf16(context())) GTEST_SKIP() << "PEFT's steps are in f32";
    Adapter adapter = begun();
    Trainer trainer(model(), adapter, {.frozen_ranks = rank()});
    test::expect_peft_steps(trainer, reference, model().config().vocabulary, 2e-4);
    test::expect_peft_logits(model(), adapter, reference);
  }
}

TEST_F(PrincipalStarts, BeginAsTheBaseModel) {
  for (const char* const name : {"llama pissa", "llama olora"}) {
    open(name);
    const Adapter adapter = begun();
    test::expect_logits(logits(&adapter), test::to_double(logits(nullptr)), 1e-5);
  }
}

TEST_F(PrincipalStarts, KeepTheirFrozenRanksWithEveryOptimizer) {
  open("llama pissa");
  const PackedRows rows = two_documents(model().config().vocabulary);
  const std::vector<PackedRows> both{rows, rows};
  for (const OptimizerKind kind :
       {OptimizerKind::adamw, OptimizerKind::adamw_8bit, OptimizerKind::lion, OptimizerKind::sgd}) {
    Adapter adapter = begun();
    const std::vector<float> before = frozen(adapter);
    const std::vector<float> all = context().read<float>(adapter.parameters());
    Trainer trainer(model(), adapter,
                    {.optimizer = {.kind = kind}, .frozen_ranks = rank(), .gradient_noise = true});
    for (int step = 0; step < 3; ++step) (void)trainer.step(both, 1e-2);
    (void)trainer.drain();
    EXPECT_EQ(frozen(adapter), before) << name_of(kind);
    EXPECT_NE(context().read<float>(adapter.parameters()), all) << name_of(kind);
  }
}

TEST_F(PrincipalStarts, AreSavedAsPlainAdaptersOfTheBaseModel) {
  open("qwen3 pissa");
  Adapter adapter = begun();
  const PackedRows rows = two_documents(model().config().vocabulary);
  Trainer trainer(model(), adapter, {.frozen_ranks = rank()});
  for (int step = 0; step < 3; ++step) (void)trainer.step(std::span(&rows, 1), 1e-2);
  (void)trainer.drain();
  save_adapter(adapter, *folder_ / "saved");
  const Adapter loaded =
      load_adapter(context(), *folder_ / "saved", adapter_sites(model().config()));
  EXPECT_EQ(loaded.config().rank, 6);
  EXPECT_EQ(logits(&loaded), logits(&adapter));
}

TEST_F(PrincipalStarts, AreRefusedWhereTheyCannotBe) {
  open("llama pissa");
  const auto error = [&](Adapter adapter) {
    return test::error_of([&] { initialise_principal(model(), adapter, PrincipalStart::pissa); });
  };
  EXPECT_THAT(error(new_adapter({.dropout = 0.1})), HasSubstr("not supported with dropout"));
  EXPECT_THAT(error(new_adapter({.use_dora = true})), HasSubstr("not supported with DoRA"));
  const std::vector<AdapterSite> all = all_adapter_sites(model().config());
  EXPECT_THAT(error(Adapter(context(), all, {.rank = 2})), HasSubstr("token embeddings"));
  EXPECT_THAT(error(Adapter(context(), {all.back()}, {.rank = 3})), HasSubstr("must be even"));
  EXPECT_THAT(error(Adapter(context(), {all.back()}, {.rank = 98})), HasSubstr("at most 48"));
  const std::vector<AdapterSite> other{{"model.layers.0.self_attn.w_proj", 24, 24}};
  EXPECT_THAT(error(Adapter(context(), other, {.rank = 2})), HasSubstr("stores no weight"));
  Adapter adapter = begun();
  const auto refusal = [&](const TrainerConfig& config) {
    return test::error_of([&] { Trainer(model(), adapter, config); });
  };
  EXPECT_THAT(refusal({.frozen_ranks = 6}), HasSubstr("must be below the rank 6"));
  EXPECT_THAT(refusal({.frozen_ranks = -1}), HasSubstr("not negative, got -1"));
  EXPECT_THAT(refusal({.weight_decay = 0.1, .frozen_ranks = 3}), HasSubstr("`weight_decay`"));
  EXPECT_THAT(refusal({.optimizer = {.kind = OptimizerKind::muon}, .frozen_ranks = 3}),
              HasSubstr("muon"));
}

}  // namespace
}  // namespace clora

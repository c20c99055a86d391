// Models with experts: their configurations, the files and the adapters of experts, and what is
// refused. Their values are checked by model_families and architectures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "clora/lora/peft_files.hpp"
#include "clora/lora/safetensors.hpp"
#include "clora/model/training/trainer.hpp"
#include "clora/model/transformer/forward_pass.hpp"
#include "clora/model/weights/fuse.hpp"
#include "clora/runtime/files/json.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_models.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::Not;

// The keys of a Qwen3-MoE with four layers.
json qwen_keys() {
  return {{"model_type", "qwen3_moe"},
          {"num_hidden_layers", 4},
          {"hidden_size", 24},
          {"intermediate_size", 40},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 6},
          {"vocab_size", 67},
          {"rms_norm_eps", 1e-5},
          {"max_position_embeddings", 256},
          {"num_experts", 8},
          {"num_experts_per_tok", 2},
          {"moe_intermediate_size", 12}};
}

// For each layer, whether it has experts.
std::vector<bool> sparse_layers(const json& changes) {
  json keys = qwen_keys();
  keys.update(changes);
  std::vector<bool> sparse;
  for (const BlockSpec& block : from_hugging_face(keys, "config.json").blocks) {
    sparse.push_back(std::holds_alternative<ExpertsLayerSpec>(block[1].f));
  }
  return sparse;
}

void expect_refusal(const json& changes, ErrorCode code, const std::string& message) {
  json keys = qwen_keys();
  keys.update(changes);
  CLORA_EXPECT_ERROR(from_hugging_face(keys, "config.json"), code, message);
}

TEST(ExpertsConfig, SaysWhichLayersHaveExperts) {
  EXPECT_THAT(sparse_layers(json::object()), ElementsAre(true, true, true, true));
  EXPECT_THAT(sparse_layers({{"decoder_sparse_step", 2}}), ElementsAre(false, true, false, true));
  EXPECT_THAT(sparse_layers({{"mlp_only_layers", {0, 3}}}), ElementsAre(false, true, true, false));
}

TEST(ExpertsConfig, TakesBothNamesOfTheNumberOfExperts) {
  json keys = qwen_keys();
  keys["num_local_experts"] = 8;
  EXPECT_NO_THROW(from_hugging_face(keys, "config.json"));
  keys.erase("num_experts");
  EXPECT_NO_THROW(from_hugging_face(keys, "config.json"));
  expect_refusal({{"num_local_experts", 7}}, ErrorCode::invalid_file,
                 "num_experts is 8, but num_local_experts is 7");
}

TEST(ExpertsConfig, RefusesSizesThatAreImpossibleAndNoiseOfTheRouter) {
  expect_refusal({{"num_experts_per_tok", 9}}, ErrorCode::invalid_file,
                 "the number of experts of a token must be from 1 to 8, got 9");
  expect_refusal({{"moe_intermediate_size", 0}}, ErrorCode::invalid_file,
                 "the intermediate size of an expert");
  expect_refusal({{"decoder_sparse_step", 0}}, ErrorCode::invalid_file, "decoder_sparse_step");
  expect_refusal({{"mlp_only_layers", {"0"}}}, ErrorCode::invalid_file, "mlp_only_layers");
  json mixtral = qwen_keys();
  mixtral.update({{"model_type", "mixtral"}, {"router_jitter_noise", 0.1}});
  mixtral.erase("moe_intermediate_size");
  CLORA_EXPECT_ERROR(from_hugging_face(mixtral, "config.json"), ErrorCode::unsupported,
                     "router_jitter_noise = 0.1");
}

TEST(ExpertsConfig, IsWrittenAsItIsRead) {
  for (const char* name : {"Qwen3Moe", "Mixtral"}) {
    const ModelConfig config = test::tiny_config(name);
    const std::string text = json_text(to_hugging_face_json(config), 2);
    EXPECT_EQ(from_hugging_face(json::parse(text), "config.json").blocks, config.blocks) << name;
  }
}

TEST(ExpertsFiles, NameAStackOfAnotherNumberOfExperts) {
  const auto models = test::family_models();
  test::FamilyModel model = *std::ranges::find(models, "mixtral", &test::FamilyModel::name);
  model.reference.at("gguf").at("llama.expert_count") = 5;
  const test::TemporaryFolder folder;
  test::write_family_gguf(folder / "m.gguf", model);
  CLORA_EXPECT_ERROR(WeightFiles::open(folder / "m.gguf"), ErrorCode::invalid_file,
                     "must stack 5 matrices [24, 40], got [4, 24, 40]");
}

TEST(ExpertsFiles, RefuseExpertsOfDifferentTypes) {
  const test::TemporaryFolder folder;
  test::write_tiny_model(folder.path(), test::tiny_config("Mixtral"));
  std::vector<StoredTensor> tensors;
  std::vector<std::vector<std::byte>> bytes;
  const SafetensorsFile file = SafetensorsFile::open(folder / "model.safetensors");
  for (const std::string& name : file.names()) {
    StoredTensor tensor = *file.find(name);
    bytes.emplace_back(tensor.bytes.begin(), tensor.bytes.end());
    if (name.ends_with("experts.1.w3.weight")) {
      tensor.type = DType::bf16;
      bytes.back().resize(bytes.back().size() / 2);
    }
    tensor.bytes = {};
    tensors.push_back(tensor);
  }
  write_safetensors(folder / "model.safetensors", tensors, {},
                    [&](std::size_t i) { return bytes[i]; });
  CLORA_EXPECT_ERROR(test::OpenModel(folder.path()), ErrorCode::unsupported,
                     "have the types f32 and bf16; those of all experts must be the same");
}

class Experts : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    test::write_tiny_model(folder_ / "model", test::tiny_config(GetParam()));
    open_ = std::make_unique<test::OpenModel>(folder_ / "model");
  }
  const ModelConfig& config() const { return open_->model.config(); }
  Adapter random_adapter(const std::vector<AdapterSite>& sites) const {
    Adapter adapter(open_->model.context(), sites, {.rank = 3});
    const auto values =
        test::random_values(static_cast<std::size_t>(adapter.parameters().elements()), 5, 0.2F);
    adapter.context().write(adapter.parameters(), std::as_bytes(std::span(values)));
    return adapter;
  }
  std::vector<float> logits(LanguageModel& model, const Adapter* adapter) const {
    return ForwardPass(model, adapter).logits(std::vector<std::int32_t>{1, 5, 9, 33, 2, 60, 11});
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<test::OpenModel> open_;
};
INSTANTIATE_TEST_SUITE_P(Models, Experts, testing::Values("Qwen3Moe", "Mixtral"),
                         [](const auto& test) { return test.param; });

TEST_P(Experts, AreTargetsByTheirNamesAndTheRouterOnlyByItsOwn) {
  const auto ends = [&](const std::string& target) {
    std::vector<std::string> paths;
    for (const AdapterSite& site : select_sites(config(), {target}, 1)) {
      paths.push_back(site.path.substr(std::string("model.layers.1.").size()));
    }
    return paths;
  };
  const bool is_qwen = GetParam() == "Qwen3Moe";
  const std::string module = is_qwen ? "mlp" : "block_sparse_moe";
  const std::string up = is_qwen ? "up_proj" : "w3";
  EXPECT_THAT(ends("gate"), ElementsAre(module + ".gate"));
  EXPECT_EQ(ends(up).size(), is_qwen ? 5U : 4U);
  EXPECT_THAT(ends(up), Contains(module + ".experts.3." + up));
  EXPECT_THAT(ends("all-linear"), Contains(module + ".experts.3." + up));
  EXPECT_THAT(ends("all-linear"), Not(Contains(module + ".gate")));
}

TEST_P(Experts, HaveAdaptersThatFilesKeepWithTheNamesOfPeft) {
  const Adapter adapter = random_adapter(select_sites(config(), {"all-linear"}, 0));
  save_adapter(adapter, folder_ / "adapter");
  const bool is_qwen = GetParam() == "Qwen3Moe";
  const std::string path = is_qwen ? "mlp.experts.3.up_proj" : "block_sparse_moe.experts.3.w3";
  EXPECT_THAT(SafetensorsFile::open(folder_ / "adapter/adapter_model.safetensors").names(),
              Contains("base_model.model.model.layers.1." + path + ".lora_A.weight"));
  const Adapter loaded =
      load_adapter(adapter.context(), folder_ / "adapter", adapter_sites(config()));
  EXPECT_EQ(logits(open_->model, &loaded), logits(open_->model, &adapter));
  EXPECT_NE(logits(open_->model, &loaded), logits(open_->model, nullptr));
}

TEST_P(Experts, AreFusedWithTheirAdapters) {
  const Adapter adapter = random_adapter(adapter_sites(config()));
  write_fused_model(open_->files, adapter, folder_ / "fused");
  test::OpenModel fused(folder_ / "fused");
  const std::vector<float> want = logits(open_->model, &adapter);
  test::expect_logits(logits(fused.model, nullptr), test::to_double(want), 1e-5);
}

// Only some experts of one role have adapters: training changes these, and nothing else.
TEST_P(Experts, AreTrainedWhereTheyHaveAnAdapter) {
  std::vector<AdapterSite> sites;
  for (const AdapterSite& site : adapter_sites(config())) {
    if (site.path.find("layers.1.") != std::string::npos &&
        (site.path.ends_with("experts.2.up_proj") || site.path.ends_with("experts.2.w3"))) {
      sites.push_back(site);
    }
  }
  ASSERT_EQ(sites.size(), 1U);
  Adapter adapter = random_adapter(sites);
  Record record{.ids = {1, 5, 9, 33, 2, 60, 11, 4}, .is_target = std::vector<std::uint8_t>(8, 1)};
  const PackedRows packed = pack_rows(std::span<const Record>(&record, 1), 8);
  Trainer trainer(open_->model, adapter, {});
  double first = 0, last = 0;
  for (int step = 0; step < 10; ++step) {
    (void)trainer.step(std::span(&packed, 1), 0.01);
    last = trainer.drain().value().loss;
    if (step == 0) first = last;
  }
  EXPECT_LT(last, first);
}

// Loss and gradient norm are means over micro-batches, those of the load of experts, too.
TEST_P(Experts, BalanceTheirLoadWithTheSameWeightInAnyNumberOfMicroBatches) {
  Adapter adapter = random_adapter(select_sites(config(), {"q_proj"}, 0));
  Record record{.ids = {1, 5, 9, 33, 2, 60, 11}, .is_target = std::vector<std::uint8_t>(7, 1)};
  const PackedRows packed = pack_rows(std::span<const Record>(&record, 1), 7);
  const std::vector<PackedRows> twice(2, packed);
  const auto step = [&](double coefficient, std::span<const PackedRows> micro_batches) {
    Trainer trainer(open_->model, adapter, {.router_aux_loss_coef = coefficient});
    (void)trainer.step(micro_batches, 0);
    return trainer.drain().value();
  };
  const StepResult without = step(0, std::span(&packed, 1));
  const StepResult one = step(0.5, std::span(&packed, 1)), two = step(0.5, twice);
  EXPECT_EQ(without.balance_loss, 0);
  EXPECT_GT(one.balance_loss, 1);
  EXPECT_NEAR(one.loss, without.loss + 0.5 * one.balance_loss, 1e-6 * one.loss);
  EXPECT_GT(std::abs(one.grad_norm - without.grad_norm), 1e-3 * without.grad_norm);
  EXPECT_NEAR(two.balance_loss, one.balance_loss, 1e-6 * one.balance_loss);
  EXPECT_NEAR(two.loss, one.loss, 1e-6 * one.loss);
  EXPECT_NEAR(two.grad_norm, one.grad_norm, 1e-5 * one.grad_norm);
}

TEST(ExpertsTraining, RefusesToBalanceAModelWithoutExperts) {
  const test::TemporaryFolder folder;
  test::write_tiny_model(folder.path(), test::tiny_config("Llama"));
  test::OpenModel open(folder.path());
  Adapter adapter(open.model.context(), adapter_sites(open.model.config()), {.rank = 2});
  CLORA_EXPECT_ERROR(Trainer(open.model, adapter, {.router_aux_loss_coef = 0.01}),
                     ErrorCode::invalid_argument, "but the model has none");
  CLORA_EXPECT_ERROR(Trainer(open.model, adapter, {.router_aux_loss_coef = -1}),
                     ErrorCode::invalid_argument, "must be finite and not negative, got -1");
}

TEST_P(Experts, RefuseDropoutAndDifferentRanks) {
  const auto sites = select_sites(config(), {"all-linear"}, 0);
  Record record{.ids = {1, 5, 9}, .is_target = {1, 1, 1}};
  const PackedRows packed = pack_rows(std::span<const Record>(&record, 1), 3);
  Adapter dropping(open_->model.context(), sites, {.rank = 2, .dropout = 0.1});
  CLORA_EXPECT_ERROR(
      {
        Trainer trainer(open_->model, dropping, {});
        (void)trainer.step(std::span(&packed, 1), 0.01);
      },
      ErrorCode::unsupported, "dropout of 0.1 is not supported for experts");
  std::vector<AdapterModule> modules;
  for (const AdapterSite& site : sites) {
    modules.push_back({site, site.path.find("experts.2.") == std::string::npos ? 2 : 3, 1, 0, 0});
  }
  const Adapter uneven(open_->model.context(), modules, {});
  CLORA_EXPECT_ERROR(logits(open_->model, &uneven), ErrorCode::unsupported,
                     "rank 3 and scale 1, other experts of its layer 2 and 1");
}

}  // namespace
}  // namespace clora

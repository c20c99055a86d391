// Adapters of token embeddings and heads in whole models: ten training steps and logits as those of
// PEFT (tests/reference/end_adapters.py), and every way to run such an adapter against the model
// that it is merged into.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "clora/lora/peft_files.hpp"
#include "clora/lora/safetensors.hpp"
#include "clora/model/generation/generator.hpp"
#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/trainer.hpp"
#include "clora/model/transformer/adapter_sites.hpp"
#include "clora/model/transformer/column_scales.hpp"
#include "clora/model/transformer/forward_pass.hpp"
#include "clora/model/weights/fuse.hpp"
#include "clora/model/weights/stored_ends.hpp"
#include "clora/runtime/files/file.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/peft_steps.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::document;
using test::sines;
using test::two_documents;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kEmbeddings = "model.embed_tokens";
constexpr const char* kHead = "lm_head";

json reference_cases() {
  const char* source = std::getenv("CLORA_SOURCE_DIR");
  const std::filesystem::path root = source == nullptr ? "." : source;
  return test::read_json(root / "tests/reference/end_adapters.json").at("cases");
}

// The first matrices of end_adapters.py.
void fill_reference_adapter(const Adapter& adapter) {
  Context& context = adapter.context();
  const auto write = [&](const Tensor& to, const std::vector<float>& values) {
    context.write(to, std::as_bytes(std::span(values)));
  };
  for (const AdapterModule& module : adapter.modules()) {
    const auto& [path, inputs, outputs] = module.site;
    const LoraWeights weights = adapter.weights(path);
    if (path == kEmbeddings) {
      write(weights.a, std::vector<float>(static_cast<std::size_t>(module.rank * inputs)));
      write(weights.bt, sines(module.rank, outputs, 0.3, 5, true));
      continue;
    }
    constexpr std::string_view kLayers = "model.layers.";
    const double block = path == kHead ? 7 : std::stod(path.substr(kLayers.size()));
    write(weights.a, sines(module.rank, inputs, 0.02, block));
    write(weights.bt, std::vector<float>(static_cast<std::size_t>(module.rank * outputs)));
  }
}

class EndAdapters : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    want_ = reference_cases().at(name());
    const auto models = test::family_models();
    const auto found =
        std::ranges::find(models, want_.at("family").get<std::string>(), &test::FamilyModel::name);
    ASSERT_NE(found, models.end());
    test::write_family_model(folder_ / "model", *found);
    open_.emplace(folder_ / "model");
  }
  virtual std::string name() const { return GetParam(); }

  LanguageModel& model() { return open_->model; }
  Context& context() { return model().context(); }
  std::int64_t vocabulary() { return model().config().vocabulary; }
  std::vector<std::int32_t> ids(int length = 13) { return document(length, 0, vocabulary()).ids; }

  Adapter new_adapter(double dropout = 0) {
    const auto targets = want_.at("target_modules").get<std::vector<std::string>>();
    Adapter adapter(context(), select_sites(model().config(), targets, 0),
                    {.rank = want_.at("rank").get<std::int64_t>(),
                     .alpha = want_.at("alpha").get<double>(),
                     .dropout = dropout,
                     .target_modules = targets});
    fill_reference_adapter(adapter);
    return adapter;
  }
  // An adapter that changes every logit.
  Adapter random_adapter(double dropout = 0) {
    Adapter adapter = new_adapter(dropout);
    const auto count = static_cast<std::size_t>(adapter.parameters().elements());
    std::vector<float> values = context().read<float>(adapter.parameters());
    const auto random = test::random_values(count, 1, 0.2F);
    for (const AdapterModule& module : adapter.modules()) {
      const auto fill = [&](std::size_t at, std::int64_t elements) {
        std::copy_n(&random[at], elements, &values[at]);
      };
      fill(module.a_offset, module.rank * module.site.inputs);
      fill(module.bt_offset, module.rank * module.site.outputs);
    }
    context().write(adapter.parameters(), std::as_bytes(std::span(values)));
    return adapter;
  }
  std::vector<float> logits(const Adapter* adapter) {
    return ForwardPass(model(), adapter).logits(ids());
  }
  // All gradients of a training step of a policy; parameters stay as they were.
  std::vector<float> gradients(Adapter& adapter, const PackedRows& rows, const MemoryPolicy& policy,
                               double* loss = nullptr) {
    const std::vector<float> before = context().read<float>(adapter.parameters());
    {
      Trainer trainer(model(), adapter, {.dropout_seed = 1, .policy = policy});
      (void)trainer.step(std::span(&rows, 1), 0);
      const double got = trainer.drain().value().loss;
      if (loss != nullptr) *loss = got;
    }
    context().write(adapter.parameters(), std::as_bytes(std::span(before)));
    return context().read<float>(adapter.flat_gradients());
  }

  test::TemporaryFolder folder_;
  std::optional<test::OpenModel> open_;
  json want_;
};
INSTANTIATE_TEST_SUITE_P(Cases, EndAdapters,
                         testing::Values("llama", "llama ends", "llama head", "llama embeddings",
                                         "qwen3", "granite", "gemma2"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

TEST_P(EndAdapters, TrainTenStepsAsPeftDoes) {
  Adapter adapter = new_adapter();
  Trainer trainer(model(), adapter, {});
  test::expect_peft_steps(trainer, want_, vocabulary(), 1e-4);
  test::expect_peft_logits(model(), adapter, want_);
}

TEST_P(EndAdapters, ComputeWhatTheirMergedModelDoes) {
  const Adapter adapter = random_adapter();
  write_fused_model(open_->files, adapter, folder_ / "fused");
  test::OpenModel fused(folder_ / "fused");
  const auto want = test::to_double(ForwardPass(fused.model, nullptr).logits(ids()));
  test::expect_logits(logits(&adapter), want, 1e-4);
  const auto base = test::to_double(logits(nullptr));
  double moved = 0;
  for (std::size_t i = 0; i < base.size(); ++i)
    moved = std::max(moved, std::abs(base[i] - want[i]));
  EXPECT_GT(moved, 0.05);
  const auto reply = Generator(fused.model, nullptr, 64).generate(ids(), {.max_tokens = 8}).ids;
  EXPECT_EQ(Generator(model(), &adapter, 64).generate(ids(), {.max_tokens = 8}).ids, reply);
  const PackedRows rows = two_documents(vocabulary());
  const double loss = Evaluator(fused.model, nullptr).loss_sum(rows);
  EXPECT_NEAR(Evaluator(model(), &adapter).loss_sum(rows), loss, 1e-4 * loss);
}

TEST_P(EndAdapters, AreTheSameAfterTheyWereSaved) {
  const Adapter adapter = random_adapter();
  save_adapter(adapter, folder_ / "adapter");
  const Adapter again =
      load_adapter(context(), folder_ / "adapter", all_adapter_sites(model().config()));
  EXPECT_EQ(again.modules().size(), adapter.modules().size());
  EXPECT_EQ(logits(&again), logits(&adapter));
}

TEST_P(EndAdapters, HaveTheSameGradientsUnderEveryMemoryPolicyAndInEachRun) {
  Adapter adapter = random_adapter(0.2);
  std::vector<Record> records;
  for (int i = 0; i < 12; ++i) records.push_back(document(25, i, vocabulary()));
  const PackedRows rows = pack_rows(std::span<const Record>(records), 300);
  const std::vector<float> first = gradients(adapter, rows, {});
  EXPECT_EQ(gradients(adapter, rows, {}), first);
  for (const std::int64_t blocks : {1, 2}) {
    const MemoryPolicy policy{.blocks_per_checkpoint = blocks};
    test::expect_close(gradients(adapter, rows, policy), test::to_double(first), 1e-5,
                       text_of(policy));
  }
}

// Along a random direction of the matrices of each module.
TEST_P(EndAdapters, HaveTheDerivativesOfTheLossWithAndWithoutDropout) {
  const PackedRows rows = two_documents(vocabulary());
  for (const double dropout : {0.0, 0.3}) {
    Adapter adapter = random_adapter(dropout);
    const std::vector<float> gradient = gradients(adapter, rows, {});
    const std::vector<float> at = context().read<float>(adapter.parameters());
    for (const AdapterModule& module : adapter.modules()) {
      if (module.site.path != kHead && module.site.path != kEmbeddings) continue;
      for (const auto& [offset, width] : {std::pair(module.a_offset, module.site.inputs),
                                          std::pair(module.bt_offset, module.site.outputs)}) {
        const auto count = static_cast<std::size_t>(module.rank * width);
        const auto direction = test::random_values(count, 3);
        double want = 0;
        for (std::size_t i = 0; i < count; ++i) {
          want += double{gradient[offset + i]} * double{direction[i]};
        }
        const auto loss_at = [&](float h) {
          std::vector<float> moved = at;
          for (std::size_t i = 0; i < count; ++i) moved[offset + i] += h * direction[i];
          context().write(adapter.parameters(), std::as_bytes(std::span(moved)));
          double loss = 0;
          (void)gradients(adapter, rows, {}, &loss);
          return loss;
        };
        constexpr float kStep = 0x1p-8F;
        const double difference = (loss_at(kStep) - loss_at(-kStep)) / (2 * double{kStep});
        context().write(adapter.parameters(), std::as_bytes(std::span(at)));
        EXPECT_NEAR(want, difference, 5e-3 * (std::abs(difference) + 0.05))
            << module.site.path << " dropout " << dropout;
      }
    }
  }
}

// The one with both ends and the blocks' layers.
class EndAdapter : public EndAdapters {
 protected:
  std::string name() const override { return "qwen3"; }
  std::string load_error() {
    return test::error_of([&] {
      (void)load_adapter(context(), folder_ / "adapter", all_adapter_sites(model().config()));
    });
  }
  // Adds tensors to those of the saved adapter.
  void add_tensors(const std::vector<StoredTensor>& more) {
    const std::filesystem::path path = folder_ / "adapter" / "adapter_model.safetensors";
    std::vector<std::vector<std::byte>> bytes;
    std::vector<StoredTensor> tensors;
    {
      const SafetensorsFile file = SafetensorsFile::open(path);
      for (const std::string& each : file.names()) {
        tensors.push_back(*file.find(each));
        bytes.emplace_back(tensors.back().bytes.begin(), tensors.back().bytes.end());
      }
    }
    for (std::size_t i = 0; i < bytes.size(); ++i) tensors[i].bytes = bytes[i];
    tensors.insert(tensors.end(), more.begin(), more.end());
    write_safetensors(path, tensors, {{"format", "pt"}});
  }
  void change_config(const std::function<void(json&)>& change) {
    const std::filesystem::path path = folder_ / "adapter" / "adapter_config.json";
    json config = test::read_json(path);
    change(config);
    const std::string text = config.dump();
    write_file_atomically(path, std::as_bytes(std::span(text)));
  }
};

TEST_F(EndAdapter, BeginsWithRandomBOfTheEmbeddingsAndTheBaseModelsLogits) {
  Adapter adapter(context(), all_adapter_sites(model().config()), {.rank = 4});
  adapter.initialise(3);
  const LoraWeights weights = adapter.weights(kEmbeddings);
  EXPECT_THAT(context().read<float>(weights.a), testing::Each(0.0F));
  const std::vector<float> b = context().read<float>(weights.bt);
  double sum = 0, squares = 0;
  for (const float value : b) {
    sum += double{value};
    squares += double{value} * double{value};
  }
  const auto n = static_cast<double>(b.size());
  EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 6 / std::sqrt(n));
  EXPECT_EQ(logits(&adapter), logits(nullptr));
}

TEST_F(EndAdapter, IsNotPartOfAllLinear) {
  for (const AdapterSite& site : select_sites(model().config(), {"all-linear"}, 0)) {
    EXPECT_THAT(site.path, HasSubstr("model.layers."));
  }
  const auto both = select_sites(model().config(), {"lm_head", "embed_tokens"}, 1);
  ASSERT_EQ(both.size(), 2);
  EXPECT_EQ(both.front().path, kEmbeddings);
  EXPECT_EQ(both.back().path, kHead);
}

TEST_F(EndAdapter, IsReadWithTheBaseModelsMatricesThatPeftStores) {
  save_adapter(random_adapter(), folder_ / "adapter");
  const auto table = open_->files.get("model.embed_tokens.weight", {vocabulary(), 24});
  const std::string prefix = "base_model.model.";
  add_tensors(
      {{prefix + "model.embed_tokens.base_layer.weight", table.type, table.shape, table.bytes},
       {prefix + "lm_head.base_layer.weight", table.type, table.shape, table.bytes}});
  const Adapter adapter =
      load_adapter(context(), folder_ / "adapter", all_adapter_sites(model().config()));
  EXPECT_EQ(logits(&adapter), logits(&adapter));
  EXPECT_TRUE(has_stored_ends(folder_ / "adapter"));
  require_stored_ends(folder_ / "adapter", open_->files.all());
}

TEST_F(EndAdapter, IsRefusedWithOtherMatricesThanTheBaseModels) {
  save_adapter(random_adapter(), folder_ / "adapter");
  EXPECT_FALSE(has_stored_ends(folder_ / "adapter"));
  std::vector<float> values(static_cast<std::size_t>(vocabulary() * 24), 0.25F);
  const auto table = open_->files.get("model.embed_tokens.weight", {vocabulary(), 24});
  std::memcpy(values.data(), table.bytes.data(), table.bytes.size());
  values[24 * 5 + 3] += 0.1F;
  const std::string tensor = "base_model.model.lm_head.base_layer.weight";
  add_tensors({{tensor, DType::f32, table.shape, std::as_bytes(std::span(values))}});
  const auto error = [&] {
    return test::error_of([&] { require_stored_ends(folder_ / "adapter", open_->files.all()); });
  };
  EXPECT_THAT(error(), AllOf(HasSubstr(tensor), HasSubstr("differs"), HasSubstr("row 5")));
  save_adapter(random_adapter(), folder_ / "adapter");
  values.resize(values.size() + 24);
  add_tensors({{tensor, DType::f32, {vocabulary() + 1, 24}, std::as_bytes(std::span(values))}});
  EXPECT_THAT(error(), AllOf(HasSubstr(tensor), HasSubstr("[68, 24]")));
}

// PEFT takes the head out of target_modules, but stores its matrices.
TEST_F(EndAdapter, IsReadWithTheTiedHeadThatPeftDoesNotSelect) {
  const Adapter adapter = random_adapter();
  save_adapter(adapter, folder_ / "adapter");
  for (const json& targets : {json{"embed_tokens", "q_proj", "k_proj", "v_proj", "o_proj",
                                   "gate_proj", "up_proj", "down_proj"},
                              json("(?:.*_proj|^model\\.embed_tokens$)")}) {
    change_config([&](json& config) {
      config["target_modules"] = targets;
      config["ensure_weight_tying"] = true;
    });
    const Adapter again =
        load_adapter(context(), folder_ / "adapter", all_adapter_sites(model().config()));
    EXPECT_EQ(logits(&again), logits(&adapter));
    save_adapter(again, folder_ / "copy");
    EXPECT_EQ(load_adapter(context(), folder_ / "copy", all_adapter_sites(model().config()))
                  .modules()
                  .size(),
              adapter.modules().size());
  }
  change_config([](json& config) { config["ensure_weight_tying"] = false; });
  EXPECT_THAT(load_error(), HasSubstr("target_modules does not select lm_head"));
}

TEST_F(EndAdapter, IsRefusedByNameWhereItIsNotSupported) {
  const Adapter adapter = random_adapter();
  save_adapter(adapter, folder_ / "adapter");
  EXPECT_THAT(test::error_of([&] {
                (void)load_adapter(context(), folder_ / "adapter", adapter_sites(model().config()));
              }),
              HasSubstr("matches no layer of this base model that can be adapted"));
  change_config([](json& config) { config["use_dora"] = true; });
  EXPECT_THAT(load_error(), HasSubstr("DoRA is not supported for token embeddings"));
  Adapter decomposed(context(), select_sites(model().config(), {"lm_head"}, 0), {.use_dora = true});
  EXPECT_THAT(test::error_of([&] { initialise_magnitudes(model(), decomposed); }),
              AllOf(HasSubstr("DoRA is not supported"), HasSubstr("lm_head")));
}

}  // namespace
}  // namespace clora

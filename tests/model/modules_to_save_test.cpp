// Modules and biases trained in full next to LoRA, in whole models: ten training steps, logits and
// files as those of PEFT (tests/reference/modules_to_save.py), derivatives, and every way to run
// such an adapter against the model that it is merged into.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "clora/lora/peft_files.hpp"
#include "clora/lora/safetensors.hpp"
#include "clora/model/generation/engine.hpp"
#include "clora/model/generation/generator.hpp"
#include "clora/model/training/checkpoint.hpp"
#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/thread_ranks.hpp"
#include "clora/model/training/training_run.hpp"
#include "clora/model/transformer/column_scales.hpp"
#include "clora/model/transformer/forward_pass.hpp"
#include "clora/model/transformer/saved_tensors.hpp"
#include "lora/saved_tensors.hpp"
#include "model/data/text_packing.hpp"
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
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Moves every parameter, so that no matrix is zero and no full tensor the base model's.
void move_parameters(const Adapter& adapter) {
  std::vector<float> values = adapter.context().read<float>(adapter.parameters());
  std::uint32_t seed = 0;
  for (const ParameterSlice& slice : adapter.parameter_set().slices()) {
    const auto count = static_cast<std::size_t>(slice.shape.elements());
    const auto moves = test::random_values(count, ++seed, 0.3F);
    for (std::size_t i = 0; i < count; ++i) values[slice.offset + i] += moves[i];
  }
  adapter.context().write(adapter.parameters(), std::as_bytes(std::span(values)));
}

// The derivative of loss() along random directions of each full tensor, against its gradient. A
// matrix moves in many more elements than a vector, and the losses of decoders are curved.
template <class Loss>
void expect_derivatives(const Adapter& adapter, const std::vector<float>& gradients, Loss loss,
                        float matrix_step = 0x1p-11F) {
  constexpr double kTolerance = 1e-2;
  for (const SavedTensor& tensor : adapter.saved_tensors()) {
    const std::vector<float> at = adapter.context().read<float>(adapter.saved(tensor.name));
    const auto direction = test::random_values(at.size(), 3);
    const auto loss_at = [&](float h) {
      std::vector<float> moved = at;
      for (std::size_t i = 0; i < at.size(); ++i) moved[i] += h * direction[i];
      adapter.context().write(adapter.saved(tensor.name), std::as_bytes(std::span(moved)));
      return loss();
    };
    double got = 0, length = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const auto of_gradient = static_cast<double>(gradients[tensor.offset + i]);
      got += of_gradient * static_cast<double>(direction[i]);
      length += of_gradient * of_gradient;
    }
    const float step = tensor.shape.rank() == 1 ? 0x1p-7F : matrix_step;
    const double want = (loss_at(step) - loss_at(-step)) / (2 * double{step});
    adapter.context().write(adapter.saved(tensor.name), std::as_bytes(std::span(at)));
    EXPECT_NEAR(got, want, kTolerance * (std::abs(want) + std::sqrt(length)) + 5e-5) << tensor.name;
    EXPECT_GT(length, 0) << tensor.name;
  }
}

// Those of a model, without the ones of a module.
std::vector<SavedTensor> savable_without(const ModelConfig& config, const std::string& path) {
  std::vector<SavedTensor> tensors = savable_tensors(config);
  std::erase_if(tensors, [&](const SavedTensor& tensor) { return tensor.module() == path; });
  return tensors;
}

std::string name_of_test(const testing::TestParamInfo<std::string>& test) {
  std::string name = test.param;
  std::ranges::replace(name, ':', '_');
  return name;
}

class SavedModules : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto models = test::family_models();
    const std::string family = name().substr(0, name().find(':'));
    const auto found = std::ranges::find(models, family, &test::FamilyModel::name);
    ASSERT_NE(found, models.end());
    family_ = *found;
    test::write_family_model(folder_ / "model", family_);
    open_.emplace(folder_ / "model");
  }
  virtual std::string name() const { return GetParam(); }

  LanguageModel& model() { return open_->model; }
  json want() const {
    const char* source = std::getenv("CLORA_SOURCE_DIR");
    const std::filesystem::path root = source == nullptr ? "." : source;
    return test::read_json(root / "tests/reference/modules_to_save.json").at("models").at(name());
  }

  // The full tensors of PEFT's file, without the two copies of a bias that it stores with bias =
  // "all" in addition to that of a module of modules_to_save.
  std::vector<std::string> tensors_of_peft() const {
    auto names = want().at("tensors").get<std::vector<std::string>>();
    std::erase_if(names, [](const std::string& name) {
      return name.find(".modules_to_save.") != std::string::npos ||
             name.find(".original_module.") != std::string::npos;
    });
    return names;
  }

  Adapter new_adapter(double dropout = 0) { return new_adapter(model(), dropout); }
  Adapter new_adapter(LanguageModel& model, double dropout = 0) {
    const json reference = want();
    AdapterConfig config{
        .rank = reference.at("rank").get<std::int64_t>(),
        .alpha = reference.at("alpha").get<double>(),
        .dropout = dropout,
        .target_modules = {"q_proj"},
        .modules_to_save = reference.at("modules_to_save").get<std::vector<std::string>>(),
        .biases = named_biases(reference.at("bias").get<std::string>())};
    const auto sites = select_sites(
        model.config(), reference.at("target_modules").get<std::vector<std::string>>(), 0);
    Adapter adapter(model.context(), sites, config,
                    select_trained_tensors(savable_tensors(model.config()), config, sites, "test"));
    test::fill_reference_adapter(adapter);
    initialise_saved_tensors(model, adapter);
    return adapter;
  }
  Adapter random_adapter(double dropout = 0) {
    Adapter adapter = new_adapter(dropout);
    move_parameters(adapter);
    return adapter;
  }
  std::vector<float> parameters(const Adapter& adapter) {
    return adapter.context().read<float>(adapter.parameters());
  }
  std::vector<std::int32_t> ids(int length = 13) {
    return document(length, 0, model().config().vocabulary).ids;
  }
  std::vector<float> logits(const Adapter* adapter) {
    return ForwardPass(model(), adapter).logits(ids());
  }
  // All gradients of a training step of a policy, which changes nothing.
  std::vector<float> gradients(Adapter& adapter, const PackedRows& rows,
                               const MemoryPolicy& policy = {}) {
    const std::vector<float> before = parameters(adapter);
    {
      Trainer trainer(model(), adapter, {.policy = policy});
      (void)trainer.step(std::span(&rows, 1), 0);
      loss_ = trainer.drain().value().loss;
    }
    adapter.context().write(adapter.parameters(), std::as_bytes(std::span(before)));
    return adapter.context().read<float>(adapter.flat_gradients());
  }
  Adapter loaded(const std::filesystem::path& folder) {
    return load_adapter(model().context(), folder, adapter_sites(model().config()),
                        savable_tensors(model().config()));
  }

  double loss_ = 0;
  test::FamilyModel family_;
  test::TemporaryFolder folder_;
  std::optional<test::OpenModel> open_;
};
INSTANTIATE_TEST_SUITE_P(Families, SavedModules,
                         testing::Values("llama", "qwen3", "phi3", "gemma2", "granite", "lfm2",
                                         "qwen3_5_text", "llama:ends", "gemma2:embeddings",
                                         "gemma2:head", "granite:ends", "llama:bias_all",
                                         "qwen2:bias_lora_only", "qwen2:linears",
                                         "llama:linears_bias_all", "phi3:linears", "lfm2:linears",
                                         "qwen3_5_text:linears"),
                         name_of_test);

TEST_P(SavedModules, TrainTenStepsAsPeftDoes) {
  const json reference = want();
  Adapter adapter = new_adapter();
  Trainer trainer(model(), adapter, {});
  test::expect_peft_steps(trainer, reference, model().config().vocabulary, 1e-4);
  test::expect_peft_logits(model(), adapter, reference);
}

TEST_P(SavedModules, ComputeWhatTheirMergedModelDoes) {
  test::expect_same_as_merged(*open_, random_adapter(), folder_ / "fused");
}

TEST_P(SavedModules, AtFirstComputeWhatTheBaseModelDoes) {
  const Adapter adapter = new_adapter();
  test::expect_logits(logits(&adapter), test::to_double(logits(nullptr)), 1e-6);
}

// GGUF files of some families store w + 1 where Hugging Face's store w.
TEST_P(SavedModules, HaveTheSameFirstValuesFromAGgufFile) {
  test::write_family_gguf(folder_ / "model.gguf", family_);
  test::OpenModel gguf(folder_ / "model.gguf");
  const Adapter adapter = new_adapter(), of_gguf = new_adapter(gguf.model);
  test::expect_close(parameters(of_gguf), test::to_double(parameters(adapter)), 1e-6, "first");
  const auto want = test::to_double(ForwardPass(gguf.model, nullptr).logits(ids()));
  test::expect_logits(ForwardPass(gguf.model, &of_gguf).logits(ids()), want, 1e-5);
}

TEST_P(SavedModules, AreInFilesAsPeftWritesThem) {
  const Adapter adapter = random_adapter();
  save_adapter(adapter, folder_ / "saved");
  std::vector<std::string> full;
  for (const std::string& tensor :
       SafetensorsFile::open(folder_ / "saved/adapter_model.safetensors").names()) {
    if (tensor.find(".lora_") == std::string::npos) full.push_back(tensor);
  }
  std::ranges::sort(full);
  EXPECT_EQ(full, tensors_of_peft());
  const json config = test::read_json(folder_ / "saved/adapter_config.json");
  const json modules = want().at("modules_to_save");
  EXPECT_EQ(config.at("modules_to_save"), modules.empty() ? json() : modules);
  EXPECT_EQ(config.at("bias"), want().at("bias"));
  const Adapter again = loaded(folder_ / "saved");
  EXPECT_EQ(parameters(again), parameters(adapter));
  EXPECT_EQ(again.config().modules_to_save, adapter.config().modules_to_save);
  EXPECT_EQ(again.config().biases, adapter.config().biases);
  EXPECT_EQ(logits(&again), logits(&adapter));
}

TEST_P(SavedModules, HaveTheDerivativesOfTheLoss) {
  const PackedRows rows = two_documents(model().config().vocabulary);
  Adapter adapter = random_adapter();
  const std::vector<float> gradient = gradients(adapter, rows);
  expect_derivatives(adapter, gradient, [&] {
    return Evaluator(model(), &adapter).loss_sum(rows) / rows.target_count;
  });
}

TEST_P(SavedModules, HaveTheSameGradientsUnderEveryMemoryPolicy) {
  Adapter adapter = random_adapter();
  const PackedRows rows = two_documents(model().config().vocabulary);
  const auto want = test::to_double(gradients(adapter, rows));
  for (const std::int64_t blocks : {1, 2}) {
    const MemoryPolicy policy{.blocks_per_checkpoint = blocks};
    test::expect_close(gradients(adapter, rows, policy), want, 1e-5, text_of(policy));
  }
  const MemoryPolicy q8{.saved = SavedType::q8};
  test::expect_close(gradients(adapter, rows, q8), want, 5e-2, text_of(q8));
}

class SavedModulesOfAFamily : public SavedModules {};
INSTANTIATE_TEST_SUITE_P(Families, SavedModulesOfAFamily,
                         testing::Values("llama", "qwen2", "phi3", "gemma2", "lfm2",
                                         "qwen3_5_text"),
                         name_of_test);

// Only the lowest trained parameters decide how far the backward goes.
TEST_P(SavedModulesOfAFamily, AreTrainedBelowTheLowestLayerWithAnAdapter) {
  const std::vector<AdapterSite> all = adapter_sites(model().config());
  Adapter adapter(model().context(), {all.back()}, {.rank = 2},
                  savable_without(model().config(), all.back().path));
  adapter.initialise(3);
  initialise_saved_tensors(model(), adapter);
  move_parameters(adapter);
  const PackedRows rows = two_documents(model().config().vocabulary);
  const std::vector<float> gradient = gradients(adapter, rows);
  expect_derivatives(adapter, gradient, [&] {
    return Evaluator(model(), &adapter).loss_sum(rows) / rows.target_count;
  });
}

// Norms, linear layers, and biases.
class SomeSavedModules : public SavedModules {};
INSTANTIATE_TEST_SUITE_P(Kinds, SomeSavedModules,
                         testing::Values("qwen3", "qwen2:linears", "llama:bias_all"), name_of_test);

TEST_P(SomeSavedModules, AreRestoredFromACheckpointWithTheSameBits) {
  const PackedRows rows = two_documents(model().config().vocabulary);
  const Fingerprint fingerprint{{"run", "full"}};
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
  EXPECT_EQ(parameters(resumed), parameters(adapter));
}

// Tiles of the feed-forward's rows have gradients of their own.
TEST_P(SomeSavedModules, HaveTheSameGradientsInTilesOfRows) {
  std::vector<Record> records;
  for (int i = 0; i < 9; ++i) records.push_back(document(35, i, model().config().vocabulary));
  const PackedRows rows = pack_rows(std::span<const Record>(records), 315);
  Adapter adapter = random_adapter();
  const auto want = test::to_double(gradients(adapter, rows));
  test::expect_close(gradients(adapter, rows, {.feed_forward_rows = 256}), want, 1e-5, "gradients");
}

class OneSavedModel : public SavedModules {
 protected:
  std::string name() const override { return "qwen3"; }
};

class OneSavedLinears : public SavedModules {
 protected:
  std::string name() const override { return "llama:linears_bias_all"; }
};

// PEFT stores the bias of such a module three times: as its own, again as that of its wrapper, and
// the base model's.
TEST_F(OneSavedLinears, AreLoadedFromAFileWithTheCopiesOfTheirBiasesThatPeftStores) {
  const Adapter adapter = random_adapter();
  const std::filesystem::path folder = folder_ / "saved";
  save_adapter(adapter, folder);
  const std::filesystem::path path = folder / "adapter_model.safetensors";
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::vector<StoredTensor> tensors;
  for (const auto& name : want().at("tensors").get<std::vector<std::string>>()) {
    std::string own = name;
    for (const std::string wrapper : {".modules_to_save", ".original_module"}) {
      if (const auto at = own.find(wrapper); at != std::string::npos) own.erase(at, wrapper.size());
    }
    tensors.push_back(*file.find(own));
    tensors.back().name = name;
  }
  for (const std::string& name : file.names()) {
    if (name.find(".lora_") != std::string::npos) tensors.push_back(*file.find(name));
  }
  write_safetensors(folder / "other", tensors, {{"format", "pt"}});
  std::filesystem::rename(folder / "other", path);
  EXPECT_EQ(parameters(loaded(folder)), parameters(adapter));
}

TEST_F(OneSavedLinears, AreRefusedByAnEngineAndWithoutTheirBiases) {
  const Adapter adapter = random_adapter();
  Engine engine(model(), {.max_positions = 64, .device_adapters = 1, .max_rank = 8});
  EXPECT_THAT(test::error_of([&] { engine.add_adapter("mine", adapter); }),
              HasSubstr("modules_to_save: gate_proj, o_proj; bias: all"));
  const std::filesystem::path folder = folder_ / "saved";
  save_adapter(adapter, folder);
  json config = test::read_json(folder / "adapter_config.json");
  config["bias"] = "lora_only";
  test::write_file(folder / "adapter_config.json", config.dump());
  EXPECT_THAT(test::error_of([&] { (void)loaded(folder); }),
              AllOf(HasSubstr("_proj.bias' is not supported"), HasSubstr("biases that its bias")));
  config["bias"] = "all";
  config["modules_to_save"] = nullptr;
  test::write_file(folder / "adapter_config.json", config.dump());
  EXPECT_THAT(test::error_of([&] { (void)loaded(folder); }),
              HasSubstr("_proj.weight' is not supported"));
}

// DoRA's factors scale the product, not the bias.
TEST_F(OneSavedLinears, HaveTheDerivativesOfTheLossNextToMagnitudes) {
  const auto sites = select_sites(model().config(), {"q_proj", "gate_proj", "up_proj"}, 0);
  const AdapterConfig config{.rank = 2, .use_dora = true, .biases = TrainedBiases::all};
  Adapter adapter(model().context(), sites, config,
                  select_trained_tensors(savable_tensors(model().config()), config, sites, "test"));
  adapter.initialise(3);
  initialise_magnitudes(model(), adapter);
  initialise_saved_tensors(model(), adapter);
  move_parameters(adapter);
  const PackedRows rows = two_documents(model().config().vocabulary);
  expect_derivatives(adapter, gradients(adapter, rows), [&] {
    return Evaluator(model(), &adapter).loss_sum(rows) / rows.target_count;
  });
}

class OneModelOfExperts : public SavedModules {
 protected:
  std::string name() const override { return "qwen3_moe"; }
};

TEST_F(OneModelOfExperts, TrainsRoutersInFullButNoExperts) {
  const ModelConfig& config = model().config();
  const auto sites = select_sites(config, {"q_proj"}, 0);
  Adapter adapter(model().context(), sites, {.rank = 2},
                  select_saved_tensors(savable_tensors(config), {"mlp.gate", "v_proj"}, "test"));
  adapter.initialise(3);
  initialise_saved_tensors(model(), adapter);
  const PackedRows rows = two_documents(config.vocabulary);
  expect_derivatives(adapter, gradients(adapter, rows), [&] {
    return Evaluator(model(), &adapter).loss_sum(rows) / rows.target_count;
  });
  EXPECT_THAT(test::error_of([&] {
                require_savable(config, {.modules_to_save = {"v_proj", "down_proj"}});
              }),
              AllOf(HasSubstr("modules_to_save has 'down_proj'"),
                    HasSubstr("layers of experts are not trained in full")));
}

class OneModelOfConvolutions : public SavedModules {
 protected:
  std::string name() const override { return "lfm2"; }
};

TEST_F(OneModelOfConvolutions, DoesNotTrainTheirBiases) {
  ModelConfig config = model().config();
  for (BlockSpec& block : config.blocks) {
    for (SubLayerSpec& layer : block) {
      auto* conv = std::get_if<ShortConvLayerSpec>(&layer.f);
      if (conv != nullptr) conv->bias = ParameterSpec{.names = {"conv.conv.bias", ""}, .width = 24};
    }
  }
  require_savable(config, {.biases = TrainedBiases::lora_only});
  EXPECT_THAT(
      test::error_of([&] { require_savable(config, {.biases = TrainedBiases::all}); }),
      AllOf(HasSubstr("would train model.layers.0.conv.conv.bias"), HasSubstr("lora_only")));
}

TEST_F(OneSavedModel, IsNotResumedWithOtherModules) {
  Adapter adapter = new_adapter();
  Adapter other(model().context(), adapter_sites(model().config()), {.rank = 3, .alpha = 6});
  EXPECT_THAT(differences(fingerprint_of(other), fingerprint_of(adapter)),
              testing::Contains(HasSubstr("modules trained in full was absent and is "
                                          "input_layernorm,q_norm,k_norm,")));
}

// A step of gradient descent moves a parameter by the rate, its ratio and the gradient; a decay
// would also shrink it.
TEST_F(OneSavedModel, HasARateOfItsOwnAndNoDecayForNorms) {
  const PackedRows rows = two_documents(model().config().vocabulary);
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::muon}) {
    Adapter adapter = random_adapter();
    const std::vector<float> before = parameters(adapter);
    const bool is_sgd = kind == OptimizerKind::sgd;
    Trainer trainer(model(), adapter,
                    {.optimizer = {.kind = kind,
                                   .momentum = is_sgd ? std::optional(0.0) : std::nullopt,
                                   .loraplus_lr_ratio = 3,
                                   .saved_lr_ratio = 0.5},
                     .weight_decay = 0.7});
    (void)trainer.step(std::span(&rows, 1), 0.01);
    (void)trainer.drain();
    const std::vector<float> after = parameters(adapter);
    const std::vector<float> gradient = adapter.context().read<float>(adapter.flat_gradients());
    for (const SavedTensor& tensor : adapter.saved_tensors()) {
      for (std::size_t i = tensor.offset;
           i < tensor.offset + static_cast<std::size_t>(tensor.shape.elements()); ++i) {
        const float slope = gradient[i];
        // AdamW's first step has the length of the rate.
        const float length = is_sgd ? 0.005F * slope : 0.005F * slope / (std::abs(slope) + 1e-8F);
        EXPECT_NEAR(after[i], before[i] - length, 2e-6) << name_of(kind) << ' ' << tensor.name;
      }
    }
  }
}

TEST_P(SomeSavedModules, AreUpToDateForPassesThatWereThereBefore) {
  const PackedRows rows = two_documents(model().config().vocabulary);
  Adapter adapter = random_adapter();
  Evaluator evaluator(model(), &adapter);
  Generator generator(model(), &adapter, 64);
  (void)evaluator.loss_sum(rows);
  (void)generator.logits(ids());
  Trainer trainer(model(), adapter, {});
  (void)trainer.step(std::span(&rows, 1), 0.1);
  (void)trainer.drain();
  EXPECT_EQ(evaluator.loss_sum(rows), Evaluator(model(), &adapter).loss_sum(rows));
  EXPECT_EQ(generator.logits(ids()), Generator(model(), &adapter, 64).logits(ids()));
}

// Two ranks with a micro-batch each give the steps of one rank with both.
TEST_P(SomeSavedModules, AreTrainedBySeveralRanksAsByOne) {
  Records records;
  for (int i = 0; i < 8; ++i) {
    records.records.push_back(document(7 + i, i, model().config().vocabulary));
  }
  const auto train = [&](int count) {
    std::vector<float> values;
    run_thread_ranks(count, [&](Communicator& ranks) {
      Context context(test::context_of(Variant::automatic).config());
      LanguageModel own(context, open_->files);
      Adapter adapter = new_adapter(own);
      TrainingRunConfig config;
      config.batch_size = 2;
      config.grad_accumulation = 2;
      config.steps = 3;
      config.learning_rate = 1e-3;
      config.adapter_out = folder_ / fmt::format("ranks {}", count);
      if (count > 1) config.ranks = &ranks;
      run_training(own, adapter, records, nullptr, config, {}, {});
      if (ranks.rank() == 0) values = parameters(adapter);
    });
    return values;
  };
  test::expect_close(train(2), test::to_double(train(1)), 1e-5, "parameters");
}

TEST_F(OneSavedModel, IsRefusedBeforeItHasValues) {
  Adapter adapter(
      model().context(), adapter_sites(model().config()), {},
      select_saved_tensors(savable_tensors(model().config()), {"embed_tokens"}, "test"));
  adapter.initialise(1);
  EXPECT_THAT(test::error_of([&] { Trainer(model(), adapter, {}); }),
              HasSubstr("full tensor model.embed_tokens.weight contains NaN"));
}

TEST_F(OneSavedModel, IsRefusedWithLowRankMatricesOfTheSameModule) {
  const std::vector<AdapterSite> head{{"lm_head", 24, 67}};
  EXPECT_THAT(test::error_of([&] {
                Adapter(model().context(), head, {.rank = 2}, savable_tensors(model().config()));
              }),
              HasSubstr("'lm_head' cannot be trained in full and have low-rank matrices"));
}

// Of a tied model, PEFT would train one matrix.
TEST_F(OneSavedModel, IsRefusedWithEmbeddingsIfTheirTyingIsEnsured) {
  Adapter adapter(model().context(), select_sites(model().config(), {"q_proj"}, 0),
                  {.rank = 2, .target_modules = {"q_proj"}, .modules_to_save = {"embed_tokens"}},
                  {savable_tensors(model().config()).front()});
  adapter.initialise(1);
  initialise_saved_tensors(model(), adapter);
  save_adapter(adapter, folder_ / "saved");
  (void)loaded(folder_ / "saved");
  json config = test::read_json(folder_ / "saved/adapter_config.json");
  config["ensure_weight_tying"] = true;
  test::write_file(folder_ / "saved/adapter_config.json", config.dump());
  EXPECT_THAT(test::error_of([&] { (void)loaded(folder_ / "saved"); }),
              HasSubstr("ensure_weight_tying is not supported with model.embed_tokens"));
}

TEST_F(OneSavedModel, IsRefusedAsOneOfSeveralAdaptersOfAnEngine) {
  const Adapter adapter = random_adapter();
  Engine engine(model(), {.max_positions = 64, .device_adapters = 1, .max_rank = 8});
  EXPECT_THAT(test::error_of([&] { engine.add_adapter("mine", adapter); }),
              AllOf(HasSubstr("adapter 'mine'"), HasSubstr("modules_to_save: norm"),
                    HasSubstr("clora fuse")));
}

TEST_F(OneSavedModel, SelectsModulesByTheEndsOfTheirPathsAsPeftDoes) {
  const std::vector<SavedTensor> all = savable_tensors(model().config());
  const auto select = [&](const std::vector<std::string>& names) {
    return saved_module_names(select_saved_tensors(all, names, "test"));
  };
  EXPECT_THAT(select({"layernorm"}), ElementsAre("input_layernorm", "post_attention_layernorm"));
  EXPECT_THAT(select({"k_norm", "model.norm"}), ElementsAre("k_norm", "norm"));
  EXPECT_THAT(select({}), testing::IsEmpty());
  EXPECT_EQ(select_saved_tensors(all, {"1.input_layernorm"}, "test").size(), 1U);
  EXPECT_EQ(select_saved_tensors(all, {"self_attn.q_proj"}, "test").size(),
            static_cast<std::size_t>(model().config().layers));
  for (const std::string name : {"mlp", "experts", ""}) {
    EXPECT_THAT(test::error_of([&] {
                  (void)select({"norm", name});
                }),
                AllOf(HasSubstr("test: modules_to_save has '" + name + "'"),
                      HasSubstr("those are embed_tokens, input_layernorm, q_proj, k_proj, v_proj, "
                                "q_norm, k_norm, o_proj, post_attention_layernorm, gate_proj, "
                                "up_proj, down_proj, norm, lm_head")));
  }
}

TEST_F(OneSavedModel, IsNotLoadedFromAFileThatDoesNotFit) {
  const std::filesystem::path folder = folder_ / "saved";
  const Adapter adapter = random_adapter();
  const auto message = [&] { return test::error_of([&] { (void)loaded(folder); }); };
  const auto rewrite = [&](auto change) {
    save_adapter(adapter, folder);
    const std::filesystem::path path = folder / "adapter_model.safetensors";
    const SafetensorsFile file = SafetensorsFile::open(path);
    std::vector<StoredTensor> tensors;
    for (const std::string& name : file.names()) {
      StoredTensor tensor = *file.find(name);
      if (change(tensor)) tensors.push_back(tensor);
    }
    write_safetensors(folder / "other", tensors, {{"format", "pt"}});
    std::filesystem::rename(folder / "other", path);
  };
  const auto is_final = [](const StoredTensor& tensor) {
    return tensor.name == "base_model.model.model.norm.weight";
  };
  rewrite([&](StoredTensor& tensor) { return !is_final(tensor); });
  EXPECT_THAT(message(), HasSubstr("'base_model.model.model.norm.weight' is missing"));
  rewrite([&](StoredTensor& tensor) {
    if (is_final(tensor)) tensor.shape = {2, tensor.shape[0] / 2};
    return true;
  });
  EXPECT_THAT(message(), HasSubstr("'base_model.model.model.norm.weight' must be [24] to fit"));
  save_adapter(adapter, folder);
  json config = test::read_json(folder / "adapter_config.json");
  config["modules_to_save"] = {"k_norm"};
  test::write_file(folder / "adapter_config.json", config.dump());
  EXPECT_THAT(message(), AllOf(HasSubstr("norm.weight' is not supported"),
                               HasSubstr("modules that its modules_to_save selects")));
  config["modules_to_save"] = {"score"};
  test::write_file(folder / "adapter_config.json", config.dump());
  EXPECT_THAT(message(), HasSubstr("adapter_config.json: modules_to_save has 'score'"));
  config["modules_to_save"] = {"lm_head"};
  test::write_file(folder / "adapter_config.json", config.dump());
  EXPECT_THAT(message(), HasSubstr("'base_model.model.lm_head.weight' is missing"));
  config["modules_to_save"] = "norm";
  test::write_file(folder / "adapter_config.json", config.dump());
  EXPECT_THAT(message(), HasSubstr("modules_to_save"));
}

// The norms and linear layers of an encoder have biases; the norm of its embeddings is the lowest
// module.
class SavedModulesOfAnEncoder : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(With, SavedModulesOfAnEncoder, testing::Bool(), [](const auto& test) {
  return test.param ? "OnlyBiases" : "WholeModules";
});

TEST_P(SavedModulesOfAnEncoder, HaveTheDerivativesOfTheLoss) {
  const bool only_biases = GetParam();
  for (const test::FamilyModel& encoder : test::encoder_models()) {
    if (encoder.name == "bert_tanh") continue;
    test::TemporaryFolder folder;
    test::write_family_model(folder / "model", encoder);
    test::OpenModel open(folder / "model");
    const std::vector<AdapterSite> sites = adapter_sites(open.model.config());
    std::vector<SavedTensor> saved = savable_without(open.model.config(), sites.back().path);
    ASSERT_TRUE(saved.front().name.starts_with("embeddings.LayerNorm")) << saved.front().name;
    if (only_biases) {
      const AdapterConfig all{.biases = TrainedBiases::all};
      saved = select_trained_tensors(savable_tensors(open.model.config()), all, {}, "test");
    }
    Adapter adapter(open.model.context(), {sites.back()}, {.rank = 2}, saved);
    adapter.initialise(3);
    initialise_saved_tensors(open.model, adapter);
    move_parameters(adapter);
    Records records;
    for (const json& texts : encoder.reference.at("contrastive").at(1).at("records")) {
      Record record;
      for (const auto& text : texts.get<std::vector<std::vector<std::int32_t>>>()) {
        const std::size_t begin = record.ids.size();
        record.ids.insert(record.ids.end(), text.begin(), text.end());
        record.is_target.resize(record.ids.size(), 0);
        record.is_target[begin] = 1;
      }
      records.records.push_back(std::move(record));
    }
    std::vector<std::size_t> indices(records.records.size());
    std::iota(indices.begin(), indices.end(), 0);
    const ContrastiveLoss task{.pooling = Pooling::mean, .scale = 3};
    const PackedRows rows =
        pack_text_pairs(records, indices, text_packing(open.model.config(), Pooling::mean));
    for (const std::int64_t blocks : {0, 1}) {
      const std::vector<float> before = open.model.context().read<float>(adapter.parameters());
      Trainer trainer(open.model, adapter,
                      {.contrastive = task, .policy = {.blocks_per_checkpoint = blocks}});
      (void)trainer.step(std::span(&rows, 1), 0);
      (void)trainer.drain();
      open.model.context().write(adapter.parameters(), std::as_bytes(std::span(before)));
      const auto gradient = open.model.context().read<float>(adapter.flat_gradients());
      Evaluator evaluator(open.model, &adapter, nullptr, task);
      expect_derivatives(
          adapter, gradient, [&] { return evaluator.loss_sum(rows) / rows.target_count; }, 0x1p-7F);
    }
  }
}

}  // namespace
}  // namespace clora

// Adapters of the C interface: their values in and out, what they train, and merged models.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "clora/lora/safetensors.hpp"
#include "tests/support/c_api_model.hpp"

namespace clora {
namespace {

using test::expect_error;
using test::expect_ok;

class CApiAdapter : public test::CApiModel {
 protected:
  static std::vector<clora_adapter_tensor> tensors_of(const clora_adapter* adapter) {
    std::size_t count = 0;
    expect_ok(clora_adapter_tensor_count(adapter, &count));
    std::vector<clora_adapter_tensor> tensors(count, clora_adapter_tensor_init());
    for (std::size_t i = 0; i < count; ++i) {
      expect_ok(clora_adapter_get_tensor(adapter, i, &tensors[i]));
    }
    return tensors;
  }
  static std::vector<float> read(const clora_adapter* adapter, std::size_t index,
                                 std::int64_t elements) {
    std::vector<float> values(static_cast<std::size_t>(elements));
    expect_ok(clora_adapter_read_tensor(adapter, index, values.data(), values.size()));
    return values;
  }
  static std::size_t index_of(const clora_adapter* adapter, const std::string& name) {
    const auto tensors = tensors_of(adapter);
    const auto found =
        std::ranges::find_if(tensors, [&](const auto& tensor) { return name == tensor.name; });
    EXPECT_NE(found, tensors.end()) << name;
    return static_cast<std::size_t>(found - tensors.begin());
  }
  // Loads the model in the folder and returns its logits.
  std::vector<float> logits_of_folder(const std::string& folder) {
    clora_model_release(model_);
    clora_session_release(session_);
    model_ = nullptr;
    session_ = nullptr;
    expect_ok(clora_model_load(context_, folder.c_str(), nullptr, &model_));
    expect_ok(clora_session_create(model_, nullptr, &session_));
    return logits();
  }
};

// The name in PEFT's file.
std::string peft_name(const std::string& name) {
  const bool is_matrix = name.ends_with(".lora_A") || name.ends_with(".lora_B");
  return "base_model.model." + name + (is_matrix ? ".weight" : "");
}

TEST_F(CApiAdapter, TensorsAreThoseOfItsFile) {
  clora_adapter_options options = clora_adapter_options_init();
  options.rank = 4;
  options.use_dora = 1;
  options.target_modules = "q_proj,down_proj";
  options.modules_to_save = "norm";
  clora_adapter* const adapter = new_adapter(options);
  clora_trainer* trainer = nullptr;
  expect_ok(clora_trainer_create(adapter, nullptr, &trainer));
  const clora_train_batch batch = batch_of(first_);
  for (int i = 0; i < 3; ++i) expect_ok(clora_trainer_step(trainer, &batch, 0.05, nullptr));
  clora_trainer_release(trainer);
  expect_ok(clora_adapter_save(adapter, at("adapter").c_str()));

  const SafetensorsFile file = SafetensorsFile::open(at("adapter") + "/adapter_model.safetensors");
  const auto tensors = tensors_of(adapter);
  EXPECT_EQ(tensors.size(), file.names().size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto stored = file.find(peft_name(tensors[i].name));
    ASSERT_TRUE(stored.has_value()) << tensors[i].name;
    const Shape& shape = stored->shape;
    ASSERT_EQ(tensors[i].dimensions, static_cast<std::int32_t>(shape.rank())) << tensors[i].name;
    for (int d = 0; d < tensors[i].dimensions; ++d) EXPECT_EQ(tensors[i].shape[d], shape[d]);
    ASSERT_EQ(tensors[i].elements, shape.elements());
    const std::vector<float> values = read(adapter, i, tensors[i].elements);
    EXPECT_EQ(std::memcmp(values.data(), stored->bytes.data(), stored->bytes.size()), 0)
        << tensors[i].name;
    const bool is_matrix = std::string(tensors[i].name).find(".lora_") != std::string::npos &&
                           tensors[i].dimensions == 2;
    EXPECT_EQ(tensors[i].scale, is_matrix ? 4.0 : 0.0) << tensors[i].name;  // alpha 16 / rank 4
  }
}

TEST_F(CApiAdapter, ValuesThatAreWrittenAreUsedAndRead) {
  clora_adapter* const trained = trained_adapter();
  clora_adapter* const copy = new_adapter();
  const auto tensors = tensors_of(trained);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::vector<float> values = read(trained, i, tensors[i].elements);
    expect_ok(clora_adapter_write_tensor(copy, i, values.data(), values.size()));
    EXPECT_EQ(read(copy, i, tensors[i].elements), values);
  }
  expect_ok(clora_session_attach(session_, trained));
  const std::vector<float> want = logits();
  expect_ok(clora_session_attach(session_, copy));
  EXPECT_EQ(logits(), want);
  const std::size_t b = index_of(copy, "model.layers.1.self_attn.v_proj.lora_B");
  const std::vector<float> zeros(static_cast<std::size_t>(tensors[b].elements));
  expect_ok(clora_adapter_write_tensor(copy, b, zeros.data(), zeros.size()));
  EXPECT_NE(logits(), want) << "the session uses the values at once";
}

TEST_F(CApiAdapter, IsWhatATextOfPeftsConfigurationDescribes) {
  clora_adapter_options options = clora_adapter_options_init();
  options.peft_config = R"json({"peft_type": "LORA", "r": 4, "lora_alpha": 8,
      "target_modules": ".*\\.(q_proj|v_proj)", "rank_pattern": {"layers.1.*.v_proj": 2},
      "alpha_pattern": {"q_proj": 4}})json";
  std::map<std::string, clora_adapter_tensor> found;
  const auto read_tensors = [&] {
    found.clear();
    for (const auto& tensor : tensors_of(new_adapter(options))) found[tensor.name] = tensor;
  };
  read_tensors();
  const std::string layer = "model.layers.1.self_attn.";
  EXPECT_EQ(found.at(layer + "q_proj.lora_A").shape[0], 4);
  EXPECT_EQ(found.at(layer + "v_proj.lora_A").shape[0], 2);
  EXPECT_EQ(found.at("model.layers.0.self_attn.v_proj.lora_A").shape[0], 4);
  EXPECT_EQ(found.at(layer + "q_proj.lora_B").scale, 1.0);
  EXPECT_EQ(found.at(layer + "v_proj.lora_B").scale, 4.0);
  EXPECT_FALSE(found.contains(layer + "k_proj.lora_A"));
  options.target_modules = "all-linear";
  read_tensors();
  EXPECT_TRUE(found.contains("model.layers.0.mlp.down_proj.lora_A"));
}

TEST_F(CApiAdapter, RefusesAConfigurationThatItCannotFollow) {
  clora_adapter* adapter = nullptr;
  clora_adapter_options options = clora_adapter_options_init();
  const auto refuse = [&](const char* config, clora_status status, const std::string& reason) {
    options.peft_config = config;
    expect_error(clora_adapter_create(model_, &options, &adapter), status, reason);
  };
  refuse(R"({"peft_type": "LORA", "r": 0})", CLORA_INVALID_FILE,
         "clora_adapter_create: peft_config: r must be");
  refuse(R"({"peft_type": "LORA", "r": 4, "target_modules": ["q_prj"]})", CLORA_INVALID_ARGUMENT,
         "target_modules must name layers of the model");
  refuse(R"({"peft_type": "LORA", "r": 4, "target_modules": "nothing"})", CLORA_INVALID_ARGUMENT,
         "must select at least one layer");
  options.init = "pissa";
  refuse(R"({"peft_type": "LORA", "r": 4, "rank_pattern": {"q_proj": 2}})", CLORA_INVALID_ARGUMENT,
         "take neither rank_pattern nor alpha_pattern");
}

TEST_F(CApiAdapter, RefusesTensorsThatDoNotFit) {
  clora_adapter* const adapter = new_adapter();
  const auto tensors = tensors_of(adapter);
  std::vector<float> values(static_cast<std::size_t>(tensors[0].elements), 1);
  clora_adapter_tensor info = clora_adapter_tensor_init();
  const std::string of_count = "the index must be in [0, " + std::to_string(tensors.size()) + ")";
  expect_error(clora_adapter_get_tensor(adapter, tensors.size(), &info), CLORA_INVALID_ARGUMENT,
               of_count);
  expect_error(clora_adapter_read_tensor(adapter, 99, values.data(), values.size()),
               CLORA_INVALID_ARGUMENT, of_count);
  expect_error(clora_adapter_read_tensor(adapter, 0, values.data(), values.size() - 1),
               CLORA_INVALID_ARGUMENT, "the array must have space for");
  expect_error(clora_adapter_read_tensor(adapter, 0, nullptr, 0), CLORA_INVALID_ARGUMENT,
               "values must not be NULL");
  expect_error(clora_adapter_write_tensor(adapter, 0, values.data(), values.size() - 1),
               CLORA_INVALID_ARGUMENT, tensors[0].name);
  values[3] = INFINITY;
  const std::vector<float> before = values_of(adapter);
  expect_error(clora_adapter_write_tensor(adapter, 0, values.data(), values.size()),
               CLORA_INVALID_DATA, "must be finite, got infinity at element 3");
  EXPECT_EQ(values_of(adapter), before);
  info.size = 0;
  expect_error(clora_adapter_get_tensor(adapter, 0, &info), CLORA_INVALID_ARGUMENT, "size must");
  expect_error(clora_adapter_tensor_count(nullptr, nullptr), CLORA_INVALID_ARGUMENT, "must not");
}

TEST_F(CApiAdapter, ANewAdapterOfAnyKindChangesNoLogits) {
  const std::vector<float> base = logits();
  const auto expect_same = [&](auto set) {
    clora_adapter_options options = clora_adapter_options_init();
    set(options);
    expect_ok(clora_session_attach(session_, new_adapter(options)));
    const std::vector<float> got = logits();
    for (std::size_t i = 0; i < base.size(); ++i) ASSERT_NEAR(got[i], base[i], 1e-5F);
  };
  expect_same([](auto& o) { o.use_dora = 1; });
  expect_same([](auto& o) { o.modules_to_save = "norm,lm_head"; });
  expect_same([](auto& o) { o.rank_stabilised = 1; });
}

TEST_F(CApiAdapter, RefusesModulesAndBiasesThatThereAreNot) {
  clora_adapter* adapter = nullptr;
  const auto refused = [&](auto set, const std::string& part) {
    clora_adapter_options options = clora_adapter_options_init();
    set(options);
    expect_error(clora_adapter_create(model_, &options, &adapter), CLORA_INVALID_ARGUMENT, part);
    EXPECT_EQ(adapter, nullptr);
  };
  refused([](auto& o) { o.modules_to_save = "nothing"; }, "nothing");
  refused([](auto& o) { o.bias = "some"; }, "bias must be none, all, lora_only, got 'some'");
  refused([](auto& o) { o.init = "svd"; }, "init must be lora, pissa or olora, got 'svd'");
  refused([](auto& o) { o.bias = "all"; }, "the model has no biases");
  refused([](auto& o) { o.bias = "lora_only"; }, "the adapted layers have no biases");
}

// ---- Merged models

TEST_F(CApiAdapter, AMergedModelComputesWhatTheModelWithTheAdapterDoes) {
  clora_adapter* const adapter = trained_adapter();
  expect_ok(clora_session_attach(session_, adapter));
  const std::vector<float> want = logits();
  expect_ok(clora_fuse(adapter, at("merged").c_str(), nullptr));
  clora_tokenizer* tokenizer = nullptr;
  expect_ok(clora_tokenizer_load(at("merged").c_str(), &tokenizer));
  clora_tokenizer_release(tokenizer);
  const std::vector<float> got = logits_of_folder(at("merged"));
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-3F);
}

TEST_F(CApiAdapter, AMergedModelIsWrittenInOtherTypesAndAsGguf) {
  clora_adapter* const adapter = trained_adapter();
  expect_ok(clora_session_attach(session_, adapter));
  const std::vector<float> want = logits();
  clora_fuse_options options = clora_fuse_options_init();
  options.type = "bf16";
  expect_ok(clora_fuse(adapter, at("half").c_str(), &options));
  options.format = "gguf";
  options.type = "f32";
  expect_ok(clora_fuse(adapter, at("merged.gguf").c_str(), &options));
  expect_error(clora_fuse(adapter, at("merged.gguf").c_str(), &options), CLORA_IO, "exists");
  const std::vector<float> same = logits_of_folder(at("merged.gguf"));
  ASSERT_EQ(same.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(same[i], want[i], 1e-3F);
  const std::vector<float> rounded = logits_of_folder(at("half"));
  EXPECT_NE(rounded, same);
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(rounded[i], want[i], 0.3F);
}

// ---- Files

TEST_F(CApiAdapter, IsSavedAndLoadedInEveryFormat) {
  clora_adapter* const adapter = trained_adapter();
  expect_ok(clora_session_attach(session_, adapter));
  const std::vector<float> want = logits();
  for (const std::string format : {"peft", "mlx", "gguf"}) {
    const std::string path = at(format == "gguf" ? "adapter.gguf" : format.c_str());
    expect_ok(clora_adapter_save_as(adapter, path.c_str(), format.c_str()));
    clora_adapter* loaded = nullptr;
    expect_ok(clora_adapter_load(model_, path.c_str(), &loaded));
    adapters_.push_back(loaded);
    expect_ok(clora_session_attach(session_, loaded));
    const std::vector<float> got = logits();
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], 1e-4F) << format;
    }
  }
  expect_error(clora_adapter_save_as(adapter, at("x").c_str(), "zip"), CLORA_INVALID_ARGUMENT,
               "'zip'");
  clora_adapter_options dora = clora_adapter_options_init();
  dora.use_dora = 1;
  expect_error(clora_adapter_save_as(new_adapter(dora), at("x.gguf").c_str(), "gguf"),
               CLORA_UNSUPPORTED, "DoRA");
}

TEST_F(CApiAdapter, AMergedModelReplacesNothing) {
  clora_adapter* const adapter = new_adapter();
  expect_error(clora_fuse(adapter, path().c_str(), nullptr), CLORA_IO,
               "exists and is not an empty folder");
  clora_fuse_options options = clora_fuse_options_init();
  options.type = "q5_k";
  expect_error(clora_fuse(adapter, at("merged").c_str(), &options), CLORA_UNSUPPORTED, "'q5_k'");
  options.type = "f32";
  options.format = "pickle";
  expect_error(clora_fuse(adapter, at("merged").c_str(), &options), CLORA_UNSUPPORTED, "'pickle'");
  options.format = "safetensors";
  options.progress = [](void*) { return std::int32_t{1}; };
  expect_error(clora_fuse(adapter, at("merged").c_str(), &options), CLORA_CANCELLED, "");
  EXPECT_FALSE(std::filesystem::exists(at("merged")));
  expect_error(clora_fuse(adapter, nullptr, nullptr), CLORA_INVALID_ARGUMENT, "path must not");
}

}  // namespace
}  // namespace clora

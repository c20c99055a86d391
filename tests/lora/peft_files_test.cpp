#include "clora/lora/peft_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "clora/lora/safetensors.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using test::context_of;
using test::error_of;
using test::TemporaryFolder;
using testing::HasSubstr;

const std::vector<AdapterSite> kSites{{"model.layers.0.self_attn.q_proj", 24, 40},
                                      {"model.layers.0.mlp.down_proj", 56, 24}};

Context& context() { return context_of(Variant::portable); }

Adapter random_adapter(std::int64_t rank = 4) {
  Adapter adapter(context(), kSites,
                  {.rank = rank, .alpha = 6, .target_modules = {"q_proj", "down_proj"}});
  adapter.initialise(5);
  // b is initially zero. Random values give the files something to store.
  for (const AdapterModule& module : adapter.modules()) {
    const Tensor bt = adapter.weights(module.site.path).bt;
    const std::vector<float> values =
        test::random_values(static_cast<std::size_t>(bt.elements()), 7);
    context().write(bt, std::as_bytes(std::span(values)));
  }
  return adapter;
}

std::vector<float> values_of(const Tensor& tensor) { return context().read<float>(tensor); }

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

TEST(PeftFiles, ReadBackGiveTheSameBits) {
  const TemporaryFolder folder;
  const Adapter saved = random_adapter();
  save_adapter(saved, folder / "adapter");
  const Adapter loaded = load_adapter(context(), folder / "adapter", kSites);
  EXPECT_EQ(values_of(loaded.parameters()), values_of(saved.parameters()));
  EXPECT_EQ(loaded.modules().front().scale, 1.5F);
}

TEST(PeftFiles, HoldMatricesUnderPeftsNamesAndShapes) {
  const TemporaryFolder folder;
  const Adapter adapter = random_adapter();
  save_adapter(adapter, folder.path());
  const SafetensorsFile file = SafetensorsFile::open(folder / "adapter_model.safetensors");
  const auto b = file.find("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight");
  ASSERT_TRUE(b.has_value());
  EXPECT_EQ(b->shape, (Shape{40, 4}));
  const auto a = file.find("base_model.model.model.layers.0.mlp.down_proj.lora_A.weight");
  ASSERT_TRUE(a.has_value());
  EXPECT_EQ(a->shape, (Shape{4, 56}));
  // b[n, r] in the file is bt[r, n] on the device.
  const std::vector<float> bt = values_of(adapter.weights(kSites[0].path).bt);
  float first_of_second_row = 0;
  std::memcpy(&first_of_second_row, b->bytes.data() + 4 * sizeof(float), sizeof(float));
  EXPECT_EQ(first_of_second_row, bt[1]);
}

TEST(PeftFiles, OfAnotherModelNameTheTensorAndBothShapes) {
  const TemporaryFolder folder;
  save_adapter(random_adapter(), folder.path());
  std::vector<AdapterSite> other = kSites;
  other[0].outputs = 48;
  const std::string shapes = error_of([&] { (void)load_adapter(context(), folder.path(), other); });
  EXPECT_THAT(shapes, HasSubstr("q_proj.lora_B.weight"));
  EXPECT_THAT(shapes, HasSubstr("[48, 4]"));
  EXPECT_THAT(shapes, HasSubstr("[40, 4]"));
  const std::string missing =
      error_of([&] { (void)load_adapter(context(), folder.path(), {kSites[0]}); });
  EXPECT_THAT(missing, HasSubstr("down_proj"));
  EXPECT_THAT(missing, HasSubstr("another model"));
}

TEST(PeftFiles, HonourRankAndAlphaPatterns) {
  const TemporaryFolder folder;
  save_adapter(random_adapter(2), folder.path());
  write_text(
      folder / "adapter_config.json",
      R"({"peft_type":"LORA","r":8,"lora_alpha":16,"rank_pattern":{"q_proj":2,"down_proj":2},)"
      R"("alpha_pattern":{"model.layers.0.mlp.down_proj":3},"use_rslora":false,)"
      R"("target_modules":["q_proj","down_proj"]})");
  const Adapter loaded = load_adapter(context(), folder.path(), kSites);
  EXPECT_EQ(loaded.modules()[0].scale, 8.0F);
  EXPECT_EQ(loaded.modules()[1].scale, 1.5F);
}

// The configuration with PEFT's keys, with the tensors of an adapter of rank 2 on both sites.
class PeftFolder : public testing::Test {
 protected:
  PeftFolder() { save_adapter(random_adapter(2), folder_.path()); }

  Adapter load(const std::string& keys) {
    write_text(folder_ / "adapter_config.json",
               R"({"peft_type":"LORA","r":2,"lora_alpha":3,)" + keys + "}");
    return load_adapter(context(), folder_.path(), kSites);
  }
  nlohmann::json saved(const Adapter& adapter) {
    save_adapter(adapter, folder_ / "again");
    return nlohmann::json::parse(test::read_file(folder_ / "again/adapter_config.json"));
  }
  // Loads, saves and loads again. Modules, ranks, scales and values must be unchanged.
  void expect_the_same_again(const std::string& keys) {
    const Adapter first = load(keys);
    save_adapter(first, folder_ / "again");
    const Adapter second = load_adapter(context(), folder_ / "again", kSites);
    ASSERT_EQ(second.modules().size(), first.modules().size()) << keys;
    for (std::size_t i = 0; i < first.modules().size(); ++i) {
      EXPECT_EQ(second.modules()[i].site.path, first.modules()[i].site.path) << keys;
      EXPECT_EQ(second.modules()[i].rank, first.modules()[i].rank) << keys;
      EXPECT_EQ(second.modules()[i].scale, first.modules()[i].scale) << keys;
    }
    EXPECT_EQ(values_of(second.parameters()), values_of(first.parameters())) << keys;
  }

  TemporaryFolder folder_;
};

constexpr const char* kBoth = R"("target_modules":["q_proj","down_proj"])";

TEST_F(PeftFolder, IsTheSameAfterLoadingAndSaving) {
  const std::string both = kBoth;
  for (const std::string& keys :
       {both, both + R"(,"use_rslora":true)", both + R"(,"rank_pattern":{"q_proj":2,"x":7})",
        both + R"(,"alpha_pattern":{".*mlp.*":5,"q_proj":7.5})",
        both + R"(,"alpha_pattern":{"^model\\.layers\\.0\\.mlp\\.down_proj":5},"use_rslora":true)",
        both + R"(,"layers_to_transform":[0,5],"layers_pattern":"layers")",
        both + R"(,"layers_to_transform":0)", both + R"(,"exclude_modules":["v_proj"])",
        std::string(R"("target_modules":".*_proj","exclude_modules":".*v_proj")"),
        std::string(R"("target_modules":"all-linear")")})
    expect_the_same_again(keys);
}

TEST_F(PeftFolder, KeepsWhatSelectsItsModules) {
  const nlohmann::json list =
      saved(load(std::string(kBoth) + R"(,"layers_to_transform":[0],"layers_pattern":["layers"],)"
                                      R"("exclude_modules":["v_proj"],"use_rslora":true)"));
  EXPECT_EQ(list["target_modules"], (nlohmann::json{"q_proj", "down_proj"}));
  EXPECT_EQ(list["layers_to_transform"], nlohmann::json{0});
  EXPECT_EQ(list["layers_pattern"], nlohmann::json{"layers"});
  EXPECT_EQ(list["exclude_modules"], nlohmann::json{"v_proj"});
  EXPECT_EQ(list["use_rslora"], true);
  EXPECT_EQ(list["lora_alpha"].dump(), "3");
  const nlohmann::json regex = saved(load(
      R"("target_modules":".*(q|down)_proj","exclude_modules":".*k_proj","alpha_pattern":{"q_proj":9})"));
  EXPECT_EQ(regex["target_modules"], ".*(q|down)_proj");
  EXPECT_EQ(regex["exclude_modules"], ".*k_proj");
  EXPECT_EQ(regex["alpha_pattern"], (nlohmann::json{{"q_proj", 9}}));
  EXPECT_EQ(regex["layers_to_transform"], nullptr);
}

TEST_F(PeftFolder, TriesPatternsInTheOrderOfTheFile) {
  const auto scale = [&](const char* patterns) {
    return load(std::string(kBoth) + R"(,"alpha_pattern":)" + patterns).modules()[0].scale;
  };
  EXPECT_EQ(scale(R"({"q_proj":8,".*":4})"), 4.0F);
  EXPECT_EQ(scale(R"({".*":4,"q_proj":8})"), 2.0F);
}

TEST(PeftFiles, WriteModulesOfTheirOwnRankAndScaleAsPatterns) {
  const TemporaryFolder folder;
  const Adapter adapter(
      context(),
      {{kSites[0], 2, 0.3F, 0, 0}, {kSites[1], 5, static_cast<float>(16 / std::sqrt(5)), 0, 0}},
      {.rank = 2, .rank_stabilised = true});
  save_adapter(adapter, folder.path());
  const Adapter loaded = load_adapter(context(), folder.path(), kSites);
  EXPECT_EQ(loaded.modules()[0].rank, 2);
  EXPECT_EQ(loaded.modules()[0].scale, 0.3F);
  EXPECT_EQ(loaded.modules()[1].rank, 5);
  EXPECT_EQ(loaded.modules()[1].scale, adapter.modules()[1].scale);
  const AdapterConfig config = read_adapter_config(folder.path());
  EXPECT_EQ(config.rank_pattern.size(), 1U);
  EXPECT_EQ(config.alpha_pattern.size(), 1U);
  EXPECT_EQ(config.target_modules, (std::vector<std::string>{kSites[0].path, kSites[1].path}));
}

TEST(PeftFiles, NameTheBlocksOfAnAdapterOfTheLastOnes) {
  const std::vector<AdapterSite> last{{"model.layers.2.self_attn.q_proj", 8, 8},
                                      {"model.layers.2.mlp.up_proj", 8, 8},
                                      {"model.layers.3.self_attn.q_proj", 8, 8},
                                      {"model.layers.3.mlp.up_proj", 8, 8}};
  std::vector<AdapterSite> all = last;
  all.push_back({"model.layers.0.self_attn.q_proj", 8, 8});
  const TemporaryFolder folder;
  save_adapter(Adapter(context(), last, {.target_modules = {"q_proj", "up_proj"}}), folder.path());
  EXPECT_EQ(load_adapter(context(), folder.path(), all).modules().size(), 4U);
  const AdapterConfig config = read_adapter_config(folder.path());
  EXPECT_EQ(config.target_modules, (std::vector<std::string>{"q_proj", "up_proj"}));
  EXPECT_EQ(config.layers_to_transform, (std::vector<std::int64_t>{2, 3}));
}

TEST_F(PeftFolder, MustHoldWhatItsTargetModulesSelect) {
  EXPECT_THAT(error_of([&] { load(R"("target_modules":["q_proj"])"); }),
              HasSubstr("target_modules does not select model.layers.0.mlp.down_proj, but "
                        "adapter_model.safetensors has matrices for it"));
  const auto with_more_sites = [&] {
    load(kBoth);
    std::vector<AdapterSite> sites = kSites;
    sites.push_back({"model.layers.1.self_attn.q_proj", 24, 40});
    (void)load_adapter(context(), folder_.path(), sites);
  };
  EXPECT_THAT(error_of(with_more_sites),
              HasSubstr("target_modules selects model.layers.1.self_attn.q_proj, but "
                        "adapter_model.safetensors has no matrices for it"));
  EXPECT_THAT(error_of([&] { load(R"("target_modules":["q_proj","down_proj","lm_head"])"); }),
              HasSubstr("target_modules selects lm_head"));
  EXPECT_THAT(error_of([&] { load(R"("target_modules":[])"); }), HasSubstr("lists no module"));
  // PEFT's default for these architectures is q_proj and v_proj.
  EXPECT_THAT(error_of([&] { load(R"("target_modules":null)"); }),
              HasSubstr("does not select model.layers.0.mlp.down_proj"));
}

TEST_F(PeftFolder, NamesAnImpossibleRankBeforeItTakesMemory) {
  EXPECT_THAT(
      error_of([&] { load(std::string(kBoth) + R"(,"rank_pattern":{"q_proj":1000000000000})"); }),
      HasSubstr("rank_pattern.q_proj must be from 1 to 65536, got 1000000000000"));
  EXPECT_THAT(error_of([&] { load(std::string(kBoth) + R"(,"rank_pattern":{"q_proj":0})"); }),
              HasSubstr("rank_pattern.q_proj must be from 1"));
  EXPECT_THAT(error_of([&] { load(std::string(kBoth) + R"(,"rank_pattern":{"q_proj":60000})"); }),
              HasSubstr("must be [60000, 24] to fit the base model and the rank in "
                        "adapter_config.json, got [2, 24]"));
}

TEST_F(PeftFolder, NamesATensorThatHoldsNotANumber) {
  const Adapter adapter = load(kBoth);
  std::vector<float> values = values_of(adapter.weights(kSites[1].path).bt);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  context().write(adapter.weights(kSites[1].path).bt, std::as_bytes(std::span(values)));
  save_adapter(adapter, folder_.path());
  const std::string message =
      error_of([&] { (void)load_adapter(context(), folder_.path(), kSites); });
  EXPECT_THAT(message, HasSubstr("down_proj.lora_B.weight' contains nan at element 6"));
}

// Keys with which PEFT's LoraConfig enables a feature, and unknown keys.
TEST_F(PeftFolder, RefusesEveryKeyThatChangesTheProductByName) {
  for (const char* key : {R"("peft_type":"IA3")",
                          R"("task_type":"SEQ_CLS")",
                          R"("bias":"boft_only")",
                          R"("fan_in_fan_out":true)",
                          R"("init_lora_weights":"pissa")",
                          R"("init_lora_weights":"pissa_niter_4")",
                          R"("init_lora_weights":"olora")",
                          R"("init_lora_weights":"corda")",
                          R"("init_lora_weights":"lora_ga")",
                          R"("init_lora_weights":"loftq")",
                          R"("init_lora_weights":"mica")",
                          R"("alora_invocation_tokens":[1,2])",
                          R"("layer_replication":[[0,1]])",
                          R"("trainable_token_indices":[3])",
                          R"("use_qalora":true)",
                          R"("lora_bias":true)",
                          R"("target_parameters":["w"])",
                          R"("megatron_config":{"a":1})",
                          R"("arrow_config":{"top_k":3})",
                          R"("use_bdlora":{"nblocks":2})",
                          R"("kasa_config":{"beta":1})",
                          R"("monteclora_config":{"num_samples":2})",
                          R"("some_new_method":true)",
                          R"("some_new_scale":2.0)"}) {
    const std::string name = std::string(key).substr(1, std::string(key).find('"', 1) - 1);
    EXPECT_THAT(error_of([&] { load(std::string(kBoth) + "," + key); }),
                testing::AllOf(HasSubstr("adapter_config.json: " + name + " = "),
                               HasSubstr("is not supported")))
        << key;
  }
}

// Files of DoRA.
class DoraFiles : public testing::Test {
 protected:
  DoraFiles() {
    const Adapter adapter(context(), kSites,
                          {.rank = 2, .target_modules = {"q_proj", "down_proj"}, .use_dora = true});
    const auto values =
        test::random_values(static_cast<std::size_t>(adapter.parameters().elements()), 3);
    context().write(adapter.parameters(), std::as_bytes(std::span(values)));
    saved_ = values_of(adapter.magnitude(kSites[1].path));
    save_adapter(adapter, folder_.path());
  }
  // Replaces the tensor of one magnitude, or removes it.
  void replace(const std::string& name, std::optional<StoredTensor> by) {
    const std::filesystem::path path = folder_ / "adapter_model.safetensors";
    std::map<std::string, std::vector<std::byte>> bytes;
    std::vector<StoredTensor> tensors;
    {
      const SafetensorsFile file = SafetensorsFile::open(path);
      for (const std::string& each : file.names()) {
        StoredTensor tensor = file.find(each).value();
        bytes[each].assign(tensor.bytes.begin(), tensor.bytes.end());
        tensor.bytes = bytes[each];
        if (each != name) tensors.push_back(tensor);
        if (each == name && by) tensors.push_back(*by);
      }
    }
    write_safetensors(path, tensors, {{"format", "pt"}});
  }
  std::string error() {
    return error_of([&] { (void)load_adapter(context(), folder_.path(), kSites); });
  }

  TemporaryFolder folder_;
  std::vector<float> saved_;
};
const std::string kMagnitude =
    "base_model.model.model.layers.0.mlp.down_proj.lora_magnitude_vector";

TEST_F(DoraFiles, HoldMagnitudesUnderPeftsNameAndReadThemBack) {
  const SafetensorsFile file = SafetensorsFile::open(folder_ / "adapter_model.safetensors");
  ASSERT_TRUE(file.find(kMagnitude).has_value());
  EXPECT_EQ(file.find(kMagnitude)->shape, (Shape{24}));
  const auto config = nlohmann::json::parse(test::read_file(folder_ / "adapter_config.json"));
  EXPECT_EQ(config.at("use_dora"), true);
  const Adapter loaded = load_adapter(context(), folder_.path(), kSites);
  EXPECT_TRUE(loaded.config().use_dora);
  EXPECT_EQ(values_of(loaded.magnitude(kSites[1].path)), saved_);
}

TEST_F(DoraFiles, AreRefusedWithoutAMagnitudeOrWithOneOfAnotherShape) {
  const std::vector<float> values(25, std::numeric_limits<float>::quiet_NaN());
  const auto of = [&](Shape shape) {
    return StoredTensor{
        kMagnitude, DType::f32, shape,
        std::as_bytes(std::span(values)).first(4 * static_cast<std::size_t>(shape.elements()))};
  };
  replace(kMagnitude, of({25}));
  EXPECT_THAT(error(), HasSubstr(kMagnitude + "' must be [24] to fit the base model, got [25]"));
  replace(kMagnitude, of({24, 1}));
  EXPECT_THAT(error(), HasSubstr(kMagnitude + "' must be [24] to fit the base model, got [24, 1]"));
  replace(kMagnitude, of({24}));
  EXPECT_THAT(error(), HasSubstr(kMagnitude + "' contains nan at element 0"));
  replace(kMagnitude, std::nullopt);
  EXPECT_THAT(error(), HasSubstr(kMagnitude + "' is missing"));
}

TEST_F(DoraFiles, AreRefusedIfTheConfigurationDoesNotSayThatTheyHaveMagnitudes) {
  write_text(folder_ / "adapter_config.json",
             R"({"peft_type":"LORA","r":2,"target_modules":["q_proj","down_proj"]})");
  EXPECT_THAT(error(), testing::AllOf(HasSubstr("lora_magnitude_vector' is not supported"),
                                      HasSubstr("if use_dora is true")));
}

TEST_F(PeftFolder, TakesKeysThatChangeNothing) {
  EXPECT_NO_THROW(load(
      std::string(kBoth) +
      R"(,"auto_mapping":{"base_model_class":"LlamaForCausalLM"},"peft_version":"0.21.2",)"
      R"("revision":"main","inference_mode":true,"task_type":"CAUSAL_LM","bias":"none",)"
      R"("init_lora_weights":"gaussian","runtime_config":{"ephemeral_gpu_offload":false},)"
      R"("loftq_config":{},"eva_config":{"rho":2.0},"megatron_core":"megatron.core",)"
      R"("megatron_config":null,"qalora_group_size":16,"use_dora":false,"layer_replication":null,)"
      R"("trainable_token_indices":null,"lora_bias":false,"some_new_method":null)"));
  EXPECT_NO_THROW(load(std::string(kBoth) + R"(,"init_lora_weights":"eva")"));
  EXPECT_NO_THROW(load(std::string(kBoth) + R"(,"init_lora_weights":false)"));
}

TEST_F(PeftFolder, IsNamedWithItsKeyIfAValueIsOfTheWrongKind) {
  for (const auto& [keys, part] : std::map<std::string, std::string>{
           {R"("target_modules":[1])", "target_modules must be an array of strings"},
           {R"("target_modules":3)", "target_modules must be an array of strings or a string"},
           {R"("target_modules":"(q")", "target_modules: '(q' is not a valid regular expression"},
           {R"("lora_dropout":1.5)", "lora_dropout must be at least 0 and below 1"},
           {R"("rank_pattern":{"q_proj":"x"})", "rank_pattern.q_proj must be a 64-bit integer"},
           {R"("alpha_pattern":{"q_proj":[]})", "alpha_pattern.q_proj must be a number"},
           {R"("alpha_pattern":{"(x":1})", "the key '(x' of alpha_pattern: "},
           {R"("layers_to_transform":["a"])", "layers_to_transform must be an array of integers"},
           {R"("use_rslora":1)", "use_rslora must be true or false"}})
    EXPECT_THAT(error_of([&] { load(keys); }), HasSubstr("adapter_config.json: " + part)) << keys;
}

TEST_F(PeftFolder, EndsWithASentenceHoweverDeepOrLongItsConfigurationIs) {
  const auto message = [&](const std::string& text) {
    write_text(folder_ / "adapter_config.json", text);
    return error_of([&] { (void)load_adapter(context(), folder_.path(), kSites); });
  };
  EXPECT_THAT(message(R"({"r":)" + std::string(50'000, '[')), HasSubstr("nested at most 16 deep"));
  EXPECT_THAT(message("{" + std::string(300'000, ' ') + "}"), HasSubstr("at most 262144 bytes"));
  std::string evil = R"({"r":2,"target_modules":["q_proj","down_proj"],"alpha_pattern":{)";
  evil += R"("(.*)*(.*)*(.*)*(.*)*m$":1}})";
  EXPECT_THAT(message(evil), HasSubstr("takes too long"));
}

TEST(PeftFiles, RefuseUnsupportedFeaturesByName) {
  const TemporaryFolder folder;
  save_adapter(random_adapter(), folder.path());
  const auto message_for = [&](const std::string& json) {
    write_text(folder / "adapter_config.json", json);
    return error_of([&] { (void)load_adapter(context(), folder.path(), kSites); });
  };
  EXPECT_THAT(message_for(R"({"r":4,"lora_bias":true})"), HasSubstr("lora_bias"));
  EXPECT_THAT(message_for(R"({"r":4,"peft_type":"IA3"})"), HasSubstr("IA3"));
  EXPECT_THAT(message_for(R"({"r":4,"modules_to_save":["lm_head"]})"),
              HasSubstr("modules_to_save"));
  EXPECT_THAT(message_for(R"({"r":)"), HasSubstr("adapter_config.json"));
  EXPECT_THAT(message_for(R"({"lora_alpha":4})"), HasSubstr("adapter_config.json"));
}

TEST(PeftFiles, MissingAreNamed) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { (void)load_adapter(context(), "someone/an-adapter", kSites); }),
              HasSubstr("'hf download someone/an-adapter --local-dir an-adapter'"));
  write_text(folder / "adapter_config.json", "{}");
  write_text(folder / "adapter_model.bin", "x");
  EXPECT_THAT(error_of([&] { (void)load_adapter(context(), folder.path(), kSites); }),
              HasSubstr("adapter_model.bin is a Python pickle"));
  EXPECT_THAT(error_of([&] { (void)load_adapter(context(), folder / "none", kSites); }),
              HasSubstr("adapter_config.json"));
}

}  // namespace
}  // namespace clora

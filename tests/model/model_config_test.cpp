// ModelConfig (model/configuration/model_config.hpp) from config.json and back, and its errors.
#include "clora/model/configuration/model_config.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using nlohmann::json;

json llama_json() {
  return {{"model_type", "llama"},    {"vocab_size", 256},
          {"hidden_size", 64},        {"num_hidden_layers", 2},
          {"num_attention_heads", 4}, {"intermediate_size", 128},
          {"rms_norm_eps", 1e-6},     {"max_position_embeddings", 512}};
}

json with(json object, const char* key, json value) {
  object[key] = std::move(value);
  return object;
}

json qwen_json(const char* type) {
  json object = llama_json();
  object["model_type"] = type;
  object["num_key_value_heads"] = 2;
  object["head_dim"] = 32;
  return object;
}

ModelConfig read(const json& object) { return from_hugging_face(object, "config.json"); }

AttentionLayerSpec attention_of(const ModelConfig& config, std::size_t layer = 0) {
  return *attentions_of(config).at(layer);
}

// The window of every layer.
std::optional<std::int64_t> window_of(const ModelConfig& config) {
  for (const AttentionLayerSpec* attention : attentions_of(config)) {
    EXPECT_EQ(attention->window, attention_of(config).window);
  }
  return attention_of(config).window;
}

using Windows = std::vector<std::optional<std::int64_t>>;
Windows windows_of(const ModelConfig& config) {
  Windows windows;
  for (const AttentionLayerSpec* attention : attentions_of(config)) {
    windows.push_back(attention->window);
  }
  return windows;
}

TEST(HuggingFaceConfig, TakesTheDefaultsOfTransformers) {
  const ModelConfig config = read(llama_json());
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.rope.base, 10000);
  EXPECT_EQ(config.rope.scaling, RopeScaling{});
  EXPECT_EQ(config.rope_layout, RopeLayout::half_split);
  EXPECT_FALSE(config.tied_head);
  EXPECT_FALSE(attention_of(config).q.has_bias);
  EXPECT_FALSE(attention_of(config).q_norm.has_value());
  EXPECT_FALSE(config.bos_id.has_value());
  EXPECT_TRUE(config.eos_ids.empty());
}

TEST(HuggingFaceConfig, ReadsWhatDistinguishesTheArchitectures) {
  EXPECT_TRUE(attention_of(read(qwen_json("qwen2"))).q.has_bias);
  EXPECT_FALSE(attention_of(read(qwen_json("qwen2"))).q_norm.has_value());
  EXPECT_TRUE(attention_of(read(qwen_json("qwen3"))).q_norm.has_value());
  EXPECT_FALSE(attention_of(read(qwen_json("qwen3"))).q.has_bias);
  EXPECT_EQ(read(qwen_json("qwen3")).head_dim, 32);
  EXPECT_EQ(window_of(read(with(qwen_json("mistral"), "sliding_window", 4096))), 4096);
  EXPECT_EQ(window_of(read(with(qwen_json("mistral"), "sliding_window", nullptr))), std::nullopt);
}

TEST(HuggingFaceConfig, GivesLlamaAndQwen3TheBiasesOfTheirSwitches) {
  const ModelConfig llama =
      read(with(with(llama_json(), "attention_bias", true), "mlp_bias", true));
  for (const SubLayerSpec& layer : llama.blocks.at(1)) {
    for (const LinearSpec* linear : linears_of(layer)) EXPECT_TRUE(linear->has_bias);
  }
  const AttentionLayerSpec qwen3 =
      attention_of(read(with(qwen_json("qwen3"), "attention_bias", true)));
  EXPECT_TRUE(qwen3.v.has_bias);
  EXPECT_TRUE(qwen3.o.has_bias);
}

TEST(HuggingFaceConfig, FollowsTheSwitchOfQwensSlidingWindow) {
  json object = with(qwen_json("qwen2"), "sliding_window", 100);
  EXPECT_EQ(window_of(read(object)), std::nullopt);
  object["use_sliding_window"] = true;
  // Without max_window_layers, the first 28 layers have no window, as in transformers.
  EXPECT_EQ(window_of(read(object)), std::nullopt);
  object["num_hidden_layers"] = 29;
  EXPECT_EQ(attention_of(read(object), 27).window, std::nullopt);
  EXPECT_EQ(attention_of(read(object), 28).window, 100);
  object["num_hidden_layers"] = 2;
  object["max_window_layers"] = 0;
  EXPECT_EQ(window_of(read(object)), 100);
  object.erase("sliding_window");
  EXPECT_EQ(window_of(read(object)), 4096);
  object["sliding_window"] = nullptr;
  EXPECT_EQ(window_of(read(object)), std::nullopt);
  object["sliding_window"] = 100;
  object["max_window_layers"] = 2;
  EXPECT_EQ(window_of(read(object)), std::nullopt);
  object["max_window_layers"] = 1;
  EXPECT_EQ(windows_of(read(object)), (Windows{std::nullopt, 100}));
}

TEST(HuggingFaceConfig, GivesMistralTheWindowOfTransformersIfTheKeyIsAbsent) {
  EXPECT_EQ(window_of(read(qwen_json("mistral"))), 4096);
}

TEST(HuggingFaceConfig, FollowsLayerTypesOrRefusesThem) {
  const json full = {"full_attention", "full_attention"};
  const json sliding = {"sliding_attention", "sliding_attention"};
  json qwen = with(qwen_json("qwen3"), "sliding_window", 100);
  qwen["use_sliding_window"] = true;
  qwen["max_window_layers"] = 0;
  EXPECT_EQ(window_of(read(with(qwen, "layer_types", full))), std::nullopt);
  EXPECT_EQ(window_of(read(with(qwen, "layer_types", sliding))), 100);
  qwen["max_window_layers"] = 28;
  EXPECT_EQ(window_of(read(with(qwen, "layer_types", sliding))), 100);
  EXPECT_EQ(windows_of(read(with(qwen, "layer_types", {"sliding_attention", "full_attention"}))),
            (Windows{100, std::nullopt}));
  CLORA_EXPECT_ERROR(read(with(qwen, "layer_types", {"full_attention"})), ErrorCode::invalid_file,
                     "layer_types must name 2 layers, got 1");
  CLORA_EXPECT_ERROR(read(with(qwen, "layer_types", {"full_attention", "linear_attention"})),
                     ErrorCode::unsupported, "the layer type 'linear_attention'");
  qwen["use_sliding_window"] = false;
  CLORA_EXPECT_ERROR(read(with(qwen, "layer_types", sliding)), ErrorCode::unsupported,
                     "layer_types = an array of length 2 is not supported");
  EXPECT_EQ(window_of(read(with(llama_json(), "layer_types", full))), std::nullopt);
  CLORA_EXPECT_ERROR(read(with(llama_json(), "layer_types", sliding)), ErrorCode::unsupported,
                     "layer_types = an array");
  const json mistral = with(qwen_json("mistral"), "sliding_window", 9);
  EXPECT_EQ(window_of(read(with(mistral, "layer_types", sliding))), 9);
  CLORA_EXPECT_ERROR(read(with(mistral, "layer_types", full)), ErrorCode::unsupported,
                     "layer_types = an array");
}

TEST(HuggingFaceConfig, ReadsBothSpellingsOfRopeParameters) {
  const json scaling = {{"type", "linear"}, {"factor", 4.0}};
  const ModelConfig old =
      read(with(with(llama_json(), "rope_scaling", scaling), "rope_theta", 500000.0));
  EXPECT_EQ(old.rope.scaling.kind, RopeScaling::Kind::linear);
  EXPECT_EQ(old.rope.scaling.factor, 4);
  EXPECT_EQ(old.rope.base, 500000);
  const json parameters = {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 500000.0}};
  const ModelConfig newer = read(with(llama_json(), "rope_parameters", parameters));
  EXPECT_EQ(newer.rope.scaling, old.rope.scaling);
  EXPECT_EQ(newer.rope.base, old.rope.base);
}

TEST(HuggingFaceConfig, TakesTheTopLevelBaseWhereRopeParametersHasNone) {
  const json base = with(llama_json(), "rope_theta", 500000.0);
  EXPECT_EQ(read(with(base, "rope_parameters", {{"rope_type", "default"}})).rope.base, 500000);
  EXPECT_EQ(read(with(base, "rope_parameters", {{"rope_theta", 500000.0}})).rope.base, 500000);
  CLORA_EXPECT_ERROR(read(with(base, "rope_parameters", {{"rope_theta", 10000.0}})),
                     ErrorCode::invalid_file, "rope_theta is 500000, but");
}

TEST(HuggingFaceConfig, RefusesRopeDictionariesThatContradictOneAnother) {
  const json linear = {{"rope_type", "linear"}, {"factor", 4.0}};
  const json other = {{"rope_type", "linear"}, {"factor", 2.0}};
  const json both = with(with(llama_json(), "rope_scaling", linear), "rope_parameters", linear);
  EXPECT_EQ(read(both).rope.scaling.factor, 4);
  CLORA_EXPECT_ERROR(read(with(both, "rope_parameters", other)), ErrorCode::invalid_file,
                     "rope_scaling and rope_parameters differ");
  CLORA_EXPECT_ERROR(read(with(both, "rope_parameters", {{"rope_type", "default"}})),
                     ErrorCode::invalid_file, "rope_scaling and rope_parameters differ");
  const json two_types = {{"rope_type", "linear"}, {"type", "dynamic"}, {"factor", 4.0}};
  CLORA_EXPECT_ERROR(read(with(llama_json(), "rope_scaling", two_types)), ErrorCode::invalid_file,
                     "rope_scaling.rope_type is 'linear', but rope_scaling.type is 'dynamic'");
}

TEST(HuggingFaceConfig, RefusesKeysOfARopeThatItDoesNotCompute) {
  const auto rope = [](const char* type, const char* key, const json& value) {
    json scaling = {{"rope_type", type}};
    if (std::string_view(type) == "linear") scaling["factor"] = 2.0;
    scaling[key] = value;
    return read(with(llama_json(), "rope_scaling", scaling));
  };
  for (const char* key : {"attention_factor", "mscale", "mscale_all_dim", "beta_fast", "beta_slow",
                          "low_freq_factor", "short_factor", "mrope_section", "full_attention"})
    CLORA_EXPECT_ERROR(rope("linear", key, 2.0), ErrorCode::unsupported,
                       fmt::format("rope_scaling.{} = 2.0 is not supported", key));
  CLORA_EXPECT_ERROR(rope("default", "factor", 2.0), ErrorCode::unsupported, "rope_scaling.factor");
  EXPECT_EQ(rope("default", "factor", 1.0).rope.scaling.kind, RopeScaling::Kind::none);
  EXPECT_EQ(rope("linear", "attention_factor", 1.0).rope.scaling.factor, 2);
  EXPECT_EQ(rope("linear", "finetuned", true).rope.scaling.factor, 2);
}

json ministral_json() {
  return with(qwen_json("ministral3"), "rope_parameters",
              {{"rope_type", "yarn"},
               {"rope_theta", 1e6},
               {"factor", 16.0},
               {"original_max_position_embeddings", 32},
               {"max_position_embeddings", 512},
               {"mscale", 1.0},
               {"mscale_all_dim", 0.5},
               {"llama_4_scaling_beta", 0.1}});
}

TEST(HuggingFaceConfig, ReadsTheTemperatureOfMinistral3sQueries) {
  const ModelConfig config = read(ministral_json());
  EXPECT_EQ(config.rope.temperature, (QueryTemperature{.scale = 0.1, .length = 32}));
  EXPECT_EQ(attention_of(config).rope, config.rope);
  EXPECT_EQ(config.rope.scaling.kind, RopeScaling::Kind::yarn);
  EXPECT_NEAR(config.rope.scaling.attention_factor,
              (0.1 * std::log(16) + 1) / (0.05 * std::log(16) + 1), 1e-12);
  EXPECT_EQ(query_factor(config.rope, 31), 1);
  EXPECT_NEAR(query_factor(config.rope, 95), 1 + 0.1 * std::log(3), 1e-12);
  EXPECT_EQ(query_factor(of_keys(config.rope), 95), 1);
}

TEST(HuggingFaceConfig, RefusesATemperatureThatIsIncompleteOrOfAnotherFamily) {
  json object = ministral_json();
  object["rope_parameters"]["llama_4_scaling_beta"] = -0.5;
  CLORA_EXPECT_ERROR(read(object), ErrorCode::invalid_file, "0 or more, got -0.5");
  object["rope_parameters"].erase("llama_4_scaling_beta");
  CLORA_EXPECT_ERROR(read(object), ErrorCode::invalid_file,
                     "the key rope_parameters.llama_4_scaling_beta is missing");
  object.erase("rope_parameters");
  CLORA_EXPECT_ERROR(read(object), ErrorCode::invalid_file, "the key rope_parameters is missing");
  json llama = ministral_json();
  llama["model_type"] = "llama";
  CLORA_EXPECT_ERROR(read(llama), ErrorCode::unsupported,
                     "rope_parameters.llama_4_scaling_beta = 0.1 is not supported");
}

TEST(HuggingFaceConfig, ReadsTheSoftCapsOfGemma2) {
  const json plain = qwen_json("gemma2");
  const ModelConfig config = read(plain);
  EXPECT_EQ(attention_of(config, 0).soft_cap, 50);
  EXPECT_EQ(attention_of(config, 1).soft_cap, 50);
  EXPECT_EQ(config.logit_soft_cap, 30);
  EXPECT_EQ(windows_of(config), (Windows{4096, std::nullopt}));
  EXPECT_EQ(attention_of(config).scale, 1.0 / 16);
  EXPECT_EQ(read(with(plain, "attn_logit_softcapping", 7.5)).blocks[1], [&] {
    BlockSpec block = config.blocks[1];
    attention_of(block).soft_cap = 7.5;
    return block;
  }());
  EXPECT_EQ(attention_of(read(with(plain, "attn_logit_softcapping", nullptr))).soft_cap, 0);
  EXPECT_EQ(read(with(plain, "final_logit_softcapping", nullptr)).logit_soft_cap, 0);
  EXPECT_EQ(read(with(plain, "final_logit_softcapping", 4.5)).logit_soft_cap, 4.5);
  CLORA_EXPECT_ERROR(read(with(plain, "final_logit_softcapping", -1)), ErrorCode::invalid_file,
                     "the soft cap of logits must be 0 (none) or more, got -1");
  CLORA_EXPECT_ERROR(read(with(plain, "attn_logit_softcapping", -2)), ErrorCode::invalid_file,
                     "the soft cap of scores must be 0 (none) or more, got -2");
}

TEST(HuggingFaceConfig, RefusesMultimodalModelsByTheirTextModel) {
  const json whole = {{"model_type", "mistral3"}, {"text_config", ministral_json()}};
  CLORA_EXPECT_ERROR(read(whole), ErrorCode::unsupported,
                     "'mistral3' is a multimodal model, and only text models are supported; store "
                     "its text model ('ministral3') on its own");
}

TEST(HuggingFaceConfig, RefusesEveryKeyThatChangesTheMathematicsByName) {
  for (const char* key : {"attention_multiplier",
                          "residual_multiplier",
                          "embedding_multiplier",
                          "logits_scaling",
                          "logit_scale",
                          "attn_logit_softcapping",
                          "final_logit_softcapping",
                          "no_rope_layers",
                          "attention_chunk_size",
                          "qk_layernorm",
                          "num_experts",
                          "num_local_experts",
                          "clip_qkv",
                          "scale_emb",
                          "scale_depth",
                          "use_bidirectional_attention",
                          "query_pre_attn_scalar",
                          "per_layer_config",
                          "use_mrope",
                          "rope_interleaved"}) {
    CLORA_EXPECT_ERROR(read(with(llama_json(), key, 7)), ErrorCode::unsupported,
                       fmt::format("config.json: {} = 7 is not supported", key));
    EXPECT_NO_THROW(read(with(llama_json(), key, nullptr))) << key;
    EXPECT_NO_THROW(read(with(llama_json(), key, 0))) << key;
  }
  CLORA_EXPECT_ERROR(read(with(llama_json(), "is_causal", false)), ErrorCode::unsupported,
                     "is_causal = false");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "use_qkv_bias", true)), ErrorCode::unsupported,
                     "use_qkv_bias = true");
  EXPECT_NO_THROW(read(with(llama_json(), "residual_multiplier", 1.0)));
}

TEST(HuggingFaceConfig, ListsKeysThatTheArchitectureDoesNotRead) {
  json object = with(llama_json(), "my_own_scale", 2.5);
  object["torch_dtype"] = "bfloat16";
  object["attention_dropout"] = 0.1;
  object["pretraining_tp"] = 2;
  object["my_switch"] = false;
  EXPECT_EQ(read(object).unread_keys, (std::vector<std::string>{"my_own_scale"}));
}

TEST(HuggingFaceConfig, ReadsOneEndOrSeveral) {
  EXPECT_EQ(read(with(llama_json(), "eos_token_id", 2)).eos_ids, (std::vector<std::int32_t>{2}));
  EXPECT_EQ(read(with(llama_json(), "eos_token_id", {7, 9})).eos_ids,
            (std::vector<std::int32_t>{7, 9}));
  EXPECT_EQ(read(with(llama_json(), "bos_token_id", 1)).bos_id, 1);
  CLORA_EXPECT_ERROR(read(with(llama_json(), "eos_token_id", "</s>")), ErrorCode::invalid_file,
                     "eos_token_id must be a 32-bit integer");
}

TEST(HuggingFaceConfig, NamesAMissingKey) {
  for (const char* key :
       {"model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
        "intermediate_size", "rms_norm_eps", "max_position_embeddings"}) {
    json object = llama_json();
    object.erase(key);
    CLORA_EXPECT_ERROR(read(object), ErrorCode::invalid_file,
                       fmt::format("config.json: the key {} is missing", key));
  }
  json qwen = qwen_json("qwen2");
  qwen.erase("num_key_value_heads");
  CLORA_EXPECT_ERROR(read(qwen), ErrorCode::invalid_file, "num_key_value_heads is missing");
}

TEST(HuggingFaceConfig, NamesAKeyOfTheWrongKind) {
  CLORA_EXPECT_ERROR(read(json::array()), ErrorCode::invalid_file,
                     "config.json: the document must be an object");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "hidden_size", "big")), ErrorCode::invalid_file,
                     "hidden_size must be a 64-bit integer, got \"big\"");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "hidden_size", 64.5)), ErrorCode::invalid_file,
                     "hidden_size must be a 64-bit integer, got 64.5");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "rope_scaling", 3)), ErrorCode::invalid_file,
                     "config.json: rope_scaling must be an object, got 3");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "eos_token_id", std::int64_t{1} << 40)),
                     ErrorCode::invalid_file, "eos_token_id must be a 32-bit integer");
}

TEST(HuggingFaceConfig, RefusesImpossibleSizes) {
  CLORA_EXPECT_ERROR(read(with(llama_json(), "num_hidden_layers", 0)), ErrorCode::invalid_file,
                     "the number of layers must be from 1");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "num_attention_heads", 0)), ErrorCode::invalid_file,
                     "num_attention_heads must be positive");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "vocab_size", std::int64_t{1} << 40)),
                     ErrorCode::invalid_file, "the vocabulary must be from 1");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "num_key_value_heads", 3)), ErrorCode::invalid_file,
                     "4 heads must be a multiple of the 3");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "head_dim", 5)), ErrorCode::invalid_file, "even");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "rope_theta", 0)), ErrorCode::invalid_file,
                     "the rope base 0");
  json gemma = with(qwen_json("gemma3_text"), "rope_local_base_freq", -1);
  CLORA_EXPECT_ERROR(read(gemma), ErrorCode::invalid_file, "the rope base -1");
}

TEST(HuggingFaceConfig, RefusesWhatItCannotCompute) {
  CLORA_EXPECT_ERROR(read(with(llama_json(), "model_type", "mamba")), ErrorCode::unsupported,
                     "the architecture 'mamba' is not supported");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "hidden_act", "gelu")), ErrorCode::unsupported,
                     "the activation 'gelu'");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "rope_scaling", {{"rope_type", "su"}})),
                     ErrorCode::unsupported, "the rope type 'su'");
  CLORA_EXPECT_ERROR(read(with(qwen_json("mistral"), "attention_bias", true)),
                     ErrorCode::unsupported, "attention_bias");
  CLORA_EXPECT_ERROR(read(with(qwen_json("qwen3"), "mlp_bias", true)), ErrorCode::unsupported,
                     "mlp_bias");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "partial_rotary_factor", 0.5)), ErrorCode::unsupported,
                     "partial_rotary_factor");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "quantization_config", {{"quant_method", "fp8"}})),
                     ErrorCode::unsupported, "the quantisation 'fp8'");
}

TEST(HuggingFaceConfig, IsTheSameAfterBeingWrittenAndRead) {
  json qwen = with(qwen_json("qwen3"), "eos_token_id", {3, 4});
  qwen["bos_token_id"] = 1;
  qwen["tie_word_embeddings"] = true;
  json llama3 = with(llama_json(), "rope_scaling",
                     {{"rope_type", "llama3"},
                      {"factor", 32.0},
                      {"low_freq_factor", 1.0},
                      {"high_freq_factor", 4.0},
                      {"original_max_position_embeddings", 8192}});
  const json mistral = with(qwen_json("mistral"), "sliding_window", 99);
  json mixed = with(qwen_json("qwen2"), "sliding_window", 99);
  mixed["use_sliding_window"] = true;
  mixed["layer_types"] = {"sliding_attention", "full_attention"};
  const json biased = with(with(llama_json(), "attention_bias", true), "mlp_bias", true);
  json uncapped = with(qwen_json("gemma2"), "attn_logit_softcapping", nullptr);
  uncapped["final_logit_softcapping"] = nullptr;
  for (const json& object : {llama_json(), qwen, llama3, mistral, qwen_json("qwen2"), mixed, biased,
                             ministral_json(), qwen_json("gemma2"), uncapped}) {
    const ModelConfig first = read(object);
    const json written = json::parse(to_hugging_face_json(first).dump());
    const ModelConfig second = read(written);
    EXPECT_EQ(json::parse(to_hugging_face_json(second).dump()), written);
    EXPECT_EQ(second.family, first.family);
    EXPECT_EQ(second.head_dim, first.head_dim);
    EXPECT_EQ(second.kv_heads, first.kv_heads);
    EXPECT_EQ(second.rope.scaling, first.rope.scaling);
    EXPECT_EQ(second.blocks, first.blocks);
    EXPECT_EQ(second.tied_head, first.tied_head);
    EXPECT_EQ(second.logit_soft_cap, first.logit_soft_cap);
    EXPECT_EQ(second.rope, first.rope);
    EXPECT_EQ(second.eos_ids, first.eos_ids);
    EXPECT_EQ(second.bos_id, first.bos_id);
  }
}

TEST(RopeFrequencies, FallGeometricallyWithoutScaling) {
  ModelConfig config = read(llama_json());
  const auto plain = rope_frequencies(config.rope);
  ASSERT_EQ(plain.size(), 8u);
  EXPECT_DOUBLE_EQ(plain[0], 1);
  EXPECT_NEAR(plain[4], 0.01, 1e-15);
  config.rope.scaling.kind = RopeScaling::Kind::linear;
  config.rope.scaling.factor = 4;
  EXPECT_NEAR(rope_frequencies(config.rope)[4], 0.0025, 1e-15);
  config.rope.scaling.kind = RopeScaling::Kind::factors;
  config.rope.scaling.factors = {1, 1, 1, 1, 10, 1, 1, 1};
  EXPECT_NEAR(rope_frequencies(config.rope)[4], 0.001, 1e-15);
  EXPECT_EQ(rope_frequencies(config.rope)[5], plain[5]);
}

TEST(RopeFrequencies, StretchOnlyTheLongWavesOfLlama3) {
  ModelConfig config = read(llama_json());
  const auto plain = rope_frequencies(config.rope);
  config.rope.scaling.kind = RopeScaling::Kind::llama3;
  config.rope.scaling.factor = 8;
  config.rope.scaling.original_max_positions = 1000;
  const auto scaled = rope_frequencies(config.rope);
  // Wavelengths are 2 pi / f. Below 1000 / 4 (f > 0.0251) f is unchanged, above 1000 (f < 0.00628)
  // it is divided by 8.
  EXPECT_EQ(scaled[0], plain[0]);
  EXPECT_EQ(scaled[3], plain[3]);                           // 0.0316
  EXPECT_NEAR(scaled[5], plain[5] / 8, 1e-18);              // 0.00316
  const double share = (1000 * 0.01 / (2 * M_PI) - 1) / 3;  // 0.01 is between the limits
  EXPECT_NEAR(scaled[4], share * 0.01 + (1 - share) * 0.01 / 8, 1e-12);
}

TEST(HalfSplitSourceRow, UndoesTheReorderingOfGgufFiles) {
  // In a head of width 6, the half-split rows a0 a1 a2 b0 b1 b2 are stored as a0 b0 a1 b1 a2 b2.
  const std::vector<std::int64_t> expected{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11};
  for (std::int64_t row = 0; row < 12; ++row)
    EXPECT_EQ(half_split_source_row(row, 6), expected[static_cast<std::size_t>(row)]);
}

TEST(HuggingFaceConfig, FindsTheLlama3ScalingFromItsFactors) {
  ModelConfig config = read(llama_json());
  config.rope.base = 500000;
  const auto plain = rope_frequencies(config.rope);
  RopeScaling llama3;
  llama3.kind = RopeScaling::Kind::llama3;
  llama3.factor = 32;
  config.rope.scaling = llama3;
  const auto scaled = rope_frequencies(config.rope);
  config.rope.scaling = {};
  config.rope.scaling.kind = RopeScaling::Kind::factors;
  for (std::size_t i = 0; i < plain.size(); ++i)
    config.rope.scaling.factors.push_back(static_cast<float>(plain[i] / scaled[i]));
  EXPECT_EQ(read(json::parse(to_hugging_face_json(config).dump())).rope.scaling, llama3);
}

}  // namespace
}  // namespace clora

// ModelConfig (model/configuration/model_config.hpp) from a GGUF file's metadata: the values, the
// errors, and the agreement of both formats of one model.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "clora/model/configuration/model_config.hpp"
#include "clora/model/files/gguf.hpp"
#include "tests/support/gguf_bytes.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::GgufBytes;
using test::TemporaryFolder;

GgufBytes gguf_of(std::string_view architecture, std::string_view left_out = "") {
  GgufBytes gguf_bytes;
  gguf_bytes.add_text("general.architecture", architecture);
  const auto add = [&](std::string_view key, std::uint32_t value) {
    if (key != left_out) gguf_bytes.add_integer(fmt::format("{}.{}", architecture, key), value);
  };
  add("block_count", 2);
  add("embedding_length", 64);
  add("feed_forward_length", 128);
  add("attention.head_count", 4);
  add("attention.head_count_kv", 2);
  add("context_length", 512);
  if (left_out != "attention.layer_norm_rms_epsilon")
    gguf_bytes.add_number(fmt::format("{}.attention.layer_norm_rms_epsilon", architecture), 0.5f);
  gguf_bytes.add_tensor("token_embd.weight", {64, 3}, 0, std::string(64 * 3 * 4, '\0'));
  return gguf_bytes;
}

ModelConfig read(const GgufBytes& gguf_bytes) {
  const TemporaryFolder folder;
  test::write_file(folder / "m.gguf", gguf_bytes.bytes());
  return from_gguf(GgufFile::open(folder / "m.gguf"));
}

AttentionLayerSpec attention_of(const ModelConfig& config) {
  return *attentions_of(config).front();
}
std::optional<std::int64_t> window_of(const ModelConfig& config) {
  return attention_of(config).window;
}

TEST(GgufConfig, ReadsSizesAndTheVocabularyOfTheMatrix) {
  const ModelConfig config = read(gguf_of("llama"));
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.intermediate_size, 128);
  EXPECT_EQ(config.heads, 4);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.vocabulary, 3);
  EXPECT_EQ(config.norm_epsilon, 0.5);
  EXPECT_EQ(config.max_positions, 512);
  EXPECT_TRUE(config.tied_head);
}

TEST(GgufConfig, DetectsWhichFilesAreReordered) {
  EXPECT_EQ(read(gguf_of("llama")).rope_layout, RopeLayout::interleaved);
  EXPECT_EQ(read(gguf_of("qwen2")).rope_layout, RopeLayout::half_split);
  EXPECT_EQ(read(gguf_of("qwen3")).rope_layout, RopeLayout::half_split);
  EXPECT_TRUE(attention_of(read(gguf_of("qwen2"))).q.has_bias);
  EXPECT_TRUE(attention_of(read(gguf_of("qwen3"))).q_norm.has_value());
}

TEST(GgufConfig, FindsTheBiasesOfLlamaAmongTheTensors) {
  EXPECT_FALSE(attention_of(read(gguf_of("llama"))).o.has_bias);
  GgufBytes gguf_bytes = gguf_of("llama");
  gguf_bytes.add_tensor("blk.0.attn_output.bias", {1}, 0, std::string(4, '\0'));
  EXPECT_TRUE(attention_of(read(gguf_bytes)).o.has_bias);
  EXPECT_FALSE(attention_of(read(gguf_bytes)).q.has_bias);
}

TEST(GgufConfig, IgnoresIdsThatAreNotTokens) {
  GgufBytes gguf_bytes = gguf_of("llama");
  gguf_bytes.add_integer("tokenizer.ggml.bos_token_id", 0xffffffff);
  gguf_bytes.add_integer("tokenizer.ggml.eos_token_id", 2)
      .add_integer("tokenizer.ggml.eot_token_id", 1);
  EXPECT_EQ(read(gguf_bytes).bos_id, std::nullopt);
  EXPECT_EQ(read(gguf_bytes).eos_ids, (std::vector<std::int32_t>{2, 1}));
}

TEST(GgufConfig, ReadsRopeScalingAndFactors) {
  GgufBytes linear = gguf_of("llama");
  linear.add_text("llama.rope.scaling.type", "linear").add_number("llama.rope.scaling.factor", 4);
  EXPECT_EQ(read(linear).rope.scaling.kind, RopeScaling::Kind::linear);
  EXPECT_EQ(read(linear).rope.scaling.factor, 4);

  GgufBytes yarn = gguf_of("llama");
  yarn.add_text("llama.rope.scaling.type", "yarn").add_number("llama.rope.scaling.factor", 4);
  EXPECT_EQ(read(yarn).rope.scaling.kind, RopeScaling::Kind::yarn);
  EXPECT_EQ(read(yarn).rope.scaling.original_max_positions, 512);
  EXPECT_NEAR(read(yarn).rope.scaling.attention_factor, 0.1 * std::log(4) + 1, 1e-12);
  yarn.add_integer("llama.rope.scaling.original_context_length", 128);
  EXPECT_EQ(read(yarn).rope.scaling.original_max_positions, 128);

  GgufBytes other = gguf_of("llama");
  other.add_text("llama.rope.scaling.type", "su");
  CLORA_EXPECT_ERROR(read(other), ErrorCode::unsupported, "the rope type 'su'");

  GgufBytes factors = gguf_of("llama");
  std::string eight;
  for (const float factor : {1.f, 1.f, 1.f, 1.f, 2.f, 8.f, 8.f, 8.f})
    test::append_scalar(eight, factor);
  factors.add_tensor("rope_freqs.weight", {8}, 0, eight);
  EXPECT_EQ(read(factors).rope.scaling.factors, (std::vector<float>{1, 1, 1, 1, 2, 8, 8, 8}));
  CLORA_EXPECT_ERROR(to_hugging_face_json(read(factors)), ErrorCode::unsupported,
                     "matches no rope type");

  GgufBytes short_factors = gguf_of("llama");
  short_factors.add_tensor("rope_freqs.weight", {2}, 0, eight.substr(0, 8));
  CLORA_EXPECT_ERROR(read(short_factors), ErrorCode::invalid_file,
                     "rope_freqs.weight must be F32 [8], got F32 [2]");
}

TEST(GgufConfig, NamesAMissingKey) {
  for (const char* key :
       {"block_count", "embedding_length", "feed_forward_length", "attention.head_count",
        "context_length", "attention.layer_norm_rms_epsilon"})
    CLORA_EXPECT_ERROR(read(gguf_of("qwen2", key)), ErrorCode::invalid_file,
                       fmt::format("the key qwen2.{} is missing", key));
  CLORA_EXPECT_ERROR(read(GgufBytes()), ErrorCode::invalid_file, "general.architecture is missing");
}

TEST(GgufConfig, RefusesWhatItCannotCompute) {
  CLORA_EXPECT_ERROR(read(gguf_of("mamba")), ErrorCode::unsupported, "'mamba'");
  CLORA_EXPECT_ERROR(read(gguf_of("qwen2").add_integer("qwen2.expert_count", 8)),
                     ErrorCode::unsupported, "qwen2.expert_count = 8");
  CLORA_EXPECT_ERROR(read(gguf_of("llama").add_integer("llama.rope.dimension_count", 8)),
                     ErrorCode::unsupported, "rotating 8 of 16");
  CLORA_EXPECT_ERROR(read(gguf_of("llama").add_integer("llama.attention.value_length", 8)),
                     ErrorCode::unsupported, "values of head dim 8");
}

TEST(GgufConfig, FollowsLlamaCppInItsSlidingWindow) {
  for (const char* architecture : {"llama", "qwen2", "qwen3"}) {
    GgufBytes gguf_bytes = gguf_of(architecture);
    gguf_bytes.add_integer(fmt::format("{}.attention.sliding_window", architecture), 16);
    EXPECT_EQ(window_of(read(gguf_bytes)), std::nullopt);
    EXPECT_EQ(read(gguf_bytes).unread_keys,
              (std::vector{fmt::format("{}.attention.sliding_window", architecture)}));
  }
  EXPECT_EQ(window_of(read(gguf_of("mistral").add_integer("mistral.attention.sliding_window", 16))),
            16);
}

TEST(GgufConfig, ReadsTheAttentionFactorOfItsRope) {
  const ModelConfig config =
      read(gguf_of("llama").add_number("llama.rope.scaling.attn_factor", 1.5f));
  EXPECT_EQ(config.rope.scaling.attention_factor, 1.5);
  EXPECT_EQ(read(gguf_of("llama")).rope.scaling.attention_factor, 1);
  CLORA_EXPECT_ERROR(to_hugging_face_json(config), ErrorCode::unsupported, "attn_factor of 1.5");
  CLORA_EXPECT_ERROR(read(gguf_of("llama").add_number("llama.rope.scaling.attn_factor", -1)),
                     ErrorCode::invalid_file, "attn_factor must be above 0, got -1");
}

TEST(GgufConfig, ReadsTheRopeAndTheTemperatureOfMinistral3) {
  GgufBytes gguf_bytes = gguf_of("mistral3");
  gguf_bytes.add_text("mistral3.rope.scaling.type", "yarn");
  gguf_bytes.add_number("mistral3.rope.scaling.factor", 16);
  gguf_bytes.add_integer("mistral3.rope.scaling.original_context_length", 32);
  gguf_bytes.add_number("mistral3.attention.temperature_scale", 0.5F);
  EXPECT_NEAR(read(gguf_bytes).rope.scaling.attention_factor, 0.1 * std::log(16) + 1, 1e-12);
  gguf_bytes.add_number("mistral3.rope.scaling.yarn_log_multiplier", 0.5F);
  const ModelConfig config = read(gguf_bytes);
  EXPECT_NEAR(config.rope.scaling.attention_factor,
              (0.1 * std::log(16) + 1) / (0.05 * std::log(16) + 1), 1e-12);
  EXPECT_EQ(config.rope.temperature, (QueryTemperature{.scale = 0.5, .length = 32}));
  EXPECT_TRUE(config.unread_keys.empty());
  gguf_bytes.add_integer("mistral3.attention.temperature_length", 64);
  CLORA_EXPECT_ERROR(read(gguf_bytes), ErrorCode::unsupported,
                     "mistral3.attention.temperature_length is 64, which must be the original "
                     "context length, 32");
}

TEST(GgufConfig, ReadsTheSoftCapsOfGemma2) {
  GgufBytes gguf_bytes = gguf_of("gemma2");
  const ModelConfig by_default = read(gguf_bytes);
  EXPECT_EQ(attention_of(by_default).soft_cap, 50);
  EXPECT_EQ(by_default.logit_soft_cap, 30);
  EXPECT_EQ(attention_of(by_default).window, 4096);
  EXPECT_EQ(attentions_of(by_default)[1]->window, std::nullopt);
  EXPECT_EQ(attention_of(by_default).scale, 0.25);
  gguf_bytes.add_number("gemma2.attn_logit_softcapping", 2.5F);
  gguf_bytes.add_number("gemma2.final_logit_softcapping", 1.5F);
  gguf_bytes.add_integer("gemma2.attention.sliding_window", 7);
  const ModelConfig config = read(gguf_bytes);
  EXPECT_EQ(attention_of(config).soft_cap, 2.5);
  EXPECT_EQ(config.logit_soft_cap, 1.5);
  EXPECT_EQ(attention_of(config).window, 7);
  EXPECT_TRUE(config.unread_keys.empty());
}

// Factors that are those of a llama3 rope do not hide the other factor.
TEST(GgufConfig, DoesNotLoseTheAttentionFactorBesideFactorsThatConfigJsonHas) {
  GgufBytes gguf_bytes = gguf_of("llama");
  std::string ones;
  for (int i = 0; i < 8; ++i) test::append_scalar(ones, 1.F);
  gguf_bytes.add_tensor("rope_freqs.weight", {8}, 0, ones);
  EXPECT_NO_THROW(to_hugging_face_json(read(gguf_bytes)));
  gguf_bytes.add_number("llama.rope.scaling.attn_factor", 1.5F);
  CLORA_EXPECT_ERROR(to_hugging_face_json(read(gguf_bytes)), ErrorCode::unsupported,
                     "attn_factor of 1.5");
}

TEST(GgufConfig, RefusesEveryKeyThatChangesTheMathematicsByName) {
  for (const char* key :
       {"attention.scale", "logit_scale", "embedding_scale", "residual_scale",
        "attention.clamp_kqv", "attn_logit_softcapping", "final_logit_softcapping",
        "attention.max_alibi_bias", "rope.scaling.yarn_ext_factor", "nextn_predict_layers"}) {
    const std::string name = fmt::format("llama.{}", key);
    CLORA_EXPECT_ERROR(read(gguf_of("llama").add_number(name, 0.25f)), ErrorCode::unsupported,
                       fmt::format("{} = 0.25 is not supported", name));
    EXPECT_NO_THROW(read(gguf_of("llama").add_number(name, 0))) << key;
  }
  CLORA_EXPECT_ERROR(
      read(gguf_of("llama").add_raw("llama.attention.causal", 7, std::string(1, '\0'))),
      ErrorCode::unsupported, "llama.attention.causal");
  EXPECT_NO_THROW(
      read(gguf_of("llama").add_raw("llama.attention.causal", 7, std::string(1, '\1'))));
}

TEST(ModelConfigs, AgreeBetweenTheFormatsOfOneModel) {
  CLORA_REQUIRE_TEST_DATA(folder, "models/tinystories-656k");
  const ModelConfig hf =
      from_hugging_face(json::parse(test::read_file(folder / "config.json")), "config.json");
  const ModelConfig gguf =
      from_gguf(GgufFile::open(folder / "gguf-derived/TinyStories-656K-F32.gguf"));
  EXPECT_EQ(gguf.layers, hf.layers);
  EXPECT_EQ(gguf.hidden_size, hf.hidden_size);
  EXPECT_EQ(gguf.intermediate_size, hf.intermediate_size);
  EXPECT_EQ(gguf.heads, hf.heads);
  EXPECT_EQ(gguf.kv_heads, hf.kv_heads);
  EXPECT_EQ(gguf.head_dim, hf.head_dim);
  EXPECT_EQ(gguf.vocabulary, hf.vocabulary);
  EXPECT_EQ(gguf.max_positions, hf.max_positions);
  EXPECT_FLOAT_EQ(static_cast<float>(gguf.norm_epsilon), static_cast<float>(hf.norm_epsilon));
  EXPECT_EQ(gguf.rope.base, hf.rope.base);
  EXPECT_EQ(gguf.tied_head, hf.tied_head);
  EXPECT_EQ(gguf.bos_id, hf.bos_id);
  EXPECT_EQ(gguf.eos_ids, hf.eos_ids);
}

TEST(ModelConfigs, ReadSmolLM2) {
  CLORA_DEMO_MODEL_OR_SKIP(path);
  const ModelConfig config = from_gguf(GgufFile::open(path));
  EXPECT_EQ(config.layers, 30);
  EXPECT_EQ(config.hidden_size, 576);
  EXPECT_EQ(config.heads, 9);
  EXPECT_EQ(config.kv_heads, 3);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.vocabulary, 49152);
  EXPECT_EQ(config.rope.base, 100000);
  EXPECT_TRUE(config.tied_head);
  EXPECT_EQ(config.eos_ids, (std::vector<std::int32_t>{2}));
}

TEST(ModelConfigs, ReadTinyLlama3AndTinyQwen3) {
  CLORA_REQUIRE_TEST_DATA(models, "models");
  const auto config = [&](std::string_view name) {
    return from_hugging_face(json::parse(test::read_file(models / name)), name);
  };
  const ModelConfig llama3 = config("tiny_llama3/config.json");
  EXPECT_EQ(llama3.rope.scaling.kind, RopeScaling::Kind::llama3);
  EXPECT_EQ(llama3.rope.scaling.factor, 8);
  EXPECT_EQ(llama3.rope.scaling.original_max_positions, 8192);
  EXPECT_EQ(llama3.rope.base, 500000);
  const ModelConfig qwen3 = config("tiny_qwen3/config.json");
  EXPECT_EQ(qwen3.family, "qwen3");
  EXPECT_TRUE(attention_of(qwen3).q_norm.has_value());
}

}  // namespace
}  // namespace clora

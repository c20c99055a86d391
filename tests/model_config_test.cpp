// ModelConfig (model/model_config.hpp) from both formats, back to config.json, and its refusals.
#include "model/model_config.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/gguf.hpp"
#include "tests/support/gguf_bytes.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::GgufBytes;
using test::TemporaryFolder;

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

TEST(HuggingFaceConfig, TakesTheDefaultsOfTransformers) {
  const ModelConfig config = read(llama_json());
  EXPECT_EQ(config.architecture, Architecture::llama);
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.head_width, 16);
  EXPECT_EQ(config.rope_base, 10000);
  EXPECT_EQ(config.rope_scaling, RopeScaling{});
  EXPECT_EQ(config.rope_layout, RopeLayout::half_split);
  EXPECT_FALSE(config.tied_head);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_FALSE(config.qk_norm);
  EXPECT_FALSE(config.bos_id.has_value());
  EXPECT_TRUE(config.eos_ids.empty());
}

TEST(HuggingFaceConfig, KnowsWhatSetsTheArchitecturesApart) {
  EXPECT_TRUE(read(qwen_json("qwen2")).qkv_bias);
  EXPECT_FALSE(read(qwen_json("qwen2")).qk_norm);
  EXPECT_TRUE(read(qwen_json("qwen3")).qk_norm);
  EXPECT_FALSE(read(qwen_json("qwen3")).qkv_bias);
  EXPECT_EQ(read(qwen_json("qwen3")).head_width, 32);
  EXPECT_EQ(read(with(qwen_json("mistral"), "sliding_window", 4096)).sliding_window, 4096);
  EXPECT_EQ(read(with(qwen_json("mistral"), "sliding_window", nullptr)).sliding_window,
            std::nullopt);
}

TEST(HuggingFaceConfig, FollowsTheSwitchOfQwensSlidingWindow) {
  json object = with(qwen_json("qwen2"), "sliding_window", 100);
  EXPECT_EQ(read(object).sliding_window, std::nullopt);
  object["use_sliding_window"] = true;
  EXPECT_EQ(read(object).sliding_window, 100);
  object["max_window_layers"] = 2;
  EXPECT_EQ(read(object).sliding_window, std::nullopt);
  object["max_window_layers"] = 1;
  CLORA_EXPECT_ERROR(read(object), ErrorCode::unsupported, "window in some of the layers");
}

TEST(HuggingFaceConfig, ReadsBothSpellingsOfRopeParameters) {
  const json scaling = {{"type", "linear"}, {"factor", 4.0}};
  const ModelConfig old =
      read(with(with(llama_json(), "rope_scaling", scaling), "rope_theta", 500000.0));
  EXPECT_EQ(old.rope_scaling.kind, RopeScaling::Kind::linear);
  EXPECT_EQ(old.rope_scaling.factor, 4);
  EXPECT_EQ(old.rope_base, 500000);
  const json parameters = {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 500000.0}};
  const ModelConfig newer = read(with(llama_json(), "rope_parameters", parameters));
  EXPECT_EQ(newer.rope_scaling, old.rope_scaling);
  EXPECT_EQ(newer.rope_base, old.rope_base);
}

TEST(HuggingFaceConfig, ReadsOneEndOrSeveral) {
  EXPECT_EQ(read(with(llama_json(), "eos_token_id", 2)).eos_ids, (std::vector<std::int32_t>{2}));
  EXPECT_EQ(read(with(llama_json(), "eos_token_id", {7, 9})).eos_ids,
            (std::vector<std::int32_t>{7, 9}));
  EXPECT_EQ(read(with(llama_json(), "bos_token_id", 1)).bos_id, 1);
  CLORA_EXPECT_ERROR(read(with(llama_json(), "eos_token_id", "</s>")), ErrorCode::invalid_file,
                     "eos_token_id must be a whole number");
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
  CLORA_EXPECT_ERROR(read(json::array()), ErrorCode::invalid_file, "must be a JSON object");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "hidden_size", "big")), ErrorCode::invalid_file,
                     "hidden_size must be a whole number, got \"big\"");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "hidden_size", 64.5)), ErrorCode::invalid_file,
                     "hidden_size must be a whole number, got 64.5");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "rope_scaling", 3)), ErrorCode::invalid_file,
                     "must be a JSON object");
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
}

TEST(HuggingFaceConfig, RefusesWhatItCannotCompute) {
  CLORA_EXPECT_ERROR(read(with(llama_json(), "model_type", "mamba")), ErrorCode::unsupported,
                     "the architecture 'mamba' is not supported");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "hidden_act", "gelu")), ErrorCode::unsupported,
                     "the activation 'gelu'");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "rope_scaling", {{"rope_type", "yarn"}})),
                     ErrorCode::unsupported, "the rope type 'yarn'");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "attention_bias", true)), ErrorCode::unsupported,
                     "attention_bias");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "mlp_bias", true)), ErrorCode::unsupported,
                     "mlp_bias");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "partial_rotary_factor", 0.5)), ErrorCode::unsupported,
                     "partial_rotary_factor");
  CLORA_EXPECT_ERROR(read(with(llama_json(), "quantization_config", {{"quant_method", "gptq"}})),
                     ErrorCode::unsupported, "the quantisation 'gptq'");
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
  for (const json& object : {llama_json(), qwen, llama3, mistral, qwen_json("qwen2")}) {
    const ModelConfig first = read(object);
    const json written = json::parse(to_hugging_face_json(first).dump());
    const ModelConfig second = read(written);
    EXPECT_EQ(json::parse(to_hugging_face_json(second).dump()), written);
    EXPECT_EQ(second.architecture, first.architecture);
    EXPECT_EQ(second.head_width, first.head_width);
    EXPECT_EQ(second.kv_heads, first.kv_heads);
    EXPECT_EQ(second.rope_scaling, first.rope_scaling);
    EXPECT_EQ(second.sliding_window, first.sliding_window);
    EXPECT_EQ(second.tied_head, first.tied_head);
    EXPECT_EQ(second.eos_ids, first.eos_ids);
    EXPECT_EQ(second.bos_id, first.bos_id);
  }
}

TEST(RopeFrequencies, FallGeometricallyWithoutScaling) {
  ModelConfig config = read(llama_json());
  const auto plain = rope_frequencies(config);
  ASSERT_EQ(plain.size(), 8u);
  EXPECT_DOUBLE_EQ(plain[0], 1);
  EXPECT_NEAR(plain[4], 0.01, 1e-15);
  config.rope_scaling.kind = RopeScaling::Kind::linear;
  config.rope_scaling.factor = 4;
  EXPECT_NEAR(rope_frequencies(config)[4], 0.0025, 1e-15);
  config.rope_scaling.kind = RopeScaling::Kind::factors;
  config.rope_scaling.factors = {1, 1, 1, 1, 10, 1, 1, 1};
  EXPECT_NEAR(rope_frequencies(config)[4], 0.001, 1e-15);
  EXPECT_EQ(rope_frequencies(config)[5], plain[5]);
}

TEST(RopeFrequencies, StretchOnlyTheLongWavesOfLlama3) {
  ModelConfig config = read(llama_json());
  const auto plain = rope_frequencies(config);
  config.rope_scaling.kind = RopeScaling::Kind::llama3;
  config.rope_scaling.factor = 8;
  config.rope_scaling.original_max_positions = 1000;
  const auto scaled = rope_frequencies(config);
  // Wavelengths 2 pi / f: below 1000 / 4 kept (f > 0.0251), above 1000 an eighth (f < 0.00628).
  EXPECT_EQ(scaled[0], plain[0]);
  EXPECT_EQ(scaled[3], plain[3]);                           // 0.0316
  EXPECT_NEAR(scaled[5], plain[5] / 8, 1e-18);              // 0.00316
  const double share = (1000 * 0.01 / (2 * M_PI) - 1) / 3;  // 0.01 lies between
  EXPECT_NEAR(scaled[4], share * 0.01 + (1 - share) * 0.01 / 8, 1e-12);
}

TEST(HalfSplitSourceRow, UndoesTheReorderingOfGgufFiles) {
  // A head of width 6: the half-split rows a0 a1 a2 b0 b1 b2 are stored as a0 b0 a1 b1 a2 b2.
  const std::vector<std::int64_t> expected{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11};
  for (std::int64_t row = 0; row < 12; ++row)
    EXPECT_EQ(half_split_source_row(row, 6), expected[static_cast<std::size_t>(row)]);
}

GgufBytes gguf_of(std::string_view architecture, std::string_view left_out = "") {
  GgufBytes made;
  made.add_text("general.architecture", architecture);
  const auto add = [&](std::string_view key, std::uint32_t value) {
    if (key != left_out) made.add_integer(fmt::format("{}.{}", architecture, key), value);
  };
  add("block_count", 2);
  add("embedding_length", 64);
  add("feed_forward_length", 128);
  add("attention.head_count", 4);
  add("attention.head_count_kv", 2);
  add("context_length", 512);
  if (left_out != "attention.layer_norm_rms_epsilon")
    made.add_number(fmt::format("{}.attention.layer_norm_rms_epsilon", architecture), 0.5f);
  made.add_tensor("token_embd.weight", {64, 3}, 0, std::string(64 * 3 * 4, '\0'));
  return made;
}

ModelConfig read(const GgufBytes& made) {
  const TemporaryFolder folder;
  test::write_whole_file(folder / "m.gguf", made.bytes());
  return from_gguf(GgufFile::open(folder / "m.gguf"));
}

TEST(GgufConfig, ReadsSizesAndTheVocabularyOfTheMatrix) {
  const ModelConfig config = read(gguf_of("llama"));
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.model_width, 64);
  EXPECT_EQ(config.feed_forward_width, 128);
  EXPECT_EQ(config.heads, 4);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_width, 16);
  EXPECT_EQ(config.vocabulary, 3);
  EXPECT_EQ(config.rms_norm_epsilon, 0.5);
  EXPECT_EQ(config.max_positions, 512);
  EXPECT_TRUE(config.tied_head);
}

TEST(GgufConfig, KnowsWhichFilesAreReordered) {
  EXPECT_EQ(read(gguf_of("llama")).rope_layout, RopeLayout::interleaved);
  EXPECT_EQ(read(gguf_of("qwen2")).rope_layout, RopeLayout::half_split);
  EXPECT_EQ(read(gguf_of("qwen3")).rope_layout, RopeLayout::half_split);
  EXPECT_TRUE(read(gguf_of("qwen2")).qkv_bias);
  EXPECT_TRUE(read(gguf_of("qwen3")).qk_norm);
}

TEST(GgufConfig, PassesOverIdsThatAreNoToken) {
  GgufBytes made = gguf_of("llama");
  made.add_integer("tokenizer.ggml.bos_token_id", 0xffffffff);
  made.add_integer("tokenizer.ggml.eos_token_id", 2).add_integer("tokenizer.ggml.eot_token_id", 1);
  EXPECT_EQ(read(made).bos_id, std::nullopt);
  EXPECT_EQ(read(made).eos_ids, (std::vector<std::int32_t>{2, 1}));
}

TEST(GgufConfig, ReadsRopeScalingAndFactors) {
  GgufBytes linear = gguf_of("llama");
  linear.add_text("llama.rope.scaling.type", "linear").add_number("llama.rope.scaling.factor", 4);
  EXPECT_EQ(read(linear).rope_scaling.kind, RopeScaling::Kind::linear);
  EXPECT_EQ(read(linear).rope_scaling.factor, 4);

  GgufBytes yarn = gguf_of("llama");
  yarn.add_text("llama.rope.scaling.type", "yarn");
  CLORA_EXPECT_ERROR(read(yarn), ErrorCode::unsupported, "the rope type 'yarn'");

  GgufBytes factors = gguf_of("llama");
  std::string eight;
  for (const float factor : {1.f, 1.f, 1.f, 1.f, 2.f, 8.f, 8.f, 8.f})
    test::append_scalar(eight, factor);
  factors.add_tensor("rope_freqs.weight", {8}, 0, eight);
  EXPECT_EQ(read(factors).rope_scaling.factors, (std::vector<float>{1, 1, 1, 1, 2, 8, 8, 8}));
  CLORA_EXPECT_ERROR(to_hugging_face_json(read(factors)), ErrorCode::unsupported,
                     "follows no rope type");

  GgufBytes short_factors = gguf_of("llama");
  short_factors.add_tensor("rope_freqs.weight", {2}, 0, eight.substr(0, 8));
  CLORA_EXPECT_ERROR(read(short_factors), ErrorCode::invalid_file,
                     "rope_freqs.weight must be F32 [8], got F32 [2]");
}

TEST(GgufConfig, FindsTheLlama3ScalingBehindItsFactors) {
  ModelConfig config = read(llama_json());
  config.rope_base = 500000;
  const auto plain = rope_frequencies(config);
  RopeScaling llama3;
  llama3.kind = RopeScaling::Kind::llama3;
  llama3.factor = 32;
  config.rope_scaling = llama3;
  const auto scaled = rope_frequencies(config);
  config.rope_scaling = {};
  config.rope_scaling.kind = RopeScaling::Kind::factors;
  for (std::size_t i = 0; i < plain.size(); ++i)
    config.rope_scaling.factors.push_back(static_cast<float>(plain[i] / scaled[i]));
  EXPECT_EQ(read(json::parse(to_hugging_face_json(config).dump())).rope_scaling, llama3);
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
  CLORA_EXPECT_ERROR(read(gguf_of("llama").add_integer("llama.expert_count", 8)),
                     ErrorCode::unsupported, "mixtures of experts");
  CLORA_EXPECT_ERROR(read(gguf_of("llama").add_integer("llama.rope.dimension_count", 8)),
                     ErrorCode::unsupported, "rotating 8 of 16");
  CLORA_EXPECT_ERROR(read(gguf_of("llama").add_integer("llama.attention.value_length", 8)),
                     ErrorCode::unsupported, "values of width 8");
}

TEST(ModelConfigs, AgreeBetweenTheFormatsOfOneModel) {
  CLORA_FILE_OR_SKIP(folder, test::test_data("models/tinystories-656k"), "TinyStories-656K");
  const ModelConfig hf =
      from_hugging_face(json::parse(test::read_whole_file(folder / "config.json")), "config.json");
  const ModelConfig gguf =
      from_gguf(GgufFile::open(folder / "gguf-derived/TinyStories-656K-F32.gguf"));
  EXPECT_EQ(gguf.layers, hf.layers);
  EXPECT_EQ(gguf.model_width, hf.model_width);
  EXPECT_EQ(gguf.feed_forward_width, hf.feed_forward_width);
  EXPECT_EQ(gguf.heads, hf.heads);
  EXPECT_EQ(gguf.kv_heads, hf.kv_heads);
  EXPECT_EQ(gguf.head_width, hf.head_width);
  EXPECT_EQ(gguf.vocabulary, hf.vocabulary);
  EXPECT_EQ(gguf.max_positions, hf.max_positions);
  EXPECT_FLOAT_EQ(static_cast<float>(gguf.rms_norm_epsilon),
                  static_cast<float>(hf.rms_norm_epsilon));
  EXPECT_EQ(gguf.rope_base, hf.rope_base);
  EXPECT_EQ(gguf.tied_head, hf.tied_head);
  EXPECT_EQ(gguf.bos_id, hf.bos_id);
  EXPECT_EQ(gguf.eos_ids, hf.eos_ids);
}

TEST(ModelConfigs, ReadSmolLM2) {
  CLORA_FILE_OR_SKIP(path, test::cached_model("SmolLM2-135M-Instruct.Q4_1.gguf"), "SmolLM2");
  const ModelConfig config = from_gguf(GgufFile::open(path));
  EXPECT_EQ(config.layers, 30);
  EXPECT_EQ(config.model_width, 576);
  EXPECT_EQ(config.heads, 9);
  EXPECT_EQ(config.kv_heads, 3);
  EXPECT_EQ(config.head_width, 64);
  EXPECT_EQ(config.vocabulary, 49152);
  EXPECT_EQ(config.rope_base, 100000);
  EXPECT_TRUE(config.tied_head);
  EXPECT_EQ(config.eos_ids, (std::vector<std::int32_t>{2}));
}

TEST(ModelConfigs, ReadTinyLlama3AndTinyQwen3) {
  CLORA_FILE_OR_SKIP(models, test::test_data("models"), "the folder of models");
  const auto config = [&](std::string_view name) {
    return from_hugging_face(json::parse(test::read_whole_file(models / name)), name);
  };
  const ModelConfig llama3 = config("tiny_llama3/config.json");
  EXPECT_EQ(llama3.rope_scaling.kind, RopeScaling::Kind::llama3);
  EXPECT_EQ(llama3.rope_scaling.factor, 8);
  EXPECT_EQ(llama3.rope_scaling.original_max_positions, 8192);
  EXPECT_EQ(llama3.rope_base, 500000);
  const ModelConfig qwen3 = config("tiny_qwen3/config.json");
  EXPECT_EQ(qwen3.architecture, Architecture::qwen3);
  EXPECT_TRUE(qwen3.qk_norm);
}

}  // namespace
}  // namespace clora

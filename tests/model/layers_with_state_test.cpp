// Families whose layers have a state: what of their configurations is read and refused, sequences
// that follow one another on the same state, and fused models from GGUF files.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "clora/lora/safetensors.hpp"
#include "clora/model/generation/generator.hpp"
#include "clora/model/transformer/forward_pass.hpp"
#include "clora/model/weights/fuse.hpp"
#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "model/weights/multimodal_text.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

using nlohmann::json;

json lfm2_json() {
  return {
      {"model_type", "lfm2"},       {"vocab_size", 67},         {"hidden_size", 24},
      {"num_hidden_layers", 3},     {"num_attention_heads", 4}, {"num_key_value_heads", 2},
      {"intermediate_size", 12288}, {"norm_eps", 1e-5},         {"max_position_embeddings", 64}};
}

json qwen_json() {
  return {{"model_type", "qwen3_5_text"},
          {"vocab_size", 67},
          {"hidden_size", 24},
          {"num_hidden_layers", 6},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"intermediate_size", 40},
          {"rms_norm_eps", 1e-5},
          {"max_position_embeddings", 64},
          {"head_dim", 16}};
}

json with(json object, const char* key, json value) {
  object[key] = std::move(value);
  return object;
}

ModelConfig read(const json& object) { return from_hugging_face(object, "config.json"); }

std::int64_t feed_forward_width(const json& object) {
  return std::get<FeedForwardLayerSpec>(read(object).blocks.front()[1].f).down.inputs;
}

// 'a' for each layer with attention, 's' for each with a state.
std::string layers_of(const ModelConfig& config) {
  std::string layers;
  for (const BlockSpec& block : config.blocks) {
    layers += std::holds_alternative<AttentionLayerSpec>(block.front().f) ? 'a' : 's';
  }
  return layers;
}

TEST(Lfm2Config, ComputesTheWidthOfTheFeedForwardAsTransformersDoes) {
  EXPECT_EQ(feed_forward_width(lfm2_json()), 8192);
  EXPECT_EQ(feed_forward_width(with(lfm2_json(), "block_ff_dim", 10752)), 7168);
  EXPECT_EQ(feed_forward_width(with(lfm2_json(), "block_ffn_dim_multiplier", 1.1)), 9216);
  EXPECT_EQ(feed_forward_width(with(lfm2_json(), "block_multiple_of", 1000)), 9000);
  EXPECT_EQ(feed_forward_width(with(lfm2_json(), "block_auto_adjust_ff_dim", false)), 12288);
  json no_multiple = with(lfm2_json(), "block_ffn_dim_multiplier", nullptr);
  no_multiple["intermediate_size"] = 100;
  EXPECT_EQ(feed_forward_width(no_multiple), 66);
}

TEST(Lfm2Config, ReadsWhichLayersHaveAttention) {
  EXPECT_EQ(layers_of(read(lfm2_json())), "aaa");
  EXPECT_EQ(layers_of(read(with(lfm2_json(), "full_attn_idxs", {1}))), "sas");
  EXPECT_EQ(layers_of(read(with(lfm2_json(), "layer_types", {"conv", "conv", "full_attention"}))),
            "ssa");
  CLORA_EXPECT_ERROR(read(with(lfm2_json(), "layer_types", {"conv", "conv", "sliding_attention"})),
                     ErrorCode::unsupported, "the layer type 'sliding_attention'");
  CLORA_EXPECT_ERROR(read(with(lfm2_json(), "layer_types", {"conv"})), ErrorCode::invalid_file,
                     "layer_types must have 3 entries, one of each layer, got 1");
  CLORA_EXPECT_ERROR(read(with(lfm2_json(), "full_attn_idxs", {3})), ErrorCode::invalid_file,
                     "a list of layers below 3");
}

TEST(Lfm2Config, RefusesWhatWouldChangeTheMathematics) {
  const json conv = with(lfm2_json(), "full_attn_idxs", {1});
  CLORA_EXPECT_ERROR(read(with(conv, "conv_L_cache", 9)), ErrorCode::unsupported,
                     "a convolution with 9 taps is not supported; from 2 to 8 are");
  for (const char* key : {"block_use_swiglu", "use_pos_enc"}) {
    CLORA_EXPECT_ERROR(read(with(conv, key, false)), ErrorCode::unsupported, key);
  }
  for (const char* key : {"block_dim", "conv_dim", "conv_dim_out", "num_heads"}) {
    CLORA_EXPECT_ERROR(read(with(conv, key, 7)), ErrorCode::unsupported, key);
  }
  CLORA_EXPECT_ERROR(read(with(conv, "block_norm_eps", 1e-3)), ErrorCode::unsupported,
                     "block_norm_eps");
  CLORA_EXPECT_ERROR(read(with(conv, "block_multiple_of", 0)), ErrorCode::invalid_file,
                     "block_multiple_of 0");
}

TEST(Qwen35Config, ReadsWhichLayersHaveAttention) {
  EXPECT_EQ(layers_of(read(qwen_json())), "sssass");
  EXPECT_EQ(layers_of(read(with(qwen_json(), "full_attention_interval", 2))), "sasasa");
  const ModelConfig config = read(qwen_json());
  EXPECT_EQ(config.rope.width, 4);  // a quarter of a head, transformers' default
  EXPECT_EQ(std::get<DeltaNetLayerSpec>(config.blocks.front().front().f).value_heads, 32);
}

TEST(Qwen35Config, RefusesWhatWouldChangeTheMathematics) {
  CLORA_EXPECT_ERROR(read(with(qwen_json(), "attn_output_gate", false)), ErrorCode::unsupported,
                     "attn_output_gate");
  CLORA_EXPECT_ERROR(read(with(qwen_json(), "hidden_act", "gelu_new")), ErrorCode::unsupported,
                     "hidden_act");
  CLORA_EXPECT_ERROR(read(with(qwen_json(), "linear_num_value_heads", 24)), ErrorCode::invalid_file,
                     "the 24 value heads");
  CLORA_EXPECT_ERROR(read(with(qwen_json(), "linear_key_head_dim", 0)), ErrorCode::invalid_file,
                     "from 1 to 1024, got 0");
  CLORA_EXPECT_ERROR(read(with(qwen_json(), "linear_conv_kernel_dim", 1)), ErrorCode::unsupported,
                     "a convolution with 1 taps");
  CLORA_EXPECT_ERROR(read(with(qwen_json(), "full_attention_interval", 0)), ErrorCode::invalid_file,
                     "full_attention_interval must be positive");
  CLORA_EXPECT_ERROR(read(with(qwen_json(), "partial_rotary_factor", 0.2)), ErrorCode::unsupported,
                     "rotating 3.2 of the 16 elements");
  CLORA_EXPECT_ERROR(read(with(qwen_json(), "model_type", "qwen3_5")), ErrorCode::unsupported,
                     "the architecture 'qwen3_5' is not supported");
}

// The checkpoint of `model` as the text model of a multimodal one, whose other parts have a tensor
// each.
void write_multimodal(const std::filesystem::path& folder, const test::FamilyModel& model,
                      const char* other_tensor) {
  test::write_family_model(folder, model);
  const SafetensorsFile text = SafetensorsFile::open(folder / "model.safetensors");
  std::vector<StoredTensor> stored;
  std::vector<std::vector<std::byte>> bytes;
  for (const SafetensorsFile::Entry& entry : text.entries()) {
    std::string name(entry.name);
    if (name.starts_with("model.")) name = "model.language_model." + name.substr(6);
    stored.push_back({name, DType::f32, Shape(std::span(entry.dimensions)), {}});
    bytes.emplace_back(entry.bytes.begin(), entry.bytes.end());
  }
  for (const char* name : {"model.visual.blocks.0.norm1.weight", "mtp.fc.weight", other_tensor}) {
    if (*name == 0) continue;
    stored.push_back({name, DType::f32, {1}, {}});
    bytes.emplace_back(sizeof(float));
  }
  std::filesystem::remove(folder / "model.safetensors");
  write_safetensors(folder / "model.safetensors", stored, {},
                    [&](std::size_t i) { return bytes[i]; });
  const json config{{"model_type", "qwen3_5"},
                    {"architectures", {"Qwen3_5ForConditionalGeneration"}},
                    {"tie_word_embeddings", model.reference.at("config").at("tie_word_embeddings")},
                    {"vision_config", {{"depth", 1}}},
                    {"text_config", model.reference.at("config")}};
  const std::string text_of_config = json_text(config, 2);
  write_file_atomically(folder / "config.json", std::as_bytes(std::span(text_of_config)));
}

test::FamilyModel family_model(const std::string& name) {
  const std::vector<test::FamilyModel> models = test::family_models();
  return *std::ranges::find(models, name, &test::FamilyModel::name);
}

TEST(Qwen35, IsTheTextModelOfAMultimodalCheckpoint) {
  const test::FamilyModel model = family_model("qwen3_5_text");
  const test::TemporaryFolder folder;
  test::write_family_model(folder / "text", model);
  write_multimodal(folder / "outer", model, "");
  test::OpenModel text(folder / "text"), outer(folder / "outer");
  std::vector<std::int32_t> ids(9, 5);
  EXPECT_EQ(ForwardPass(outer.model, nullptr).logits(ids),
            ForwardPass(text.model, nullptr).logits(ids));
  EXPECT_EQ(outer.model.config().family, "qwen3_5_text");
}

TEST(Qwen35, RefusesATensorOfAMultimodalCheckpointThatItDoesNotKnow) {
  const test::TemporaryFolder folder;
  write_multimodal(folder / "outer", family_model("qwen3_5_text"), "model.audio.weight");
  CLORA_EXPECT_ERROR(WeightFiles::open(folder / "outer"), ErrorCode::unsupported,
                     "tensor model.audio.weight is not part of a qwen3_5_text model");
}

TEST(Qwen35, RefusesAMultimodalConfigurationThatContradictsItself) {
  const json text{{"model_type", "qwen3_5_text"}, {"tie_word_embeddings", true}};
  const json config{
      {"model_type", "qwen3_5"}, {"tie_word_embeddings", false}, {"text_config", text}};
  CLORA_EXPECT_ERROR(text_config_of(config, "config.json"), ErrorCode::unsupported,
                     "tie_word_embeddings is false, but that of text_config is true");
  CLORA_EXPECT_ERROR(text_config_of({{"model_type", "qwen3_5"}}, "config.json"),
                     ErrorCode::invalid_file, "must have the key text_config");
  EXPECT_FALSE(text_config_of({{"model_type", "llama"}}, "config.json").has_value());
}

class LayersWithState : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    model_ = family_model(GetParam());
    test::write_family_model(folder_ / "model", model_);
  }
  static std::vector<std::int32_t> some_ids(int count, int step) {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < count; ++i) ids.push_back((i * step + 11) % 67);
    return ids;
  }

  test::TemporaryFolder folder_;
  test::FamilyModel model_;
};
INSTANTIATE_TEST_SUITE_P(Families, LayersWithState, testing::Values("lfm2", "qwen3_5_text"),
                         [](const auto& test) { return test.param; });

TEST_P(LayersWithState, BeginEachSequenceWithoutTheStateOfTheOneBefore) {
  test::OpenModel open(folder_ / "model");
  Generator used(open.model, nullptr, 128);
  const auto first = some_ids(90, 37), second = some_ids(5, 29);
  (void)used.generate(first, {.max_tokens = 6});
  const Generation again = used.generate(second, {.max_tokens = 8});
  EXPECT_EQ(again.ids, Generator(open.model, nullptr, 128).generate(second, {.max_tokens = 8}).ids);
  const auto stop = [](std::int64_t done) { return done == 0; };
  EXPECT_EQ(used.generate(first, {.max_tokens = 1, .on_prompt = stop}).finish_reason,
            FinishReason::cancelled);
  EXPECT_EQ(used.logits(second), Generator(open.model, nullptr, 128).logits(second));
}

// Steps of 9 and 33 rows, of prompts, are padded.
TEST_P(LayersWithState, ContinueAPromptAfterTheRowsThatPadItsStep) {
  test::OpenModel open(folder_ / "model");
  Generator generator(open.model, nullptr, 128);
  for (const int length : {8, 9, 33}) {
    auto ids = some_ids(length, 37);
    const Generation got = generator.generate(ids, {.max_tokens = 3});
    ids.insert(ids.end(), got.ids.begin(), got.ids.end());
    const auto rows = ForwardPass(open.model, nullptr).logits(ids);
    const auto width = rows.size() / ids.size();
    for (std::size_t i = 0; i < got.ids.size(); ++i) {
      const auto row =
          std::span(rows).subspan((static_cast<std::size_t>(length) - 1 + i) * width, width);
      EXPECT_NEAR(row[static_cast<std::size_t>(got.ids[i])], *std::ranges::max_element(row), 1e-4)
          << "token " << i << " after " << length;
    }
  }
}

TEST_P(LayersWithState, AreFusedFromAGgufFileToTheSameModel) {
  test::write_family_gguf(folder_ / "m.gguf", model_);
  test::OpenModel original(folder_ / "model"), gguf(folder_ / "m.gguf");
  const Adapter adapter(gguf.model.context(), adapter_sites(gguf.model.config()), {.rank = 1});
  write_fused_model(gguf.files, adapter, folder_ / "fused");  // b is 0
  test::OpenModel fused(folder_ / "fused");
  const auto ids = some_ids(20, 37);
  const std::vector<float> want = ForwardPass(original.model, nullptr).logits(ids);
  test::expect_logits(ForwardPass(fused.model, nullptr).logits(ids), test::to_double(want), 1e-5);
}

TEST_P(LayersWithState, HaveLogitsThatDoNotDependOnTheChunksOfThePrompt) {
  test::OpenModel open(folder_ / "model");
  Generator generator(open.model, nullptr, 128);
  for (const int length : {2, 63, 64, 65, 100}) {
    const auto ids = some_ids(length, 37);
    const std::vector<float> want = ForwardPass(open.model, nullptr).logits(ids, LogitRows::last);
    test::expect_logits(generator.logits(ids), test::to_double(want), 1e-5);
  }
}

}  // namespace
}  // namespace clora

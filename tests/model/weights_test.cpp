// WeightFiles (model/weights/weights.hpp): every kind of model file under one set of names, and
// files that are refused before a weight is read.
#include "clora/model/weights/weights.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "clora/lora/safetensors.hpp"
#include "clora/model/files/gguf.hpp"
#include "model/weights/weight_sources.hpp"
#include "tests/support/gguf_bytes.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::GgufBytes;
using test::TemporaryFolder;
using test::write_file;

constexpr std::string_view kEmbeddings = "model.embed_tokens.weight";
constexpr std::string_view kHead = "lm_head.weight";

// A Hugging Face folder of a very small model, which tests may damage before open().
class Weights : public ::testing::Test {
 protected:
  Weights() {
    config_ = {{"model_type", "qwen3"},  {"vocab_size", 5},          {"hidden_size", 4},
               {"num_hidden_layers", 1}, {"num_attention_heads", 2}, {"num_key_value_heads", 1},
               {"intermediate_size", 3}, {"rms_norm_eps", 1e-6},     {"max_position_embeddings", 8},
               {"head_dim", 6}};
    for (const WeightNeed& need : weight_needs(from_hugging_face(config_, "")))
      shapes_[need.name] = need.shape;
  }

  void write_config() { write_file(folder_ / "config.json", config_.dump()); }

  // The tensors whose names `chosen` accepts.
  template <class Choose>
  void write_tensors(const std::string& file, Choose chosen) {
    std::vector<StoredTensor> tensors;
    for (const auto& [name, shape] : shapes_)
      if (chosen(name))
        tensors.push_back(
            {name, DType::f32, shape,
             std::span(bytes_).first(4 * static_cast<std::size_t>(shape.elements()))});
    write_safetensors(folder_ / file, tensors);
  }
  void write_tensors() {
    write_tensors("model.safetensors", [](const std::string&) { return true; });
  }

  WeightFiles open() {
    write_config();
    write_tensors();
    return WeightFiles::open(folder_.path());
  }

  TemporaryFolder folder_;
  json config_;
  std::map<std::string, Shape> shapes_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(4096);
};

TEST_F(Weights, GivesWhatTheConfigurationCallsFor) {
  const WeightFiles files = open();
  EXPECT_EQ(files.all().size(), 14u);
  EXPECT_EQ(files.get("model.layers.0.self_attn.q_proj.weight", {12, 4}).type, DType::f32);
  EXPECT_EQ(files.get("model.layers.0.self_attn.o_proj.weight", {4, 12}).bytes.size(), 192u);
  EXPECT_EQ(files.get("model.layers.0.self_attn.k_norm.weight", {6}).bytes.size(), 24u);
  EXPECT_FALSE(files.find("model.layers.1.self_attn.q_proj.weight").has_value());
  EXPECT_EQ(files.files(), (std::vector{folder_ / "model.safetensors"}));
  EXPECT_EQ(files.folder(), folder_.path());
  EXPECT_EQ(files.gguf(), nullptr);
  CLORA_EXPECT_ERROR(files.get("model.norm.weight", {5}), ErrorCode::invalid_file,
                     "tensor model.norm.weight must be [5], got [4]");
  CLORA_EXPECT_ERROR(files.get("model.norm.bias", {4}), ErrorCode::not_found,
                     "has no tensor model.norm.bias");
}

TEST_F(Weights, KeepsItsViewsWhenMoved) {
  WeightFiles first = open();
  const WeightView view = first.get("model.norm.weight", {4});
  const WeightFiles second = std::move(first);
  EXPECT_EQ(second.get("model.norm.weight", {4}).bytes.data(), view.bytes.data());
}

TEST_F(Weights, CallsForBiasesIfTheFamilyHasThem) {
  config_["model_type"] = "qwen2";
  std::map<std::string, Shape> needs;
  for (const WeightNeed& need : weight_needs(from_hugging_face(config_, ""))) {
    needs[need.name] = need.shape;
  }
  EXPECT_EQ(needs.at("model.layers.0.self_attn.q_proj.bias"), (Shape{12}));
  EXPECT_EQ(needs.at("model.layers.0.self_attn.v_proj.bias"), (Shape{6}));
  EXPECT_FALSE(needs.contains("model.layers.0.self_attn.o_proj.bias"));
  EXPECT_FALSE(needs.contains("model.layers.0.self_attn.q_norm.weight"));
}

TEST_F(Weights, GiveOneMatrixForATiedHead) {
  config_["tie_word_embeddings"] = true;
  for (const auto stored : {kHead, kEmbeddings}) {
    shapes_.erase(std::string(kHead));
    shapes_.erase(std::string(kEmbeddings));
    shapes_[std::string(stored)] = {5, 4};
    const WeightFiles files = open();
    EXPECT_EQ(files.get(kEmbeddings, {5, 4}).bytes.data(), files.get(kHead, {5, 4}).bytes.data());
    EXPECT_EQ(files.get(kEmbeddings, {5, 4}).stored_name, stored);
    EXPECT_EQ(files.get(kHead, {5, 4}).name, kHead);
    EXPECT_EQ(files.all().front().name, kEmbeddings);
  }
}

TEST_F(Weights, TakeTheEmbeddingIfATiedModelStoresBoth) {
  config_["tie_word_embeddings"] = true;
  const WeightFiles files = open();
  EXPECT_EQ(files.get(kHead, {5, 4}).stored_name, kEmbeddings);
}

TEST_F(Weights, NameAMissingTensor) {
  shapes_.erase("model.layers.0.mlp.up_proj.weight");
  CLORA_EXPECT_ERROR(open(), ErrorCode::invalid_file,
                     "tensor model.layers.0.mlp.up_proj.weight [3, 4] is missing");
}

TEST_F(Weights, HintAtATiedHeadIfTheHeadIsMissing) {
  shapes_.erase(std::string(kHead));
  CLORA_EXPECT_ERROR(open(), ErrorCode::invalid_file, "tie_word_embeddings");
}

TEST_F(Weights, NameATensorOfAnotherShape) {
  shapes_["model.layers.0.mlp.up_proj.weight"] = {4, 3};
  CLORA_EXPECT_ERROR(open(), ErrorCode::invalid_file, "up_proj.weight must be [3, 4], got [4, 3]");
}

TEST_F(Weights, RefuseATensorThatTheModelDoesNotHave) {
  shapes_["model.layers.0.self_attn.q_proj.bias"] = {12};
  CLORA_EXPECT_ERROR(open(), ErrorCode::unsupported,
                     "self_attn.q_proj.bias is not part of a qwen3 model with 1 layers");
}

TEST_F(Weights, PassOverStoredRotaryTables) {
  shapes_["model.layers.0.self_attn.rotary_emb.inv_freq"] = {3};
  EXPECT_EQ(open().all().size(), 14u);
}

TEST_F(Weights, RefuseATensorOfATypeThatIsNoFloat) {
  write_config();
  std::vector<StoredTensor> tensors;
  for (const auto& [name, shape] : shapes_)
    tensors.push_back({name, name == "model.norm.weight" ? DType::i32 : DType::f32, shape,
                       std::span(bytes_).first(4 * static_cast<std::size_t>(shape.elements()))});
  write_safetensors(folder_ / "model.safetensors", tensors);
  CLORA_EXPECT_ERROR(WeightFiles::open(folder_.path()), ErrorCode::unsupported,
                     "tensor model.norm.weight has the type I32");
}

TEST_F(Weights, AddTheEndsOfTheGenerationConfiguration) {
  config_["eos_token_id"] = 2;
  write_file(folder_ / "generation_config.json", R"({"eos_token_id":[3,2]})");
  EXPECT_EQ(open().config().eos_ids, (std::vector<std::int32_t>{2, 3}));
}

TEST_F(Weights, PassOverGenerationEndsThatAreNoToken) {
  write_file(folder_ / "generation_config.json", R"({"eos_token_id":[-1,1099511627776,4]})");
  EXPECT_EQ(open().config().eos_ids, (std::vector<std::int32_t>{4}));
}

TEST_F(Weights, RefuseGenerationEndsThatAreNoIds) {
  write_file(folder_ / "generation_config.json", R"({"eos_token_id":[4,"</s>"]})");
  CLORA_EXPECT_ERROR(open(), ErrorCode::invalid_file,
                     "eos_token_id must be a token's id or a list of them, got \"</s>\"");
}

TEST_F(Weights, RefuseATiedHeadThatDiffersFromItsEmbedding) {
  config_["tie_word_embeddings"] = true;
  write_config();
  std::vector<std::byte> other = bytes_;
  const auto write = [&](std::span<const std::byte> head) {
    std::vector<StoredTensor> tensors;
    for (const auto& [name, shape] : shapes_) {
      const auto size = 4 * static_cast<std::size_t>(shape.elements());
      const auto all = name == kHead ? head : std::span<const std::byte>(bytes_);
      tensors.push_back({name, DType::f32, shape, all.first(size)});
    }
    write_safetensors(folder_ / "model.safetensors", tensors);
  };
  write(bytes_);
  EXPECT_EQ(WeightFiles::open(folder_.path()).get(kHead, {5, 4}).stored_name, kEmbeddings);
  other[17] ^= std::byte{1};
  write(other);
  CLORA_EXPECT_ERROR(WeightFiles::open(folder_.path()), ErrorCode::unsupported,
                     "tie_word_embeddings is true, but lm_head.weight and "
                     "model.embed_tokens.weight differ");
}

class Shards : public Weights {
 protected:
  void write_shards() {
    write_config();
    json map;
    for (const auto& [name, shape] : shapes_) map[name] = in_first(name) ? "one" : "two";
    index_ = {{"weight_map", map}};
    write_tensors("one", in_first);
    write_tensors("two", [](const std::string& name) { return !in_first(name); });
  }
  static bool in_first(const std::string& name) { return name.find("mlp") != std::string::npos; }
  WeightFiles open_shards() {
    write_file(folder_ / "model.safetensors.index.json", index_.dump());
    return WeightFiles::open(folder_.path());
  }
  json index_;
};

TEST_F(Shards, AreReadAsOneModel) {
  write_shards();
  const WeightFiles files = open_shards();
  EXPECT_EQ(files.all().size(), 14u);
  EXPECT_EQ(files.files(), (std::vector{folder_ / "one", folder_ / "two"}));
  EXPECT_EQ(files.get("model.norm.weight", {4}).file, folder_ / "two");
}

TEST_F(Shards, NameTheOneThatIsMissing) {
  write_shards();
  std::filesystem::remove(folder_ / "two");
  CLORA_EXPECT_ERROR(open_shards(), ErrorCode::not_found, "the shard two is missing");
}

TEST_F(Shards, RefuseAnIndexThatDoesNotFit) {
  write_shards();
  index_["weight_map"]["model.norm.weight"] = "one";
  CLORA_EXPECT_ERROR(open_shards(), ErrorCode::invalid_file, "model.norm.weight is not in one");
  index_["weight_map"]["model.norm.weight"] = "../one";
  CLORA_EXPECT_ERROR(open_shards(), ErrorCode::invalid_file, "a file of the same folder");
  index_ = json::object();
  CLORA_EXPECT_ERROR(open_shards(), ErrorCode::invalid_file, "weight_map is missing");
}

TEST_F(Shards, RefuseATensorStoredTwice) {
  write_shards();
  write_tensors("two", [](const std::string&) { return true; });
  CLORA_EXPECT_ERROR(open_shards(), ErrorCode::invalid_file, "is duplicated");
}

TEST_F(Weights, ReportWhatAModelFolderHolds) {
  CLORA_EXPECT_ERROR(WeightFiles::open(folder_ / "none"), ErrorCode::not_found, "no such file");
  CLORA_EXPECT_ERROR(WeightFiles::open(folder_.path()), ErrorCode::not_found, "not a model folder");
  write_tensors();
  CLORA_EXPECT_ERROR(WeightFiles::open(folder_.path()), ErrorCode::not_found, "no config.json");
  CLORA_EXPECT_ERROR(WeightFiles::open(folder_ / "model.safetensors"), ErrorCode::invalid_file,
                     "pass the folder");
  write_file(folder_ / "config.json", "{");
  CLORA_EXPECT_ERROR(WeightFiles::open(folder_.path()), ErrorCode::invalid_file,
                     "config.json: line 1, column 2: not valid JSON");
  write_file(folder_ / "config.json", "");
  CLORA_EXPECT_ERROR(WeightFiles::open(folder_.path()), ErrorCode::invalid_file, "is empty");
}

TEST_F(Weights, RequireAChoiceAmongSeveralGgufFiles) {
  write_file(folder_ / "a.gguf", "x");
  write_file(folder_ / "b.gguf", "x");
  CLORA_EXPECT_ERROR(WeightFiles::open(folder_.path()), ErrorCode::not_found, "pass one of them");
}

// A GGUF model of one layer. ffn_up has the given ggml type, all other tensors are F32.
GgufBytes gguf_model(std::uint32_t ffn_up_type) {
  GgufBytes gguf_bytes =
      test::one_layer_llama({.hidden_size = 4, .intermediate_size = 3, .context_length = 8}, 1e-6f);
  const auto add = [&](std::string_view name, std::uint64_t in, std::uint64_t out,
                       std::uint32_t type = 0) {
    gguf_bytes.add_tensor(name, {in, out}, type, std::string(in * out * 4, '\0'));
  };
  add("token_embd.weight", 4, 5);
  gguf_bytes.add_tensor("output_norm.weight", {4}, 0, std::string(16, '\0'));
  gguf_bytes.add_tensor("blk.0.attn_norm.weight", {4}, 0, std::string(16, '\0'));
  gguf_bytes.add_tensor("blk.0.ffn_norm.weight", {4}, 0, std::string(16, '\0'));
  for (const std::string_view name : {"attn_q", "attn_k", "attn_v", "attn_output"})
    add(fmt::format("blk.0.{}.weight", name), 4, 4);
  add("blk.0.ffn_gate.weight", 4, 3);
  add("blk.0.ffn_up.weight", 4, 3, ffn_up_type);
  add("blk.0.ffn_down.weight", 3, 4);
  return gguf_bytes;
}

TEST_F(Weights, GiveGgufTensorsTheSameNames) {
  write_file(folder_ / "m.gguf", gguf_model(0).bytes());
  const WeightFiles files = WeightFiles::open(folder_.path());
  EXPECT_EQ(files.get("model.layers.0.mlp.up_proj.weight", {3, 4}).stored_name,
            "blk.0.ffn_up.weight");
  EXPECT_EQ(files.get(kHead, {5, 4}).stored_name, "token_embd.weight");
  EXPECT_EQ(files.config().name, "m");
  EXPECT_NE(files.gguf(), nullptr);
  EXPECT_EQ(files.all().size(), 11u);
}

TEST_F(Weights, NameATensorOfAnUnknownQuantisation) {
  write_file(folder_ / "m.gguf", gguf_model(17).bytes());
  CLORA_EXPECT_ERROR(WeightFiles::open(folder_ / "m.gguf"), ErrorCode::unsupported,
                     "tensor blk.0.ffn_up.weight has the type IQ2_XS (17)");
}

TEST_F(Weights, RefuseEveryPrefixOfAGgufModel) {
  const std::string intact = gguf_model(0).bytes();
  for (std::size_t size = 0; size < intact.size(); size += 7) {
    write_file(folder_ / "m.gguf", intact.substr(0, size));
    CLORA_EXPECT_ERROR(WeightFiles::open(folder_ / "m.gguf"), ErrorCode::invalid_file, "m.gguf");
  }
}

TEST_F(Weights, NameTheTensorsOfAGgufFileAsHuggingFaceDoes) {
  std::map<std::string, std::string> names;
  for (const WeightNeed& need : weight_needs(from_hugging_face(config_, ""))) {
    names[need.gguf_name] = need.name;
  }
  EXPECT_EQ(names.at("blk.0.attn_k.weight"), "model.layers.0.self_attn.k_proj.weight");
  EXPECT_EQ(names.at("blk.0.attn_q_norm.weight"), "model.layers.0.self_attn.q_norm.weight");
  EXPECT_EQ(names.at("output.weight"), kHead);
}

TEST(WeightModels, OpenEveryTestModel) {
  CLORA_REQUIRE_TEST_DATA(models, "models");
  for (const std::string_view path :
       {"tinystories-656k", "tiny_llama3", "tiny_qwen3",
        "tinystories-656k/gguf-derived/TinyStories-656K-F16.gguf",
        "tinystories-656k/gguf-derived/TinyStories-656K-F32.gguf",
        "tinystories-656k/gguf-derived/TinyStories-656K-Q4_0.gguf",
        "tinystories-656k/gguf-derived/TinyStories-656K-Q8_0.gguf", "stories260k/stories260K.gguf",
        "stories260k/stories260K-F16.gguf", "stories260k/stories260K-Q4_0.gguf",
        "stories260k/stories260K-Q4_1.gguf", "stories260k/stories260K-Q8_0.gguf"}) {
    const WeightFiles files = WeightFiles::open(models / path);
    EXPECT_EQ(files.all().size(), weight_needs(files.config()).size()) << path;
    EXPECT_TRUE(files.find(kEmbeddings).has_value() && files.find(kHead).has_value()) << path;
  }
}

TEST(WeightModels, GiveTinyStoriesHeadAsItsEmbedding) {
  CLORA_REQUIRE_TEST_DATA(path, "models/tinystories-656k");
  const WeightFiles files = WeightFiles::open(path);
  EXPECT_EQ(files.get(kEmbeddings, {2048, 128}).stored_name, kHead);
  EXPECT_EQ(files.config().name, "tinystories-656k");
  EXPECT_EQ(files.config().eos_ids, (std::vector<std::int32_t>{2}));
}

// Both formats of a model hold the same numbers. q and k differ in their order of rows.
TEST(WeightModels, AreReorderedBetweenFormatsAsHalfSplitSourceRowSays) {
  CLORA_REQUIRE_TEST_DATA(path, "models/tinystories-656k");
  const WeightFiles hf = WeightFiles::open(path);
  const WeightFiles gguf = WeightFiles::open(path / "gguf-derived/TinyStories-656K-F32.gguf");
  const auto row_of = [](const WeightView& view, std::int64_t row) {
    const auto width = 4 * static_cast<std::size_t>(view.shape.last());
    return view.bytes.subspan(static_cast<std::size_t>(row) * width, width);
  };
  for (const WeightView& wanted : hf.all()) {
    const WeightView stored = gguf.get(wanted.name, wanted.shape);
    const bool reordered = wanted.name.find("q_proj") != std::string::npos ||
                           wanted.name.find("k_proj") != std::string::npos;
    for (std::int64_t row = 0; row < wanted.shape.rows(); ++row) {
      const std::int64_t source =
          reordered ? half_split_source_row(row, hf.config().head_dim) : row;
      const auto a = row_of(wanted, row);
      const auto b = row_of(stored, source);
      ASSERT_EQ(std::memcmp(a.data(), b.data(), a.size()), 0) << wanted.name << " row " << row;
    }
  }
}

TEST(WeightModels, OpenSmolLM2) {
  CLORA_DEMO_MODEL_OR_SKIP(path);
  const WeightFiles files = WeightFiles::open(path);
  EXPECT_EQ(files.all().size(), 272u);
  EXPECT_EQ(files.get("model.layers.29.self_attn.k_proj.weight", {192, 576}).type, DType::q4_1);
  EXPECT_EQ(files.get(kHead, {49152, 576}).type, DType::q8_0);
}

}  // namespace
}  // namespace clora

// Models as GGUF files (model/export/gguf_model.hpp), compared with the files of llama.cpp, with
// the tensors of their base, and with merged safetensors.
#include "clora/model/export/gguf_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "clora/lora/peft_files.hpp"
#include "clora/model/files/gguf.hpp"
#include "clora/model/text/tokenizer_files.hpp"
#include "clora/model/transformer/adapter_sites.hpp"
#include "clora/model/transformer/forward_pass.hpp"
#include "clora/model/weights/fuse.hpp"
#include "model/export/gguf_types.hpp"
#include "model/files/dequantise.hpp"
#include "model/files/quantise.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/random_adapter.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

using test::FamilyModel;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kStory = "models/tinystories-656k";

std::filesystem::path story_gguf(const std::string& type) {
  return test::test_data(std::string(kStory) + "/gguf-derived/TinyStories-656K-" + type + ".gguf");
}

GgufModelSummary write_model(const std::filesystem::path& model, const std::filesystem::path& out,
                             std::optional<DType> type = {}, const Adapter* adapter = nullptr) {
  return write_gguf_model(WeightFiles::open(model), adapter, out, {.type = type});
}

// The same tensors in any order.
void expect_same_tensors(const std::filesystem::path& got, const std::filesystem::path& want) {
  const GgufFile one = GgufFile::open(got), other = GgufFile::open(want);
  EXPECT_EQ(one.tensors().size(), other.tensors().size());
  for (const GgufTensor& tensor : other.tensors()) {
    const GgufTensor* found = one.find_tensor(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(found->type_number, tensor.type_number) << tensor.name;
    EXPECT_EQ(found->shape, tensor.shape) << tensor.name;
    if (tensor.name == "rope_freqs.weight") {  // computed: the last bit may differ
      const auto count = static_cast<std::size_t>(tensor.shape.elements());
      const auto a = to_float(DType::f32, found->bytes, count);
      const auto b = to_float(DType::f32, tensor.bytes, count);
      for (std::size_t i = 0; i < count; ++i) EXPECT_NEAR(a[i], b[i], 1e-6F * b[i]);
      continue;
    }
    EXPECT_TRUE(std::ranges::equal(found->bytes, tensor.bytes)) << tensor.name;
  }
}

// The metadata of the second file is also that of the first, with values of the same kinds.
void expect_metadata(const std::filesystem::path& got, const std::filesystem::path& want) {
  const GgufFile one = GgufFile::open(got), other = GgufFile::open(want);
  for (const GgufFile::Entry& entry : other.metadata()) {
    if (entry.key == "tokenizer.ggml.padding_token_id") continue;  // the model has none
    const GgufValue* found = one.find_value(entry.key);
    ASSERT_NE(found, nullptr) << entry.key;
    EXPECT_EQ(found->type, entry.value.type) << entry.key;
    if (entry.key == "general.name") continue;  // of the folder
    EXPECT_EQ(found->summary(), entry.value.summary()) << entry.key;
    EXPECT_TRUE(std::ranges::equal(found->bytes, entry.value.bytes)) << entry.key;
  }
}

struct StoryCase {
  const char* name;
  DType type;
};

class Story : public testing::TestWithParam<StoryCase> {};
INSTANTIATE_TEST_SUITE_P(Types, Story,
                         testing::Values(StoryCase{"F32", DType::f32}, StoryCase{"F16", DType::f16},
                                         StoryCase{"Q8_0", DType::q8_0},
                                         StoryCase{"Q4_0", DType::q4_0}),
                         [](const auto& test) { return test.param.name; });

TEST_P(Story, FromSafetensorsIsTheFileOfLlamaCpp) {
  CLORA_REQUIRE_TEST_DATA(folder, kStory);
  const test::TemporaryFolder out;
  const GgufModelSummary summary = write_model(folder, out / "m.gguf", GetParam().type);
  expect_same_tensors(out / "m.gguf", story_gguf(GetParam().name));
  expect_metadata(out / "m.gguf", story_gguf(GetParam().name));
  EXPECT_THAT(summary.missing_tokenizer, IsEmpty());
  EXPECT_EQ(summary.bytes, std::filesystem::file_size(out / "m.gguf"));
}

TEST_P(Story, FromTheF32FileIsTheFileOfLlamaCpp) {
  CLORA_REQUIRE_TEST_DATA(folder, kStory);
  const test::TemporaryFolder out;
  write_model(story_gguf("F32"), out / "m.gguf", GetParam().type);
  expect_same_tensors(out / "m.gguf", story_gguf(GetParam().name));
}

TEST_P(Story, KeptAsItIsHasEveryByteOfTheBase) {
  CLORA_REQUIRE_TEST_DATA(folder, kStory);
  const test::TemporaryFolder out;
  const auto base = story_gguf(GetParam().name);
  const GgufModelSummary summary = write_model(base, out / "m.gguf");
  expect_same_tensors(out / "m.gguf", base);
  expect_metadata(out / "m.gguf", base);
  EXPECT_EQ(summary.converted, 0);
  EXPECT_EQ(summary.copied, 20);
  const GgufFile written = GgufFile::open(out / "m.gguf"), file = GgufFile::open(base);
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    EXPECT_EQ(written.tensors()[i].name, file.tensors()[i].name);
  }
}

TEST(GgufModel, HasTheTokensOfTheFolder) {
  CLORA_REQUIRE_TEST_DATA(folder, kStory);
  const test::TemporaryFolder out;
  write_model(folder, out / "m.gguf");
  const Tokenizer one = load_tokenizer(folder), other = load_tokenizer(out / "m.gguf");
  for (const std::string_view text : {"Once upon a time, there was a dog.", "  two  spaces", ""}) {
    EXPECT_EQ(one.encode(text), other.encode(text)) << text;
  }
}

// ---- families ----

class GgufFamilies : public testing::TestWithParam<FamilyModel> {
 protected:
  GgufFamilies() {
    FamilyModel model = GetParam();
    // GGUF files cannot say the scale of Gemma's scores.
    nlohmann::json& config = model.reference.at("config");
    if (config.contains("query_pre_attn_scalar")) {
      config["query_pre_attn_scalar"] = config.at("head_dim");
    }
    // Of Gemma 3, every sixth layer has no window.
    if (model.name == "gemma3_text") {
      for (nlohmann::json& type : config.at("layer_types")) type = "sliding_attention";
    }
    test::write_family_model(folder_ / "model", model);
  }
  static std::vector<std::int32_t> ids() {
    return GetParam().reference.at("sequences").at(1).at("ids").get<std::vector<std::int32_t>>();
  }
  static std::vector<float> logits(const std::filesystem::path& path) {
    const LoadOptions options{.context_length = std::ssize(ids())};
    test::OpenModel open(path, Variant::automatic, options);
    return ForwardPass(open.model, nullptr).logits(ids());
  }
  test::TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(All, GgufFamilies, testing::ValuesIn(test::family_models()),
                         [](const auto& test) { return test.param.name; });

// Those whose family this writer does not have, or whose window or rope GGUF does not have for it.
constexpr std::array<std::string_view, 10> kRefused = {
    "lfm2",      "llama_dynamic", "ministral3",   "mistral",         "phi3",
    "phi4_mini", "qwen2",         "qwen3_5_text", "qwen3_moe_plain", "seed_oss"};

TEST_P(GgufFamilies, AreWrittenAsTheConverterDoesOrRefusedByName) {
  const auto write = [&] { write_model(folder_ / "model", folder_ / "m.gguf", DType::f32); };
  if (std::ranges::find(kRefused, GetParam().name) != kRefused.end()) {
    CLORA_EXPECT_ERROR(write(), ErrorCode::unsupported, "write safetensors");
    EXPECT_FALSE(std::filesystem::exists(folder_ / "m.gguf"));
    return;
  }
  write();
  test::write_family_gguf(folder_ / "want.gguf", GetParam());
  expect_same_tensors(folder_ / "m.gguf", folder_ / "want.gguf");
  const std::vector<double> want = test::to_double(logits(folder_ / "want.gguf"));
  test::expect_logits(logits(folder_ / "m.gguf"), want, 1e-6);
  test::expect_logits(logits(folder_ / "model"), want, 1e-5);
}

// Their order of rows, of value heads and of experts is another one than Hugging Face's.
TEST_P(GgufFamilies, OfAGgufFileTakeAnAdapterInTheirOwnOrder) {
  test::write_family_gguf(folder_ / "base.gguf", GetParam());
  const LoadOptions options{.context_length = std::ssize(ids())};
  test::OpenModel open(folder_ / "base.gguf", Variant::automatic, options);
  test::write_random_adapter(open.model, folder_ / "adapter", 5);
  const Adapter adapter =
      load_adapter(open.model.context(), folder_ / "adapter", adapter_sites(open.model.config()));
  write_gguf_model(open.files, &adapter, folder_ / "m.gguf");
  const auto want = test::to_double(ForwardPass(open.model, &adapter).logits(ids()));
  test::expect_logits(logits(folder_ / "m.gguf"), want, 1e-4);
  const auto before = test::to_double(ForwardPass(open.model, nullptr).logits(ids()));
  double moved = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    moved = std::max(moved, std::abs(before[i] - want[i]));
  }
  EXPECT_GT(moved, 0.01);
}

// ---- quantised bases ----

class QuantisedBase : public testing::Test {
 protected:
  // An adapter of q and down of the first block.
  Adapter adapter_of(test::OpenModel& open) {
    auto sites = adapter_sites(open.model.config());
    std::erase_if(sites, [](const AdapterSite& site) {
      return site.path != "model.layers.0.self_attn.q_proj" &&
             site.path != "model.layers.0.mlp.down_proj";
    });
    Adapter adapter(open.model.context(), sites, {.rank = 2, .alpha = 2});
    std::uint32_t seed = 3;
    for (const AdapterModule& module : adapter.modules()) {
      const LoraWeights weights = adapter.weights(module.site.path);
      for (const Tensor& matrix : {weights.a, weights.bt}) {
        const auto values =
            test::random_values(static_cast<std::size_t>(matrix.elements()), seed++, 0.2F);
        open.model.context().write(matrix, std::as_bytes(std::span(values)));
      }
    }
    return adapter;
  }
  test::TemporaryFolder folder_;
};

TEST_F(QuantisedBase, OnlyChangedTensorsAreQuantisedAgainInTheirOwnType) {
  CLORA_REQUIRE_TEST_DATA(folder, kStory);
  for (const char* type : {"Q8_0", "Q4_0"}) {
    test::OpenModel open(story_gguf(type));
    const Adapter adapter = adapter_of(open);
    const auto out = folder_ / (std::string(type) + ".gguf");
    const GgufModelSummary summary = write_gguf_model(open.files, &adapter, out);
    EXPECT_EQ(summary.converted, 2);
    EXPECT_EQ(summary.copied, 18);
    write_fused_model(open.files, adapter, folder_ / type);
    const GgufFile base = GgufFile::open(story_gguf(type)), written = GgufFile::open(out);
    for (const GgufTensor& tensor : base.tensors()) {
      const GgufTensor* found = written.find_tensor(tensor.name);
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found->type, tensor.type);
      const bool is_changed =
          tensor.name == "blk.0.attn_q.weight" || tensor.name == "blk.0.ffn_down.weight";
      EXPECT_NE(std::ranges::equal(found->bytes, tensor.bytes), is_changed) << tensor.name;
    }
    // Its bytes are those of the quantiser for the merged values.
    const auto down =
        WeightFiles::open(folder_ / type).get("model.layers.0.mlp.down_proj.weight", {128, 384});
    const auto want = quantise(type == std::string("Q8_0") ? DType::q8_0 : DType::q4_0,
                               to_float(DType::f32, down.bytes, std::size_t{128} * 384));
    EXPECT_TRUE(std::ranges::equal(written.find_tensor("blk.0.ffn_down.weight")->bytes, want));
  }
}

TEST_F(QuantisedBase, AChangedEmbeddingGivesTheFileAHeadOfItsOwn) {
  CLORA_REQUIRE_TEST_DATA(folder, kStory);
  test::OpenModel open(story_gguf("F32"));
  std::vector<AdapterSite> sites = select_sites(open.model.config(), {"embed_tokens"}, 0);
  Adapter adapter(open.model.context(), sites,
                  {.rank = 2, .alpha = 2, .target_modules = {"embed_tokens"}});
  for (const AdapterModule& module : adapter.modules()) {
    const LoraWeights weights = adapter.weights(module.site.path);
    std::uint32_t seed = 8;
    for (const Tensor& matrix : {weights.a, weights.bt}) {
      const auto values =
          test::random_values(static_cast<std::size_t>(matrix.elements()), seed++, 0.3F);
      open.model.context().write(matrix, std::as_bytes(std::span(values)));
    }
  }
  write_gguf_model(open.files, &adapter, folder_ / "m.gguf");
  const GgufFile written = GgufFile::open(folder_ / "m.gguf"),
                 base = GgufFile::open(story_gguf("F32"));
  const GgufTensor* head = written.find_tensor("output.weight");
  ASSERT_NE(head, nullptr);
  EXPECT_TRUE(std::ranges::equal(head->bytes, base.find_tensor("token_embd.weight")->bytes));
  EXPECT_FALSE(std::ranges::equal(written.find_tensor("token_embd.weight")->bytes, head->bytes));
  test::OpenModel merged(folder_ / "m.gguf");
  const std::vector<std::int32_t> ids{1, 400, 30, 7, 2000};
  test::expect_logits(ForwardPass(merged.model, nullptr).logits(ids),
                      test::to_double(ForwardPass(open.model, &adapter).logits(ids)), 1e-4);
}

// ---- types ----

TEST(GgufTypes, FollowTheKindOfTensorAndTheLengthOfItsRows) {
  const Shape wide{64, 512}, narrow{64, 96}, odd{64, 40}, vector{512};
  const auto type = [](std::string_view name, const Shape& shape, std::optional<DType> wanted,
                       bool is_head = false, DType stored = DType::bf16) {
    return gguf_type_of({.name = name, .shape = shape, .type = stored, .is_head = is_head}, wanted);
  };
  EXPECT_EQ(type("blk.0.ffn_up.weight", wide, DType::q4_k), DType::q4_k);
  EXPECT_EQ(type("blk.0.ffn_up.weight", narrow, DType::q4_k), DType::q5_0);
  EXPECT_EQ(type("blk.0.ffn_up.weight", narrow, DType::q5_k), DType::q5_1);
  EXPECT_EQ(type("blk.0.ffn_up.weight", narrow, DType::q6_k), DType::q8_0);
  EXPECT_EQ(type("blk.0.ffn_up.weight", odd, DType::q4_k), DType::f16);
  EXPECT_EQ(type("blk.0.ffn_up.weight", odd, DType::q8_0), DType::f16);
  EXPECT_EQ(type("output.weight", wide, DType::q4_k, true), DType::q6_k);
  EXPECT_EQ(type("output.weight", wide, DType::q8_0, true), DType::q8_0);
  EXPECT_EQ(type("output.weight", narrow, DType::q4_0, true), DType::q8_0);
  EXPECT_EQ(type("output.weight", wide, DType::f16, true), DType::f16);
  EXPECT_EQ(type("output_norm.weight", vector, DType::q4_k), DType::f32);
  EXPECT_EQ(type("output_norm.weight", vector, DType::f16), DType::f32);
  EXPECT_EQ(type("blk.0.ffn_gate_inp.weight", wide, DType::q4_k), DType::f32);
  EXPECT_EQ(type("blk.0.ffn_up.weight", wide, std::nullopt), DType::bf16);
  EXPECT_EQ(type("output_norm.weight", vector, std::nullopt), DType::f32);
  EXPECT_EQ(type("blk.0.ffn_up.weight", wide, std::nullopt, false, DType::q5_k), DType::q5_k);
}

TEST(GgufModel, ReportsTensorsOfAnotherTypeThanAsked) {
  CLORA_REQUIRE_TEST_DATA(folder, kStory);
  const test::TemporaryFolder out;
  const GgufModelSummary summary = write_model(folder, out / "m.gguf", DType::q4_k);
  EXPECT_EQ(summary.other_types.size(), 15U);  // all matrices have rows of 128 or 384
  EXPECT_THAT(summary.other_types, testing::Contains("blk.0.ffn_down.weight as q5_0"));
  EXPECT_THAT(summary.other_types, testing::Contains("token_embd.weight as q8_0"));
  EXPECT_EQ(GgufFile::open(out / "m.gguf").integer("general.file_type"), 14);
}

// ---- errors ----

class GgufErrors : public testing::Test {
 protected:
  std::filesystem::path story() const { return test::test_data(kStory); }
  test::TemporaryFolder folder_;
};

TEST_F(GgufErrors, ACancelledWriterLeavesNothing) {
  CLORA_REQUIRE_TEST_DATA(folder, kStory);
  int tensors = 0;
  const WeightFiles files = WeightFiles::open(story_gguf("Q4_0"));
  CLORA_EXPECT_ERROR(write_gguf_model(files, nullptr, folder_ / "m.gguf",
                                      {.go_on = [&] { return ++tensors < 5; }}),
                     ErrorCode::cancelled, "GGUF: stopped");
  EXPECT_EQ(tensors, 5);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(GgufErrors, AnExistingFileIsNotReplaced) {
  CLORA_REQUIRE_TEST_DATA(folder, kStory);
  test::write_file(folder_ / "m.gguf", "mine");
  CLORA_EXPECT_ERROR(write_model(folder, folder_ / "m.gguf"), ErrorCode::io, "exists");
  EXPECT_EQ(test::read_file(folder_ / "m.gguf"), "mine");
}

TEST_F(GgufErrors, AModelWithoutTokeniserIsWrittenForTokenIds) {
  CLORA_REQUIRE_TEST_DATA(folder, "models/tiny_qwen3");
  const GgufModelSummary summary = write_model(folder, folder_ / "m.gguf");
  EXPECT_THAT(summary.missing_tokenizer, HasSubstr("tokenizer.json"));
  EXPECT_EQ(GgufFile::open(folder_ / "m.gguf").text("tokenizer.ggml.model"), "none");
  EXPECT_EQ(GgufFile::open(folder_ / "m.gguf").integer("general.file_type"), 32);  // bf16, kept
}

TEST_F(GgufErrors, Llama3RopeBecomesFactors) {
  CLORA_REQUIRE_TEST_DATA(folder, "models/tiny_llama3");
  write_model(folder, folder_ / "m.gguf");
  const GgufFile file = GgufFile::open(folder_ / "m.gguf");
  ASSERT_NE(file.find_tensor("rope_freqs.weight"), nullptr);
  test::OpenModel one(folder), other(folder_ / "m.gguf");
  const std::vector<std::int32_t> ids{1, 4, 30, 7, 20, 11, 2};
  test::expect_logits(ForwardPass(other.model, nullptr).logits(ids),
                      test::to_double(ForwardPass(one.model, nullptr).logits(ids)), 1e-5);
}

TEST_F(GgufErrors, ATokeniserWithMoreTokensThanRowsIsRefused) {
  CLORA_REQUIRE_TEST_DATA(folder, "models/tiny_qwen3");
  std::filesystem::copy(folder, folder_ / "model");
  std::filesystem::copy(story() / "tokenizer.json", folder_ / "model/tokenizer.json");
  CLORA_EXPECT_ERROR(write_model(folder_ / "model", folder_ / "m.gguf"), ErrorCode::unsupported,
                     "has 2048 tokens, but the model's embeddings have");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "m.gguf"));
}

TEST_F(GgufErrors, AValueThatIsNotFiniteIsNamedWithItsTensor) {
  CLORA_REQUIRE_TEST_DATA(folder, kStory);
  std::string bytes = test::read_file(story_gguf("F32"));
  const GgufFile file = GgufFile::open(story_gguf("F32"));
  const GgufTensor* tensor = file.find_tensor("blk.1.ffn_up.weight");
  const auto at = static_cast<std::size_t>(reinterpret_cast<const char*>(tensor->bytes.data()) -
                                           file.parts().front().text().data());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(&bytes[at + 40], &nan, sizeof nan);
  test::write_file(folder_ / "bad.gguf", bytes);
  CLORA_EXPECT_ERROR(write_model(folder_ / "bad.gguf", folder_ / "m.gguf", DType::q8_0),
                     ErrorCode::invalid_data, "tensor blk.1.ffn_up.weight");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "m.gguf"));
}

}  // namespace
}  // namespace clora

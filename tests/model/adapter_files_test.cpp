// Adapters through the files of every format and back.
#include "clora/model/adapter_files/adapter_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "clora/lora/peft_files.hpp"
#include "clora/lora/safetensors.hpp"
#include "clora/model/files/gguf.hpp"
#include "clora/model/files/gguf_writing.hpp"
#include "model/adapter_files/adapter_comparison.hpp"
#include "tests/support/random_adapter_values.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

using test::adapter_of;
using test::random_adapter_values;
using test::random_module;
using test::TemporaryFolder;
using test::tiny_config;
using testing::ElementsAre;
using testing::HasSubstr;

class AdapterFiles : public testing::Test {
 protected:
  std::filesystem::path path_of(AdapterFormat format) const {
    return folder_ /
           (format == AdapterFormat::gguf ? "adapter.gguf" : std::string(name_of(format)));
  }
  // What is read back from a file of the format.
  AdapterValues through(AdapterFormat format, const AdapterValues& adapter,
                        const ModelConfig& model) {
    notes_ = write_adapter(adapter, format, model, path_of(format));
    EXPECT_EQ(format_of_adapter(path_of(format)), format);
    return read_adapter(path_of(format), model);
  }
  nlohmann::json mlx_config() const {
    return nlohmann::json::parse(
        test::read_file(path_of(AdapterFormat::mlx) / "adapter_config.json"));
  }
  // A GGUF file with other metadata and the tensors of the one that was written.
  void rewrite_gguf(const std::function<void(GgufMetadata&)>& change) {
    const auto path = path_of(AdapterFormat::gguf);
    {
      const GgufFile file = GgufFile::open(path);
      GgufMetadata metadata;
      for (const GgufFile::Entry& entry : file.metadata()) metadata.set(entry.key, entry.value);
      change(metadata);
      std::vector<GgufTensorDescription> tensors;
      for (const GgufTensor& tensor : file.tensors()) {
        tensors.push_back({std::string(tensor.name), *tensor.type, tensor.shape});
      }
      write_gguf(folder_ / "changed", metadata, tensors, [&](std::size_t i) {
        const auto bytes = file.tensors()[i].bytes;
        return std::vector<std::byte>(bytes.begin(), bytes.end());
      });
    }
    std::filesystem::rename(folder_ / "changed", path);
  }

  TemporaryFolder folder_;
  ConversionNotes notes_;
};

void expect_same_bits(const AdapterValues& got, const AdapterValues& wanted) {
  ASSERT_EQ(got.modules.size(), wanted.modules.size());
  for (std::size_t i = 0; i < wanted.modules.size(); ++i) {
    const ModuleValues &one = got.modules[i], &other = wanted.modules[i];
    EXPECT_EQ(one.site.path, other.site.path);
    EXPECT_EQ(one.rank, other.rank) << one.site.path;
    EXPECT_EQ(one.scale, other.scale) << one.site.path;
    EXPECT_EQ(one.a, other.a) << one.site.path;
    EXPECT_EQ(one.b, other.b) << one.site.path;
    EXPECT_EQ(one.magnitude, other.magnitude) << one.site.path;
  }
}

TEST_F(AdapterFiles, OfEveryFamilyAreTheSameBitsAfterGguf) {
  for (const test::TinyModel& each : test::tiny_models()) {
    SCOPED_TRACE(each.name);
    const AdapterValues adapter = random_adapter_values(each.config);
    expect_same_bits(through(AdapterFormat::gguf, adapter, each.config), adapter);
    EXPECT_EQ(notes_.folded, 0);
  }
}

TEST_F(AdapterFiles, OfEveryFamilyWithoutExpertsAreTheSameBitsAfterMlx) {
  for (const test::TinyModel& each : test::tiny_models()) {
    SCOPED_TRACE(each.name);
    if (each.config.family == "qwen3_moe" || each.config.family == "mixtral") continue;
    const AdapterValues adapter = random_adapter_values(each.config);
    expect_same_bits(through(AdapterFormat::mlx, adapter, each.config), adapter);
    EXPECT_EQ(notes_.folded, 0);
  }
}

TEST_F(AdapterFiles, OfPeftKeepTheirBitsThroughBothOtherFormats) {
  const ModelConfig model = tiny_config("Llama");
  const AdapterValues adapter = random_adapter_values(model);
  const AdapterValues peft = through(AdapterFormat::peft, adapter, model);
  const AdapterValues gguf = through(AdapterFormat::gguf, peft, model);
  const AdapterValues mlx = through(AdapterFormat::mlx, gguf, model);
  expect_same_bits(through(AdapterFormat::peft, mlx, model), adapter);
}

// alpha / sqrt(rank) is no power of two and not exact in f32.
TEST_F(AdapterFiles, OfOneScaleNeedNoFoldingWhateverTheScaleIs) {
  const ModelConfig model = tiny_config("Qwen3");
  for (const std::int64_t rank : {1, 3, 5, 6, 7, 12, 13, 100}) {
    const auto scale = static_cast<float>(10 / std::sqrt(static_cast<double>(rank)));
    const AdapterValues adapter = random_adapter_values(model, rank, scale);
    expect_same_bits(through(AdapterFormat::mlx, adapter, model), adapter);
    EXPECT_EQ(notes_.folded, 0) << rank;
    // For some ranks no alpha gives the scale exactly.
    AdapterValues read = through(AdapterFormat::gguf, adapter, model);
    EXPECT_EQ(notes_.folded, 0) << rank;
    for (ModuleValues& module : read.modules) {
      EXPECT_NEAR(module.scale, scale, scale * 1.2e-7) << rank;
      module.scale = scale;
    }
    expect_same_bits(read, adapter);
  }
}

// All modules have scale 2 but the first, which has `scale` and `rank`.
AdapterValues with_another_first(const ModelConfig& model, std::int64_t rank, float scale) {
  AdapterValues adapter = random_adapter_values(model, 4, 2);
  adapter.modules.front() = random_module(adapter.modules.front().site, rank, scale);
  return adapter_of(std::move(adapter.modules), model);
}

TEST_F(AdapterFiles, FoldScalesThatAreRatiosOfPowersOfTwoExactly) {
  const ModelConfig model = tiny_config("Llama");
  const AdapterValues adapter = with_another_first(model, 4, 0.25F);
  for (const AdapterFormat format : {AdapterFormat::gguf, AdapterFormat::mlx}) {
    const AdapterValues read = through(format, adapter, model);
    EXPECT_EQ(notes_.folded, 1);
    EXPECT_EQ(notes_.rounded, 0);
    EXPECT_EQ(read.modules.front().scale, 2);
    EXPECT_EQ(read.modules.front().b[1], adapter.modules.front().b[1] / 8);
    EXPECT_EQ(largest_difference(adapter, read), 0);
  }
}

TEST_F(AdapterFiles, FoldOtherScalesWithOneRounding) {
  const ModelConfig model = tiny_config("Llama");
  const AdapterValues adapter = with_another_first(model, 4, 0.3F);
  for (const AdapterFormat format : {AdapterFormat::gguf, AdapterFormat::mlx}) {
    const AdapterValues read = through(format, adapter, model);
    EXPECT_EQ(notes_.rounded, 1);
    EXPECT_GT(largest_difference(adapter, read), 0);
    EXPECT_LT(largest_difference(adapter, read), 1e-7);
  }
}

// alpha / rank of another rank is another scale: nothing is folded if it is the module's.
TEST_F(AdapterFiles, OfSeveralRanksKeepTheirBitsInGguf) {
  const ModelConfig model = tiny_config("Llama");
  const AdapterValues adapter = with_another_first(model, 2, 4);
  expect_same_bits(through(AdapterFormat::gguf, adapter, model), adapter);
  EXPECT_EQ(notes_.folded, 0);
}

TEST_F(AdapterFiles, OfSeveralRanksArePaddedForMlx) {
  const ModelConfig model = tiny_config("Llama");
  const AdapterValues adapter = with_another_first(model, 2, 2);
  const AdapterValues read = through(AdapterFormat::mlx, adapter, model);
  EXPECT_EQ(notes_.padded, 1);
  EXPECT_EQ(notes_.folded, 0);
  EXPECT_EQ(read.modules.front().rank, 4);
  EXPECT_EQ(largest_difference(adapter, read), 0);
}

// In llama.cpp, alpha 0 is scale 1.
TEST_F(AdapterFiles, OfScaleZeroStayZero) {
  const ModelConfig model = tiny_config("Llama");
  const AdapterValues adapter = random_adapter_values(model, 4, 0);
  for (const AdapterFormat format : {AdapterFormat::gguf, AdapterFormat::mlx}) {
    const AdapterValues read = through(format, adapter, model);
    for (const ModuleValues& module : read.modules) {
      for (const float b : module.b) EXPECT_EQ(module.scale * b, 0);
    }
  }
}

TEST_F(AdapterFiles, OfDoraKeepTheirBitsThroughMlx) {
  const ModelConfig model = tiny_config("Llama");
  const AdapterValues adapter = random_adapter_values(model, 3, 2, {.use_dora = true});
  const AdapterValues read = through(AdapterFormat::mlx, adapter, model);
  EXPECT_TRUE(read.config.use_dora);
  EXPECT_EQ(mlx_config().at("fine_tune_type"), "dora");
  expect_same_bits(read, adapter);
}

// Rotary pairs are adjacent in GGUF files of Llama: rows 2 i and 2 i + 1 of a head are its rows i
// and i + E / 2.
TEST_F(AdapterFiles, HaveTheRowsOfQueriesInTheOrderOfGguf) {
  const ModelConfig model = tiny_config("Llama");
  const std::string path = "model.layers.1.self_attn.k_proj";
  const AdapterValues adapter =
      random_adapter_values(model, 2, 1, {}, [&](const auto& each) { return each == path; });
  (void)through(AdapterFormat::gguf, adapter, model);
  const GgufFile file = GgufFile::open(path_of(AdapterFormat::gguf));
  const GgufTensor& b = *file.find_tensor("blk.1.attn_k.weight.lora_b");
  const GgufTensor& a = *file.find_tensor("blk.1.attn_k.weight.lora_a");
  EXPECT_EQ(b.shape, (Shape{20, 2}));
  EXPECT_EQ(a.shape, (Shape{2, 24}));
  std::vector<float> stored(40);
  std::memcpy(stored.data(), b.bytes.data(), b.bytes.size());
  const std::int64_t E = 10;
  for (std::int64_t head = 0; head < 2; ++head) {
    for (std::int64_t i = 0; i < E / 2; ++i) {
      for (std::int64_t half = 0; half < 2; ++half) {
        const auto row = static_cast<std::size_t>(head * E + i + half * E / 2);
        const auto in_file = static_cast<std::size_t>(head * E + 2 * i + half);
        EXPECT_EQ(stored[2 * in_file], adapter.modules[0].b[2 * row]);
        EXPECT_EQ(stored[2 * in_file + 1], adapter.modules[0].b[2 * row + 1]);
      }
    }
  }
}

// The order is that of the family's GGUF files, whichever file the configuration is from.
TEST_F(AdapterFiles, OfHalfSplitFamiliesKeepTheirRows) {
  const ModelConfig model = tiny_config("Qwen3");
  const AdapterValues adapter = random_adapter_values(model);
  (void)through(AdapterFormat::gguf, adapter, model);
  const GgufFile file = GgufFile::open(path_of(AdapterFormat::gguf));
  const GgufTensor& b = *file.find_tensor("blk.0.attn_q.weight.lora_b");
  ASSERT_EQ(adapter.modules.front().site.path, "model.layers.0.self_attn.q_proj");
  EXPECT_EQ(std::memcmp(b.bytes.data(), adapter.modules.front().b.data(), b.bytes.size()), 0);
}

// Value head r of key head k is number k R + r in Hugging Face's files and r K + k in GGUF files:
// rows of z, columns of the output.
TEST_F(AdapterFiles, HaveValueHeadsInTheOrderOfGguf) {
  const ModelConfig model = tiny_config("Qwen3_5");
  const auto& layer = std::get<DeltaNetLayerSpec>(model.blocks.front().front().f);
  const std::int64_t keys = layer.key_heads, each = layer.value_heads / keys;
  ASSERT_GT(keys, 1);
  ASSERT_GT(each, 1);
  const AdapterValues adapter = random_adapter_values(model, 1, 1, {}, [](const auto& path) {
    return path == "model.layers.0.linear_attn.out_proj" ||
           path == "model.layers.0.linear_attn.in_proj_z";
  });
  (void)through(AdapterFormat::gguf, adapter, model);
  const GgufFile file = GgufFile::open(path_of(AdapterFormat::gguf));
  const auto check = [&](const char* name, const std::vector<float>& wanted) {
    const GgufTensor& tensor = *file.find_tensor(name);
    std::vector<float> stored(wanted.size());
    ASSERT_EQ(tensor.bytes.size(), stored.size() * sizeof(float));
    std::memcpy(stored.data(), tensor.bytes.data(), tensor.bytes.size());
    for (std::int64_t k = 0; k < keys; ++k) {
      for (std::int64_t r = 0; r < each; ++r) {
        const auto own = static_cast<std::size_t>((k * each + r) * layer.value_dim);
        const auto in_file = static_cast<std::size_t>((r * keys + k) * layer.value_dim);
        EXPECT_EQ(stored[in_file], wanted[own]) << name;
      }
    }
  };
  for (const ModuleValues& module : adapter.modules) {
    if (module.site.path.ends_with("out_proj")) check("blk.0.ssm_out.weight.lora_a", module.a);
    if (module.site.path.ends_with("in_proj_z")) check("blk.0.attn_gate.weight.lora_b", module.b);
  }
}

TEST_F(AdapterFiles, OfEmbeddingsAndAHeadOfTheirOwnKeepTheirBits) {
  const ModelConfig model = tiny_config("Llama");
  ASSERT_FALSE(model.tied_head);
  const AdapterValues adapter =
      random_adapter_values(model, 3, 2, {}, [](const std::string&) { return true; });
  for (const AdapterFormat format : {AdapterFormat::gguf, AdapterFormat::mlx}) {
    expect_same_bits(through(format, adapter, model), adapter);
  }
  const GgufFile file = GgufFile::open(path_of(AdapterFormat::gguf));
  EXPECT_EQ(file.find_tensor("token_embd.weight.lora_a")->shape, (Shape{67, 3}));
  EXPECT_EQ(file.find_tensor("token_embd.weight.lora_b")->shape, (Shape{24, 3}));
}

TEST_F(AdapterFiles, OfExpertsWithoutAnAdapterAreZeroInAStack) {
  const ModelConfig model = tiny_config("Mixtral");
  const std::string path = "model.layers.0.block_sparse_moe.experts.2.w1";
  const AdapterValues adapter =
      random_adapter_values(model, 2, 1, {}, [&](const auto& each) { return each == path; });
  ASSERT_EQ(adapter.modules.size(), 1U);
  const AdapterValues read = through(AdapterFormat::gguf, adapter, model);
  EXPECT_EQ(read.modules.size(), 4U);
  EXPECT_EQ(largest_difference(adapter, read), 0);
}

TEST_F(AdapterFiles, NameModulesOfTheLastBlocksAsMlxLmDoes) {
  const ModelConfig model = tiny_config("Llama");
  const auto is_last = [](const std::string& path) {
    return path.starts_with("model.layers.1.self_attn.") && path.find("v_proj") == path.npos;
  };
  (void)through(AdapterFormat::mlx, random_adapter_values(model, 2, 3, {.dropout = 0.1}, is_last),
                model);
  const nlohmann::json config = mlx_config();
  EXPECT_EQ(config.at("num_layers"), 1);
  const nlohmann::json& parameters = config.at("lora_parameters");
  EXPECT_EQ(parameters.at("rank"), 2);
  EXPECT_EQ(parameters.at("scale"), 3);
  EXPECT_EQ(parameters.at("dropout"), 0.1);
  EXPECT_THAT(parameters.at("keys").get<std::vector<std::string>>(),
              ElementsAre("self_attn.k_proj", "self_attn.o_proj", "self_attn.q_proj"));
  const SafetensorsFile file =
      SafetensorsFile::open(path_of(AdapterFormat::mlx) / "adapters.safetensors");
  EXPECT_EQ(file.find("model.layers.1.self_attn.q_proj.lora_a")->shape, (Shape{24, 2}));
  EXPECT_EQ(file.find("model.layers.1.self_attn.q_proj.lora_b")->shape, (Shape{2, 40}));
}

TEST_F(AdapterFiles, NameModulesOfOtherBlocksByTheirPathsForMlx) {
  const ModelConfig model = tiny_config("Llama");
  const auto is_wanted = [](const std::string& path) {
    return path == "model.layers.0.mlp.up_proj" || path == "model.layers.1.mlp.down_proj";
  };
  (void)through(AdapterFormat::mlx, random_adapter_values(model, 2, 3, {}, is_wanted), model);
  EXPECT_THAT(mlx_config().at("lora_parameters").at("keys").get<std::vector<std::string>>(),
              ElementsAre("model.layers.0.mlp.up_proj", "model.layers.1.mlp.down_proj"));
}

TEST_F(AdapterFiles, HaveThePrefixOfMlxLmsModels) {
  const ModelConfig model = tiny_config("Qwen3_5");
  (void)through(AdapterFormat::mlx, random_adapter_values(model), model);
  const SafetensorsFile file =
      SafetensorsFile::open(path_of(AdapterFormat::mlx) / "adapters.safetensors");
  EXPECT_THAT(file.names().front(), HasSubstr("language_model.model.layers.0."));
}

// An MLX adapter of tied embeddings is one of the head too.
TEST_F(AdapterFiles, OfTiedEmbeddingsAreOneInMlx) {
  const ModelConfig model = tiny_config("Qwen2");
  ASSERT_TRUE(model.tied_head);
  AdapterValues adapter = random_adapter_values(model, 2, 1, {}, [](const auto& path) {
    return path == kEmbeddingsPath || path == kHeadPath;
  });
  ASSERT_EQ(adapter.modules.size(), 2U);
  CLORA_EXPECT_ERROR(through(AdapterFormat::mlx, adapter, model), ErrorCode::unsupported,
                     "one matrix for both");
  ModuleValues &words = adapter.modules[0], &head = adapter.modules[1];
  head.a = transposed(words.b, words.site.outputs, words.rank);
  head.b = transposed(words.a, words.rank, words.site.inputs);
  expect_same_bits(through(AdapterFormat::mlx, adapter, model), adapter);
  CLORA_EXPECT_ERROR(through(AdapterFormat::gguf, adapter, model), ErrorCode::unsupported,
                     "model.embed_tokens");
}

TEST_F(AdapterFiles, RefuseByNameWhatAFormatCannotHold) {
  const ModelConfig model = tiny_config("Llama");
  const AdapterValues dora = random_adapter_values(model, 3, 2, {.use_dora = true});
  CLORA_EXPECT_ERROR(through(AdapterFormat::gguf, dora, model), ErrorCode::unsupported, "use_dora");
  AdapterValues saved = random_adapter_values(model);
  saved.saved.push_back({{.name = "model.norm.weight", .shape = {24}}, std::vector<float>(24, 1)});
  for (const AdapterFormat format : {AdapterFormat::gguf, AdapterFormat::mlx}) {
    CLORA_EXPECT_ERROR(through(format, saved, model), ErrorCode::unsupported, "model.norm.weight");
  }
  const ModelConfig mixtral = tiny_config("Mixtral");
  CLORA_EXPECT_ERROR(through(AdapterFormat::mlx, random_adapter_values(mixtral), mixtral),
                     ErrorCode::unsupported, "experts");
}

TEST_F(AdapterFiles, OfGgufRefuseByNameWhatChangesTheProduct) {
  const ModelConfig model = tiny_config("Llama");
  const AdapterValues adapter = random_adapter_values(model);
  const auto read_changed = [&](const std::function<void(GgufMetadata&)>& change) {
    (void)write_adapter(adapter, AdapterFormat::gguf, model, path_of(AdapterFormat::gguf));
    rewrite_gguf(change);
    return read_adapter(path_of(AdapterFormat::gguf), model);
  };
  const std::vector<std::int32_t> tokens{1, 2};
  CLORA_EXPECT_ERROR(
      read_changed([&](auto& m) { m.set_int32s("adapter.alora.invocation_tokens", tokens); }),
      ErrorCode::unsupported, "adapter.alora.invocation_tokens");
  CLORA_EXPECT_ERROR(read_changed([](auto& m) { m.set_text("adapter.type", "control"); }),
                     ErrorCode::invalid_file, "adapter.type must be 'lora'");
  CLORA_EXPECT_ERROR(read_changed([](auto& m) { m.set_text("general.type", "model"); }),
                     ErrorCode::invalid_file, "is it a model?");
  CLORA_EXPECT_ERROR(read_changed([](auto& m) { m.set_text("general.architecture", "qwen3"); }),
                     ErrorCode::invalid_argument, "'qwen3'");
  CLORA_EXPECT_ERROR(read_changed([](auto& m) { m.set_float32("adapter.lora.alpha", NAN); }),
                     ErrorCode::invalid_file, "adapter.lora.alpha");
  // alpha 0, or none, is scale 1.
  EXPECT_EQ(read_changed([](auto& m) { m.remove("adapter.lora.alpha"); }).modules[0].scale, 1);
}

TEST_F(AdapterFiles, OfOtherModelsNameTheTensor) {
  const ModelConfig model = tiny_config("Llama"), wider = tiny_config("Granite");
  const AdapterValues adapter = random_adapter_values(model);
  ModelConfig other = wider;
  other.family = "llama";
  for (const AdapterFormat format : {AdapterFormat::gguf, AdapterFormat::mlx}) {
    (void)write_adapter(adapter, format, model, path_of(format));
    CLORA_EXPECT_ERROR(read_adapter(path_of(format), other), ErrorCode::invalid_file, "must be [");
  }
}

// Every truncation is an error, none a crash.
TEST_F(AdapterFiles, ThatAreCutOffAreErrors) {
  const ModelConfig model = tiny_config("Llama");
  const AdapterValues adapter = random_adapter_values(model, 1);
  for (const auto& [format, name] : {std::pair{AdapterFormat::gguf, ""},
                                     std::pair{AdapterFormat::mlx, "adapters.safetensors"}}) {
    (void)write_adapter(adapter, format, model, path_of(format));
    const auto path = *name == '\0' ? path_of(format) : path_of(format) / name;
    const std::string whole = test::read_file(path);
    for (std::size_t size = 0; size < whole.size(); size += 97) {
      test::write_file(path, whole.substr(0, size));
      EXPECT_TRUE(test::caught([&] { (void)read_adapter(path_of(format), model); })) << size;
    }
  }
}

TEST_F(AdapterFiles, WithANumberThatIsNotFiniteNameTheTensor) {
  const ModelConfig model = tiny_config("Llama");
  AdapterValues adapter = random_adapter_values(model);
  adapter.modules.front().a[3] = NAN;
  for (const AdapterFormat format : {AdapterFormat::gguf, AdapterFormat::mlx}) {
    (void)write_adapter(adapter, format, model, path_of(format));
    CLORA_EXPECT_ERROR(read_adapter(path_of(format), model), ErrorCode::invalid_file, "lora_a");
  }
}

TEST_F(AdapterFiles, OfMlxAreRefusedWithoutTheirScaleOrOfAFullModel) {
  const ModelConfig model = tiny_config("Llama");
  (void)through(AdapterFormat::mlx, random_adapter_values(model), model);
  const nlohmann::json config = mlx_config();
  const auto read_with = [&](const nlohmann::json& changed) {
    test::write_file(path_of(AdapterFormat::mlx) / "adapter_config.json", changed.dump());
    return read_adapter(path_of(AdapterFormat::mlx), model);
  };
  nlohmann::json changed = config;
  changed["lora_parameters"].erase("scale");
  CLORA_EXPECT_ERROR(read_with(changed), ErrorCode::invalid_file, "lora_parameters.scale");
  changed = config;
  changed["fine_tune_type"] = "full";
  CLORA_EXPECT_ERROR(read_with(changed), ErrorCode::unsupported, "fine_tune_type");
  changed = config;
  changed["lora_parameters"]["rank"] = 4;
  CLORA_EXPECT_ERROR(read_with(changed), ErrorCode::invalid_file, "lora_a");
  // Options of mlx-lm's training are in the file too.
  changed = config;
  changed["iters"] = 600;
  changed["lora_parameters"]["keys"] = nullptr;
  EXPECT_EQ(read_with(changed).modules.size(), 14U);
}

TEST_F(AdapterFiles, AreRecognisedByTheirContents) {
  const ModelConfig model = tiny_config("Llama");
  const AdapterValues adapter = random_adapter_values(model);
  (void)write_adapter(adapter, AdapterFormat::gguf, model, folder_ / "no-extension");
  EXPECT_EQ(format_of_adapter(folder_ / "no-extension"), AdapterFormat::gguf);
  std::filesystem::create_directory(folder_ / "with-gguf");
  (void)write_adapter(adapter, AdapterFormat::gguf, model, folder_ / "with-gguf/a.gguf");
  EXPECT_EQ(format_of_adapter(folder_ / "with-gguf"), AdapterFormat::gguf);
  expect_same_bits(read_adapter(folder_ / "with-gguf", model), adapter);
  const auto repository = folder_ / "models--owner--name";
  (void)write_adapter(adapter, AdapterFormat::mlx, model, repository / "snapshots/abc");
  EXPECT_EQ(format_of_adapter(repository), AdapterFormat::mlx);
  expect_same_bits(read_adapter(repository, model), adapter);
  CLORA_EXPECT_ERROR(read_adapter(folder_ / "none", model), ErrorCode::not_found, "none");
  test::write_file(folder_ / "adapter_model.bin", "pickle");
  test::write_file(folder_ / "adapter_config.json", R"({"peft_type":"LORA","r":8})");
  CLORA_EXPECT_ERROR(read_adapter(folder_.path(), model), ErrorCode::not_found,
                     "safe_serialization=True");
}

}  // namespace
}  // namespace clora

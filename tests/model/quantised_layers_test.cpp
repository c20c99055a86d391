// Folders whose linear layers GPTQ, AWQ or bitsandbytes quantised
// (model/weights/quantised_layers.hpp).
#include "model/weights/quantised_layers.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "clora/model/export/gguf_model.hpp"
#include "clora/model/generation/generator.hpp"
#include "clora/model/transformer/fingerprint.hpp"
#include "clora/model/weights/fuse.hpp"
#include "model/files/dequantise.hpp"
#include "model/weights/stored_order.hpp"
#include "tests/support/quantised_folder.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::IntegerPacking;
using test::Nf4Packing;
using test::PackedTensor;

constexpr std::string_view kQuery = "model.layers.0.self_attn.q_proj.weight";  // [64, 64]
constexpr std::string_view kDown = "model.layers.0.mlp.down_proj.weight";      // [64, 96]

class QuantisedLayers : public testing::Test {
 protected:
  std::filesystem::path folder() const { return folder_ / "quantised"; }
  std::filesystem::path plain() const { return folder_ / "plain"; }

  void write_gptq(const IntegerPacking& packing) {
    write(test::gptq_config(packing), [=](const auto& path, auto outputs, auto inputs) {
      return test::packed_integers(path, outputs, inputs, packing);
    });
  }
  void write_awq() {
    IntegerPacking packing{.is_awq = true, .zero_offset = 0};
    write(test::awq_config(packing), [=](const auto& path, auto outputs, auto inputs) {
      return test::packed_integers(path, outputs, inputs, packing);
    });
  }
  void write_nf4(const Nf4Packing& packing) {
    write(test::nf4_config(), [=](const auto& path, auto outputs, auto inputs) {
      return test::packed_nf4(path, outputs, inputs, packing);
    });
  }
  void write(const json& scheme, const test::PackLayer& pack) {
    std::filesystem::remove_all(folder());
    std::filesystem::remove_all(plain());
    test::write_quantised_folder(folder(), plain(), scheme, pack);
  }

  // All weights have exactly the values of the plain model; q_proj and down_proj have these types.
  void expect_values(DType query, DType down) {
    const WeightFiles files = WeightFiles::open(folder());
    for (const WeightView& want : WeightFiles::open(plain()).all()) {
      const WeightView view = files.get(want.name, want.shape);
      EXPECT_EQ(hugging_face_values(view), hugging_face_values(want)) << want.name;
      EXPECT_EQ(size_bytes(view), in_rows(view).size()) << want.name;
    }
    EXPECT_EQ(files.find(kQuery)->type, query);
    EXPECT_EQ(files.find(kDown)->type, down);
  }

  // The bytes, arranged seven rows at a time.
  static std::vector<std::byte> in_rows(const WeightView& view) {
    if (!view.arranged) return {view.bytes.begin(), view.bytes.end()};
    const auto rows = static_cast<std::size_t>(view.shape[0]);
    const std::size_t row_bytes = size_bytes(view) / rows;
    std::vector<std::byte> all(size_bytes(view));
    for (std::size_t row = 0; row < rows; row += 7) {
      const std::size_t count = std::min<std::size_t>(7, rows - row);
      copy_in_hugging_face_order(std::span(all).subspan(row * row_bytes, count * row_bytes), view,
                                 static_cast<std::int64_t>(row));
    }
    EXPECT_EQ(all, in_hugging_face_order(view)) << view.name;
    return all;
  }

  void expect_refusal(ErrorCode code, std::string_view message) {
    CLORA_EXPECT_ERROR(WeightFiles::open(folder()), code, std::string(message));
  }
  void set_scheme(const json& scheme) {
    json config = json::parse(test::read_file(folder() / "config.json"));
    config["quantization_config"] = scheme;
    test::write_file(folder() / "config.json", config.dump());
  }
  void expect_refused_scheme(json scheme, const char* key, const json& value,
                             std::string_view message) {
    scheme[key] = value;
    set_scheme(scheme);
    expect_refusal(ErrorCode::unsupported, message);
  }

  test::TemporaryFolder folder_;
};

TEST_F(QuantisedLayers, OfGptqHaveTheValuesOfTheirCodes) {
  for (const int bits : {4, 8}) {
    for (const int zero_offset : {0, 1}) {
      for (const std::int64_t group_size : {32, 64, -1}) {
        write_gptq({.bits = bits, .group_size = group_size, .zero_offset = zero_offset});
        const DType type = bits == 4 ? DType::q4_z : DType::q8_z;
        expect_values(type, type);
      }
    }
  }
}

TEST_F(QuantisedLayers, OfGptqMayHaveGroupsInAnyOrder) {
  write_gptq({.group_of = [](std::int64_t k) { return k < 32 ? 1 : k / 32 == 1 ? 0 : 2; }});
  expect_values(DType::q4_z, DType::q4_z);
  // Blocks of 32 inputs cannot have two groups.
  write_gptq({.group_of = [](std::int64_t k) { return k % 2; }});
  expect_values(DType::f32, DType::f32);
}

TEST_F(QuantisedLayers, OfAwqHaveTheValuesOfTheirCodes) {
  write_awq();
  expect_values(DType::q4_z, DType::q4_z);
}

TEST_F(QuantisedLayers, OfBitsandbytesHaveTheValuesOfTheirCodes) {
  for (const bool is_nested : {false, true}) {
    for (const std::int64_t blocksize : {64, 128}) {
      write_nf4({.blocksize = blocksize, .is_nested = is_nested});
      expect_values(DType::nf4, DType::f32);  // rows of 96 are one and a half blocks
    }
    write_nf4({.blocksize = 32, .is_nested = is_nested});
    expect_values(DType::f32, DType::f32);
  }
}

void expect_same_values(const WeightFiles& got, const WeightFiles& wanted) {
  for (const WeightView& want : wanted.all()) {
    EXPECT_EQ(hugging_face_values(got.get(want.name, want.shape)), hugging_face_values(want))
        << want.name;
  }
}

TEST_F(QuantisedLayers, AreWrittenInFloatsWithTheSameValues) {
  for (const bool is_nf4 : {false, true}) {
    is_nf4 ? write_nf4({.is_nested = true}) : write_gptq({});
    const WeightFiles files = WeightFiles::open(folder());
    write_fused_model(files, nullptr, folder_ / "fused", {});
    expect_same_values(WeightFiles::open(folder_ / "fused"), WeightFiles::open(plain()));
    const std::filesystem::path gguf = folder_ / "model.gguf";
    write_gguf_model(files, nullptr, gguf, {.type = DType::f32});
    expect_same_values(WeightFiles::open(gguf), WeightFiles::open(plain()));
    std::filesystem::remove(gguf);
  }
}

std::vector<float> logits_of(const std::filesystem::path& folder) {
  test::OpenModel open(folder);
  Generator generator(open.model, nullptr, 64);
  return generator.logits(std::vector<std::int32_t>{1, 7, 3, 3, 9});
}

TEST_F(QuantisedLayers, GiveTheLogitsOfTheSameModelInFloats) {
  const auto expect_same = [&] {
    const std::vector<float> want = logits_of(plain());
    test::expect_logits(logits_of(folder()), {want.begin(), want.end()}, 1e-5);
  };
  write_gptq({});
  expect_same();
  write_gptq({.bits = 8, .zero_offset = 0});
  expect_same();
  write_gptq({.group_of = [](std::int64_t k) { return k % 2; }});
  expect_same();
  write_awq();
  expect_same();
  write_nf4({.is_nested = true});
  expect_same();
}

TEST_F(QuantisedLayers, ChangeTheFingerprintWithTheirScales) {
  write_awq();
  const Digest before = digest_of_weights(WeightFiles::open(folder()).all());
  EXPECT_EQ(digest_of_weights(WeightFiles::open(folder()).all()), before);
  test::change_tensors(folder(), [](std::vector<PackedTensor>& tensors) {
    auto& scales = test::tensor_named(tensors, "model.layers.0.self_attn.q_proj.scales");
    scales.bytes.front() ^= std::byte{1};
  });
  EXPECT_NE(digest_of_weights(WeightFiles::open(folder()).all()), before);
}

TEST_F(QuantisedLayers, MayHaveABiasOfZerosThatTheModelDoesNotNeed) {
  write_gptq({});
  const PackedTensor bias{.name = "model.layers.0.self_attn.q_proj.bias",
                          .type = DType::f16,
                          .shape = {64},
                          .bytes = std::vector<std::byte>(128)};
  test::change_tensors(folder(), [&](auto& tensors) { tensors.push_back(bias); });
  expect_values(DType::q4_z, DType::q4_z);
  test::change_tensors(folder(), [](std::vector<PackedTensor>& tensors) {
    test::tensor_named(tensors, "model.layers.0.self_attn.q_proj.bias").bytes[5] = std::byte{1};
  });
  expect_refusal(ErrorCode::unsupported, "q_proj.bias is not part of a llama model");
}

TEST_F(QuantisedLayers, OfOtherSchemesAreRefusedByName) {
  write_awq();
  const json gptq = test::gptq_config({}), awq = test::awq_config({}), nf4 = test::nf4_config();
  expect_refused_scheme(gptq, "quant_method", "fp8", "the quantisation 'fp8' is not supported");
  expect_refused_scheme(gptq, "bits", 3, "quantization_config.bits = 3 is not supported");
  expect_refused_scheme(gptq, "bits", 2, "gptq is read with 4 or 8 bits");
  expect_refused_scheme(gptq, "group_size", 16, "it must be a multiple of 32, or -1");
  expect_refused_scheme(gptq, "checkpoint_format", "marlin", "checkpoint_format = \"marlin\"");
  expect_refused_scheme(gptq, "dynamic", {{"lm_head", {{"bits", 8}}}}, "dynamic = ");
  expect_refused_scheme(gptq, "pack_dtype", "int16", "packed in int32");
  expect_refused_scheme(awq, "version", "gemv", "version = \"gemv\"");
  expect_refused_scheme(awq, "zero_point", false, "zero_point = false");
  expect_refused_scheme(awq, "bits", 8, "awq is read with 4 bits");
  expect_refused_scheme(nf4, "load_in_8bit", true, "load_in_8bit = true");
  expect_refused_scheme(nf4, "bnb_4bit_quant_type", "fp4", "bnb_4bit_quant_type = \"fp4\"");
  expect_refused_scheme(nf4, "bnb_4bit_quant_type", nullptr, "bnb_4bit_quant_type = null");
  expect_refused_scheme(nf4, "bnb_4bit_quant_storage", "bfloat16", "stored as uint8");
  set_scheme({{"quant_method", "gptq"}, {"bits", 4}});
  expect_refusal(ErrorCode::invalid_file, "quantization_config.group_size is missing");
}

// Errors of folders in which one tensor of q_proj is changed.
class DamagedLayers : public QuantisedLayers {
 protected:
  void expect(std::string_view suffix, const std::function<void(PackedTensor&)>& damage,
              ErrorCode code, std::string_view message) {
    std::filesystem::copy_file(folder() / "model.safetensors", folder_ / "intact");
    test::change_tensors(folder(), [&](std::vector<PackedTensor>& tensors) {
      damage(test::tensor_named(tensors, "model.layers.0.self_attn.q_proj" + std::string(suffix)));
    });
    expect_refusal(code, message);
    std::filesystem::rename(folder_ / "intact", folder() / "model.safetensors");
  }
};

void rename(PackedTensor& tensor) { tensor.name += ".other"; }
void halve(PackedTensor& tensor) {
  tensor.bytes.resize(tensor.bytes.size() / 2);
  tensor.shape = {tensor.shape[0] / 2, tensor.shape[1]};
}
void mark_as_f32(PackedTensor& tensor) { tensor.type = DType::f32; }

TEST_F(DamagedLayers, OfIntegersAreRefusedByName) {
  write_gptq({.group_of = [](std::int64_t k) { return k / 32; }});
  expect(".qzeros", rename, ErrorCode::invalid_file,
         "q_proj.qzeros of a quantised layer is missing");
  expect(".qweight", rename, ErrorCode::invalid_file, "q_proj.weight [64, 64] is missing");
  expect(".scales", halve, ErrorCode::invalid_file, "q_proj.scales of a quantised layer must be");
  expect(".qweight", halve, ErrorCode::invalid_file, "must be [1, 64], got [2, 64]");
  expect(".qweight", mark_as_f32, ErrorCode::unsupported, "must have the type i32, got f32");
  const auto set_group = [](PackedTensor& order) { order.bytes[3] = std::byte{0x80}; };
  expect(".g_idx", set_group, ErrorCode::invalid_file, "must have numbers of its 2 groups");
  EXPECT_NO_THROW(WeightFiles::open(folder()));
}

TEST_F(DamagedLayers, OfNf4AreRefusedByName) {
  write_nf4({.is_nested = true});
  expect(".weight.absmax", rename, ErrorCode::invalid_file, "q_proj.weight.absmax of a quantised");
  expect(".weight.nested_quant_map", rename, ErrorCode::invalid_file, "nested_quant_map of a");
  expect(".weight", halve, ErrorCode::invalid_file, "must be [2048, 1], got [1024, 1]");
  const auto change_value = [](PackedTensor& map) { map.bytes[0] ^= std::byte{1}; };
  expect(".weight.quant_map", change_value, ErrorCode::unsupported, "must hold the values of nf4");
  const auto cut = [](PackedTensor& state) { state.bytes[0] = std::byte{'x'}; };
  expect(".weight.quant_state.bitsandbytes__nf4", cut, ErrorCode::invalid_file, "quant_state");
  expect(".weight.quant_state.bitsandbytes__nf4", rename, ErrorCode::unsupported,
         "q_proj.weight has the type U8");
  EXPECT_NO_THROW(WeightFiles::open(folder()));
}

}  // namespace
}  // namespace clora

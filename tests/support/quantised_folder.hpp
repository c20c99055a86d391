// Hugging Face folders whose linear layers are quantised as GPTQ, AWQ and bitsandbytes do, packed
// code by code, and the same models in f32.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "clora/runtime/memory/dtype.hpp"
#include "clora/runtime/memory/shape.hpp"

namespace clora::test {

// A tensor of a folder.
struct PackedTensor {
  std::string name;
  DType type = DType::f32;
  Shape shape;
  std::vector<std::byte> bytes;
};

// The tensors of one layer [N, K] and what they mean.
struct PackedLayer {
  std::vector<PackedTensor> tensors;
  std::vector<float> values;
};
using PackLayer =
    std::function<PackedLayer(const std::string& path, std::int64_t outputs, std::int64_t inputs)>;

struct IntegerPacking {
  bool is_awq = false;
  int bits = 4;
  std::int64_t group_size = 32;  // -1: all inputs
  int zero_offset = 1;           // subtracted from stored zero points
  // The group of each input, stored as g_idx; by default none is stored.
  std::function<std::int64_t(std::int64_t input)> group_of = {};
};
PackedLayer packed_integers(const std::string& path, std::int64_t outputs, std::int64_t inputs,
                            const IntegerPacking& packing);

struct Nf4Packing {
  std::int64_t blocksize = 64;
  bool is_nested = false;
};
PackedLayer packed_nf4(const std::string& path, std::int64_t outputs, std::int64_t inputs,
                       const Nf4Packing& packing);

// quantization_config of these.
nlohmann::json gptq_config(const IntegerPacking& packing);
nlohmann::json awq_config(const IntegerPacking& packing);
nlohmann::json nf4_config();

// Writes a Llama of one layer with hidden size 64 and intermediate size 96 to `folder`, all linear
// layers packed, and its values to the folder `plain`.
void write_quantised_folder(const std::filesystem::path& folder, const std::filesystem::path& plain,
                            const nlohmann::json& scheme, const PackLayer& pack);

// Replaces the tensors of `folder`/model.safetensors by what `change` makes of them.
void change_tensors(const std::filesystem::path& folder,
                    const std::function<void(std::vector<PackedTensor>&)>& change);
PackedTensor& tensor_named(std::vector<PackedTensor>& tensors, std::string_view name);

}  // namespace clora::test

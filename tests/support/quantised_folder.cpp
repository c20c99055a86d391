#include "tests/support/quantised_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "clora/lora/safetensors.hpp"
#include "runtime/memory/half.hpp"
#include "tests/reference/quant_reference.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora::test {
namespace {

template <class T>
PackedTensor tensor_of(std::string name, DType type, Shape shape, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {std::move(name), type, shape, {bytes.begin(), bytes.end()}};
}

std::mt19937 generator_of(const std::string& path) {
  return std::mt19937(static_cast<std::uint32_t>(std::hash<std::string>()(path)));
}

// 32-bit words [rows, columns] that codes are put into.
struct Words {
  Words(std::int64_t r, std::int64_t c)
      : rows(r), columns(c), words(static_cast<std::size_t>(r * c)) {}
  void put(std::int64_t row, std::int64_t column, std::int64_t shift, int code) {
    words[static_cast<std::size_t>(row * columns + column)] |= static_cast<std::uint32_t>(code)
                                                               << static_cast<unsigned>(shift);
  }
  PackedTensor tensor(std::string name) const {
    return tensor_of(std::move(name), DType::i32, {rows, columns}, words);
  }
  std::int64_t rows, columns;
  std::vector<std::uint32_t> words;
};

// AWQ's nibble p of a word is output kAwqOrder[p] of eight.
std::int64_t awq_shift(std::int64_t output) {
  constexpr std::array<std::int64_t, 8> kAwqOrder{0, 2, 4, 6, 1, 3, 5, 7};
  return 4 * (std::ranges::find(kAwqOrder, output % 8) - kAwqOrder.begin());
}

float random_scale(std::mt19937& generator) {
  return f16_to_float(static_cast<std::uint16_t>(0x2000U + generator() % 0x400));  // about 2^-7
}

bool is_linear(std::string_view name) { return name.ends_with("_proj.weight"); }

std::vector<PackedTensor> tensors_in(const std::filesystem::path& folder) {
  const SafetensorsFile file = SafetensorsFile::open(folder / "model.safetensors");
  std::vector<PackedTensor> tensors;
  for (const std::string& name : file.names()) {
    const StoredTensor stored = *file.find(name);
    tensors.push_back(
        {name, stored.type, stored.shape, {stored.bytes.begin(), stored.bytes.end()}});
  }
  return tensors;
}

void write_tensors(const std::filesystem::path& folder, const std::vector<PackedTensor>& tensors) {
  std::vector<StoredTensor> stored;
  for (const PackedTensor& each : tensors)
    stored.push_back({each.name, each.type, each.shape, each.bytes});
  write_safetensors(folder / "model.safetensors", stored);
}

void change_json(const std::filesystem::path& path,
                 const std::function<void(nlohmann::json&)>& change) {
  nlohmann::json json = nlohmann::json::parse(read_file(path));
  change(json);
  write_file(path, json.dump());
}

}  // namespace

PackedLayer packed_integers(const std::string& path, std::int64_t outputs, std::int64_t inputs,
                            const IntegerPacking& p) {
  std::mt19937 generator = generator_of(path);
  const std::int64_t group_size = p.group_size < 0 ? inputs : p.group_size;
  const std::int64_t groups = (inputs + group_size - 1) / group_size;
  const std::int64_t per_word = 32 / p.bits;
  const int codes = 1 << p.bits;
  Words weights = p.is_awq ? Words(inputs, outputs / 8) : Words(inputs / per_word, outputs);
  Words zero_words(groups, outputs / per_word);
  std::vector<std::uint16_t> scales;
  std::vector<int> zeros;
  for (std::int64_t g = 0; g < groups; ++g) {
    for (std::int64_t n = 0; n < outputs; ++n) {
      scales.push_back(float_to_f16(random_scale(generator)));
      zeros.push_back(p.zero_offset + static_cast<int>(generator() % static_cast<unsigned>(codes)));
      const std::int64_t shift = p.is_awq ? awq_shift(n) : n % per_word * p.bits;
      zero_words.put(g, n / per_word, shift, zeros.back() - p.zero_offset);
    }
  }
  PackedLayer layer;
  std::vector<std::int32_t> order;
  for (std::int64_t k = 0; k < inputs; ++k)
    order.push_back(static_cast<std::int32_t>(p.group_of ? p.group_of(k) : k / group_size));
  for (std::int64_t n = 0; n < outputs; ++n) {
    for (std::int64_t k = 0; k < inputs; ++k) {
      const int code = static_cast<int>(generator() % static_cast<unsigned>(codes));
      if (p.is_awq) weights.put(k, n / 8, awq_shift(n), code);
      if (!p.is_awq) weights.put(k / per_word, n, k % per_word * p.bits, code);
      const auto at = static_cast<std::size_t>(order[static_cast<std::size_t>(k)] * outputs + n);
      layer.values.push_back(f16_to_float(scales[at]) * static_cast<float>(code - zeros[at]));
    }
  }
  layer.tensors = {weights.tensor(path + ".qweight"), zero_words.tensor(path + ".qzeros"),
                   tensor_of(path + ".scales", DType::f16, {groups, outputs}, scales)};
  if (p.group_of) layer.tensors.push_back(tensor_of(path + ".g_idx", DType::i32, {inputs}, order));
  return layer;
}

PackedLayer packed_nf4(const std::string& path, std::int64_t outputs, std::int64_t inputs,
                       const Nf4Packing& p) {
  std::mt19937 generator = generator_of(path);
  const std::int64_t elements = outputs * inputs;
  const std::int64_t blocks = (elements + p.blocksize - 1) / p.blocksize;
  constexpr std::int64_t kNested = 16;  // blocks with one nested scale
  constexpr float kOffset = 0.03125F;
  std::vector<float> map, nested_map, nested_absmax, absmax;
  for (const double value : kNf4Reference) map.push_back(static_cast<float>(value));
  for (int i = 0; i < 256; ++i) nested_map.push_back(static_cast<float>(i * i) / 65536 - 0.25F);
  for (std::int64_t i = 0; i < blocks; i += kNested)
    nested_absmax.push_back(random_scale(generator));
  std::vector<std::uint8_t> absmax_codes;
  for (std::int64_t i = 0; i < blocks; ++i) {
    absmax_codes.push_back(static_cast<std::uint8_t>(generator()));
    const float nested =
        nested_map[absmax_codes.back()] * nested_absmax[static_cast<std::size_t>(i / kNested)];
    absmax.push_back(p.is_nested ? nested + kOffset : random_scale(generator));
  }
  PackedLayer layer;
  std::vector<std::uint8_t> codes(static_cast<std::size_t>((elements + 1) / 2));
  for (std::int64_t e = 0; e < elements; ++e) {
    const unsigned code = static_cast<unsigned>(generator()) % 16;
    codes[static_cast<std::size_t>(e / 2)] |=
        static_cast<std::uint8_t>(e % 2 == 0 ? code << 4U : code);
    layer.values.push_back(map[code] * absmax[static_cast<std::size_t>(e / p.blocksize)]);
  }
  nlohmann::json state{{"quant_type", "nf4"},
                       {"blocksize", p.blocksize},
                       {"dtype", "bfloat16"},
                       {"shape", {outputs, inputs}}};
  if (p.is_nested) {
    state.update(
        {{"nested_blocksize", kNested}, {"nested_dtype", "float32"}, {"nested_offset", kOffset}});
  }
  const std::string text = state.dump(), name = path + ".weight";
  layer.tensors = {tensor_of(name, DType::u8, {static_cast<std::int64_t>(codes.size()), 1}, codes),
                   tensor_of(name + ".quant_map", DType::f32, {16}, map),
                   tensor_of(name + ".quant_state.bitsandbytes__nf4", DType::u8,
                             {static_cast<std::int64_t>(text.size())},
                             std::vector<char>(text.begin(), text.end()))};
  if (!p.is_nested) {
    layer.tensors.push_back(tensor_of(name + ".absmax", DType::f32, {blocks}, absmax));
    return layer;
  }
  layer.tensors.push_back(tensor_of(name + ".absmax", DType::u8, {blocks}, absmax_codes));
  layer.tensors.push_back(tensor_of(name + ".nested_quant_map", DType::f32, {256}, nested_map));
  layer.tensors.push_back(tensor_of(name + ".nested_absmax", DType::f32,
                                    {static_cast<std::int64_t>(nested_absmax.size())},
                                    nested_absmax));
  return layer;
}

nlohmann::json gptq_config(const IntegerPacking& p) {
  return {{"quant_method", "gptq"},
          {"bits", p.bits},
          {"group_size", p.group_size},
          {"desc_act", p.group_of != nullptr},
          {"sym", false},
          {"checkpoint_format", p.zero_offset == 1 ? "gptq" : "gptq_v2"}};
}

nlohmann::json awq_config(const IntegerPacking& p) {
  return {{"quant_method", "awq"},
          {"bits", p.bits},
          {"group_size", p.group_size},
          {"version", "gemm"},
          {"zero_point", true}};
}

nlohmann::json nf4_config() {
  return {{"quant_method", "bitsandbytes"},
          {"load_in_4bit", true},
          {"load_in_8bit", false},
          {"bnb_4bit_quant_type", "nf4"},
          {"bnb_4bit_use_double_quant", true},
          {"bnb_4bit_compute_dtype", "bfloat16"},
          {"bnb_4bit_quant_storage", "uint8"}};
}

void write_quantised_folder(const std::filesystem::path& folder, const std::filesystem::path& plain,
                            const nlohmann::json& scheme, const PackLayer& pack) {
  ModelConfig config = tiny_config("Llama");
  config.layers = 1;
  config.hidden_size = 64;
  config.intermediate_size = 96;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_dim = 32;
  std::filesystem::create_directories(folder);
  std::filesystem::create_directories(plain);
  write_tiny_model(plain, config);
  std::vector<PackedTensor> packed, floats;
  for (PackedTensor& tensor : tensors_in(plain)) {
    if (is_linear(tensor.name)) {
      const PackedLayer layer =
          pack(tensor.name.substr(0, tensor.name.size() - std::string_view(".weight").size()),
               tensor.shape[0], tensor.shape[1]);
      packed.insert(packed.end(), layer.tensors.begin(), layer.tensors.end());
      std::memcpy(tensor.bytes.data(), layer.values.data(), tensor.bytes.size());
    } else {
      packed.push_back(tensor);
    }
    floats.push_back(tensor);
  }
  write_tensors(plain, floats);
  write_tensors(folder, packed);
  std::filesystem::copy_file(plain / "config.json", folder / "config.json");
  change_json(folder / "config.json",
              [&](nlohmann::json& json) { json["quantization_config"] = scheme; });
}

void change_tensors(const std::filesystem::path& folder,
                    const std::function<void(std::vector<PackedTensor>&)>& change) {
  std::vector<PackedTensor> tensors = tensors_in(folder);
  change(tensors);
  write_tensors(folder, tensors);
}

PackedTensor& tensor_named(std::vector<PackedTensor>& tensors, std::string_view name) {
  return *std::ranges::find(tensors, name, &PackedTensor::name);
}

}  // namespace clora::test

#include "tests/support/family_models.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <span>
#include <stdexcept>

#include "clora/lora/safetensors.hpp"
#include "clora/model/configuration/model_config.hpp"
#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "model/configuration/family.hpp"
#include "tests/support/gguf_bytes.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_models.hpp"

namespace clora::test {
namespace {

using nlohmann::json;

std::filesystem::path references(std::string_view folder) {
  const char* source = std::getenv("CLORA_SOURCE_DIR");
  return std::filesystem::path(source == nullptr ? "." : source) / "tests/reference" / folder;
}

bool has_family(const json& config) {
  const auto name = config.at("model_type").get<std::string>();
  return std::ranges::any_of(families(), [&](const Family* each) { return each->name == name; });
}

std::uint32_t fnv1a(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

Shape shape_of(const json& dimensions) {
  const auto sizes = dimensions.get<std::vector<std::int64_t>>();
  return Shape(std::span(sizes));
}

// The rule of families.py.
std::vector<float> values_of(const std::string& name, const Shape& shape) {
  std::vector<float> values =
      random_values(static_cast<std::size_t>(shape.elements()), fnv1a(name), 0.3F);
  if (name.find("norm") == std::string::npos) return values;
  for (float& value : values) value += 1;
  return values;
}

// Rows of interleaved rotary pairs: llama.cpp's order of q and k.
std::vector<float> interleaved(const std::vector<float>& rows, std::int64_t count,
                               std::int64_t heads) {
  const std::int64_t head_dim = count / heads;
  const std::size_t width = rows.size() / static_cast<std::size_t>(count);
  std::vector<float> out(rows.size());
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int64_t to = row / head_dim * head_dim + row % head_dim % (head_dim / 2) * 2 +
                            row % head_dim / (head_dim / 2);
    std::copy_n(&rows[static_cast<std::size_t>(row) * width], width,
                &out[static_cast<std::size_t>(to) * width]);
  }
  return out;
}

// Value heads from the order (key head, number) to (number, key head): `place` is [dimension,
// first, key heads, value heads of a key head, size] in a tensor of two dimensions.
std::vector<float> with_tiled_heads(const std::vector<float>& values, const Shape& shape,
                                    const std::vector<std::int64_t>& place) {
  const std::int64_t first = place[1], key_heads = place[2], per_key = place[3], size = place[4];
  const std::int64_t rows = shape[0], columns = shape.elements() / rows;
  const auto moved = [&](std::int64_t index) {
    if (index < first) return index;
    const std::int64_t head = (index - first) / size;
    return first + (head % per_key * key_heads + head / per_key) * size + (index - first) % size;
  };
  std::vector<float> out(values.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t to_r = place[0] == 0 ? moved(r) : r, to_c = place[0] == 1 ? moved(c) : c;
      out[static_cast<std::size_t>(to_r * columns + to_c)] =
          values[static_cast<std::size_t>(r * columns + c)];
    }
  }
  return out;
}

// A list of INT32 or BOOL.
void add_list(GgufBytes& gguf, const std::string& key, const json& list) {
  constexpr std::uint32_t kInt32 = 5, kBool = 7, kArray = 9;
  const bool flags = list.at(0).is_boolean();
  std::string bytes;
  append_scalar(bytes, flags ? kBool : kInt32);
  append_scalar(bytes, static_cast<std::uint64_t>(list.size()));
  for (const json& value : list) {
    if (flags) {
      bytes += value.get<bool>() ? '\1' : '\0';
    } else {
      append_scalar(bytes, value.get<std::int32_t>());
    }
  }
  gguf.add_raw(key, kArray, bytes);
}

void add_entry(GgufBytes& gguf, const std::string& key, const json& value) {
  if (value.is_string()) {
    gguf.add_text(key, value.get<std::string>());
  } else if (value.is_boolean()) {
    gguf.add_raw(key, 7, std::string(1, value.get<bool>() ? '\1' : '\0'));
  } else if (value.is_number_integer()) {
    gguf.add_integer(key, value.get<std::uint32_t>());
  } else if (value.is_number()) {
    gguf.add_number(key, value.get<float>());
  } else if (value.is_array()) {
    add_list(gguf, key, value);
  } else {
    throw std::runtime_error("an object in the metadata: " + key);
  }
}

void add_tensor(GgufBytes& gguf, const std::string& name, const Shape& shape,
                const std::vector<float>& values) {
  std::vector<std::uint64_t> dimensions;
  for (int i = shape.rank(); i-- > 0;) {
    dimensions.push_back(static_cast<std::uint64_t>(shape[i]));
  }
  std::string bytes;
  for (const float value : values) append_scalar(bytes, value);
  gguf.add_tensor(name, dimensions, 0, bytes);
}

// The number of the expert of a tensor such as model.layers.0.mlp.experts.12.up_proj.weight.
std::size_t expert_of(const std::string& name) {
  constexpr std::string_view kExperts = ".experts.";
  return std::stoul(name.substr(name.find(kExperts) + kExperts.size()));
}

// Experts' matrices of one role, which a GGUF file has as one tensor, by their numbers.
struct Stack {
  Shape shape;
  std::map<std::size_t, std::vector<float>> matrices;
};

void add_stack(GgufBytes& gguf, const std::string& name, const Stack& stack) {
  std::vector<float> all;
  for (const auto& [number, values] : stack.matrices) {
    all.insert(all.end(), values.begin(), values.end());
  }
  add_tensor(gguf, name, {std::ssize(stack.matrices), stack.shape[0], stack.shape[1]}, all);
}

}  // namespace

namespace {

std::vector<FamilyModel> models_in(std::string_view folder) {
  std::vector<FamilyModel> models;
  for (const auto& entry : std::filesystem::directory_iterator(references(folder))) {
    FamilyModel model{entry.path().stem().string(), read_json(entry.path())};
    if (has_family(model.reference.at("config"))) models.push_back(std::move(model));
  }
  std::ranges::sort(models, {}, &FamilyModel::name);
  return models;
}

}  // namespace

std::vector<FamilyModel> family_models() { return models_in("families"); }
std::string tiny_encoder_vocabulary() {
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char c = 'a'; c <= 'z'; ++c) text += std::string(1, c) + "\n##" + c + "\n";
  for (int digit = 0; digit < 10; ++digit) text += std::to_string(digit) + "\n";
  return text;
}

std::vector<FamilyModel> encoder_models() { return models_in("encoders"); }

void write_family_model(const std::filesystem::path& folder, const FamilyModel& model) {
  std::filesystem::create_directories(folder);
  std::vector<StoredTensor> tensors;
  for (const auto& [name, shape] : model.reference.at("tensors").items()) {
    tensors.push_back({name, DType::f32, shape_of(shape), {}});
  }
  write_safetensors(folder / "model.safetensors", tensors, {}, [&](std::size_t i) {
    const std::vector<float> values = values_of(tensors[i].name, tensors[i].shape);
    const auto bytes = std::as_bytes(std::span(values));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  });
  const std::string config = json_text(model.reference.at("config"), 2);
  write_file_atomically(folder / "config.json", std::as_bytes(std::span(config)));
}

void write_family_gguf(const std::filesystem::path& path, const FamilyModel& model) {
  const json& notes = model.reference.at("gguf_notes");
  const json permuted = notes.value("permute", json::object());
  const json extra = notes.value("extra_tensors", json::object());
  const auto add_one = notes.value("add_one", std::vector<std::string>());
  const std::set<std::string> plus_one(add_one.begin(), add_one.end());
  const json value_heads = notes.value("value_heads", json::object());
  const auto negative_exp = notes.value("negative_exp", std::vector<std::string>());
  const std::set<std::string> reversed(negative_exp.begin(), negative_exp.end());
  const auto squeeze = notes.value("squeeze", std::vector<std::string>());
  const std::set<std::string> squeezed(squeeze.begin(), squeeze.end());
  const bool stacks_experts = notes.value("stack", false);
  std::map<std::string, Stack> stacks;
  GgufBytes gguf;
  for (const auto& [key, value] : model.reference.at("gguf").items()) add_entry(gguf, key, value);
  for (const auto& [name, gguf_name] : model.reference.at("gguf_tensors").items()) {
    Shape shape = shape_of(model.reference.at("tensors").at(name));
    std::vector<float> values = values_of(name, shape);
    if (squeezed.contains(name)) shape = {shape[0], shape[2]};
    if (plus_one.contains(name)) {
      for (float& value : values) value += 1;
    }
    if (reversed.contains(name)) {
      for (float& value : values) value = -std::exp(value);
    }
    if (value_heads.contains(name)) {
      values = with_tiled_heads(values, shape_of(model.reference.at("tensors").at(name)),
                                value_heads.at(name).get<std::vector<std::int64_t>>());
    }
    if (const auto heads = permuted.value(name, 0); heads > 0) {
      values = interleaved(values, shape[0], heads);
    }
    if (stacks_experts && name.find(".experts.") != std::string::npos) {
      Stack& stack = stacks[gguf_name.get<std::string>()];
      stack.shape = shape;
      stack.matrices[expert_of(name)] = values;
    } else {
      add_tensor(gguf, gguf_name, shape, values);
    }
  }
  for (const auto& [name, stack] : stacks) add_stack(gguf, name, stack);
  for (const auto& [name, list] : extra.items()) {
    const auto values = list.get<std::vector<float>>();
    add_tensor(gguf, name, {static_cast<std::int64_t>(values.size())}, values);
  }
  write_file(path, gguf.bytes());
}

}  // namespace clora::test

#include "model/weights/weight_sources.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "clora/runtime/files/json.hpp"
#include "lora/hub_hint.hpp"
#include "model/files/generation_config.hpp"
#include "model/files/gguf_split.hpp"
#include "model/files/model_folder.hpp"
#include "model/weights/multimodal_text.hpp"
#include "model/weights/quantised_layers.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kConfigName = "config.json";

// False also if the path is not accessible.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

void add_generation_ids(const fs::path& folder, ModelConfig& config) {
  for (const std::int32_t id : generation_end_ids(folder, config.vocabulary))
    if (std::ranges::find(config.eos_ids, id) == config.eos_ids.end()) config.eos_ids.push_back(id);
}

// Returns the shards that the index lists, sorted, each once.
std::set<std::string> shard_names(const fs::path& index_path, const json& index) {
  const std::string path = index_path.string();
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    fail(ErrorCode::invalid_file, "{}: the key weight_map is missing", path);
  std::set<std::string> names;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    if (!shard.is_string() || shard.get<std::string>().find('/') != std::string::npos)
      fail(ErrorCode::invalid_file, "{}: {} must be in a file of the same folder, got {}", path,
           tensor, json_excerpt(shard));
    names.insert(shard.get<std::string>());
  }
  if (names.empty()) fail(ErrorCode::invalid_file, "{}: lists no tensors", path);
  return names;
}

void check_index(const fs::path& index_path, const json& index,
                 const std::vector<SafetensorsFile>& shards) {
  std::set<std::pair<std::string, std::string>> stored;
  for (const SafetensorsFile& shard : shards)
    for (const std::string& name : shard.names())
      stored.emplace(name, shard.path().filename().string());
  for (const auto& [tensor, shard] : index["weight_map"].items())
    if (!stored.contains({tensor, shard.get<std::string>()}))
      fail(ErrorCode::invalid_file, "{}: tensor {} is not in {}", index_path.string(), tensor,
           shard.get<std::string>());
}

std::vector<SafetensorsFile> open_shards(const fs::path& folder) {
  const fs::path index_path = folder / kSafetensorsIndexName;
  const json index = read_json_file(index_path);
  std::vector<SafetensorsFile> shards;
  for (const std::string& name : shard_names(index_path, index)) {
    if (!is_there(folder / name))
      fail(ErrorCode::not_found, "{}: the shard {} is missing; {} refers to it", folder.string(),
           name, kSafetensorsIndexName);
    shards.push_back(SafetensorsFile::open(folder / name));
  }
  check_index(index_path, index, shards);
  return shards;
}

WeightSources open_hugging_face(const fs::path& folder) {
  WeightSources sources;
  sources.folder = folder;
  sources.config_file = folder / kConfigName;
  if (!is_there(sources.config_file))
    fail(ErrorCode::not_found, "{}: has weights but no config.json", folder.string());
  const std::string file = sources.config_file.string();
  const json config = read_json_file(sources.config_file);
  const std::optional<json> text = text_config_of(config, file);
  sources.is_multimodal = text.has_value();
  sources.config = from_hugging_face(text ? *text : config, file);
  sources.quantisation = find_quantisation(config, file);
  if (text && !sources.quantisation) sources.quantisation = find_quantisation(*text, file);
  sources.config.name = fs::canonical(folder).filename().string();
  add_generation_ids(folder, sources.config);
  if (is_there(folder / kSafetensorsName))
    sources.safetensors.push_back(SafetensorsFile::open(folder / kSafetensorsName));
  else
    sources.safetensors = open_shards(folder);
  return sources;
}

WeightSources open_gguf(const fs::path& path) {
  WeightSources sources;
  sources.gguf = GgufFile::open(path);
  sources.folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  sources.config_file = sources.gguf->path();
  sources.config = from_gguf(*sources.gguf);
  if (sources.config.name.empty()) {
    const auto part = gguf_part_name(path);
    sources.config.name = part ? part->model : path.stem().string();
  }
  return sources;
}

// Weights that only Python can read.
std::string pickle_hint(const fs::path& folder) {
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (!is_there(folder / name)) continue;
    return fmt::format(
        "; {} is a Python pickle: load the model with transformers and save it with "
        "save_pretrained(..., safe_serialization=True)",
        name);
  }
  return {};
}

WeightSources open_folder(const fs::path& folder) {
  if (has_safetensors(folder)) return open_hugging_face(folder);
  const auto model = gguf_model_in(folder);
  if (!model)
    fail(ErrorCode::not_found,
         "{}: not a model folder; one contains config.json with model.safetensors (or {}), or one "
         ".gguf file or all parts of one{}",
         folder.string(), kSafetensorsIndexName, pickle_hint(folder));
  return open_gguf(*model);
}

void add(StoredWeights& weights, StoredWeight weight) {
  const std::string name = weight.view.name;
  const std::string file = weight.view.file.string();
  if (!weights.emplace(name, std::move(weight)).second)
    fail(ErrorCode::invalid_file, "{}: tensor {} is duplicated", file, name);
}

StoredWeight stored_weight(const GgufTensor& tensor, std::string name, const GgufFile& file) {
  StoredWeight weight;
  weight.view = {.name = std::move(name),
                 .stored_name = std::string(tensor.name),
                 .type = tensor.type.value_or(DType::f32),
                 .shape = tensor.shape,
                 .bytes = tensor.bytes,
                 .file = file.part_of(tensor).path(),
                 .mapping = file.part_of(tensor).owner()};
  if (!tensor.type || *tensor.type == DType::i32)
    weight.unreadable =
        fmt::format("has the type {} ({})", ggml_type_name(tensor.type_number), tensor.type_number);
  return weight;
}

StoredWeight stored_weight(const SafetensorsFile::Entry& entry, const SafetensorsFile& file) {
  StoredWeight weight;
  weight.view = {.name = entry.name,
                 .stored_name = entry.name,
                 .type = entry.type.value_or(DType::f32),
                 .shape = {},
                 .bytes = entry.bytes,
                 .file = file.path(),
                 .mapping = file.mapping()};
  const bool is_float =
      entry.type == DType::f32 || entry.type == DType::f16 || entry.type == DType::bf16;
  const bool has_shape = entry.dimensions.size() <= Shape::kMaxRank;
  // Also of integers, which are parts of quantised layers.
  if (entry.type && has_shape) weight.view.shape = Shape(std::span(entry.dimensions));
  if (!is_float)
    weight.unreadable = fmt::format("has the type {}", entry.type_name);
  else if (!has_shape)
    weight.unreadable = fmt::format("has {} dimensions", entry.dimensions.size());
  return weight;
}

// Matrix need.stack.index of a tensor that stacks need.stack.count of them.
StoredWeight matrix_of_stack(StoredWeight stack, const WeightNeed& need) {
  WeightView& view = stack.view;
  const Shape& shape = view.shape;
  const bool fits = stack.unreadable.empty() && shape.rank() == 3 && shape[0] == need.stack.count;
  view.name = need.name;
  if (!fits && stack.unreadable.empty())
    fail(ErrorCode::invalid_file, "{}: tensor {} must stack {} matrices {}, got {}",
         view.file.string(), view.stored_name, need.stack.count, need.shape.text(), shape.text());
  if (!fits) return stack;
  const std::size_t bytes = view.bytes.size() / static_cast<std::size_t>(shape[0]);
  view.bytes = view.bytes.subspan(static_cast<std::size_t>(need.stack.index) * bytes, bytes);
  view.shape = {shape[1], shape[2]};
  return stack;
}

void add_gguf_weights(StoredWeights& weights, const GgufFile& file,
                      const std::vector<WeightNeed>& needs) {
  std::multimap<std::string_view, const WeightNeed*> by_name;
  for (const WeightNeed& need : needs) by_name.emplace(need.gguf_name, &need);
  const WeightNeed tied_head{.name = "lm_head.weight", .gguf_name = "output.weight", .shape = {}};
  // A tied head that a file stores as well, to be compared.
  if (!by_name.contains(tied_head.gguf_name)) by_name.emplace(tied_head.gguf_name, &tied_head);
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name.starts_with("rope_f")) continue;  // factors, part of the configuration
    const auto [begin, end] = by_name.equal_range(tensor.name);
    if (begin == end) add(weights, stored_weight(tensor, std::string(tensor.name), file));
    for (auto at = begin; at != end; ++at) {
      const WeightNeed& need = *at->second;
      StoredWeight weight = stored_weight(tensor, need.name, file);
      add(weights,
          need.stack.count > 0 ? matrix_of_stack(std::move(weight), need) : std::move(weight));
    }
  }
}

}  // namespace

WeightSources open_weight_sources(const fs::path& path) {
  if (!is_there(path))
    fail(ErrorCode::not_found, "{}: no such file or folder{}", path.string(), hub_hint(path));
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return open_folder(path);
  if (path.extension() == ".safetensors")
    fail(ErrorCode::invalid_file, "{}: pass the folder that contains config.json and this file",
         path.string());
  return open_gguf(path);
}

StoredWeights list_weights(const WeightSources& sources, const std::vector<WeightNeed>& needs) {
  StoredWeights weights;
  if (sources.gguf) add_gguf_weights(weights, *sources.gguf, needs);
  for (const SafetensorsFile& file : sources.safetensors) {
    for (const SafetensorsFile::Entry& entry : file.entries()) {
      if (entry.name.ends_with(".rotary_emb.inv_freq")) continue;  // old files; of config.json
      StoredWeight weight = stored_weight(entry, file);
      if (sources.is_multimodal) {
        const std::optional<std::string> name = text_tensor_name(entry.name);
        if (!name) continue;
        weight.view.name = *name;
      }
      const std::string& prefix = sources.config.optional_prefix;
      if (weight.view.name.starts_with(prefix)) weight.view.name.erase(0, prefix.size());
      add(weights, std::move(weight));
    }
  }
  if (sources.quantisation) arrange_quantised_layers(weights, needs, *sources.quantisation);
  return weights;
}

}  // namespace clora

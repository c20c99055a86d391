#include "model/files/weight_sources.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "clora/runtime/files/json.hpp"
#include "lora/hub_hint.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kConfigName = "config.json";
constexpr std::string_view kGenerationName = "generation_config.json";
constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";

using NamePair = std::pair<std::string_view, std::string_view>;
constexpr std::array kGlobalNames{
    NamePair{"token_embd", "model.embed_tokens"},
    NamePair{"output_norm", "model.norm"},
    NamePair{"output", "lm_head"},
};
constexpr std::array kBlockNames{
    NamePair{"attn_norm", "input_layernorm"},    NamePair{"attn_q", "self_attn.q_proj"},
    NamePair{"attn_k", "self_attn.k_proj"},      NamePair{"attn_v", "self_attn.v_proj"},
    NamePair{"attn_output", "self_attn.o_proj"}, NamePair{"attn_q_norm", "self_attn.q_norm"},
    NamePair{"attn_k_norm", "self_attn.k_norm"}, NamePair{"ffn_norm", "post_attention_layernorm"},
    NamePair{"ffn_gate", "mlp.gate_proj"},       NamePair{"ffn_up", "mlp.up_proj"},
    NamePair{"ffn_down", "mlp.down_proj"},
};

template <std::size_t N>
std::optional<std::string_view> translate(const std::array<NamePair, N>& names,
                                          std::string_view name) {
  const auto at = std::ranges::find(names, name, &NamePair::first);
  return at == names.end() ? std::nullopt : std::optional(at->second);
}

// False also if the path is not accessible.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

json read_json(const fs::path& path) {
  const MappedFile file = MappedFile::open(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  return parse_json(text, path.string());
}

// The end-of-text ids are often stored only next to the configuration. They are advisory, so a
// generation_config.json of another form is ignored.
void add_generation_ids(const fs::path& folder, ModelConfig& config) {
  if (!is_there(folder / kGenerationName)) return;
  const json object = read_json(folder / kGenerationName);
  if (!object.is_object() || !object.contains("eos_token_id")) return;
  const json& value = object["eos_token_id"];
  for (const json& id : value.is_array() ? value : json::array({value})) {
    if (!id.is_number_integer()) continue;
    const auto wide = id.get<std::int64_t>();
    if (wide < 0 || wide >= config.vocabulary) continue;  // not a token of the model
    const auto number = static_cast<std::int32_t>(wide);
    if (std::ranges::find(config.eos_ids, number) == config.eos_ids.end())
      config.eos_ids.push_back(number);
  }
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
  const fs::path index_path = folder / kIndexName;
  const json index = read_json(index_path);
  std::vector<SafetensorsFile> shards;
  for (const std::string& name : shard_names(index_path, index)) {
    if (!is_there(folder / name))
      fail(ErrorCode::not_found, "{}: the shard {} is missing; {} refers to it", folder.string(),
           name, kIndexName);
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
  sources.config = from_hugging_face(read_json(sources.config_file), sources.config_file.string());
  sources.config.name = fs::canonical(folder).filename().string();
  add_generation_ids(folder, sources.config);
  if (is_there(folder / kSingleName))
    sources.safetensors.push_back(SafetensorsFile::open(folder / kSingleName));
  else
    sources.safetensors = open_shards(folder);
  return sources;
}

WeightSources open_gguf(const fs::path& path) {
  WeightSources sources;
  sources.gguf = GgufFile::open(path);
  if (sources.gguf->integer("split.count").value_or(1) > 1)
    fail(ErrorCode::unsupported, "{}: a GGUF split into several files is not supported; merge it",
         path.string());
  sources.folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  sources.config_file = path;
  sources.config = from_gguf(*sources.gguf);
  if (sources.config.name.empty()) sources.config.name = path.stem().string();
  return sources;
}

std::vector<fs::path> gguf_files_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  if (error) fail(ErrorCode::io, "{}: cannot be read: {}", folder.string(), error.message());
  for (const fs::directory_entry& entry : at)
    if (entry.path().extension() == ".gguf") found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

WeightSources open_folder(const fs::path& folder) {
  if (is_there(folder / kSingleName) || is_there(folder / kIndexName))
    return open_hugging_face(folder);
  const auto found = gguf_files_in(folder);
  if (found.size() == 1) return open_gguf(found.front());
  if (found.size() > 1)
    fail(ErrorCode::not_found, "{}: contains {} and {} other .gguf files; pass one of them",
         folder.string(), found.front().filename().string(), found.size() - 1);
  fail(ErrorCode::not_found,
       "{}: not a model folder; one contains config.json with model.safetensors (or {}), or one "
       ".gguf file",
       folder.string(), kIndexName);
}

void add(StoredWeights& weights, StoredWeight weight) {
  const std::string name = weight.view.name;
  const std::string file = weight.view.file.string();
  if (!weights.emplace(name, std::move(weight)).second)
    fail(ErrorCode::invalid_file, "{}: tensor {} is duplicated", file, name);
}

StoredWeight stored_weight(const GgufTensor& tensor, const GgufFile& file) {
  StoredWeight weight;
  weight.view = {.name = canonical_name(tensor.name),
                 .stored_name = std::string(tensor.name),
                 .type = tensor.type.value_or(DType::f32),
                 .shape = tensor.shape,
                 .bytes = tensor.bytes,
                 .file = file.path(),
                 .mapping = file.mapping()};
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
  if (!is_float)
    weight.unreadable = fmt::format("has the type {}", entry.type_name);
  else if (entry.dimensions.size() > Shape::kMaxRank)
    weight.unreadable = fmt::format("has {} dimensions", entry.dimensions.size());
  else
    weight.view.shape = Shape(std::span(entry.dimensions));
  return weight;
}

}  // namespace

std::string canonical_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::string(name);
  const std::string_view kind = name.substr(dot);  // ".weight", ".bias"
  const std::string_view stem = name.substr(0, dot);
  if (const auto global = translate(kGlobalNames, stem)) return fmt::format("{}{}", *global, kind);
  const std::size_t second = stem.find('.', 4);
  if (!stem.starts_with("blk.") || second == std::string_view::npos) return std::string(name);
  const auto part = translate(kBlockNames, stem.substr(second + 1));
  if (!part) return std::string(name);
  return fmt::format("model.layers.{}.{}{}", stem.substr(4, second - 4), *part, kind);
}

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

StoredWeights list_weights(const WeightSources& sources) {
  StoredWeights weights;
  if (sources.gguf) {
    for (const GgufTensor& tensor : sources.gguf->tensors())
      if (tensor.name != "rope_freqs.weight")  // part of the configuration
        add(weights, stored_weight(tensor, *sources.gguf));
  }
  for (const SafetensorsFile& file : sources.safetensors) {
    for (const SafetensorsFile::Entry& entry : file.entries())
      if (!entry.name.ends_with(".rotary_emb.inv_freq"))  // old files; derived from config.json
        add(weights, stored_weight(entry, file));
  }
  return weights;
}

}  // namespace clora

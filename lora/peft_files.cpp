#include "lora/peft_files.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "lora/safetensors.hpp"
#include "runtime/error.hpp"
#include "runtime/file.hpp"
#include "runtime/half.hpp"

namespace clora {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kConfigFile = "adapter_config.json";
constexpr const char* kTensorFile = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kSuffixA = ".lora_A.weight";
constexpr std::string_view kSuffixB = ".lora_B.weight";

std::string name_a(const std::string& path) {
  return fmt::format("{}{}{}", kPrefix, path, kSuffixA);
}
std::string name_b(const std::string& path) {
  return fmt::format("{}{}{}", kPrefix, path, kSuffixB);
}

// out [columns, rows] = in [rows, columns]^T
std::vector<float> transposed(std::span<const float> in, std::int64_t rows, std::int64_t columns) {
  std::vector<float> out(in.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      out[static_cast<std::size_t>(c * rows + r)] = in[static_cast<std::size_t>(r * columns + c)];
    }
  }
  return out;
}

Json config_json(const AdapterConfig& config) {
  return Json{{"peft_type", "LORA"},
              {"task_type", "CAUSAL_LM"},
              {"base_model_name_or_path", config.base_model},
              {"r", config.rank},
              {"lora_alpha", config.alpha},
              {"lora_dropout", config.dropout},
              {"use_rslora", config.rank_stabilised},
              {"use_dora", false},
              {"target_modules", config.target_modules},
              {"bias", "none"},
              {"fan_in_fan_out", false},
              {"modules_to_save", nullptr},
              {"rank_pattern", Json::object()},
              {"alpha_pattern", Json::object()},
              {"inference_mode", true}};
}

void write_config(const std::filesystem::path& path, const AdapterConfig& config) {
  const std::string text = config_json(config).dump(2) + "\n";
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

// adapter_config.json as the reader needs it.
struct PeftConfig {
  AdapterConfig config;
  std::map<std::string, std::int64_t> rank_pattern;
  std::map<std::string, double> alpha_pattern;
};

void refuse_unsupported(const Json& json, const std::filesystem::path& path) {
  const auto refuse = [&](const std::string& what) {
    fail(ErrorCode::unsupported, "adapter '{}': {} is not supported; plain LoRA is", path.string(),
         what);
  };
  const std::string type = json.value("peft_type", "LORA");
  if (type != "LORA") refuse(fmt::format("peft_type {}", type));
  if (json.value("use_dora", false)) refuse("use_dora");
  if (json.value("fan_in_fan_out", false)) refuse("fan_in_fan_out");
  if (json.value("bias", "none") != "none") refuse("bias other than none");
  const auto saved = json.find("modules_to_save");
  if (saved != json.end() && !saved->is_null() && !saved->empty()) refuse("modules_to_save");
}

PeftConfig read_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kConfigFile;
  const MappedFile file = MappedFile::open(path);
  PeftConfig read;
  try {
    const auto* text = reinterpret_cast<const char*>(file.bytes().data());
    const Json json = Json::parse(text, text + file.bytes().size());
    refuse_unsupported(json, path);
    AdapterConfig& config = read.config;
    config.rank = json.at("r").get<std::int64_t>();
    config.alpha = json.value("lora_alpha", static_cast<double>(config.rank));
    config.dropout = json.value("lora_dropout", 0.0);
    config.rank_stabilised = json.value("use_rslora", false);
    const auto base = json.find("base_model_name_or_path");
    if (base != json.end() && base->is_string()) config.base_model = base->get<std::string>();
    const auto targets = json.find("target_modules");
    if (targets != json.end() && targets->is_array()) {
      config.target_modules = targets->get<std::vector<std::string>>();
    } else if (targets != json.end() && targets->is_string()) {
      config.target_modules = {targets->get<std::string>()};
    }
    read.rank_pattern = json.value("rank_pattern", std::map<std::string, std::int64_t>{});
    read.alpha_pattern = json.value("alpha_pattern", std::map<std::string, double>{});
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::invalid_file, "adapter '{}': {}", path.string(), error.what());
  }
  return read;
}

// PEFT's patterns name a module by its whole path or by the end of it, after a dot.
template <class T>
T pattern_value(const std::map<std::string, T>& pattern, const std::string& path, T otherwise) {
  for (const auto& [key, value] : pattern) {
    if (path == key || path.ends_with("." + key)) return value;
  }
  return otherwise;
}

const AdapterSite* site_of(const std::vector<AdapterSite>& sites, std::string_view path) {
  const auto found =
      std::ranges::find_if(sites, [&](const AdapterSite& site) { return site.path == path; });
  return found == sites.end() ? nullptr : &*found;
}

// The path in a tensor's name, or nothing where the name is not one of a LoRA matrix. PEFT's own
// files have no adapter name between lora_A and weight.
std::optional<std::string> path_in(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  for (const std::string_view suffix : {kSuffixA, kSuffixB}) {
    if (name.ends_with(suffix)) return std::string(name.substr(0, name.size() - suffix.size()));
  }
  return std::nullopt;
}

// Every path that the file has matrices for, each checked to be one of the sites.
std::set<std::string> paths_in(const SafetensorsFile& file, const std::vector<AdapterSite>& sites) {
  std::set<std::string> paths;
  for (const std::string& name : file.names()) {
    const std::optional<std::string> path = path_in(name);
    require(
        path.has_value() && site_of(sites, *path) != nullptr,
        "adapter '{}': tensor '{}' fits no linear layer of this base model; is it an adapter of "
        "another model?",
        file.path().string(), name);
    paths.insert(*path);
  }
  return paths;
}

template <class Stored, class Convert>
std::vector<float> converted(const StoredTensor& tensor, Convert convert) {
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored stored{};
    std::memcpy(&stored, tensor.bytes.data() + i * sizeof stored, sizeof stored);
    values[i] = convert(stored);
  }
  return values;
}

std::vector<float> floats_of(const StoredTensor& tensor, const std::filesystem::path& path) {
  if (tensor.type == DType::f32) return converted<float>(tensor, [](float x) { return x; });
  if (tensor.type == DType::bf16) return converted<std::uint16_t>(tensor, bf16_to_float);
  if (tensor.type == DType::f16) return converted<std::uint16_t>(tensor, f16_to_float);
  fail(ErrorCode::unsupported, "adapter '{}': tensor '{}' is {}; f32, f16 or bf16 is needed",
       path.string(), tensor.name, name_of(tensor.type));
}

std::vector<float> matrix(const SafetensorsFile& file, const std::string& name, Shape shape) {
  const std::optional<StoredTensor> tensor = file.find(name);
  if (!tensor.has_value()) {
    fail(ErrorCode::invalid_file, "adapter '{}': tensor '{}' is missing", file.path().string(),
         name);
  }
  require(tensor->shape == shape,
          "adapter '{}': tensor '{}' must be {} to fit the base model, got {}",
          file.path().string(), name, shape.text(), tensor->shape.text());
  return floats_of(*tensor, file.path());
}

std::vector<AdapterModule> modules_of(const PeftConfig& peft, const std::set<std::string>& paths,
                                      const std::vector<AdapterSite>& sites) {
  std::vector<AdapterModule> modules;
  for (const AdapterSite& site : sites) {  // the order of the model, not of the names
    if (!paths.contains(site.path)) continue;
    const std::int64_t rank = pattern_value(peft.rank_pattern, site.path, peft.config.rank);
    const double alpha = pattern_value(peft.alpha_pattern, site.path, peft.config.alpha);
    require(rank >= 1, "adapter: the rank of {} must be at least 1, got {}", site.path, rank);
    const auto r = static_cast<double>(rank);
    const double scale = alpha / (peft.config.rank_stabilised ? std::sqrt(r) : r);
    modules.push_back({site, rank, static_cast<float>(scale), 0, 0});
  }
  return modules;
}

}  // namespace

void save_adapter(const Adapter& adapter, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    fail(ErrorCode::io, "adapter: folder '{}' cannot be made: {}", folder.string(),
         error.message());
  }
  const std::vector<float> flat = adapter.context().read<float>(adapter.parameters());
  std::vector<StoredTensor> tensors;
  std::vector<std::vector<float>> transposed_b;
  transposed_b.reserve(adapter.modules().size());  // views into its elements must stay valid
  for (const AdapterModule& module : adapter.modules()) {
    const auto a_count = static_cast<std::size_t>(module.rank * module.site.inputs);
    const auto b_count = static_cast<std::size_t>(module.rank * module.site.outputs);
    const std::span all(flat);
    tensors.push_back({name_a(module.site.path),
                       DType::f32,
                       {module.rank, module.site.inputs},
                       std::as_bytes(all.subspan(module.a_offset, a_count))});
    transposed_b.push_back(
        transposed(all.subspan(module.bt_offset, b_count), module.rank, module.site.outputs));
    tensors.push_back({name_b(module.site.path),
                       DType::f32,
                       {module.site.outputs, module.rank},
                       std::as_bytes(std::span(transposed_b.back()))});
  }
  write_safetensors(folder / kTensorFile, tensors, {{"format", "pt"}});
  write_config(folder / kConfigFile, adapter.config());
}

Adapter load_adapter(Context& context, const std::filesystem::path& folder,
                     const std::vector<AdapterSite>& sites) {
  const PeftConfig peft = read_config(folder);
  const SafetensorsFile file = SafetensorsFile::open(folder / kTensorFile);
  Adapter adapter(context, modules_of(peft, paths_in(file, sites), sites), peft.config);
  std::vector<float> flat(static_cast<std::size_t>(adapter.parameters().elements()));
  for (const AdapterModule& module : adapter.modules()) {
    const std::int64_t rank = module.rank;
    const std::vector<float> a = matrix(file, name_a(module.site.path), {rank, module.site.inputs});
    const std::vector<float> b =
        matrix(file, name_b(module.site.path), {module.site.outputs, rank});
    std::ranges::copy(a, flat.begin() + static_cast<std::ptrdiff_t>(module.a_offset));
    std::ranges::copy(transposed(b, module.site.outputs, rank),
                      flat.begin() + static_cast<std::ptrdiff_t>(module.bt_offset));
  }
  context.write(adapter.parameters(), std::as_bytes(std::span(flat)));
  return adapter;
}

AdapterConfig read_adapter_config(const std::filesystem::path& folder) {
  return read_config(folder).config;
}

}  // namespace clora

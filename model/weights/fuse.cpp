#include "clora/model/weights/fuse.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clora/lora/safetensors.hpp"
#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "model/files/model_folder.hpp"
#include "model/files/quantise.hpp"
#include "model/weights/merged_weights.hpp"
#include "runtime/fail.hpp"
#include "runtime/files/disk_space.hpp"
#include "runtime/make_folder.hpp"

namespace clora {
namespace {

std::string_view type_name_of(DType type) {
  if (type == DType::f32) return "float32";
  if (type == DType::f16) return "float16";
  if (type == DType::bf16) return "bfloat16";
  fail(ErrorCode::unsupported,
       "fuse: safetensors are written as f32, f16 or bf16, got {}; choose one of these, or GGUF",
       name_of(type));
}

std::uintmax_t stored_bytes(const StoredTensor& tensor) {
  return bytes_of(tensor.type, static_cast<std::size_t>(tensor.shape.elements()));
}

// The tensors [first, last) of one file.
struct Shard {
  std::size_t first = 0, last = 0;
};

std::vector<Shard> shards_of(const std::vector<StoredTensor>& tensors, std::uintmax_t max_bytes) {
  std::vector<Shard> shards{{}};
  std::uintmax_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uintmax_t more = stored_bytes(tensors[i]);
    if (max_bytes > 0 && bytes > 0 && bytes + more > max_bytes) {
      shards.push_back({i, i});
      bytes = 0;
    }
    shards.back().last = i + 1;
    bytes += more;
  }
  return shards;
}

std::string name_of_shard(std::size_t index, std::size_t count) {
  return count == 1 ? std::string(kSafetensorsName)
                    : fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

class FusedModelWriter {
 public:
  FusedModelWriter(const WeightFiles& base, const Adapter* adapter, const FuseOptions& options)
      : merged_(base, adapter), options_(options), views_(merged_.views()) {
    type_name_of(options.type);
    for (const WeightView& view : views_) {
      tensors_.push_back({view.name, options.type, view.shape, {}});
      bytes_ += stored_bytes(tensors_.back());
    }
    shards_ = shards_of(tensors_, options.max_shard_bytes);
  }

  std::vector<std::string> file_names() const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      names.push_back(name_of_shard(i, shards_.size()));
    }
    if (shards_.size() > 1) names.emplace_back(kSafetensorsIndexName);
    return names;
  }

  void write(const std::filesystem::path& folder) const {
    const std::string_view type = type_name_of(options_.type);
    require_free_space(folder, bytes_, "fuse");
    make_folder(folder, "fuse");
    for (std::size_t i = 0; i < shards_.size(); ++i) write_shard(folder, i);
    if (shards_.size() > 1) write_index(folder);
    nlohmann::ordered_json config = to_hugging_face_json(merged_.config());
    config["torch_dtype"] = type;
    write_file_atomically(folder / "config.json", json_text(config, 2) + "\n");
  }

 private:
  void write_shard(const std::filesystem::path& folder, std::size_t index) const {
    const Shard shard = shards_[index];
    const auto tensors = std::span(tensors_).subspan(shard.first, shard.last - shard.first);
    write_safetensors(folder / name_of_shard(index, shards_.size()), tensors, {{"format", "pt"}},
                      [&](std::size_t i) {
                        stop_if_cancelled(options_.go_on, "fuse");
                        return bytes_of_view(views_[shard.first + i]);
                      });
  }

  std::vector<std::byte> bytes_of_view(const WeightView& view) const {
    try {
      return quantise(options_.type, merged_.values(view));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_data) throw;
      fail(error.code(), "fuse: tensor '{}': {}", view.name, error.what());
    }
  }

  void write_index(const std::filesystem::path& folder) const {
    nlohmann::ordered_json index;
    index["metadata"]["total_size"] = bytes_;
    for (std::size_t s = 0; s < shards_.size(); ++s) {
      for (std::size_t i = shards_[s].first; i < shards_[s].last; ++i) {
        index["weight_map"][tensors_[i].name] = name_of_shard(s, shards_.size());
      }
    }
    write_file_atomically(folder / kSafetensorsIndexName, json_text(index, 2) + "\n");
  }

  MergedWeights merged_;
  const FuseOptions& options_;
  std::vector<WeightView> views_;
  std::vector<StoredTensor> tensors_;
  std::uintmax_t bytes_ = 0;
  std::vector<Shard> shards_;
};

}  // namespace

void require_finite_fusion(const WeightFiles& base, const Adapter* adapter,
                           const std::function<bool()>& go_on) {
  const MergedWeights merged(base, adapter);
  for (const WeightView& view : merged.views()) {
    stop_if_cancelled(go_on, "fuse");
    merged.values(view);
  }
}

std::vector<std::string> fused_file_names(const WeightFiles& base, const Adapter* adapter,
                                          const FuseOptions& options) {
  return FusedModelWriter(base, adapter, options).file_names();
}

void write_fused_model(const WeightFiles& base, const Adapter* adapter,
                       const std::filesystem::path& folder, const FuseOptions& options) {
  FusedModelWriter(base, adapter, options).write(folder);
}

void write_fused_model(const WeightFiles& base, const Adapter& adapter,
                       const std::filesystem::path& folder, const std::function<bool()>& go_on) {
  write_fused_model(base, &adapter, folder, {.go_on = go_on});
}

}  // namespace clora

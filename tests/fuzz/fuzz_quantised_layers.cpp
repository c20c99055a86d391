// A folder with quantised layers: quantization_config and the tensors, which are arranged in full.
#include <nlohmann/json.hpp>

#include "clora/model/weights/weights.hpp"
#include "clora/runtime/files/json.hpp"
#include "model/files/block_decoders.hpp"
#include "model/weights/arranged_weight.hpp"
#include "tests/fuzz/input_folder.hpp"
#include "tests/fuzz/safetensors_bytes.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"

namespace clora::fuzz {
namespace {

std::string config_with(std::string_view scheme) {
  return R"({"model_type":"llama","num_hidden_layers":1,"hidden_size":64,"intermediate_size":32,)"
         R"("num_attention_heads":1,"num_key_value_heads":1,"vocab_size":2,"rms_norm_eps":1e-05,)"
         R"("max_position_embeddings":8,"tie_word_embeddings":true,"quantization_config":)" +
         std::string(scheme) + "}";
}

void arrange(const WeightView& view) {
  if (!view.arranged) return;
  std::vector<std::byte> blocks(size_bytes(view));
  view.arranged->copy_rows(blocks, 0);
  use(blocks);
}

// Tensors of a safetensors file, one after the other.
class Tensors {
 public:
  void add(const std::string& name, const char* type, const std::vector<std::int64_t>& shape,
           std::string bytes) {
    const std::size_t begin = data_.size();
    data_ += bytes;
    header_[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {begin, data_.size()}}};
  }
  std::string file() const { return safetensors_bytes(json_text(header_), data_); }

 private:
  nlohmann::json header_ = nlohmann::json::object();
  std::string data_;
};

std::string bytes_of_count(std::int64_t count) {
  return std::string(static_cast<std::size_t>(count), '\1');
}

void add_gptq(Tensors& tensors, const std::string& path, std::int64_t n, std::int64_t k) {
  tensors.add(path + ".qweight", "I32", {k / 8, n}, bytes_of_count(k * n / 2));
  tensors.add(path + ".qzeros", "I32", {k / 32, n / 8}, bytes_of_count(k / 32 * n / 2));
  tensors.add(path + ".scales", "F16", {k / 32, n}, bytes_of_count(k / 32 * n * 2));
  tensors.add(path + ".g_idx", "I32", {k}, std::string(static_cast<std::size_t>(4 * k), '\0'));
}

void add_awq(Tensors& tensors, const std::string& path, std::int64_t n, std::int64_t k) {
  tensors.add(path + ".qweight", "I32", {k, n / 8}, bytes_of_count(k * n / 2));
  tensors.add(path + ".qzeros", "I32", {1, n / 8}, bytes_of_count(n / 2));
  tensors.add(path + ".scales", "F16", {1, n}, bytes_of_count(n * 2));
}

void add_nf4(Tensors& tensors, const std::string& path, std::int64_t n, std::int64_t k) {
  const std::string name = path + ".weight";
  const std::string state = json_text(nlohmann::json{{"quant_type", "nf4"},
                                                     {"blocksize", 64},
                                                     {"shape", {n, k}},
                                                     {"nested_blocksize", 256},
                                                     {"nested_offset", 0.5}});
  const auto length = static_cast<std::int64_t>(state.size());
  tensors.add(name, "U8", {n * k / 2, 1}, bytes_of_count(n * k / 2));
  tensors.add(name + ".absmax", "U8", {n * k / 64}, bytes_of_count(n * k / 64));
  tensors.add(name + ".nested_absmax", "F32", {1}, bytes_of_count(4));
  tensors.add(name + ".nested_quant_map", "F32", {256}, bytes_of_count(1024));
  tensors.add(name + ".quant_map", "F32", {16},
              {reinterpret_cast<const char*>(kNf4Values.data()), sizeof kNf4Values});
  tensors.add(name + ".quant_state.bitsandbytes__nf4", "U8", {length}, state);
}

template <class AddLayer>
std::string seed_of(const std::string& scheme, AddLayer add_layer) {
  Tensors tensors;
  const auto config = parse_json(config_with(scheme), "config.json");
  for (const WeightNeed& need : weight_needs(from_hugging_face(config, "config.json"))) {
    const std::size_t end = need.name.find("_proj.weight");
    if (end == std::string::npos) {
      std::vector<std::int64_t> shape{need.shape[0]};
      if (need.shape.rank() == 2) shape.push_back(need.shape[1]);
      tensors.add(need.name, "F32", shape, bytes_of_count(4 * need.shape.elements()));
    } else {
      add_layer(tensors, need.name.substr(0, end) + "_proj", need.shape[0], need.shape[1]);
    }
  }
  return joined({scheme, tensors.file()});
}

}  // namespace

void read_quantised_layers(std::string_view input) {
  static const InputFolder folder;
  const auto parts = parts_of(input, 2);
  folder.write("config.json", config_with(parts[0]));
  folder.write("model.safetensors", parts[1]);
  attempt([] {
    for (const WeightView& view : WeightFiles::open(folder.path()).all()) arrange(view);
  });
}

std::vector<std::string> quantised_layers_seeds() {
  return {seed_of(R"({"quant_method":"gptq","bits":4,"group_size":32,"desc_act":true})", add_gptq),
          seed_of(R"({"quant_method":"awq","bits":4,"group_size":-1,"version":"gemm"})", add_awq),
          seed_of(R"({"quant_method":"bitsandbytes","load_in_4bit":true,)"
                  R"("bnb_4bit_quant_type":"nf4"})",
                  add_nf4)};
}

}  // namespace clora::fuzz

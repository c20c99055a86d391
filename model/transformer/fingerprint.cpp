#include "clora/model/transformer/fingerprint.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "clora/ops/gemm/gemm.hpp"
#include "clora/runtime/files/json.hpp"
#include "lora/saved_tensors.hpp"
#include "model/weights/arranged_weight.hpp"

namespace clora {
namespace {

constexpr std::size_t kMaxFullModelBytes = std::size_t{1} << 30U;
constexpr std::size_t kMaxFullTensorBytes = std::size_t{256} << 10U;
constexpr std::size_t kPages = 64;
constexpr std::size_t kPageBytes = 4096;

template <class T>
std::string_view text_of_bytes(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// Returns the bytes of evenly spread pages, including the first and the last page. REQUIRES:
// bytes.size() >= kWholeTensorBytes.
std::string sampled(std::span<const std::byte> bytes) {
  std::string sample;
  sample.reserve(kPages * kPageBytes);
  const std::size_t last = bytes.size() - kPageBytes;
  for (std::size_t page = 0; page < kPages; ++page) {
    const std::size_t offset =
        last / (kPages - 1) * page + last % (kPages - 1) * page / (kPages - 1);
    sample += text_of_bytes(bytes.subspan(offset, kPageBytes));
  }
  return sample;
}

Digest digest_of_bytes(std::span<const std::byte> bytes, bool full) {
  const bool in_full = full || bytes.size() <= kMaxFullTensorBytes;
  return in_full ? digest_of(bytes) : digest_of(sampled(bytes));
}

// Of the bytes in the file, whose arrangement follows from the type.
Digest digest_of_stored(const WeightView& weight, bool full) {
  if (!weight.arranged) return digest_of_bytes(weight.bytes, full);
  std::vector<Digest> digests;
  for (const WeightView& source : weight.arranged->sources)
    digests.push_back(digest_of_bytes(source.bytes, full));
  return digest_of_digests(digests);
}

Digest digest_of_tensor(const WeightView& weight, bool full) {
  return digest_of(fmt::format("{} {} {} {} {}", weight.name, name_of(weight.type),
                               weight.shape.text(), size_bytes(weight),
                               digest_of_stored(weight, full).text()));
}

// Adds the keys of config.json that describe the model, and the rotary frequencies, which the rope
// factors of a GGUF file change without such a key.
void add_configuration(Fingerprint& fingerprint, ModelConfig config) {
  const std::vector<double> frequencies = rope_frequencies(config.rope);
  config.rope.scaling = {};
  const nlohmann::ordered_json json = to_hugging_face_json(config);
  for (const auto& [key, value] : json.items()) {
    fingerprint.push_back({"model " + key, json_text(value)});
  }
  const Digest digest = digest_of(text_of_bytes(std::span<const double>(frequencies)));
  fingerprint.push_back({"model rotary frequencies", digest.text()});
}

// Return "q_proj" and "3" of "model.layers.3.self_attn.q_proj".
std::string module_name(std::string_view path) {
  return std::string(path.substr(path.rfind('.') + 1));
}
std::string layer_of(std::string_view path) {
  constexpr std::string_view kLayers = ".layers.";
  const std::size_t at = path.find(kLayers);
  if (at == std::string_view::npos) return std::string(path);
  const std::string_view rest = path.substr(at + kLayers.size());
  return std::string(rest.substr(0, rest.find('.')));
}

// Returns the distinct parts of the module paths, in the order of their first occurrence.
template <class F>
std::string listed(const std::vector<AdapterModule>& modules, F part_of) {
  std::vector<std::string> parts;
  for (const AdapterModule& module : modules) {
    std::string part = part_of(module.site.path);
    if (std::ranges::find(parts, part) == parts.end()) parts.push_back(std::move(part));
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

std::string listed_modules(const std::vector<SavedTensor>& tensors) {
  std::string names;
  for (const SavedTensor& tensor : tensors) names += tensor.name + ' ';
  return fmt::format("{} ({})", fmt::join(saved_module_names(tensors), ","),
                     digest_of(names).text());
}

Digest digest_of_modules(const std::vector<AdapterModule>& modules) {
  std::string text;
  for (const AdapterModule& module : modules) {
    text += fmt::format("{} {} {} {} {}\n", module.site.path, module.site.inputs,
                        module.site.outputs, module.rank, module.scale);
  }
  return digest_of(text);
}

}  // namespace

Digest digest_of_digests(std::span<const Digest> digests) {
  DigestStream stream;
  for (const Digest& digest : digests) {
    const std::string text = digest.text();
    stream.add(std::as_bytes(std::span(text)));
  }
  return stream.digest();
}

Digest digest_of_weights(std::span<const WeightView> weights) {
  std::size_t total = 0;
  for (const WeightView& weight : weights) total += size_bytes(weight);
  std::vector<Digest> digests;
  for (const WeightView& weight : weights) {
    digests.push_back(digest_of_tensor(weight, total <= kMaxFullModelBytes));
  }
  return digest_of_digests(digests);
}

Fingerprint fingerprint_of(const LanguageModel& model) {
  const Context& context = model.context();
  Fingerprint fingerprint{
      {"precision", products_round_to_bf16(context) ? "products rounded to bf16" : "f32"},
      {"kernel variant", std::string(name_of(context.variant()))},
      {"model weights", digest_of_weights(model.stored_weights()).text()}};
  add_configuration(fingerprint, model.config());
  return fingerprint;
}

Fingerprint fingerprint_of(const Adapter& adapter) {
  const AdapterConfig& config = adapter.config();
  Fingerprint fingerprint{
      {"rank", fmt::format("{}", config.rank)},
      {"alpha", fmt::format("{}", config.alpha)},
      {"rank-stabilised scale (rsLoRA)", config.rank_stabilised ? "yes" : "no"},
      {"dropout", fmt::format("{}", config.dropout)},
      {"target modules", listed(adapter.modules(), module_name)},
      {"adapted layers", listed(adapter.modules(), layer_of)},
      {"adapted matrices with their ranks and scales", digest_of_modules(adapter.modules()).text()},
      {"trainable parameters", fmt::format("{}", adapter.trainable_parameters())}};
  // Checkpoints without magnitudes do not have it.
  if (config.use_dora) fingerprint.push_back({"magnitudes (DoRA)", "yes"});
  if (!adapter.saved_tensors().empty()) {
    fingerprint.push_back({"modules trained in full", listed_modules(adapter.saved_tensors())});
  }
  return fingerprint;
}

std::string_view value_of(const Fingerprint& fingerprint, std::string_view name) {
  const auto at = std::ranges::find(fingerprint, name, &FingerprintSetting::name);
  return at == fingerprint.end() ? std::string_view() : at->value;
}

std::vector<std::string> differences(const Fingerprint& saved, const Fingerprint& now) {
  std::vector<std::string> texts;
  const auto shown = [](std::string_view value) { return value.empty() ? "absent" : value; };
  const auto compare = [&](const std::string& name) {
    const std::string_view was = value_of(saved, name), is = value_of(now, name);
    if (was != is) texts.push_back(fmt::format("{} was {} and is {}", name, shown(was), shown(is)));
  };
  for (const FingerprintSetting& setting : now) compare(setting.name);
  for (const FingerprintSetting& setting : saved) {
    if (std::ranges::find(now, setting.name, &FingerprintSetting::name) == now.end())
      compare(setting.name);
  }
  return texts;
}

std::string to_json(const Fingerprint& fingerprint) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const FingerprintSetting& setting : fingerprint) json[setting.name] = setting.value;
  return json_text(json);
}

Fingerprint fingerprint_from_json(std::string_view json, std::string_view source) {
  // The size limit is low because parsing into ordered_json is quadratic in the number of keys.
  const auto value = parse_json<nlohmann::ordered_json>(json, source, {.bytes = 64 << 10U});
  const OrderedJsonKeys keys(value, source);
  Fingerprint fingerprint;
  for (const auto& item : value.items()) fingerprint.push_back({item.key(), keys.text(item.key())});
  return fingerprint;
}

}  // namespace clora

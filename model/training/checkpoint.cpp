#include "clora/model/training/checkpoint.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "clora/lora/peft_files.hpp"
#include "clora/lora/safetensors.hpp"
#include "lora/finite_values.hpp"
#include "lora/tensor_checksums.hpp"
#include "model/transformer/finite_check.hpp"
#include "runtime/fail.hpp"
#include "runtime/parse_integer.hpp"

namespace clora {
namespace {

constexpr const char* kStateFile = "training_state.safetensors";
constexpr std::string_view kFormat = "2";    // format 1 had no checksums, settings were one string
constexpr const char* kAverage = "average";  // only of a run that has one
constexpr std::int64_t kMaxCount = std::int64_t{1} << 53U;

SafetensorsMetadata metadata_of(const Trainer::State& state, const Fingerprint& fingerprint) {
  return {{"format_version", std::string(kFormat)},
          {"fingerprint", to_json(fingerprint)},
          {"optimizer", std::string(name_of(state.optimizer.kind))},
          {"step", std::to_string(state.step)},
          {"micro_batches", std::to_string(state.micro_batches)}};
}

const std::string& text_of(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) {
    fail(ErrorCode::invalid_file, "checkpoint: '{}' has no '{}' in its metadata",
         file.path().string(), key);
  }
  return found->second;
}

void check_metadata(const SafetensorsFile& file) {
  if (!has_checksums(file) && !file.metadata().contains("format_version")) {
    fail(ErrorCode::unsupported,
         "checkpoint: '{}' was written by an earlier clora and does not record the data and the "
         "model of its run, so the run cannot be resumed safely; start a new run from "
         "its adapter",
         file.path().string());
  }
  require_intact_metadata(file, "checkpoint");
  const std::string& format = text_of(file, "format_version");
  if (format == kFormat) return;
  fail(ErrorCode::unsupported,
       "checkpoint: '{}' has format version '{}'; this version of clora reads {}",
       file.path().string(), format, kFormat);
}

std::int64_t count_of(const SafetensorsFile& file, const std::string& key) {
  const std::string& text = text_of(file, key);
  const auto count = parse_integer(text);
  if (!count || *count < 0 || *count > kMaxCount) {
    fail(ErrorCode::invalid_file,
         "checkpoint: {} of '{}' must be an integer from 0 to 2^53, got '{}'", key,
         file.path().string(), text.substr(0, 40));
  }
  return *count;
}

template <class T>
constexpr DType kTypeOf = std::is_same_v<T, float> ? DType::f32 : DType::u8;

template <class T>
StoredTensor stored(std::string_view name, const std::vector<T>& values) {
  return {std::string(name), kTypeOf<T>, {std::ssize(values)}, std::as_bytes(std::span(values))};
}

template <class T>
void read_array(const SafetensorsFile& file, const std::string& name, std::vector<T>& values) {
  const std::optional<StoredTensor> tensor = file.find(name);
  if (!tensor.has_value() || tensor->type != kTypeOf<T>) {
    fail(ErrorCode::invalid_file, "checkpoint: '{}' has no {} tensor '{}'", file.path().string(),
         name_of(kTypeOf<T>), name);
  }
  require_intact(file, *tensor, "checkpoint");
  values.resize(tensor->bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  if constexpr (std::is_same_v<T, float>) {
    const auto at = first_not_finite(values);
    if (!at) return;
    fail(ErrorCode::invalid_file, "checkpoint: the tensor '{}' of '{}' contains {} at element {}",
         name, file.path().string(), name_of_not_finite(values[*at]), *at);
  }
}

std::vector<float> floats_of(const SafetensorsFile& file, const std::string& name) {
  std::vector<float> values;
  read_array(file, name, values);
  return values;
}

// Files of earlier versions do not name the optimizer, which was AdamW.
OptimizerKind optimizer_of(const SafetensorsFile& file) {
  const auto found = file.metadata().find("optimizer");
  if (found == file.metadata().end()) {
    return file.find("first_moment_codes") ? OptimizerKind::adamw_8bit : OptimizerKind::adamw;
  }
  try {
    return named_optimizer(found->second);
  } catch (const Error& error) {
    fail(ErrorCode::unsupported, "checkpoint: '{}': {}", file.path().string(), error.what());
  }
}

OptimizerState optimizer_state_of(const SafetensorsFile& file) {
  OptimizerState state{.kind = optimizer_of(file)};
  for (const StateArraySpec& spec : state_of(state.kind)) {
    const std::string name(spec.name);
    // A run without vectors has no state of them.
    if (spec.extent == StateArraySpec::Extent::vectors && !file.find(name)) continue;
    StateArray& array = state.arrays.emplace_back(StateArray{name, {}});
    if (spec.type == DType::u8) array.values = std::vector<std::uint8_t>();
    std::visit([&](auto& values) { read_array(file, name, values); }, array.values);
  }
  return state;
}

void require_finite(const Adapter& adapter, std::span<const float> parameters,
                    const Trainer::State& state) {
  const auto refuse = [&](std::string_view what) {
    fail(ErrorCode::diverged,
         "checkpoint: after step {} {}: the run diverged; lower `learning_rate` or set "
         "`clip_norm`; the last checkpoint is unchanged",
         state.step, what);
  };
  if (const auto matrix = adapter_not_finite(adapter, parameters))
    refuse("the adapter's " + *matrix);
  for (const StateArray& array : state.optimizer.arrays) {
    const auto* floats = std::get_if<std::vector<float>>(&array.values);
    if (floats != nullptr && !all_finite(*floats)) {
      refuse(fmt::format("the optimizer's {} is not finite", array.name));
    }
  }
}

}  // namespace

void save_checkpoint(const std::filesystem::path& folder, const Adapter& adapter, Trainer& trainer,
                     const Fingerprint& fingerprint) {
  const Trainer::State state = trainer.state();
  // Separate f32 matrices hold the same bits; the flat buffer is stored so that restoring needs no
  // second reader.
  const std::vector<float> parameters = adapter.context().read<float>(adapter.parameters());
  require_finite(adapter, parameters, state);
  save_adapter(adapter, folder);
  std::vector<StoredTensor> tensors{stored("parameters", parameters)};
  for (const StateArray& array : state.optimizer.arrays) {
    std::visit([&](const auto& values) { tensors.push_back(stored(array.name, values)); },
               array.values);
  }
  if (!state.average.empty()) tensors.push_back(stored(kAverage, state.average));
  std::ranges::sort(tensors, {}, &StoredTensor::name);
  write_safetensors(folder / kStateFile, tensors,
                    with_checksums(metadata_of(state, fingerprint), tensors));
}

Checkpoint read_checkpoint(const std::filesystem::path& folder) {
  const SafetensorsFile file = SafetensorsFile::open(folder / kStateFile);
  check_metadata(file);
  const std::string source =
      fmt::format("checkpoint: the fingerprint of '{}'", file.path().string());
  return {
      .file = file.path(),
      .fingerprint = fingerprint_from_json(text_of(file, "fingerprint"), source),
      .state = {.step = count_of(file, "step"),
                .micro_batches = count_of(file, "micro_batches"),
                .optimizer = optimizer_state_of(file),
                .average = file.find(kAverage) ? floats_of(file, kAverage) : std::vector<float>()},
      .parameters = floats_of(file, "parameters")};
}

void restore_checkpoint(const Checkpoint& checkpoint, Adapter& adapter, Trainer& trainer) {
  const auto elements = static_cast<std::size_t>(adapter.parameters().elements());
  require(checkpoint.parameters.size() == elements,
          "checkpoint: parameters of '{}' must have {} elements to fit this adapter, got {}",
          checkpoint.file.string(), elements, checkpoint.parameters.size());
  trainer.restore(checkpoint.state);
  adapter.context().write(adapter.parameters(), std::as_bytes(std::span(checkpoint.parameters)));
}

void restore_checkpoint(const std::filesystem::path& folder, Adapter& adapter, Trainer& trainer,
                        const Fingerprint& fingerprint) {
  const Checkpoint checkpoint = read_checkpoint(folder);
  require_no_differences(checkpoint, differences(checkpoint.fingerprint, fingerprint));
  restore_checkpoint(checkpoint, adapter, trainer);
}

void require_no_differences(const Checkpoint& checkpoint,
                            const std::vector<std::string>& differences) {
  require(differences.empty(),
          "checkpoint: '{}' comes from a run with different settings: {}; resume with the settings "
          "of that run, or start a new one",
          checkpoint.file.string(), fmt::join(differences, "; "));
}

}  // namespace clora

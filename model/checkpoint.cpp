#include "model/checkpoint.hpp"

#include <cstring>
#include <vector>

#include "lora/peft_files.hpp"
#include "lora/safetensors.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

constexpr const char* kStateFile = "training_state.safetensors";

std::span<const std::byte> bytes_of_values(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

std::vector<float> floats_of(const SafetensorsFile& file, const std::string& name,
                             std::int64_t elements) {
  const std::optional<StoredTensor> tensor = file.find(name);
  if (!tensor.has_value() || tensor->type != DType::f32) {
    fail(ErrorCode::invalid_file, "checkpoint: '{}' holds no f32 tensor '{}'", file.path().string(),
         name);
  }
  require(tensor->shape.elements() == elements,
          "checkpoint: {} of '{}' must have {} elements to fit this adapter, got {}", name,
          file.path().string(), elements, tensor->shape.elements());
  std::vector<float> values(static_cast<std::size_t>(elements));
  std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  return values;
}

const std::string& metadata_of(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) {
    fail(ErrorCode::invalid_file, "checkpoint: '{}' has no '{}' in its metadata",
         file.path().string(), key);
  }
  return found->second;
}

std::int64_t step_of(const SafetensorsFile& file) {
  const std::string& text = metadata_of(file, "step");
  try {
    return std::stoll(text);
  } catch (const std::exception&) {
    fail(ErrorCode::invalid_file, "checkpoint: step '{}' of '{}' is no number", text,
         file.path().string());
  }
}

}  // namespace

void save_checkpoint(const std::filesystem::path& folder, const Adapter& adapter, Trainer& trainer,
                     const RunFingerprint& fingerprint) {
  save_adapter(adapter, folder);
  const Trainer::State state = trainer.state();
  // The flat buffer keeps bits that a file of separate f32 matrices keeps too; it is stored so that
  // restoring needs no second way of reading.
  const std::vector<float> parameters = adapter.context().read<float>(adapter.parameters());
  const Shape shape{static_cast<std::int64_t>(parameters.size())};
  const std::vector<StoredTensor> tensors{
      {"first_moment", DType::f32, shape, bytes_of_values(state.first_moment)},
      {"parameters", DType::f32, shape, bytes_of_values(parameters)},
      {"second_moment", DType::f32, shape, bytes_of_values(state.second_moment)}};
  write_safetensors(folder / kStateFile, tensors,
                    {{"fingerprint", fingerprint}, {"step", std::to_string(state.step)}});
}

void restore_checkpoint(const std::filesystem::path& folder, Adapter& adapter, Trainer& trainer,
                        const RunFingerprint& fingerprint) {
  const SafetensorsFile file = SafetensorsFile::open(folder / kStateFile);
  const std::string& saved = metadata_of(file, "fingerprint");
  require(
      saved == fingerprint,
      "checkpoint: '{}' comes from a run with other settings; it was made with {}, this run has {}",
      folder.string(), saved, fingerprint);
  const std::int64_t elements = adapter.parameters().elements();
  const std::vector<float> parameters = floats_of(file, "parameters", elements);
  trainer.restore({.step = step_of(file),
                   .first_moment = floats_of(file, "first_moment", elements),
                   .second_moment = floats_of(file, "second_moment", elements)});
  adapter.context().write(adapter.parameters(), std::as_bytes(std::span(parameters)));
}

}  // namespace clora

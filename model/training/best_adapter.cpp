#include "model/training/best_adapter.hpp"

#include <charconv>
#include <cmath>
#include <cstring>
#include <span>
#include <string>

#include "clora/lora/safetensors.hpp"
#include "lora/tensor_checksums.hpp"
#include "runtime/fail.hpp"
#include "runtime/make_folder.hpp"

namespace clora {
namespace {

constexpr const char* kFile = "best_adapter.safetensors";
constexpr const char* kParameters = "parameters";

template <class T>
T number_of(const SafetensorsFile& file, const char* key) {
  const auto found = file.metadata().find(key);
  const std::string text = found == file.metadata().end() ? "" : found->second;
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    fail(ErrorCode::invalid_file, "checkpoint: '{}': {} must be a number, got '{}'",
         file.path().string(), key, text.substr(0, 40));
  }
  return number;
}

std::vector<float> parameters_of(const SafetensorsFile& file, std::int64_t wanted) {
  const auto tensor = file.find(kParameters);
  if (!tensor || tensor->type != DType::f32 || tensor->shape != Shape{wanted}) {
    fail(ErrorCode::invalid_file, "checkpoint: '{}' must hold {} parameters in f32",
         file.path().string(), wanted);
  }
  require_intact(file, *tensor, "checkpoint");
  std::vector<float> values(static_cast<std::size_t>(wanted));
  std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  return values;
}

}  // namespace

BestAdapter::BestAdapter(Adapter& adapter, std::int64_t patience, double min_improvement)
    : adapter_(adapter), patience_(patience), min_improvement_(min_improvement) {}

void BestAdapter::note(std::int64_t step, double loss) {
  const bool improves = loss < state_.loss - min_improvement_;
  state_.without_improvement = improves ? 0 : state_.without_improvement + 1;
  state_.noted_step = step;
  if (!(loss < state_.loss)) return;
  state_.step = step;
  state_.loss = loss;
  state_.parameters = adapter_.context().read<float>(adapter_.parameters());
}

void BestAdapter::restore() {
  adapter_.context().write(adapter_.parameters(), std::as_bytes(std::span(state_.parameters)));
}

void BestAdapter::save(const std::filesystem::path& folder) const {
  if (!exists()) return;
  const std::vector<StoredTensor> tensors{{kParameters,
                                           DType::f32,
                                           {std::ssize(state_.parameters)},
                                           std::as_bytes(std::span(state_.parameters))}};
  const SafetensorsMetadata metadata{
      {"step", std::to_string(state_.step)},
      {"validated_step", std::to_string(state_.noted_step)},
      {"validations_without_improvement", std::to_string(state_.without_improvement)},
      {"loss", fmt::format("{}", state_.loss)}};
  make_folder(folder, "checkpoint");
  write_safetensors(folder / kFile, tensors, with_checksums(metadata, tensors));
}

void BestAdapter::load(const std::filesystem::path& folder) {
  state_ = {};
  if (!std::filesystem::exists(folder / kFile)) return;
  const SafetensorsFile file = SafetensorsFile::open(folder / kFile);
  require_intact_metadata(file, "checkpoint");
  state_ = {.step = number_of<std::int64_t>(file, "step"),
            .noted_step = number_of<std::int64_t>(file, "validated_step"),
            .without_improvement = number_of<std::int64_t>(file, "validations_without_improvement"),
            .loss = number_of<double>(file, "loss"),
            .parameters = parameters_of(file, adapter_.parameters().elements())};
}

}  // namespace clora

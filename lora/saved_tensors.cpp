#include "lora/saved_tensors.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/fail.hpp"

namespace clora {

std::vector<SavedTensor> select_saved_tensors(const std::vector<SavedTensor>& all,
                                              const std::vector<std::string>& names,
                                              std::string_view source) {
  const auto selects = [](const std::string& name, const SavedTensor& tensor) {
    return !name.empty() && tensor.module().ends_with(name);
  };
  for (const std::string& name : names) {
    require(std::ranges::any_of(all, [&](const SavedTensor& each) { return selects(name, each); }),
            "{}: modules_to_save has '{}', which is not a module of this model that can be trained "
            "in full; those are {}",
            source, name,
            all.empty() ? "none (pass savable_tensors() of the model)"
                        : fmt::format("{}", fmt::join(saved_module_names(all), ", ")));
  }
  std::vector<SavedTensor> selected;
  std::ranges::copy_if(all, std::back_inserter(selected), [&](const SavedTensor& tensor) {
    return std::ranges::any_of(names, [&](const auto& name) { return selects(name, tensor); });
  });
  return selected;
}

std::vector<SavedTensor> select_trained_tensors(const std::vector<SavedTensor>& all,
                                                const AdapterConfig& config,
                                                const std::vector<AdapterSite>& adapted,
                                                std::string_view source) {
  const auto of_modules = select_saved_tensors(all, config.modules_to_save, source);
  const auto is_trained_bias = [&](const SavedTensor& tensor) {
    if (config.biases == TrainedBiases::none || !tensor.is_bias()) return false;
    return config.biases == TrainedBiases::all ||
           std::ranges::find(adapted, tensor.module(), &AdapterSite::path) != adapted.end();
  };
  std::vector<SavedTensor> selected;
  std::ranges::copy_if(all, std::back_inserter(selected), [&](const SavedTensor& tensor) {
    return is_trained_bias(tensor) ||
           std::ranges::find(of_modules, tensor.name, &SavedTensor::name) != of_modules.end();
  });
  return selected;
}

std::vector<std::string> saved_module_names(const std::vector<SavedTensor>& tensors) {
  std::vector<std::string> names;
  for (const SavedTensor& tensor : tensors) {
    const std::string_view module = tensor.module();
    std::string name(module.substr(module.rfind('.') + 1));
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace clora

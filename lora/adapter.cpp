#include "clora/lora/adapter.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "lora/end_modules.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::array<std::string_view, 3> kBiasNames{"none", "all", "lora_only"};

std::vector<AdapterModule> modules_of(const std::vector<AdapterSite>& sites,
                                      const AdapterConfig& config) {
  require(config.rank >= 1 && config.rank <= Adapter::kMaxRank,
          "adapter: the rank must be from 1 to {}, got {}", Adapter::kMaxRank, config.rank);
  const double scale = adapter_scale(config, config.alpha, config.rank);
  std::vector<AdapterModule> modules;
  for (const AdapterSite& site : sites) {
    modules.push_back({site, config.rank, static_cast<float>(scale), 0, 0});
  }
  return modules;
}

// Uniform in [-bound, bound) from 24 bits of the generator: the same on every platform, which
// std::uniform_real_distribution does not guarantee.
float uniform(std::mt19937_64& generator, double bound) {
  const double unit = static_cast<double>(generator() >> 40U) * 0x1p-24;
  return static_cast<float>(bound * (2 * unit - 1));
}

// From the standard normal distribution (Box and Muller, 1958).
float normal(std::mt19937_64& generator) {
  const auto unit = [&] { return (static_cast<double>(generator() >> 11U) + 0.5) * 0x1p-53; };
  const double radius = std::sqrt(-2 * std::log(unit()));
  return static_cast<float>(radius * std::cos(2 * std::numbers::pi * unit()));
}

}  // namespace

double adapter_scale(const AdapterConfig& config, double alpha, std::int64_t rank) {
  const auto r = static_cast<double>(rank);
  return alpha / (config.rank_stabilised ? std::sqrt(r) : r);
}

std::string_view name_of(TrainedBiases biases) {
  return kBiasNames[static_cast<std::size_t>(biases)];
}

TrainedBiases named_biases(std::string_view name) {
  const auto at = std::ranges::find(kBiasNames, name);
  require(at != kBiasNames.end(), "adapter: bias must be {}, got '{}'", fmt::join(kBiasNames, ", "),
          name);
  return static_cast<TrainedBiases>(at - kBiasNames.begin());
}

Adapter::Adapter(Context& context, const std::vector<AdapterSite>& sites,
                 const AdapterConfig& config, std::vector<SavedTensor> saved)
    : Adapter(context, modules_of(sites, config), config, std::move(saved)) {}

Adapter::Adapter(Context& context, std::vector<AdapterModule> modules, AdapterConfig config,
                 std::vector<SavedTensor> saved)
    : context_(&context),
      config_(std::move(config)),
      modules_(std::move(modules)),
      saved_(std::move(saved)),
      set_(context) {
  require(!modules_.empty(), "adapter: no linear layer to attach to");
  require(config_.dropout >= 0 && config_.dropout < 1, "adapter: dropout must be in [0, 1), got {}",
          config_.dropout);
  place_modules();
  place_saved();
  set_.allocate("adapter");
  sort_paths();
}

void Adapter::place_modules() {
  const std::size_t group_a = set_.add_group({.name = std::string(kLoraA)});
  const std::size_t group_b = set_.add_group({.name = std::string(kLoraB)});
  for (AdapterModule& module : modules_) {
    const auto& [path, inputs, outputs] = module.site;
    require(module.rank >= 1 && module.rank <= kMaxRank,
            "adapter: the rank of {} must be from 1 to {}, got {}", path, kMaxRank, module.rank);
    require(std::isfinite(module.scale),
            "adapter: the scale of {} (alpha / rank) must be a finite 32-bit number, got {}", path,
            module.scale);
    module.a_offset = set_.add({path + ".lora_A", {module.rank, inputs}, group_a});
    module.bt_offset = set_.add({path + ".lora_B", {module.rank, outputs}, group_b});
  }
  // After all matrices: one launch then updates all magnitudes where matrices have an optimizer of
  // their own.
  if (config_.use_dora) {
    const std::size_t group_m = set_.add_group({.name = std::string(kMagnitude)});
    for (AdapterModule& module : modules_) {
      const auto& [path, inputs, outputs] = module.site;
      module.magnitude_offset = set_.add({path + ".lora_magnitude_vector", {outputs}, group_m});
    }
  }
}

// Vectors first: with magnitudes they are one range that one launch updates. A matrix is a flat
// slice: an optimizer of matrices is for the low-rank ones.
void Adapter::place_saved() {
  for (const bool is_matrix : {false, true}) {
    std::optional<std::size_t> group;
    for (SavedTensor& tensor : saved_) {
      const bool is_adapted = std::ranges::any_of(modules_, [&](const AdapterModule& module) {
        return module.site.path == tensor.module();
      });
      require(!is_adapted || tensor.is_bias(),
              "adapter: '{}' cannot be trained in full and have low-rank matrices; leave it out of "
              "modules_to_save or of target_modules",
              tensor.module());
      if ((tensor.shape.rank() > 1) != is_matrix) continue;
      if (!group) {
        group = set_.add_group({.name = std::string(is_matrix ? kSavedMatrix : kSavedVector),
                                .decay = is_matrix ? 1.0F : 0.0F});
      }
      tensor.offset = set_.add({tensor.name, {tensor.shape.elements()}, *group});
    }
  }
}

void Adapter::initialise(std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<float> values(static_cast<std::size_t>(parameters().elements()));
  for (const AdapterModule& module : modules_) {
    if (is_embedding(module.site.path)) {
      const auto of_b = static_cast<std::size_t>(module.rank * module.site.outputs);
      for (float& b : std::span(values).subspan(module.bt_offset, of_b)) b = normal(generator);
      continue;
    }
    const double bound = 1 / std::sqrt(static_cast<double>(module.site.inputs));
    const auto count = static_cast<std::size_t>(module.rank * module.site.inputs);
    for (std::size_t i = 0; i < count; ++i) values[module.a_offset + i] = uniform(generator, bound);
    if (!config_.use_dora) continue;
    std::fill_n(&values[module.magnitude_offset], module.site.outputs,
                std::numeric_limits<float>::quiet_NaN());
  }
  for (const SavedTensor& tensor : saved_) {
    std::fill_n(&values[tensor.offset], tensor.shape.elements(),
                std::numeric_limits<float>::quiet_NaN());
  }
  context_->write(parameters(), std::as_bytes(std::span(values)));
}

const AdapterModule* Adapter::find(std::string_view path) const {
  const auto path_of = [this](std::size_t i) -> std::string_view { return modules_[i].site.path; };
  const auto at = std::ranges::lower_bound(by_path_, path, {}, path_of);
  return at == by_path_.end() || path_of(*at) != path ? nullptr : &modules_[*at];
}

// Models with experts have ten thousands of modules.
void Adapter::sort_paths() {
  by_path_.resize(modules_.size());
  std::iota(by_path_.begin(), by_path_.end(), std::size_t{0});
  std::ranges::stable_sort(
      by_path_, {}, [this](std::size_t i) -> std::string_view { return modules_[i].site.path; });
}

LoraWeights Adapter::weights(std::string_view path, const Tensor& bf16_parameters) const {
  const AdapterModule* module = find(path);
  if (module == nullptr) return {};
  const Shape a{module->rank, module->site.inputs}, bt{module->rank, module->site.outputs};
  LoraWeights weights{.a = ParameterSet::view(parameters(), module->a_offset, a),
                      .bt = ParameterSet::view(parameters(), module->bt_offset, bt),
                      .scale = module->scale};
  if (!bf16_parameters.empty()) {
    weights.a_bf16 = ParameterSet::view(bf16_parameters, module->a_offset, a);
    weights.bt_bf16 = ParameterSet::view(bf16_parameters, module->bt_offset, bt);
  }
  return weights;
}

LoraGradients Adapter::gradients(std::string_view path) const {
  const AdapterModule* module = find(path);
  if (module == nullptr) return {};
  require(!flat_gradients().empty(), "adapter: gradients were not allocated");
  return {.da = ParameterSet::view(flat_gradients(), module->a_offset,
                                   {module->rank, module->site.inputs}),
          .dbt = ParameterSet::view(flat_gradients(), module->bt_offset,
                                    {module->rank, module->site.outputs})};
}

Tensor Adapter::magnitude(std::string_view path) const {
  const AdapterModule* module = find(path);
  if (module == nullptr || !config_.use_dora) return {};
  return ParameterSet::view(parameters(), module->magnitude_offset, {module->site.outputs});
}

Tensor Adapter::magnitude_gradient(std::string_view path) const {
  const AdapterModule* module = find(path);
  if (module == nullptr || !config_.use_dora) return {};
  require(!flat_gradients().empty(), "adapter: gradients were not allocated");
  return ParameterSet::view(flat_gradients(), module->magnitude_offset, {module->site.outputs});
}

Tensor Adapter::saved(std::string_view name) const {
  const auto at = std::ranges::find(saved_, name, &SavedTensor::name);
  if (at == saved_.end()) return {};
  return ParameterSet::view(parameters(), at->offset, at->shape);
}

Tensor Adapter::saved_gradient(std::string_view name) const {
  const auto at = std::ranges::find(saved_, name, &SavedTensor::name);
  if (at == saved_.end()) return {};
  require(!flat_gradients().empty(), "adapter: gradients were not allocated");
  return ParameterSet::view(flat_gradients(), at->offset, at->shape);
}

}  // namespace clora

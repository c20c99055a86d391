#include "model/training/device_optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "clora/lora/adapter.hpp"
#include "clora/ops/optimizers/adamw.hpp"
#include "clora/ops/optimizers/adamw_q8.hpp"
#include "clora/ops/optimizers/lion.hpp"
#include "clora/ops/optimizers/sgd.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

static_assert(ParameterSet::kBlock == kRateBlock);

// The groups with the ratios of learning rates. LoRA+ is for the matrices B and magnitudes.
std::vector<ParameterGroup> groups_of(const ParameterSet& parameters,
                                      const OptimizerConfig& config) {
  std::vector<ParameterGroup> groups = parameters.groups();
  for (ParameterGroup& group : groups) {
    const bool is_saved =
        group.name == Adapter::kSavedVector || group.name == Adapter::kSavedMatrix;
    if (is_saved) {
      group.rate *= static_cast<float>(config.saved_lr_ratio);
    } else if (group.name != Adapter::kLoraA) {
      group.rate *= static_cast<float>(config.loraplus_lr_ratio);
    }
  }
  return groups;
}

Tensor zeros(Context& context, std::int64_t n, DType type) {
  const auto count = static_cast<std::size_t>(n);
  return type == DType::u8
             ? context.upload<std::uint8_t>({n}, type, std::vector<std::uint8_t>(count),
                                            MemoryTag::adapters)
             : context.upload<float>({n}, type, std::vector<float>(count), MemoryTag::adapters);
}

Tensor part(const Tensor& flat, std::int64_t begin, std::int64_t count) {
  return ParameterSet::view(flat, static_cast<std::size_t>(begin), {count});
}

}  // namespace

DeviceOptimizer::DeviceOptimizer(Context& context, const OptimizerConfig& config,
                                 const ParameterSet& parameters)
    : context_(context),
      config_(config),
      parameters_(parameters.parameters()),
      gradients_(parameters.gradients()) {
  check(config);
  const std::vector<ParameterGroup> groups = groups_of(parameters, config);
  if (config.kind == OptimizerKind::muon) {
    find_slices(parameters, groups);
  } else {
    rates_ = rates_of(parameters, groups, 0, parameters_.elements());
  }
  for (const StateArraySpec& spec : state_of(config.kind)) {
    const std::int64_t n = elements_of(spec);
    if (n > 0) arrays_.push_back({spec.name, zeros(context, n, spec.type)});
  }
}

// Padding after a slice belongs to it: then neighbours are one range.
void DeviceOptimizer::find_slices(const ParameterSet& parameters,
                                  const std::vector<ParameterGroup>& groups) {
  std::int64_t state = 0;
  const std::vector<ParameterSlice>& slices = parameters.slices();
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const auto begin = static_cast<std::int64_t>(slices[i].offset);
    const std::int64_t end = i + 1 < slices.size() ? static_cast<std::int64_t>(slices[i + 1].offset)
                                                   : parameters_.elements();
    const Shape& shape = slices[i].shape;
    const ParameterGroup& group = groups[slices[i].group];
    if (shape.rank() == 2) {
      matrices_.push_back({begin, shape[0], shape[1], group.rate, group.decay});
    } else if (!vectors_.empty() && vectors_.back().end == begin) {
      vectors_.back().end = end;
    } else {
      vectors_.push_back({.begin = begin, .end = end, .state = state});
    }
    if (shape.rank() != 2) state += end - begin;
  }
  for (Vectors& range : vectors_) {
    range.rates = rates_of(parameters, groups, range.begin, range.end);
  }
}

// Empty if all multipliers are 1.
ParameterRates DeviceOptimizer::rates_of(const ParameterSet& parameters,
                                         const std::vector<ParameterGroup>& groups,
                                         std::int64_t begin, std::int64_t end) {
  const auto is_plain = [](const ParameterGroup& g) { return g.rate == 1 && g.decay == 1; };
  if (std::ranges::all_of(groups, is_plain)) return {};
  std::vector<std::uint8_t> blocks(static_cast<std::size_t>(rate_blocks(end - begin)));
  for (const ParameterSlice& slice : parameters.slices()) {
    const auto offset = static_cast<std::int64_t>(slice.offset);
    if (offset < begin || offset >= end) continue;
    std::fill_n(blocks.begin() + (offset - begin) / kRateBlock, rate_blocks(slice.shape.elements()),
                static_cast<std::uint8_t>(slice.group));
  }
  std::vector<float> rates;
  for (const ParameterGroup& group : groups) {
    rates.insert(rates.end(), {group.rate, group.decay});
  }
  return {
      context_.upload<std::uint8_t>({std::ssize(blocks)}, DType::u8, blocks, MemoryTag::adapters),
      context_.upload<float>({std::ssize(groups), 2}, DType::f32, rates, MemoryTag::adapters)};
}

std::int64_t DeviceOptimizer::elements_of(const StateArraySpec& spec) const {
  switch (spec.extent) {
    case StateArraySpec::Extent::blocks:
      return moment_blocks(parameters_.elements());
    case StateArraySpec::Extent::vectors:
      return vectors_.empty() ? 0 : vectors_.back().state + vectors_.back().count();
    case StateArraySpec::Extent::parameters:
      break;
  }
  return parameters_.elements();
}

const Tensor& DeviceOptimizer::array(std::string_view name) const {
  const auto found = std::ranges::find(arrays_, name, &Array::name);
  require(found != arrays_.end(), "optimizer: {} has no {}", name_of(config_.kind), name);
  return found->tensor;
}

MomentumTensors DeviceOptimizer::with_momentum(const Tensor& settings) const {
  return {.parameters = parameters_,
          .momentum = array("momentum"),
          .gradients = gradients_,
          .settings = settings,
          .rates = rates_};
}

void DeviceOptimizer::record(Batch& batch, const Tensor& settings, const Tensor& grad_norm) const {
  switch (config_.kind) {
    case OptimizerKind::adamw:
      return record_adamw(batch,
                          {.parameters = parameters_,
                           .first_moment = array("first_moment"),
                           .second_moment = array("second_moment"),
                           .gradients = gradients_,
                           .settings = settings,
                           .rates = rates_},
                          grad_norm);
    case OptimizerKind::adamw_8bit:
      return record_adamw_q8(
          batch,
          {.parameters = parameters_,
           .first = {array("first_moment_codes"), array("first_moment_scales")},
           .root = {array("second_moment_root_codes"), array("second_moment_root_scales")},
           .gradients = gradients_,
           .settings = settings,
           .rates = rates_},
          grad_norm);
    case OptimizerKind::lion:
      return record_lion(batch, with_momentum(settings), grad_norm);
    case OptimizerKind::sgd:
      return record_sgd(batch, with_momentum(settings),
                        config_.nesterov ? Nesterov::yes : Nesterov::no, grad_norm);
    case OptimizerKind::muon:
      return record_muon_and_adamw(batch, settings, grad_norm);
  }
}

void DeviceOptimizer::record_muon_and_adamw(Batch& batch, const Tensor& settings,
                                            const Tensor& grad_norm) const {
  const Tensor square_sums = record_muon(batch, with_momentum(settings), matrices_,
                                         static_cast<float>(momentum_of(config_)), grad_norm);
  for (const Vectors& range : vectors_) {
    record_adamw(batch,
                 {.parameters = part(parameters_, range.begin, range.count()),
                  .first_moment = part(array("first_moment"), range.state, range.count()),
                  .second_moment = part(array("second_moment"), range.state, range.count()),
                  .gradients = part(gradients_, range.begin, range.count()),
                  .settings = settings,
                  .rates = range.rates,
                  .square_sums = square_sums},
                 grad_norm);
  }
}

UpdateSettings DeviceOptimizer::settings_of(std::int64_t step) const {
  // The kernel of sgd reads its momentum in the place of beta1.
  const double first =
      config_.kind == OptimizerKind::sgd ? momentum_of(config_) : beta1_of(config_);
  const auto beta1 = static_cast<float>(first);
  const auto beta2 = static_cast<float>(beta2_of(config_));
  const auto correction = [&](float beta) {
    return static_cast<float>(1 - std::pow(static_cast<double>(beta), static_cast<double>(step)));
  };
  return {.beta1 = beta1,
          .beta2 = beta2,
          .epsilon = static_cast<float>(config_.epsilon),
          .bias_correction1 = correction(beta1),
          .bias_correction2 = correction(beta2)};
}

OptimizerState DeviceOptimizer::read() const {
  OptimizerState state{.kind = config_.kind};
  for (const auto& [name, tensor] : arrays_) {
    StateArray& array = state.arrays.emplace_back(StateArray{std::string(name), {}});
    if (tensor.type() == DType::u8) {
      array.values = context_.read<std::uint8_t>(tensor);
    } else {
      array.values = context_.read<float>(tensor);
    }
  }
  return state;
}

void DeviceOptimizer::write(const OptimizerState& state) {
  require(state.kind == config_.kind,
          "trainer: the state to restore is that of the optimizer {}, but this trainer has {}; "
          "create it with the same `optimizer`",
          name_of(state.kind), name_of(config_.kind));
  require(state.arrays.size() == arrays_.size(),
          "trainer: the state to restore must have {} arrays of {}, got {}", arrays_.size(),
          name_of(config_.kind), state.arrays.size());
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const auto& [name, tensor] = arrays_[i];
    const std::span<const std::byte> bytes =
        std::visit([](const auto& values) { return std::as_bytes(std::span(values)); },
                   state.arrays[i].values);
    require(state.arrays[i].name == name && bytes.size() == tensor.bytes(),
            "trainer: the state to restore must have {} bytes of {}, got {} of {}", tensor.bytes(),
            name, bytes.size(), state.arrays[i].name);
  }
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    std::visit(
        [&](const auto& values) {
          context_.write(arrays_[i].tensor, std::as_bytes(std::span(values)));
        },
        state.arrays[i].values);
  }
}

}  // namespace clora

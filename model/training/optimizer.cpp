#include "clora/model/training/optimizer.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/fail.hpp"

namespace clora {
namespace {

using Extent = StateArraySpec::Extent;

constexpr StateArraySpec kAdamwState[] = {{"first_moment"}, {"second_moment"}};
constexpr StateArraySpec kAdamw8BitState[] = {
    {"first_moment_codes", DType::u8},
    {"first_moment_scales", DType::f32, Extent::blocks},
    {"second_moment_root_codes", DType::u8},
    {"second_moment_root_scales", DType::f32, Extent::blocks}};
constexpr StateArraySpec kMomentumState[] = {{"momentum"}};
constexpr StateArraySpec kMuonState[] = {{"first_moment", DType::f32, Extent::vectors},
                                         {"momentum"},
                                         {"second_moment", DType::f32, Extent::vectors}};

// What distinguishes the optimizers besides their formulas, in the order of OptimizerKind.
struct Form {
  OptimizerKind kind;
  std::string_view name;
  std::span<const StateArraySpec> state;
  bool has_betas, has_epsilon;
  double beta2;
  double momentum;  // the default; 0: it has none
};
constexpr Form kForms[] = {
    {OptimizerKind::adamw, "adamw", kAdamwState, true, true, 0.999, 0},
    {OptimizerKind::adamw_8bit, "adamw-8bit", kAdamw8BitState, true, true, 0.999, 0},
    {OptimizerKind::lion, "lion", kMomentumState, true, false, 0.99, 0},
    {OptimizerKind::sgd, "sgd", kMomentumState, false, false, 0.999, 0.9},
    {OptimizerKind::muon, "muon", kMuonState, true, true, 0.999, 0.95},
};

const Form& form_of(OptimizerKind kind) { return kForms[static_cast<std::size_t>(kind)]; }

void require_fraction(const std::optional<double>& value, std::string_view name, const Form& form,
                      bool is_known) {
  if (!value) return;
  require(is_known, "optimizer: {} has no {}; leave it out", form.name, name);
  require(*value >= 0 && *value < 1, "optimizer: {} must be in [0, 1), got {}", name, *value);
}

}  // namespace

std::string_view name_of(OptimizerKind kind) { return form_of(kind).name; }

OptimizerKind named_optimizer(std::string_view name) {
  const auto* found = std::ranges::find(kForms, name, &Form::name);
  if (found != std::end(kForms)) return found->kind;
  std::vector<std::string_view> names;
  for (const Form& form : kForms) names.push_back(form.name);
  fail(ErrorCode::invalid_argument, "optimizer: the optimizer must be one of {}, got '{}'",
       fmt::join(names, ", "), name);
}

void check(const OptimizerConfig& config) {
  const Form& form = form_of(config.kind);
  require_fraction(config.beta1, "beta1", form, form.has_betas);
  require_fraction(config.beta2, "beta2", form, form.has_betas);
  require_fraction(config.momentum, "momentum", form, form.momentum > 0);
  require(std::isfinite(config.epsilon) && config.epsilon > 0,
          "optimizer: epsilon must be finite and above 0, got {}", config.epsilon);
  require(form.has_epsilon || config.epsilon == OptimizerConfig().epsilon,
          "optimizer: {} has no epsilon; leave it out", form.name);
  require(!config.nesterov || config.kind == OptimizerKind::sgd,
          "optimizer: Nesterov's momentum is a setting of sgd, the optimizer is {}; leave it out",
          form.name);
  require(std::isfinite(config.loraplus_lr_ratio) && config.loraplus_lr_ratio > 0,
          "optimizer: the ratio of the learning rates of B and A must be finite and above 0, got "
          "{}",
          config.loraplus_lr_ratio);
  require(std::isfinite(config.saved_lr_ratio) && config.saved_lr_ratio > 0,
          "optimizer: the ratio of the learning rates of modules trained in full and of A must be "
          "finite and above 0, got {}",
          config.saved_lr_ratio);
}

double beta1_of(const OptimizerConfig& config) { return config.beta1.value_or(0.9); }
double beta2_of(const OptimizerConfig& config) {
  return config.beta2.value_or(form_of(config.kind).beta2);
}
double momentum_of(const OptimizerConfig& config) {
  return config.momentum.value_or(form_of(config.kind).momentum);
}

std::span<const StateArraySpec> state_of(OptimizerKind kind) { return form_of(kind).state; }

}  // namespace clora

// The optimizers that a Trainer can use: their settings, the state that each keeps between steps,
// and its values on the host, as checkpoints hold them. Values; thread-safe as such.
//
// An optimizer is an op (ops/optimizers/), an entry of the table in optimizer.cpp, which declares
// its state, and a case of DeviceOptimizer::record().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "clora/runtime/memory/dtype.hpp"

namespace clora {

enum class OptimizerKind {
  adamw,       // Loshchilov and Hutter, 2019: 8 bytes of state per parameter
  adamw_8bit,  // the same with both moments in 8 bits: 2 bytes
  lion,        // Chen et al., 2023: 4 bytes
  sgd,         // with momentum: 4 bytes
  muon,        // Jordan et al., 2024, for matrices, AdamW for all other parameters: 4 bytes
};
inline constexpr OptimizerKind kOptimizers[] = {OptimizerKind::adamw, OptimizerKind::adamw_8bit,
                                                OptimizerKind::lion, OptimizerKind::sgd,
                                                OptimizerKind::muon};
std::string_view name_of(OptimizerKind kind);  // "adamw-8bit"
// The optimizer of that name. Errors: invalid_argument, with all names.
OptimizerKind named_optimizer(std::string_view name);

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::adamw;
  // Of adamw, adamw-8bit, lion and of muon's AdamW. Default: 0.9 and 0.999, of lion 0.9 and 0.99.
  std::optional<double> beta1 = {};
  std::optional<double> beta2 = {};
  double epsilon = 1e-8;                // as the betas, but not of lion
  std::optional<double> momentum = {};  // of sgd, 0.9 by default, and of muon, 0.95
  bool nesterov = false;                // of sgd; muon always looks ahead
  // The learning rate of the matrices B over that of the matrices A (LoRA+: Hayou et al., 2024,
  // arXiv:2402.12354).
  double loraplus_lr_ratio = 1;
  // The learning rate of modules trained in full (modules_to_save) over that of the matrices A.
  double saved_lr_ratio = 1;
  bool operator==(const OptimizerConfig&) const = default;
};
// Throws Error(invalid_argument) for a value out of its range, and for a setting that the optimizer
// does not have.
void check(const OptimizerConfig& config);

// The given values or the defaults of the optimizer.
double beta1_of(const OptimizerConfig& config);
double beta2_of(const OptimizerConfig& config);
double momentum_of(const OptimizerConfig& config);

// An array of an optimizer's state.
struct StateArraySpec {
  // How many elements it has: one for each parameter, for each block of kMomentBlock of them, or
  // for each parameter that is not in a matrix.
  enum class Extent { parameters, blocks, vectors };
  std::string_view name;  // also in checkpoints
  DType type = DType::f32;
  Extent extent = Extent::parameters;
};
std::span<const StateArraySpec> state_of(OptimizerKind kind);

// The values of one, in the flat order of the parameters: f32 or u8.
struct StateArray {
  std::string name;
  std::variant<std::vector<float>, std::vector<std::uint8_t>> values;
  bool operator==(const StateArray&) const = default;
};
struct OptimizerState {
  OptimizerKind kind = OptimizerKind::adamw;
  std::vector<StateArray> arrays = {};  // in the order of state_of(), without empty ones
  bool operator==(const OptimizerState&) const = default;
};

}  // namespace clora

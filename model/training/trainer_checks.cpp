#include "model/training/trainer_checks.hpp"

#include <cmath>

#include "model/configuration/experts_layer.hpp"
#include "model/transformer/finite_check.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

void check_balance(double coefficient, const ModelConfig& config) {
  require(std::isfinite(coefficient) && coefficient >= 0,
          "trainer: `router_aux_loss_coef` must be finite and not negative, got {}", coefficient);
  require(coefficient == 0 || expert_layers(config) > 0,
          "trainer: `router_aux_loss_coef` balances the load of experts, but the model has none; "
          "leave it out");
}

void check_supervised(const TrainerConfig& config) {
  check(config.supervised);
  require(config.supervised == SupervisedLoss() || (!config.contrastive && !config.preference),
          "trainer: label smoothing, the z-loss and NEFTune are options of the loss of the next "
          "token, but the run has a {} loss; leave them out",
          config.contrastive ? "contrastive" : "preference");
}

void check_stage(const LanguageModel& model, const TrainerConfig& config) {
  if (model.is_whole()) return;
  require(config.ranks != nullptr,
          "trainer: the model holds the blocks [{}, {}) only; ranks with the other blocks are "
          "required",
          model.range().begin, model.range().end);
  const std::string_view who = config.contrastive                ? "a contrastive loss"
                               : config.preference               ? "a preference loss"
                               : config.router_aux_loss_coef > 0 ? "a balanced load of experts"
                                                                 : "";
  if (who.empty()) return;
  fail(ErrorCode::unsupported,
       "trainer: {} needs the model on one device; split the micro-batches over the devices, not "
       "the layers",
       who);
}

void check_frozen(const TrainerConfig& config, const Adapter& adapter) {
  if (config.frozen_ranks == 0) return;
  for (const AdapterModule& module : adapter.modules()) {
    require(config.frozen_ranks > 0 && config.frozen_ranks < module.rank,
            "trainer: `frozen_ranks` must be below the rank {} of {}, and not negative, got {}",
            module.rank, module.site.path, config.frozen_ranks);
  }
  require(config.weight_decay == 0,
          "trainer: `weight_decay` must be 0 with frozen ranks, which it would change, got {}",
          config.weight_decay);
  require(
      config.optimizer.kind != OptimizerKind::muon,
      "trainer: the optimizer muon updates all ranks of a module together, so that none of them "
      "can be frozen; take another optimizer");
}

}  // namespace

void check_trainable(const LanguageModel& model, const Adapter& adapter,
                     const TrainerConfig& config) {
  if (model.context().activation_type() == DType::f16) {
    fail(ErrorCode::unsupported,
         "trainer: gradients in f16 would underflow, since there is no loss scaling; set "
         "ContextConfig::activations to f32 or bf16");
  }
  if (const auto matrix = adapter_not_finite(adapter)) {
    fail(ErrorCode::invalid_data, "trainer: the adapter cannot be trained: {}", *matrix);
  }
  check_stage(model, config);
  check_balance(config.router_aux_loss_coef, model.config());
  check(config.policy);
  check_supervised(config);
  check_frozen(config, adapter);
  if (config.preference) check(*config.preference);
}

}  // namespace clora

// clora.h: training.
#include <cmath>
#include <span>

#include "model/c_api/boundary.hpp"
#include "model/c_api/handles.hpp"
#include "runtime/fail.hpp"

namespace clora::c_api {
namespace {

OptimizerConfig optimizer_of(const clora_trainer_options& options) {
  OptimizerConfig config;
  if (options.optimizer != nullptr) config.kind = named_optimizer(options.optimizer);
  if (options.beta1 != 0) config.beta1 = options.beta1;
  if (options.beta2 != 0) config.beta2 = options.beta2;
  if (options.epsilon != 0) config.epsilon = options.epsilon;
  if (options.momentum != 0) config.momentum = options.momentum;
  config.nesterov = options.nesterov != 0;
  if (options.loraplus_lr_ratio != 0) config.loraplus_lr_ratio = options.loraplus_lr_ratio;
  check(config);
  return config;
}

TrainerConfig config_of(const clora_trainer_options& options) {
  TrainerConfig config;
  config.optimizer = optimizer_of(options);
  config.weight_decay = options.weight_decay;
  config.clip_norm = options.clip_norm;
  config.dropout_seed = options.dropout_seed;
  config.router_aux_loss_coef = options.router_aux_loss_coef;
  config.supervised = {options.label_smoothing, options.z_loss, options.neftune_alpha};
  config.policy.blocks_per_checkpoint = options.blocks_per_checkpoint;
  config.policy.feed_forward_rows = options.feed_forward_rows;
  if (options.saved_activations != nullptr) {
    config.policy.saved = named_saved_type(options.saved_activations);
  }
  require(config.weight_decay >= 0 && config.clip_norm >= 0,
          "clora_trainer_create: weight_decay and clip_norm must not be negative, got {} and {}",
          config.weight_decay, config.clip_norm);
  return config;
}

void require_ids(std::span<const std::int32_t> ids, std::int64_t vocabulary) {
  for (const std::int32_t id : ids) {
    require(id >= 0 && id < vocabulary, "clora_trainer_step: ids must be in [0, {}), got {}",
            vocabulary, id);
  }
}

// Returns the number of tokens of each document.
std::vector<std::size_t> lengths_of(const clora_train_batch& batch) {
  if (batch.lengths == nullptr) return {batch.id_count};
  const std::vector<std::size_t> lengths(batch.lengths, batch.lengths + batch.document_count);
  std::size_t left = batch.id_count;
  for (const std::size_t length : lengths) {  // a sum could overflow
    require(length <= left,
            "clora_trainer_step: the documents' lengths must sum to the {} ids, got more",
            batch.id_count);
    left -= length;
  }
  require(left == 0, "clora_trainer_step: the documents' lengths must sum to the {} ids, got {}",
          batch.id_count, batch.id_count - left);
  return lengths;
}

PackedRows rows_of(const clora_train_batch& batch, const ModelConfig& config) {
  require_given(batch.ids, "clora_trainer_step", "batch's ids");
  require_ids(std::span(batch.ids, batch.id_count), config.vocabulary);
  const std::vector<std::uint8_t> all(batch.is_target == nullptr ? batch.id_count : 0, 1);
  const std::uint8_t* const marks = batch.is_target == nullptr ? all.data() : batch.is_target;
  std::vector<RecordView> records;
  std::size_t begin = 0;
  for (const std::size_t length : lengths_of(batch)) {
    require(config.max_positions == 0 || static_cast<std::int64_t>(length) <= config.max_positions,
            "clora_trainer_step: the model supports {} positions, got a document of {} tokens",
            config.max_positions, length);
    const float weight = batch.weights == nullptr ? 1 : batch.weights[records.size()];
    records.emplace_back(std::span(batch.ids + begin, length), std::span(marks + begin, length),
                         weight);
    begin += length;
  }
  return pack_rows(records, batch.id_count);
}

void report(const StepResult& step, clora_step_result* result, std::string_view who) {
  clora_step_result value{};
  value.step = step.step;
  value.loss = step.loss;
  value.tokens = step.tokens;
  value.grad_norm = step.grad_norm;
  value.balance_loss = step.balance_loss;
  value.nll = step.nll.value_or(0);
  write_struct(result, value, who);
}

}  // namespace
}  // namespace clora::c_api

using namespace clora;
using namespace clora::c_api;

clora_status clora_trainer_create(clora_adapter* adapter, const clora_trainer_options* options,
                                  clora_trainer** trainer) {
  constexpr std::string_view kWho = "clora_trainer_create";
  return guarded_create(trainer, kWho, [&] {
    require_given(adapter, kWho, "adapter");
    const TrainerConfig config = config_of(read_struct(options, kWho));
    auto created = std::make_unique<clora_trainer>();
    created->adapter = adapter->core;
    created->trainer =
        std::make_unique<Trainer>(*adapter->core->model->model, adapter->core->adapter, config);
    return created.release();
  });
}

void clora_trainer_release(clora_trainer* trainer) { delete trainer; }

clora_status clora_trainer_step(clora_trainer* trainer, const clora_train_batch* batch,
                                double learning_rate, clora_step_result* result) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_trainer_step";
    require_given(trainer, kWho, "trainer");
    require_given(batch, kWho, "batch");
    require(std::isfinite(learning_rate) && learning_rate >= 0,
            "{}: the learning rate must be finite and not negative, got {}", kWho, learning_rate);
    if (result != nullptr) require_writable(result, kWho);
    ModelCore& model = *trainer->adapter->model;
    const PackedRows rows = rows_of(read_struct(batch, kWho), model.model->config());
    trainer->trainer->step(std::span(&rows, 1), learning_rate);
    model.context->trained_tokens += rows.rows();
    if (result == nullptr) return;
    report(trainer->trainer->drain().value(), result, kWho);
  });
}

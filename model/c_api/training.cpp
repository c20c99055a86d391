// clora.h: training step by step.
#include <cmath>
#include <span>

#include "model/c_api/boundary.hpp"
#include "model/c_api/documents.hpp"
#include "model/c_api/handles.hpp"
#include "model/c_api/training_options.hpp"
#include "runtime/fail.hpp"

namespace clora::c_api {
namespace {

PackedRows rows_of(const clora_train_batch* batch, const ModelConfig& config,
                   std::string_view who) {
  require_given(batch, who, "batch");
  const clora_train_batch own = read_struct(batch, who);
  const Documents documents = documents_of(own, who);
  for (const RecordView& document : documents.views) require_fits(document, config, who);
  return pack_rows(documents.views, own.id_count);
}

// The micro-batches of one step.
struct StepArguments {
  std::span<const clora_train_batch* const> batches;
  double learning_rate = 0;
  clora_step_result* result = nullptr;  // null: not waited for
};

void step(clora_trainer* trainer, const StepArguments& arguments, std::string_view who) {
  require_given(trainer, who, "trainer");
  require(std::isfinite(arguments.learning_rate) && arguments.learning_rate >= 0,
          "{}: the learning rate must be finite and not negative, got {}", who,
          arguments.learning_rate);
  if (arguments.result != nullptr) require_writable(arguments.result, who);
  ModelCore& model = *trainer->adapter->model;
  std::vector<PackedRows> micro_batches;
  std::uint64_t rows = 0;
  for (const clora_train_batch* batch : arguments.batches) {
    micro_batches.push_back(rows_of(batch, model.model->config(), who));
    rows += micro_batches.back().rows();
  }
  trainer->trainer->step(micro_batches, arguments.learning_rate);
  model.context->trained_tokens += rows;
  if (arguments.result == nullptr) return;
  write_struct(arguments.result, step_result_of(trainer->trainer->drain().value()), who);
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
    auto created = std::make_unique<clora_trainer>();
    created->adapter = adapter->core;
    created->config = trainer_config_of(read_struct(options, kWho), kWho);
    created->config.frozen_ranks = adapter->core->frozen_ranks;
    created->trainer = std::make_unique<Trainer>(*adapter->core->model->model,
                                                 adapter->core->adapter, created->config);
    return created.release();
  });
}

void clora_trainer_release(clora_trainer* trainer) { delete trainer; }

clora_status clora_trainer_step(clora_trainer* trainer, const clora_train_batch* batch,
                                double learning_rate, clora_step_result* result) {
  return guarded([&] {
    step(trainer, {std::span(&batch, 1), learning_rate, result}, "clora_trainer_step");
  });
}

clora_status clora_trainer_step_accumulated(clora_trainer* trainer,
                                            const clora_train_batch* const* batches,
                                            size_t batch_count, double learning_rate,
                                            clora_step_result* result) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_trainer_step_accumulated";
    require_given(batches, kWho, "batches");
    step(trainer, {std::span(batches, batch_count), learning_rate, result}, kWho);
  });
}

clora_status clora_trainer_finish(clora_trainer* trainer, clora_step_result* result) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_trainer_finish";
    require_given(trainer, kWho, "trainer");
    if (result != nullptr) require_writable(result, kWho);
    const std::optional<StepResult> last = trainer->trainer->drain();
    if (result == nullptr) return;
    write_struct(result, last ? step_result_of(*last) : clora_step_result{}, kWho);
  });
}

clora_status clora_learning_rate(const clora_schedule* schedule, int64_t step, int64_t steps,
                                 double* rate) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_learning_rate";
    require_given(rate, kWho, "rate");
    TrainingRunConfig config;
    set_schedule(config, schedule, kWho);
    check(config);
    require(step >= 1 && step <= steps && steps <= kMaxSteps,
            "{}: the step must be from 1 to the {} steps, which are at most {}, got {}", kWho,
            steps, kMaxSteps, step);
    *rate = learning_rate_at(config, step, steps);
  });
}

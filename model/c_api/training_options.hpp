// The settings of clora.h's trainers and runs as those of C++. For the files of model/c_api/ only.
#pragma once

#include <optional>
#include <string_view>

#include "clora/model/data/records.hpp"
#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/trainer.hpp"
#include "clora/model/training/training_config.hpp"
#include "model/c_api/clora.h"

namespace clora::c_api {

// The structs are of this header's size, or of the caller's where they are pointers. `who` starts
// the messages. Errors: invalid_argument, naming the setting.
TrainerConfig trainer_config_of(const clora_trainer_options& options, std::string_view who);

// Sets the learning rates of a run; schedule may be null.
void set_schedule(TrainingRunConfig& config, const clora_schedule* schedule, std::string_view who);

// The preference loss of a name; nullopt for "sft" and null. Errors: invalid_argument, with all
// names.
std::optional<PreferenceKind> preference_kind_of(const char* loss, std::string_view who);
// The records that it needs.
std::optional<PreferenceForm> preference_form_of(const std::optional<PreferenceKind>& kind);

// In this header's size.
clora_step_result step_result_of(const StepResult& step);
clora_evaluation evaluation_of(const EvalResult& result);

}  // namespace clora::c_api

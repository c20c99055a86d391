// What a Trainer cannot train is refused before anything is allocated. Private to model/training/.
#pragma once

#include "clora/model/training/trainer.hpp"

namespace clora {

// Errors: those of the constructor of Trainer, but for those of its optimizer.
void check_trainable(const LanguageModel& model, const Adapter& adapter,
                     const TrainerConfig& config);

}  // namespace clora

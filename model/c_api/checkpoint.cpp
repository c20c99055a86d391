// clora.h: checkpoints of trainers.
#include "clora/model/training/checkpoint.hpp"

#include "clora/model/training/resumption.hpp"
#include "model/c_api/boundary.hpp"
#include "model/c_api/handles.hpp"

namespace clora::c_api {
namespace {

// Computed once, since it reads the model's weights.
const Fingerprint& fingerprint_of(clora_trainer& trainer) {
  if (trainer.fingerprint.empty()) {
    trainer.fingerprint = fingerprint_of_trainer(*trainer.adapter->model->model,
                                                 trainer.adapter->adapter, trainer.config);
  }
  return trainer.fingerprint;
}

// The step in flight, and an error of it, belong to what is replaced. What the device reports is
// reported again by the commands that follow.
void forget_step_in_flight(Trainer& trainer) {
  try {
    trainer.drain();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::device_lost) throw;
  }
}

}  // namespace
}  // namespace clora::c_api

using namespace clora;
using namespace clora::c_api;

clora_status clora_trainer_save_checkpoint(clora_trainer* trainer, const char* folder) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_trainer_save_checkpoint";
    require_given(trainer, kWho, "trainer");
    require_given(folder, kWho, "folder");
    save_checkpoint(folder, trainer->adapter->adapter, *trainer->trainer,
                    c_api::fingerprint_of(*trainer));
  });
}

clora_status clora_trainer_load_checkpoint(clora_trainer* trainer, const char* folder,
                                           int64_t* step) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_trainer_load_checkpoint";
    require_given(trainer, kWho, "trainer");
    require_given(folder, kWho, "folder");
    const Checkpoint checkpoint = read_checkpoint(folder);
    require_no_differences(checkpoint,
                           differences(checkpoint.fingerprint, c_api::fingerprint_of(*trainer)));
    forget_step_in_flight(*trainer->trainer);
    restore_checkpoint(checkpoint, trainer->adapter->adapter, *trainer->trainer);
    if (step != nullptr) *step = checkpoint.state.step;
  });
}

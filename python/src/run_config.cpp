// The settings of a training run, by the names that clora.Trainer documents.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <string>

#include "clora/model/training/training_config.hpp"
#include "python/src/bindings.hpp"
#include "runtime/fail.hpp"

namespace nb = nanobind;

namespace clora::python {
namespace {

using Config = TrainingRunConfig;

void set_schedule(Config& self, const std::string& name) { self.schedule = named_schedule(name); }

void set_adapter_format(Config& self, const std::string& name) {
  self.adapter_format = named_adapter_format(name);
}

// loss: "sft", or the name of a preference loss.
void set_loss(Config& self, const std::string& loss, double beta, double label_smoothing) {
  self.preference.reset();
  if (loss == "sft") return;
  const std::optional<PreferenceKind> kind = find_preference(loss);
  require(kind.has_value(), "Trainer: loss must be 'sft', 'dpo', 'ipo', 'orpo' or 'kto', got '{}'",
          loss);
  self.preference = PreferenceLoss{{.kind = *kind,
                                    .beta = static_cast<float>(beta),
                                    .label_smoothing = static_cast<float>(label_smoothing)}};
  check(*self.preference);
}

void set_policy(Config& self, std::int64_t blocks_per_checkpoint, std::int64_t feed_forward_rows,
                const std::string& saved) {
  self.policy = {
      .blocks_per_checkpoint = blocks_per_checkpoint,
      .feed_forward_rows = (feed_forward_rows + kRowsOfTiles - 1) / kRowsOfTiles * kRowsOfTiles,
      .saved = named_saved_type(saved)};
  check(self.policy);
}

void bind_optimizer(nb::module_& module) {
  nb::class_<OptimizerConfig>(module, "OptimizerConfig")
      .def_prop_rw(
          "kind", [](const OptimizerConfig& self) { return std::string(name_of(self.kind)); },
          [](OptimizerConfig& self, const std::string& name) { self.kind = named_optimizer(name); })
      .def_rw("beta1", &OptimizerConfig::beta1)
      .def_rw("beta2", &OptimizerConfig::beta2)
      .def_rw("epsilon", &OptimizerConfig::epsilon)
      .def_rw("momentum", &OptimizerConfig::momentum)
      .def_rw("nesterov", &OptimizerConfig::nesterov)
      .def_rw("loraplus_lr_ratio", &OptimizerConfig::loraplus_lr_ratio)
      .def_rw("saved_lr_ratio", &OptimizerConfig::saved_lr_ratio);
  nb::class_<SupervisedLoss>(module, "SupervisedLoss")
      .def_rw("label_smoothing", &SupervisedLoss::label_smoothing)
      .def_rw("z_loss", &SupervisedLoss::z_loss)
      .def_rw("neftune_alpha", &SupervisedLoss::neftune_alpha);
}

}  // namespace

void bind_run_config(nb::module_& module) {
  bind_optimizer(module);
  nb::class_<Config>(module, "RunConfig")
      .def(nb::init<>())
      .def_rw("batch_size", &Config::batch_size)
      .def_rw("grad_accumulation", &Config::grad_accumulation)
      .def_rw("steps", &Config::steps)
      .def_rw("epochs", &Config::epochs)
      .def_rw("learning_rate", &Config::learning_rate)
      .def_rw("warmup_steps", &Config::warmup_steps)
      .def_rw("warmup_share", &Config::warmup_share)
      .def_rw("decay_share", &Config::decay_share)
      .def_rw("min_rate_share", &Config::min_rate_share)
      .def_rw("weight_decay", &Config::weight_decay)
      .def_rw("clip_norm", &Config::clip_norm)
      .def_rw("average_decay", &Config::average_decay)
      .def_rw("router_aux_loss_coef", &Config::router_aux_loss_coef)
      .def_rw("optimizer", &Config::optimizer)
      .def_rw("supervised", &Config::supervised)
      .def_rw("shuffle", &Config::shuffle)
      .def_rw("seed", &Config::seed)
      .def_rw("eval_every", &Config::eval_every)
      .def_rw("patience", &Config::patience)
      .def_rw("min_improvement", &Config::min_improvement)
      .def_rw("save_every", &Config::save_every)
      .def_rw("adapter_out", &Config::adapter_out)
      .def_rw("max_seq_length", &Config::max_seq_length)
      .def("set_schedule", &set_schedule, nb::arg("name"))
      .def("set_adapter_format", &set_adapter_format, nb::arg("name"))
      .def("set_loss", &set_loss, nb::arg("loss"), nb::arg("beta"), nb::arg("label_smoothing"))
      .def("set_policy", &set_policy, nb::arg("blocks_per_checkpoint"),
           nb::arg("feed_forward_rows"), nb::arg("saved"));
}

}  // namespace clora::python

// Training: complete runs, single steps of own loops, and evaluation.
#include "clora/model/training/trainer.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <numeric>

#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/memory_planner.hpp"
#include "clora/model/training/training_run.hpp"
#include "python/src/bindings.hpp"
#include "python/src/loaded_model.hpp"
#include "python/src/loaded_records.hpp"
#include "runtime/fail.hpp"

namespace nb = nanobind;

namespace clora::python {
namespace {

nb::dict scores_dict(const std::vector<PreferenceScore>& scores) {
  nb::dict dict;
  for (const PreferenceScore& score : scores) dict[score.name] = score.value;
  return dict;
}

nb::dict dict_of(const StepResult& result, double tokens_per_s) {
  nb::dict dict;
  dict["step"] = result.step;
  dict["loss"] = result.loss;
  dict["tokens"] = result.tokens;
  dict["learning_rate"] = result.learning_rate;
  dict["grad_norm"] = result.grad_norm;
  dict["tokens_per_s"] = tokens_per_s;
  dict["scores"] = scores_dict(result.preference);
  return dict;
}

nb::dict dict_of(const EvalResult& result) {
  nb::dict dict;
  dict["step"] = result.step;
  dict["loss"] = result.loss;
  dict["tokens"] = result.tokens;
  dict["seconds"] = result.seconds;
  dict["scores"] = scores_dict(result.preference);
  return dict;
}

nb::dict dict_of(const TrainingSummary& summary) {
  nb::dict dict;
  dict["steps"] = summary.steps;
  dict["seconds"] = summary.seconds;
  dict["stopped"] = summary.stopped;
  dict["ended_early"] = summary.ended_early;
  dict["final_loss"] = summary.final_loss;
  if (summary.best) dict["best"] = dict_of(*summary.best);
  return dict;
}

// Python's functions for the callbacks of a run. They are called with the GIL; an exception that
// one raises ends the run, and train() raises it again.
struct PythonCallbacks {
  nb::object on_step, on_eval, on_save, should_stop;

  TrainingCallbacks callbacks() const {
    return {.on_step =
                [this](const StepResult& result, double tokens_per_s) {
                  const nb::gil_scoped_acquire gil;
                  on_step(dict_of(result, tokens_per_s));
                },
            .on_eval =
                [this](const EvalResult& result) {
                  const nb::gil_scoped_acquire gil;
                  on_eval(dict_of(result));
                },
            .on_save =
                [this](std::int64_t step, const std::filesystem::path& path) {
                  const nb::gil_scoped_acquire gil;
                  on_save(step, path.string());
                },
            .should_stop =
                [this] {
                  const nb::gil_scoped_acquire gil;
                  if (PyErr_CheckSignals() != 0) throw nb::python_error();  // Ctrl-C
                  return nb::cast<bool>(should_stop());
                }};
  }
};

// The policy that fits the memory limit of the Context, for the largest step of the run.
MemoryPolicy chosen_policy(const LoadedModel& model, const LoadedAdapter& adapter,
                           const Records& train, const TrainingRunConfig& config) {
  ContextConfig limits = model.context()->context.config();
  limits.profile = false;
  PlannedRun run{.context = limits,
                 .files = &model.files,
                 .context_length = config.max_seq_length,
                 .make_adapter =
                     [&](Context& context, const ModelConfig&) {
                       const Adapter& own = *adapter.adapter;
                       return Adapter(context, own.modules(), own.config(), own.saved_tensors());
                     },
                 .trainer = trainer_config(config)};
  return choose_policy(run, largest_step(model.model->config(), train, config)).policy;
}

// plans: choose the memory policy.
nb::dict train(const ModelHandle& model, const AdapterHandle& adapter, const RecordsHandle& records,
               const RecordsHandle& valid, const TrainingRunConfig& given, bool plans,
               const std::string& resume_from, const PythonCallbacks& callbacks) {
  TrainingRunConfig config = given;
  config.frozen_ranks = adapter->frozen_ranks;
  const Records* held_out = valid ? &valid->records : nullptr;
  ++adapter->version;
  const TrainingSummary summary = on_device(model->context(), [&] {
    model->forward.reset();
    if (plans) config.policy = chosen_policy(*model, *adapter, records->records, config);
    return run_training(*model->model, *adapter->adapter, records->records, held_out, config,
                        resume_from, callbacks.callbacks());
  });
  ++adapter->version;
  return dict_of(summary);
}

// Single steps, for own loops. Keeps the model and the adapter alive.
class StepTrainer {
 public:
  StepTrainer(ModelHandle model, AdapterHandle adapter, const TrainingRunConfig& given)
      : model_(std::move(model)), adapter_(std::move(adapter)), trainer_(model_->context(), [&] {
          require(!given.preference, "Trainer: step() has the loss 'sft' only; use train()");
          check(given);
          TrainingRunConfig config = given;
          config.frozen_ranks = adapter_->frozen_ranks;
          return Trainer(*model_->model, *adapter_->adapter, trainer_config(config));
        }) {}

  // One optimiser step over the records, at most batch_size of them in a micro-batch; waits for it.
  nb::dict step(const RecordsHandle& batch, std::size_t batch_size, double learning_rate) {
    const std::optional<StepResult> result = on_device(model_->context(), [&] {
      const std::vector<PackedRows> packed = pack(batch->records, batch_size);
      trainer_->step(packed, learning_rate);
      return trainer_->drain();
    });
    ++adapter_->version;
    require(result.has_value(), "Trainer: the step has no result");
    return dict_of(*result, 0);
  }

 private:
  static std::vector<PackedRows> pack(const Records& records, std::size_t batch_size) {
    std::vector<std::size_t> indices(records.records.size());
    std::iota(indices.begin(), indices.end(), std::size_t{0});
    std::vector<PackedRows> packed;
    for (std::size_t begin = 0; begin < indices.size(); begin += batch_size) {
      const std::size_t count = std::min(batch_size, indices.size() - begin);
      packed.push_back(pack_records(records, std::span(indices).subspan(begin, count)));
    }
    return packed;
  }

  ModelHandle model_;
  AdapterHandle adapter_;
  OnContext<Trainer> trainer_;
};

nb::dict evaluate(const ModelHandle& model, const AdapterHandle& adapter,
                  const RecordsHandle& records) {
  return dict_of(on_device(model->context(), [&] {
    Evaluator evaluator(*model->model, adapter_or_null(adapter));
    return evaluator.evaluate(records->records);
  }));
}

}  // namespace

void bind_trainer(nb::module_& module) {
  module.def(
      "train",
      [](const ModelHandle& model, const AdapterHandle& adapter, const RecordsHandle& records,
         const RecordsHandle& valid, const TrainingRunConfig& config, bool plans,
         const std::string& resume_from, const nb::object& on_step, const nb::object& on_eval,
         const nb::object& on_save, const nb::object& should_stop) {
        const PythonCallbacks callbacks{on_step, on_eval, on_save, should_stop};
        return train(model, adapter, records, valid, config, plans, resume_from, callbacks);
      },
      nb::arg("model"), nb::arg("adapter"), nb::arg("records"), nb::arg("valid").none(),
      nb::arg("config"), nb::arg("plans"), nb::arg("resume_from"), nb::arg("on_step"),
      nb::arg("on_eval"), nb::arg("on_save"), nb::arg("should_stop"));
  nb::class_<StepTrainer>(module, "StepTrainer")
      .def(nb::init<ModelHandle, AdapterHandle, const TrainingRunConfig&>(), nb::arg("model"),
           nb::arg("adapter"), nb::arg("config"))
      .def("step", &StepTrainer::step, nb::arg("batch"), nb::arg("batch_size"),
           nb::arg("learning_rate"));
  module.def("evaluate", &evaluate, nb::arg("model"), nb::arg("adapter").none(),
             nb::arg("records"));
  module.def(
      "total_steps",
      [](const TrainingRunConfig& config, const LoadedRecords& records) {
        return total_steps(config, records.records.data_shares());
      },
      nb::arg("config"), nb::arg("records"));
  module.def("learning_rate_at", &learning_rate_at, nb::arg("config"), nb::arg("step"),
             nb::arg("total"));
}

}  // namespace clora::python

#include "tools/clora/training/staged_evaluation.hpp"

#include "tools/clora/loaded_model.hpp"

namespace clora {
namespace {

EvalResult evaluate_stage(StagedEvaluation how, const RunDevice& device, Communicator* ranks,
                          const Records& records, Output& output) {
  how.common = options_on(device, how.common);
  LoadedModel loaded(how.common, output, how.context_length,
                     blocks_of_rank(how.split, how.common.model, how.device_shares, ranks));
  const std::optional<Adapter> adapter = loaded.adapter(how.adapter);
  Evaluator evaluator(loaded.model(), adapter ? &*adapter : nullptr);
  const EvalResult result = evaluator.evaluate(records, Evaluator::kAnyCount, ranks);
  loaded.show_inside();
  return result;
}

}  // namespace

EvalResult evaluate_on_stages(RunDevices& devices, const StagedEvaluation& how,
                              const Records& records, Output& output) {
  StagedEvaluation others = how;
  others.common.output.quiet = true;
  others.common.output.json = false;
  others.common.trace = nullptr;
  others.common.profile.clear();
  EvalResult result;
  devices.run(
      [&](const RunDevice& device, Communicator* ranks) {
        result = evaluate_stage(how, device, ranks, records, output);
      },
      [&](const RunDevice& device, Communicator* ranks) {
        Output quiet(others.common.output);
        (void)evaluate_stage(others, device, ranks, records, quiet);
      });
  return result;
}

}  // namespace clora

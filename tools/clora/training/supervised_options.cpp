#include "tools/clora/training/supervised_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tools/command_line/number_options.hpp"

namespace clora {

void SupervisedOptions::apply_to(TrainingRunConfig& config) const {
  config.supervised = loss;
  config.gradient_noise = gradient_noise;
}

void add_supervised_options(CLI::App& command, SupervisedOptions& options) {
  const std::string group = "Supervised loss";
  command
      .add_option("--label-smoothing", options.loss.label_smoothing,
                  "Share of each target's probability that is spread over the vocabulary, as in "
                  "torch's CrossEntropyLoss")
      ->transform(Number(0, 0.999))
      ->type_name("SHARE")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--z-loss", options.loss.z_loss,
                  "Factor of the square of log(sum of exp(logits)), which is added to the loss "
                  "(PaLM: 1e-4); 0: off")
      ->transform(Number(0, 1e3))
      ->type_name("NUMBER")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--neftune-alpha", options.loss.neftune_alpha,
                  "NEFTune: noise on the embeddings in training, uniform up to ALPHA / "
                  "sqrt(tokens of the record * hidden size); 0: off")
      ->transform(Number(0, 1e6))
      ->type_name("ALPHA")
      ->capture_default_str()
      ->group(group);
  command
      .add_flag(
          "--gradient-noise", options.gradient_noise,
          "Estimate the noise scale of the gradient, the batch size in labelled tokens beyond "
          "which larger ones help little; requires --grad-accumulation or several devices")
      ->group(group);
}

void add_supervised(nlohmann::ordered_json& event, const StepResult& result) {
  if (result.nll) event["nll"] = *result.nll;
  if (result.noise_scale) event["noise_scale"] = *result.noise_scale;
}

std::string supervised_text(const StepResult& result) {
  return result.nll ? fmt::format("nll {:.4f}  ", *result.nll) : std::string();
}

}  // namespace clora

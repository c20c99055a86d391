#include "tools/clora/training/optimizer_options.hpp"

#include <CLI/CLI.hpp>
#include <vector>

#include "tools/command_line/number_options.hpp"

namespace clora {

OptimizerConfig OptimizerOptions::config() const {
  OptimizerConfig config = settings;
  config.kind = named_optimizer(name);
  return config;
}

void add_optimizer_options(CLI::App& command, OptimizerOptions& options, const std::string& group) {
  OptimizerConfig& settings = options.settings;
  std::vector<std::string> names;
  for (const OptimizerKind kind : kOptimizers) names.emplace_back(name_of(kind));
  command
      .add_option("--optimizer", options.name,
                  "adamw-8bit stores the two moments of AdamW in 8 bits: 2 bytes per trainable "
                  "parameter instead of 8; lion, sgd and muon store 4 bytes")
      ->check(CLI::IsMember(names))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--beta1", settings.beta1,
                  "Decay of the first moment of adamw, lion (default: 0.9)")
      ->transform(Number(0, 1))
      ->group(group);
  command
      .add_option("--beta2", settings.beta2,
                  "Decay of the second moment of adamw (default: 0.999), of the momentum of lion "
                  "(0.99)")
      ->transform(Number(0, 1))
      ->group(group);
  command
      .add_option("--momentum", settings.momentum, "Momentum of sgd (default: 0.9) and muon (0.95)")
      ->transform(Number(0, 1))
      ->group(group);
  command.add_flag("--nesterov", settings.nesterov, "Nesterov's momentum for sgd")->group(group);
  command
      .add_option("--loraplus-lr-ratio", settings.loraplus_lr_ratio,
                  "LoRA+: learning rate of the matrices B as a multiple of --lr, which is that of "
                  "the matrices A")
      ->transform(NumberAbove(0, 1e6))
      ->type_name("RATIO")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--saved-lr-ratio", settings.saved_lr_ratio,
                  "Learning rate of what --modules-to-save and --bias train, as a multiple of --lr")
      ->transform(NumberAbove(0, 1e6))
      ->type_name("RATIO")
      ->capture_default_str()
      ->group(group);
}

}  // namespace clora

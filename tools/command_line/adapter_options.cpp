#include <CLI/CLI.hpp>

#include "tools/command_line/adapter_options.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {

void add_rank_option(CLI::App& command, AdapterConfig& adapter, const std::string& group) {
  command.add_option("--rank", adapter.rank, "Rank of the adapter's matrices")
      ->transform(Integer(1, 65536))
      ->capture_default_str()
      ->group(group);
}

void add_dropout_option(CLI::App& command, AdapterConfig& adapter, const std::string& group) {
  command
      .add_option("--dropout", adapter.dropout,
                  "Dropout probability of the adapter's input in training")
      ->transform(Number(0, 0.99))
      ->capture_default_str()
      ->group(group);
}

void add_target_modules_option(CLI::App& command, std::vector<std::string>& modules,
                               const std::string& group) {
  command
      .add_option("--target-modules", modules,
                  "Layers to adapt: all-linear (of the blocks), or names such as q_proj,v_proj; "
                  "embed_tokens and lm_head only if they are named")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAMES")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->default_str("all-linear")
      ->group(group);
}

}  // namespace clora

// clora adapters convert: a plain adapter from one of PiSSA, OLoRA, CorDA or LoRA-GA.
#include <CLI/CLI.hpp>
#include <memory>

#include "clora/lora/conversion.hpp"
#include "tools/clora/adapters/adapters_commands.hpp"
#include "tools/clora/adapters/validation_losses.hpp"
#include "tools/command_line/local_path.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Example:
  clora adapters convert pissa-trained --initial pissa-initial --out plain
Such an adapter is trained with weights W - scale * B0 A0, and is not one of W. The result is the
adapter scale * (B A - B0 A0) of W, of twice the rank, as by PEFT's save_pretrained(...,
path_initial_model_for_weight_conversion=INITIAL).)";

struct Options {
  ResultOptions result;
  std::string adapter, initial;
};

int convert(const Options& options) {
  Output output(options.result.common.output);
  const std::string inputs[] = {options.adapter, options.initial};
  require_free(options.result, inputs);
  AdapterMatrices result = converted_adapter(options.adapter, options.initial);
  const AdapterMatrices exact = result;
  ValidationLosses losses(options.result, output);
  losses.add("base model");
  write_result(result, options.result);
  const WeightedAdapter wanted[] = {{&exact, 1}};
  const AdapterErrors errors = errors_of(result, wanted);
  output.result("wrote {}", options.result.out);
  report_errors(output, errors, {.wanted = "the difference"});
  losses.add(options.result.out, options.result.out);
  nlohmann::ordered_json object = json_of(options.result, errors);
  losses.add_to(object);
  output.object(object);
  return 0;
}

}  // namespace

void add_adapters_convert_command(CLI::App& group, Action& action) {
  CLI::App* command = group.add_subcommand(
      "convert", "Make a plain adapter of one that was trained with changed base weights");
  const auto options = std::make_shared<Options>();
  add_adapter_argument(*command, options->adapter);
  command
      ->add_option("--initial", options->initial, "The same adapter as saved before its first step")
      ->transform(LocalPath(HubKind::model))
      ->type_name("DIR")
      ->required();
  add_result_options(*command, options->result);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return convert(*options); }; });
}

}  // namespace clora

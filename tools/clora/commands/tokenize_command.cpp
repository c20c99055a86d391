// clora tokenize: converts text to the ids of a model's tokeniser.
#include <fmt/ranges.h>

#include <memory>

#include "clora/model/text/tokenizer_files.hpp"
#include "clora/runtime/files/json.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/commands/common_options.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora tokenize --model MODEL.gguf "Hello, world"
  printf 'Hello' | clora tokenize --model MODEL.gguf --json -
Ids are printed separated by commas, as 'clora generate --prompt-ids' accepts them. Standard input
is read byte for byte, including a final newline.)";

struct Options {
  CommonOptions common;
  std::string text;
  bool special = false;
};

int tokenize(const Options& options) {
  Output output(options.common.output);
  const Tokenizer tokenizer = load_tokenizer(options.common.model);
  const std::string text = options.text == "-" ? read_standard_input() : options.text;
  const std::vector<std::int32_t> ids = tokenizer.encode(text, {.parse_special = options.special});
  output.result("{}", fmt::join(ids, ","));
  for (const std::int32_t id : ids) {
    output.detail("{:8}  {}", id, json_text(nlohmann::json(tokenizer.token_text(id))));
  }
  output.object({{"ids", ids}});
  return 0;
}

}  // namespace

void add_tokenize_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("tokenize", "Show the token ids of a text");
  const auto options = std::make_shared<Options>();
  add_model_option(*command, options->common);
  command->add_option("TEXT", options->text, "Text to tokenize; - reads standard input")
      ->required();
  command->add_flag("--special,!--no-special", options->special,
                    "Parse special tokens (<|im_end|>) in the text (default: no)");
  add_output_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return tokenize(*options); }; });
}

}  // namespace clora

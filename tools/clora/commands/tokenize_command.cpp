// clora tokenize: converts text to the ids of a model's tokeniser, and shows the loss masks of a
// data file.
#include <fmt/ranges.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>

#include "clora/model/text/tokenizer_files.hpp"
#include "clora/runtime/files/json.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/commands/common_options.hpp"
#include "tools/clora/commands/data_options.hpp"
#include "tools/clora/mask_text.hpp"
#include "tools/clora/model_text.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora tokenize --model MODEL.gguf "Hello, world"
  printf 'Hello' | clora tokenize --model MODEL.gguf --json -
  clora tokenize --model MODEL --mask train.jsonl       which tokens are trained
Ids are printed separated by commas, as 'clora generate --prompt-ids' accepts them. Standard input
is read byte for byte, including a final newline.)";

struct Options {
  CommonOptions common;
  std::string text;
  bool special = false;
  std::string mask;  // a data file
  std::string chat_template;
  std::int64_t limit = 10;
};

// The text goes to a terminal or to a file, which has no colours.
void show(const RecordView& record, std::size_t number, const Tokenizer& tokenizer,
          Output& output) {
  const MaskCounts counts = mask_counts(record);
  if (output.json()) {
    output.object({{"record", number},
                   {"ids", std::vector(record.ids.begin(), record.ids.end())},
                   {"is_target", std::vector(record.is_target.begin(), record.is_target.end())}});
    return;
  }
  output.result("--- record {}: {} tokens, {} of them trained, in {}", number, counts.tokens,
                counts.trained, runs_text(counts));
  const bool colours = isatty(fileno(stdout)) != 0;
  const std::string text =
      masked_text(record, tokenizer, colours ? kColouredMask : kPlainMask) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
}

int show_masks(const Options& options) {
  Output output(options.common.output);
  const ModelText text(options.common.model, options.chat_template);
  RecordOptions how;
  how.max_seq_length = std::size_t{1} << 20U;
  how.limit = static_cast<std::size_t>(options.limit);
  how.parse_special = options.special;
  how.append_eos = text.tokenizer().eos().has_value();
  how.chat_template_problem = text.chat_template_problem();
  const Records records =
      load_records(options.mask, text.tokenizer(), text.find_chat_template(), how);
  output.result("What is trained is {}; the rest is only read.",
                isatty(fileno(stdout)) != 0 ? "coloured" : "between \u27E6 and \u27E7");
  for (std::size_t i = 0; i < records.records.size() && !output.reader_left(); ++i)
    show(records.records[i], i + 1, text.tokenizer(), output);
  if (records.skipped > 0)
    output.warning("{}: {} records have no labelled tokens and are not shown", options.mask,
                   records.skipped);
  return 0;
}

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
  CLI::Option* text =
      command->add_option("TEXT", options->text, "Text to tokenize; - reads standard input");
  CLI::Option* mask = command
                          ->add_option("--mask", options->mask,
                                       "Show the records of a data file, with what is trained")
                          ->check(CLI::ExistingFile)
                          ->type_name("FILE")
                          ->excludes(text);
  add_chat_template_option(*command, options->chat_template)->needs(mask);
  command->add_option("--limit", options->limit, "Show only the first N records; 0: all")
      ->transform(Integer(0, kMaxCount))
      ->type_name("N")
      ->needs(mask)
      ->capture_default_str();
  command->add_flag("--special,!--no-special", options->special,
                    "Parse special tokens (<|im_end|>) in the text (default: no)");
  add_output_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, &action, text, mask] {
    if (text->count() + mask->count() == 0)
      throw CLI::RequiredError("TEXT, or --mask with a data file");
    action = [options] {
      return options->mask.empty() ? tokenize(*options) : show_masks(*options);
    };
  });
}

}  // namespace clora

#include "tools/clora/commands/data_options.hpp"
#include "tools/command_line/local_path.hpp"
#include "tools/command_line/number_options.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace clora {
namespace {

void report(const Records& records, const std::string& file, const DataOptions& options,
            Output& output) {
  const std::size_t count = records.records.size() + records.skipped;
  if (records.truncated > 0) {
    output.warning("{}: {} of {} records were longer than {} tokens and were truncated", file,
                   records.truncated, count, options.max_seq_length);
  }
  if (records.skipped > 0) {
    output.warning("{}: {} records have no labelled tokens left and were skipped", file,
                   records.skipped);
  }
  if (records.with_special > 0) {
    output.warning(
        "{}: line {}: '{}' is read as text, not as the special token, as in {} of {} records; use "
        "--parse-special to parse special tokens, --no-parse-special to keep them as text",
        file, records.special_line, records.special_token, records.with_special, count);
  }
}

// Empty: it is a known name or a file.
std::string problem_of_template(const std::string& name) {
  const auto names = chat_template_names();
  const bool known = std::ranges::find(names, name) != names.end();
  if (known || std::filesystem::is_regular_file(name)) return {};
  return fmt::format("'{}' is neither a file nor one of {}", name, fmt::join(names, ", "));
}

}  // namespace

CLI::Option* add_chat_template_option(CLI::App& command, std::string& name) {
  return command
      .add_option("--chat-template", name,
                  fmt::format("Chat template for conversations, instead of the model's own: a file "
                              "with a Jinja template, or one of {}",
                              fmt::join(chat_template_names(), ", ")))
      ->check(CLI::Validator(problem_of_template, "", "chat template"))
      ->type_name("NAME|FILE");
}

void add_data_options(CLI::App& command, DataOptions& options, const std::string& data_help) {
  const std::string group = "Data";
  command.add_option("--data", options.data, data_help)
      ->check(LocalPath(HubKind::data_set))
      ->type_name("PATH")
      ->required()
      ->group(group);
  command
      .add_option("--max-seq-length", options.max_seq_length,
                  "Maximum tokens per record; longer records are truncated")
      ->transform(Integer(2, kMaxCount))
      ->type_name("TOKENS")
      ->capture_default_str()
      ->group(group);
  command.add_option("--limit", options.limit, "Read only the first N records; 0: all")
      ->transform(Integer(0, kMaxCount))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--append-eos,!--no-append-eos", options.append_eos,
                "Append the end token to texts and completions; it then counts toward the loss")
      ->default_str("true")
      ->group(group);
  command
      .add_flag_function(
          "--parse-special,!--no-parse-special",
          [&options](std::int64_t count) { options.parse_special = count > 0; },
          "Parse special tokens written in records (<|im_end|>) (default: read them as text, with "
          "a warning)")
      ->group(group);
  add_chat_template_option(command, options.chat_template)->group(group);
}

Records read_records(const std::filesystem::path& file, const DataOptions& options,
                     std::int64_t limit, const ModelText& text, Output& output) {
  RecordOptions how;
  how.max_seq_length = static_cast<std::size_t>(options.max_seq_length);
  how.append_eos = options.append_eos;
  how.limit = static_cast<std::size_t>(limit);
  how.pairs = options.pairs;
  how.parse_special = options.parse_special.value_or(false);
  how.max_positions = static_cast<std::size_t>(text.max_positions());
  how.chat_template_problem = text.chat_template_problem();
  const ChatTemplate* chat_template = text.find_chat_template();
  if (chat_template == nullptr && !how.pairs) output.detail("{}", text.chat_template_problem());
  Records records = load_records(file, text.tokenizer(), chat_template, how);
  if (options.parse_special) records.with_special = 0;  // given explicitly, so no warning
  report(records, file.string(), options, output);
  return records;
}

}  // namespace clora

#include "tools/clora/data_options.hpp"
#include "tools/command_line/local_path.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {

void add_data_options(CLI::App& command, DataOptions& options, const std::string& data_help) {
  const std::string group = "Data";
  command.add_option("--data", options.data, data_help)
      ->check(LocalPath(HubKind::data_set))
      ->type_name("PATH")
      ->required()
      ->group(group);
  command
      .add_option("--max-seq-length", options.max_seq_length,
                  "Tokens of a record at most; longer ones lose their end")
      ->transform(WholeNumber(2, kMaxCount))
      ->type_name("TOKENS")
      ->capture_default_str()
      ->group(group);
  command.add_option("--limit", options.limit, "Read the first N records only; 0: all")
      ->transform(WholeNumber(0, kMaxCount))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--append-eos,!--no-append-eos", options.append_eos,
                "End texts and completions with the end token, which then counts")
      ->default_str("true")
      ->group(group);
}

Records read_records(const std::filesystem::path& file, const DataOptions& options,
                     std::int64_t limit, const ModelText& text, Output& output) {
  RecordOptions how;
  how.max_seq_length = static_cast<std::size_t>(options.max_seq_length);
  how.append_eos = options.append_eos;
  how.limit = static_cast<std::size_t>(limit);
  const ChatTemplate* chat_template = text.find_chat_template();
  if (chat_template == nullptr) output.detail("{}", text.chat_template_problem());
  Records records = load_records(file, text.tokenizer(), chat_template, how);
  if (records.truncated > 0) {
    output.warning("{}: {} of {} records were longer than {} tokens and lost their end",
                   file.string(), records.truncated, records.records.size() + records.skipped,
                   options.max_seq_length);
  }
  if (records.skipped > 0) {
    output.warning("{}: {} records have nothing left to learn and were skipped", file.string(),
                   records.skipped);
  }
  return records;
}

}  // namespace clora

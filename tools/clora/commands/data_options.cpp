#include "tools/clora/commands/data_options.hpp"
#include "tools/command_line/byte_size.hpp"
#include "tools/command_line/local_path.hpp"
#include "tools/command_line/number_options.hpp"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr double kMaxWeight = 1000;

void report(const Records& records, const std::string& files, const DataOptions& options,
            Output& output) {
  const std::size_t count = records.records.size() + records.skipped;
  if (records.truncated > 0) {
    output.warning("{}: {} of {} records were longer than {} tokens and were truncated", files,
                   records.truncated, count, options.max_seq_length);
  }
  if (records.skipped > 0) {
    output.warning("{}: {} records have no labelled tokens left and were skipped", files,
                   records.skipped);
  }
  if (2 * std::max(records.truncated, records.skipped) > count) {
    output.warning(
        "{}: more than half of the records were truncated or skipped, so the model "
        "learns little of what they say; raise --max-seq-length, or check the records "
        "with 'clora data'",
        files);
  }
  if (records.with_special > 0) {
    output.warning(
        "{}: line {}: '{}' is read as text, not as the special token, as in {} of {} records; use "
        "--parse-special to parse special tokens, --no-parse-special to keep them as text",
        records.special_file, records.special_line, records.special_token, records.with_special,
        count);
  }
}

// A path may itself end in "=" and a number.
DataFile data_file_of(const std::string& text) {
  const std::size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || std::filesystem::exists(text)) return {.path = text};
  const std::string number = text.substr(at + 1);
  double weight = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), weight);
  if (number.empty() || error != std::errc() || end != number.data() + number.size()) {
    return {.path = text};  // its reader says that it does not exist
  }
  require(std::isfinite(weight) && weight > 0 && weight <= kMaxWeight,
          "--data: the weight of '{}' must be above 0 and at most {}, got {}", text.substr(0, at),
          kMaxWeight, number);
  return {.path = text.substr(0, at), .weight = weight};
}

// Empty: it is a known name or a file.
std::string problem_of_template(const std::string& name) {
  const auto names = chat_template_names();
  const bool known = std::ranges::find(names, name) != names.end();
  if (known || std::filesystem::is_regular_file(name)) return {};
  return fmt::format("'{}' is neither a file nor one of {}", name, fmt::join(names, ", "));
}

}  // namespace

std::string names_of(std::span<const DataFile> files) {
  const std::string first = files.front().path.string();
  return files.size() == 1 ? first : fmt::format("{} and {} more", first, files.size() - 1);
}

CLI::Option* add_chat_template_option(CLI::App& command, std::string& name) {
  return command
      .add_option("--chat-template", name,
                  fmt::format("Chat template for conversations, instead of the model's own: a file "
                              "with a Jinja template, or one of {}",
                              fmt::join(chat_template_names(), ", ")))
      ->check(CLI::Validator(problem_of_template, "", "chat template"))
      ->type_name("NAME|FILE");
}

void add_data_options(CLI::App& command, DataOptions& options, const std::string& data_help,
                      const std::string& data_name) {
  const std::string group = "Data";
  command.add_option(data_name, options.data, data_help)
      ->check(LocalPath(HubKind::data_set))
      ->type_name("PATH[=WEIGHT]")
      ->required()
      ->group(group);
  command
      .add_option("--max-seq-length", options.max_seq_length,
                  "Maximum tokens per record; longer records are truncated")
      ->transform(Integer(2, kMaxCount))
      ->type_name("TOKENS")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--limit", options.limit, "Read only the first N records of each file; 0: all")
      ->transform(Integer(0, kMaxCount))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--data-memory", options.memory,
                  "Host memory for records; if they need more, they are kept in a temporary file "
                  "(in TMPDIR, else /var/tmp)")
      ->transform(ByteSize())
      ->type_name("SIZE")
      ->default_str("256MiB")
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
  command
      .add_flag("--apply-chat-template", options.apply_chat_template,
                "Read a text prompt and its completion as a user and an assistant turn")
      ->group(group);
  add_chat_template_option(command, options.chat_template)->group(group);
}

std::vector<DataFile> data_files_of(const DataOptions& options) {
  std::vector<DataFile> files;
  for (const std::string& text : options.data) files.push_back(data_file_of(text));
  return files;
}

std::vector<DataFile> unweighted_files_of(const DataOptions& options, const char* who) {
  std::vector<DataFile> files = data_files_of(options);
  for (const DataFile& file : files) {
    require(file.weight == 1, "{}: every record is read once; remove the weight of '{}'", who,
            file.path.string());
  }
  return files;
}

SplitFiles split_files_of(const DataOptions& options) {
  SplitFiles files;
  for (const DataFile& given : data_files_of(options)) {
    if (!std::filesystem::is_directory(given.path)) {
      files.train.push_back(given);
      continue;
    }
    const auto train = find_split(given.path, "train");
    if (!train) {
      fail(ErrorCode::not_found,
           "'{}' contains no train.jsonl; name a file of records, or rename it",
           given.path.string());
    }
    files.train.push_back({*train, given.weight});
    if (const auto valid = find_split(given.path, "valid")) files.valid.push_back({*valid});
  }
  return files;
}

RecordOptions record_options(const DataOptions& options, const ModelText& text) {
  RecordOptions how;
  how.memory.max_resident_bytes = static_cast<std::size_t>(options.memory);
  how.max_seq_length = static_cast<std::size_t>(options.max_seq_length);
  how.append_eos = options.append_eos;
  how.apply_chat_template = options.apply_chat_template;
  how.limit = static_cast<std::size_t>(options.limit);
  how.pairs = options.pairs;
  how.preference = options.preference;
  how.parse_special = options.parse_special.value_or(false);
  how.max_positions = static_cast<std::size_t>(text.max_positions());
  how.chat_template_problem = text.chat_template_problem();
  return how;
}

Records read_records(std::span<const DataFile> files, const DataOptions& options,
                     std::int64_t limit, const ModelText& text, Output& output,
                     DataReport* report_of_data) {
  RecordOptions how = record_options(options, text);
  how.report = report_of_data;
  how.limit = static_cast<std::size_t>(limit);
  const ChatTemplate* chat_template = text.find_chat_template();
  if (chat_template == nullptr && !how.pairs) output.detail("{}", text.chat_template_problem());
  Records records = load_records(files, text.tokenizer(), chat_template, how);
  if (options.parse_special) records.with_special = 0;  // given explicitly, so no warning
  report(records, names_of(files), options, output);
  return records;
}

}  // namespace clora

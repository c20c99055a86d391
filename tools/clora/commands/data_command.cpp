// clora data: reports what data sets are, as a training run would read them.
#include <CLI/CLI.hpp>
#include <memory>

#include "runtime/fail.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/commands/data_options.hpp"
#include "tools/clora/commands/embedding_task.hpp"
#include "tools/clora/data_report_text.hpp"
#include "tools/clora/training/preference_options.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora data --model MODEL.gguf train.jsonl test.jsonl
  clora data --model MODEL.gguf FOLDER --max-seq-length 2048 --json
  clora data --model MODEL.gguf pairs.jsonl --loss dpo
Each file is read as 'clora train' would read it, and reported: records by form, tokens, the share of
tokens that are trained, a histogram of lengths in tokens before truncation, records that are
truncated or skipped, and duplicates, within a file and between files. A folder stands for its
train, valid and test files. The model's weights are not loaded. With --json: a line for each file,
and a last one with the records that are in two of them.)";

struct Options {
  CommonOptions common;
  DataOptions data;
  EmbeddingTaskOptions task;
  PreferenceOptions preference;
};

std::vector<std::filesystem::path> files_of(const DataOptions& options) {
  std::vector<std::filesystem::path> files;
  for (const DataFile& given : unweighted_files_of(options, "data")) {
    if (!std::filesystem::is_directory(given.path)) {
      files.push_back(given.path);
      continue;
    }
    const std::size_t before = files.size();
    for (const char* split : {"train", "valid", "test"}) {
      if (const auto file = find_split(given.path, split)) files.push_back(*file);
    }
    if (files.size() == before) {
      fail(ErrorCode::not_found,
           "data: '{}' contains no train.jsonl, valid.jsonl or test.jsonl; name its files",
           given.path.string());
    }
  }
  return files;
}

int data(const Options& options) {
  Output output(options.common.output);
  const ModelText text(options.common.model, options.data.chat_template);
  DataOptions how = options.data;
  set_task_of_data(options.task, options.common.model, how);
  options.preference.apply_to(how);
  std::vector<NamedReport> reports;
  for (const std::filesystem::path& path : files_of(how)) {
    const DataFile file{.path = path};
    NamedReport& named = reports.emplace_back(NamedReport{path.string()});
    (void)read_records(std::span(&file, 1), how, how.limit, text, output, &named.report);
    for (const std::string& line : lines_of(named, static_cast<std::size_t>(how.max_seq_length))) {
      output.result("{}", line);
    }
    output.object(json_of(named));
  }
  for (const std::string& line : lines_of_overlaps(reports)) output.result("{}", line);
  if (reports.size() > 1) output.object({{"shared_records", json_of_overlaps(reports)}});
  return 0;
}

}  // namespace

void add_data_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("data", "Report what data sets are");
  const auto options = std::make_shared<Options>();
  add_model_option(*command, options->common);
  add_data_options(*command, options->data, "Files of records, or folders with their splits",
                   "DATA,--data");
  add_embedding_task_options(*command, options->task);
  add_loss_option(*command, options->preference, "Data");
  add_output_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return data(*options); }; });
}

}  // namespace clora

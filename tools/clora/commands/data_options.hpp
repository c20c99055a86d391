// Options for reading records, shared by train and eval, and for choosing a chat template.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "clora/model/data/records.hpp"
#include "tools/clora/loaded_model.hpp"
#include "tools/command_line/cli_declarations.hpp"
#include "tools/command_line/output.hpp"

namespace clora {

struct DataOptions {
  std::vector<std::string> data;  // PATH or PATH=WEIGHT
  std::int64_t max_seq_length = 512;
  std::int64_t limit = 0;
  std::int64_t memory = std::int64_t{256} << 20U;  // bytes of the host's, for records
  bool append_eos = true;
  bool apply_chat_template = false;
  std::optional<bool> parse_special;         // absent: no, with a warning if it matters
  std::string chat_template;                 // by name; empty: from the model's files
  std::optional<TextPairOptions> pairs;      // as in RecordOptions; no option sets it
  std::optional<PreferenceForm> preference;  // the same
};

// --chat-template NAME, an argument of ModelText.
CLI::Option* add_chat_template_option(CLI::App& command, std::string& name);

void add_data_options(CLI::App& command, DataOptions& options, const std::string& data_help,
                      const std::string& data_name = "--data");

// Returns the files or folders of --data with their weights. Errors: invalid_argument for a weight
// that is not above 0.
std::vector<DataFile> data_files_of(const DataOptions& options);

// The same where weights mean nothing. Errors: also invalid_argument for a weight, naming `who`.
std::vector<DataFile> unweighted_files_of(const DataOptions& options, const char* who);

// The files of --data for a run. Folders are replaced by their splits; their "valid" is optional.
struct SplitFiles {
  std::vector<DataFile> train, valid;
};
// Errors: also not_found for a folder without a "train" split.
SplitFiles split_files_of(const DataOptions& options);

// How records are read, with the model's limits and chat template.
RecordOptions record_options(const DataOptions& options, const ModelText& text);

// Reads the records of the files, reports how many were truncated or skipped, and warns of special
// tokens that are read as plain text. limit: 0 reads all records of each file. report: to which
// each record is added; may be null. Errors: those of load_records().
Records read_records(std::span<const DataFile> files, const DataOptions& options,
                     std::int64_t limit, const ModelText& text, Output& output,
                     DataReport* report = nullptr);

// "a.jsonl", or "a.jsonl and 2 more". REQUIRES: files is not empty.
std::string names_of(std::span<const DataFile> files);

}  // namespace clora

#include "tools/clora/training/training_data.hpp"

#include <nlohmann/json.hpp>
#include <utility>

namespace clora {
namespace {

void show(const TrainingData& data, const DataOptions& options, Output& output) {
  for (const NamedReport& each : data.reports) {
    for (const std::string& line :
         lines_of(each, static_cast<std::size_t>(options.max_seq_length))) {
      output.info("{}", line);
    }
  }
  for (const std::string& line : lines_of_overlaps(data.reports)) output.warning("{}", line);
}

}  // namespace

TrainingData read_training_data(const DataOptions& options, const std::string& choices,
                                const ModelText& text, Output& output) {
  const SplitFiles files = split_files_of(options);
  NamedReport of_train{names_of(files.train)};
  TrainingData data{
      read_records(files.train, options, options.limit, text, output, &of_train.report)};
  data.reports.push_back(std::move(of_train));
  if (!files.valid.empty()) {
    NamedReport& of_valid = data.reports.emplace_back(NamedReport{names_of(files.valid)});
    data.valid = read_records(files.valid, options, 0, text, output, &of_valid.report);
  }
  show(data, options, output);
  if (!choices.empty()) {
    data.choices = read_choice_questions(choices, text.tokenizer(), text.find_chat_template(),
                                         record_options(options, text));
  }
  return data;
}

nlohmann::ordered_json json_of(const TrainingData& data) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const NamedReport& each : data.reports) list.push_back(json_of(each));
  return list;
}

}  // namespace clora

// The records of a training run, their reports, and the questions with choices of its evaluations.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "clora/model/training/choices.hpp"
#include "tools/clora/commands/data_options.hpp"
#include "tools/clora/data_report_text.hpp"

namespace clora {

struct TrainingData {
  Records train;
  std::optional<Records> valid = {};
  std::vector<NamedReport> reports = {};  // of train, and of valid
  std::vector<ChoiceQuestion> choices = {};
};

// Reads the files of `options`, and prints the reports. choices: a file of records with choices;
// empty: none. Errors: those of split_files_of(), read_records() and read_choice_questions().
TrainingData read_training_data(const DataOptions& options, const std::string& choices,
                                const ModelText& text, Output& output);

// The reports, as a list.
nlohmann::ordered_json json_of(const TrainingData& data);

}  // namespace clora

// ValidationLosses: the losses of a model on the records of --data, alone and with adapters, so
// that a command states what it did to them. Does nothing without --data. Not thread-safe.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/clora/adapters/result_options.hpp"
#include "tools/clora/loaded_model.hpp"

namespace clora {

class ValidationLosses {
 public:
  // Loads the model and the records. model: instead of --model, or empty. Must not outlive the
  // arguments. Errors: those of read_records() and LoadedModel.
  ValidationLosses(const ResultOptions& options, Output& output, const std::string& model = {});

  // Prints the loss of the model with the adapter in `folder`, or alone if it is empty, under
  // `name`. Errors: those of load_adapter() and Evaluator.
  void add(const std::string& name, const std::string& folder = {});

  // Appends "losses": [{"name": ..., "loss": ...}] in the order of the calls of add().
  void add_to(nlohmann::ordered_json& object) const;

 private:
  Output* output_;
  std::optional<Records> records_;
  std::unique_ptr<LoadedModel> loaded_;
  nlohmann::ordered_json losses_ = nlohmann::ordered_json::array();
};

}  // namespace clora

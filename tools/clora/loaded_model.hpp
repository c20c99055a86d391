// LoadedModel: what commands that run a model need of it, opened in one go.
//
// Owns everything; the adapter and whatever is built on the model must die first.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lora/adapter.hpp"
#include "model/families/language_model.hpp"
#include "model/files/weights.hpp"
#include "tools/clora/common_options.hpp"
#include "tools/clora/model_text.hpp"

namespace clora {

class LoadedModel {
 public:
  // Errors: no_device, unsupported (precision), those of WeightFiles and LanguageModel.
  // With --profile the device's peaks are measured first, where none are kept.
  LoadedModel(const CommonOptions& options, Output& output);
  // Writes the trace where a failure kept show_inside() from being reached.
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  Context& context() noexcept { return *context_; }
  const WeightFiles& files() const noexcept { return files_; }
  LanguageModel& model() noexcept { return *model_; }

  // The folder's adapter, or nothing for an empty path. Errors: those of load_adapter().
  std::optional<Adapter> adapter(const std::string& folder);

  // The tokens that end an answer, by the tokeniser and the model's configuration.
  std::vector<std::int32_t> end_ids(const ModelText& text) const;

  // What --profile and --trace asked for: the table on stderr, or JSON beside JSON; the file.
  // Errors: io, device.
  void show_inside();

 private:
  void write_trace();

  const CommonOptions options_;
  Output& output_;
  RooflinePeaks peaks_;
  bool trace_written_ = false;
  std::unique_ptr<Context> context_;
  WeightFiles files_;
  std::unique_ptr<LanguageModel> model_;
};

}  // namespace clora

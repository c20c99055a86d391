// LoadedModel: the context, weight files and model that a command needs, opened together.
//
// Owns all of them. The adapter and everything else built on the model must be destroyed first.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "clora/model/weights/weights.hpp"
#include "tools/clora/commands/common_options.hpp"
#include "tools/clora/model_text.hpp"

namespace clora {

class LoadedModel {
 public:
  // With --profile, measures the device's peaks first unless they are stored.
  // context_length, blocks: as in LoadOptions. Errors: no_device, unsupported (precision), those of
  // WeightFiles and LanguageModel.
  LoadedModel(const CommonOptions& options, Output& output, std::int64_t context_length = 0,
              const std::optional<BlockRange>& blocks = {});
  // Writes the trace if a failure prevented the call of show_inside().
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  Context& context() noexcept { return *context_; }
  const WeightFiles& files() const noexcept { return files_; }
  LanguageModel& model() noexcept { return *model_; }

  // Loads the adapter of a folder; nullopt for an empty path. Errors: those of load_adapter().
  std::optional<Adapter> adapter(const std::string& folder);

  // Shows the results of --profile (a table on stderr, or JSON with --json) and writes the file of
  // --trace. Errors: io, device.
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

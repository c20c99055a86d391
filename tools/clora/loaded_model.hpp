// LoadedModel: the contexts, weight files and model that a command needs, opened together.
//
// With --split the model is divided over several devices, one stage on each; without, it is one
// stage. Owns all of them. Adapters and everything else built on the model must be destroyed first.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/transformer/model_stage.hpp"
#include "clora/model/weights/weights.hpp"
#include "tools/clora/commands/common_options.hpp"
#include "tools/clora/model_text.hpp"

namespace clora {

// The stages of a model with an adapter, of which each has its part; or without.
struct AdaptedStages {
  std::vector<std::optional<Adapter>> adapters;
  std::vector<ModelStage> stages;
};

class LoadedModel {
 public:
  // With --profile, measures the device's peaks first unless they are stored.
  // context_length, blocks: as in LoadOptions; `blocks` are for a process that has one stage.
  // Errors: no_device, unsupported (precision), those of WeightFiles, LanguageModel,
  // options_of_stages() and ranges_of_stages().
  LoadedModel(const CommonOptions& options, Output& output, std::int64_t context_length = 0,
              const std::optional<BlockRange>& blocks = {});
  // Writes the trace if a failure prevented the call of show_inside().
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  // Those of the first stage.
  Context& context() noexcept { return *contexts_.front(); }
  LanguageModel& model() noexcept { return *models_.front(); }
  const WeightFiles& files() const noexcept { return files_; }
  // Of all stages.
  std::vector<ModelStage> stages() const;
  std::size_t weight_bytes() const;
  std::size_t used_bytes() const;    // of device memory
  std::string device_names() const;  // "'A' and 'B'"

  // Loads an adapter of any format on the first stage's device, for all blocks; nullopt for an
  // empty path. Errors: those of load_adapter().
  std::optional<Adapter> adapter(const std::string& path);
  // Loads it on the devices of the stages. Errors: the same.
  AdaptedStages with_adapter(const std::string& path);

  // Shows the results of --profile (a table for each device on stderr, or JSON with --json) and
  // writes the file of --trace. Errors: io, device.
  void show_inside();

 private:
  void load(std::int64_t context_length, const std::vector<BlockRange>& ranges);
  void show_profile(Context& context);
  void write_trace();

  const CommonOptions options_;
  Output& output_;
  RooflinePeaks peaks_;
  bool trace_written_ = false;
  std::vector<std::unique_ptr<Context>> contexts_;  // of the stages
  WeightFiles files_;
  std::vector<std::unique_ptr<LanguageModel>> models_;
};

}  // namespace clora

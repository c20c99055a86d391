// ModelStage: a device's part of a model that is split by layers over several devices of a process
// (model/configuration/block_range.hpp), and its part of an adapter.
//
// The stages of a model follow one another in the order of their blocks. A model on one device is
// one stage. Threads: those of the models and adapters.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "clora/lora/adapter.hpp"
#include "clora/model/transformer/language_model.hpp"

namespace clora {

struct ModelStage {
  LanguageModel* model = nullptr;
  const Adapter* adapter = nullptr;  // with modules of this stage only; null: none
};

// Errors: invalid_argument unless the stages are those of one model, from its first block to its
// last one.
void require_stages(std::span<const ModelStage> stages);

// Those of the blocks that the stage has.
std::span<const BlockSpec> block_specs(const LanguageModel& stage);

// Whether the module of a path (AdapterSite) is on the device of this stage. The token embeddings
// are on that of the first one.
bool has_module(const LanguageModel& stage, std::string_view path);

// The stage that has the module; the first one if none has it. REQUIRES: there is a stage.
std::size_t stage_of(std::span<const ModelStage> stages, std::string_view path);

// Copies the modules and full tensors of a stage from an adapter of the whole model, which may be
// on another device, to the stage's; nullopt if it has none. Waits. Errors: those of Adapter.
std::optional<Adapter> part_of_adapter(const Adapter& whole, const LanguageModel& stage);

}  // namespace clora

// AdapterSlots: the adapters that requests may use, by name, and which of them are on the device.
//
// Matrices are kept in host memory. A request selects adapters when it is submitted, which fixes
// their contents: names may be replaced or removed later. While it runs, it holds a slot of the
// device's stacks (model/transformer/adapter_stacks.hpp), into which they are uploaded unless they
// are there already; the slot that was unused longest gives way. Two adapters are combined in one
// slot, as a = [a1; a2], with their factors in bt. Of a model that is divided over several devices,
// each has the matrices of its own blocks.
//
// Threads: select() from any thread, everything else one at a time. Must not outlive the models.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/generation/generation_request.hpp"
#include "clora/model/transformer/model_stage.hpp"
#include "model/generation/host_adapter.hpp"
#include "model/transformer/adapter_stacks.hpp"

namespace clora {

struct AdapterSlotsConfig {
  std::int64_t slots = 0;     // adapters or combinations on the device at once; 0: none is allowed
  std::int64_t max_rank = 0;  // of one, or the sum of a combination
};

// What a request uses: none, one or two adapters with factors.
struct AdapterSelection {
  struct Part {
    std::shared_ptr<const HostAdapter> adapter;
    float scale = 1;
  };
  std::vector<Part> parts = {};
  // Equal for equal contents and factors: what keys and values of a prompt depend on besides the
  // model and the tokens. Zero for none.
  Digest content = {};

  std::int64_t rank() const;  // the sum
};

// What rows of a request have in the table of a pass (RowGroup).
struct AdapterSlot {
  std::uint32_t slot = kNoAdapter;
  std::uint32_t rank = 0;
  float scale = 1;
};

class AdapterSlots {
 public:
  // The adapters of the stages are part of every pass: no added adapter may adapt a layer that they
  // adapt.
  AdapterSlots(std::span<const ModelStage> stages, const AdapterSlotsConfig& config);

  AdapterSlots(LanguageModel& model, const AdapterSlotsConfig& config,
               const Adapter* base_adapter = nullptr)
      : AdapterSlots(std::array{ModelStage{&model, base_adapter}}, config) {}

  // Copies the matrices of an adapter, and allocates the stacks of layers that none has adapted
  // before. A name that exists is replaced for later selections. Errors: invalid_argument for an
  // empty name, a rank above max_rank, values that are huge or not finite, and a layer that the
  // model does not have or that a base adapter adapts; unsupported for layers of experts;
  // out_of_memory.
  void add(const std::string& name, const Adapter& adapter);
  // Errors: invalid_argument if there is none of that name.
  void remove(const std::string& name);
  std::vector<std::string> names() const;  // sorted

  // Errors: invalid_argument for an unknown name, more than two adapters, a rank above max_rank in
  // all, and a factor that is huge or not finite.
  AdapterSelection select(std::span<const AdapterUse> uses) const;

  // Holds a slot with these adapters until release(), uploading them if necessary, which waits for
  // the device. Empty if other requests hold all slots. None takes no slot.
  std::optional<AdapterSlot> acquire(const AdapterSelection& selection);
  // REQUIRES: acquire() returned it.
  void release(const AdapterSlot& slot);

  // For RecordingOptions::stacks of a stage; null if there are no slots.
  const AdapterStacks* stacks(std::size_t stage = 0) const noexcept {
    return stacks_.empty() ? nullptr : &stacks_[stage];
  }
  std::size_t device_bytes() const noexcept;  // of all stages
  std::uint64_t uploads() const noexcept { return uploads_; }

 private:
  struct Slot {
    std::optional<Digest> matrices;  // those that it has
    std::int64_t holders = 0;
    std::uint64_t last_use = 0;
  };
  bool has_copies() const;  // whether any stage's stacks have
  void require_layers(const std::string& name, const Adapter& adapter) const;
  std::shared_ptr<const HostAdapter> find(const std::string& name) const;
  // The slot that has the matrices, or else one that may be overwritten; or null.
  Slot* slot_for(const Digest& matrices);
  void upload(std::int64_t slot, const AdapterSelection& selection);

  std::vector<ModelStage> stages_;
  AdapterSlotsConfig config_;
  std::vector<AdapterStacks> stacks_;  // of each stage, or none
  std::vector<Slot> slots_;
  std::uint64_t clock_ = 0;
  std::uint64_t uploads_ = 0;
  mutable std::mutex mutex_;  // of adapters_
  std::map<std::string, std::shared_ptr<const HostAdapter>> adapters_;
};

}  // namespace clora

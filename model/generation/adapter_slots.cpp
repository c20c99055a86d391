#include "model/generation/adapter_slots.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "model/transformer/adapted_ends.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::size_t kMaxParts = 2;  // of a combination
constexpr double kMaxScale = 1e6;     // of a request

// Slots have only low-rank factors; the base model's tensors are those of all requests.
void refuse_saved_tensors(const std::string& name, const Adapter& adapter) {
  if (adapter.saved_tensors().empty()) return;
  fail(ErrorCode::unsupported,
       "adapter '{}': an adapter with modules or biases trained in full (modules_to_save: {}; "
       "bias: {}) cannot be one of several of an engine; merge it into its base model with clora "
       "fuse, or use it alone with clora generate",
       name, fmt::join(adapter.config().modules_to_save, ", "), name_of(adapter.config().biases));
}

// A slot has the factors of a low-rank term, without factors of columns.
void refuse_magnitudes(const std::string& name, const Adapter& adapter) {
  if (!adapter.config().use_dora) return;
  fail(ErrorCode::unsupported,
       "adapter '{}': an adapter with magnitudes (DoRA) cannot be one of several of an engine; "
       "merge "
       "it into its base model with clora fuse, or use it alone with clora generate",
       name);
}

// Whether a model has experts with a layer of that path.
bool is_of_experts(const LanguageModel& model, std::string_view path) {
  for (const BlockWeights& block : model.blocks()) {
    for (const SubLayerWeights& layer : block) {
      const auto* experts = std::get_if<ExpertsWeights>(&layer.f);
      if (experts == nullptr) continue;
      for (const auto* paths : {&experts->gate.paths, &experts->up.paths, &experts->down.paths}) {
        if (std::ranges::find(*paths, path) != paths->end()) return true;
      }
    }
  }
  return false;
}

template <class T>
void add_value(DigestStream& digest, const T& value) {
  digest.add(std::as_bytes(std::span(&value, 1)));
}

// Digest of parts with their factors.
Digest content_of(std::span<const AdapterSelection::Part> parts) {
  DigestStream digest;
  for (const auto& [adapter, scale] : parts) {
    add_value(digest, adapter->digest.low);
    add_value(digest, adapter->digest.high);
    add_value(digest, scale);
  }
  return digest.digest();
}

// What a slot has for a selection: the factor of a single adapter is that of its rows instead.
Digest matrices_of(const AdapterSelection& selection) {
  const auto& parts = selection.parts;
  return parts.size() == 1 ? parts.front().adapter->digest : selection.content;
}

}  // namespace

std::int64_t AdapterSelection::rank() const {
  std::int64_t sum = 0;
  for (const Part& part : parts) sum += part.adapter->rank;
  return sum;
}

AdapterSlots::AdapterSlots(std::span<const ModelStage> stages, const AdapterSlotsConfig& config)
    : stages_(stages.begin(), stages.end()),
      config_(config),
      slots_(static_cast<std::size_t>(config.slots)) {
  if (config.slots == 0) return;
  for (const ModelStage& stage : stages) {
    stacks_.emplace_back(*stage.model, config.slots, config.max_rank);
  }
}

std::size_t AdapterSlots::device_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const AdapterStacks& stacks : stacks_) bytes += stacks.bytes();
  return bytes;
}

bool AdapterSlots::has_copies() const {
  return std::ranges::any_of(stages_, [](const ModelStage& stage) {
    return AdapterStacks::has_copies(stage.model->context());
  });
}

void AdapterSlots::require_layers(const std::string& name, const Adapter& adapter) const {
  for (const auto& [site, rank, scale, a_offset, bt_offset, magnitude] : adapter.modules()) {
    const ModelStage& stage = stages_[stage_of(stages_, site.path)];
    if (is_of_experts(*stage.model, site.path)) {
      fail(ErrorCode::unsupported,
           "adapter '{}': '{}' is a layer of experts, which have no adapters of single requests; "
           "use it for all requests, as the base adapter",
           name, site.path);
    }
    const Shape w = adapted_shape(*stage.model, site.path);
    require(w[0] == site.outputs && w[1] == site.inputs,
            "adapter '{}': '{}' must have {} inputs and {} outputs, as in the model, got {} and {}",
            name, site.path, w[1], w[0], site.inputs, site.outputs);
    require(rank <= config_.max_rank,
            "adapter '{}': ranks up to {} are configured, '{}' has {}; raise the maximum rank",
            name, config_.max_rank, site.path, rank);
    require(stage.adapter == nullptr || stage.adapter->find(site.path) == nullptr,
            "adapter '{}': the base adapter also adapts '{}'; merge it into the model", name,
            site.path);
  }
}

void AdapterSlots::add(const std::string& name, const Adapter& adapter) {
  require(!name.empty(), "adapters: the name of an adapter must not be empty");
  require(!stacks_.empty(),
          "adapter '{}': adapters of requests need at least one slot on the device, got 0", name);
  refuse_magnitudes(name, adapter);
  refuse_saved_tensors(name, adapter);
  require_layers(name, adapter);
  auto copy = std::make_shared<const HostAdapter>(copy_to_host(name, adapter, has_copies()));
  std::vector<std::vector<std::string>> paths(stages_.size());
  for (const AdapterModule& module : copy->modules) {
    paths[stage_of(stages_, module.site.path)].push_back(module.site.path);
  }
  for (std::size_t i = 0; i < stages_.size(); ++i) stacks_[i].add_layers(paths[i]);
  const std::lock_guard lock(mutex_);
  adapters_[name] = std::move(copy);
}

void AdapterSlots::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  require(adapters_.erase(name) == 1, "adapters: there is none of the name '{}'", name);
}

std::vector<std::string> AdapterSlots::names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, adapter] : adapters_) names.push_back(name);
  return names;
}

std::shared_ptr<const HostAdapter> AdapterSlots::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto at = adapters_.find(name);
  require(at != adapters_.end(), "adapters: there is none of the name '{}'", name);
  return at->second;
}

AdapterSelection AdapterSlots::select(std::span<const AdapterUse> uses) const {
  require(uses.size() <= kMaxParts, "adapters: a request has at most {}, got {}", kMaxParts,
          uses.size());
  AdapterSelection selection;
  for (const auto& [name, scale] : uses) {
    require(std::abs(scale) <= kMaxScale, "adapter '{}': the scale must be from -{} to {}, got {}",
            name, kMaxScale, kMaxScale, scale);
    selection.parts.push_back({find(name), static_cast<float>(scale)});
  }
  if (selection.parts.empty()) return selection;
  require(selection.rank() <= config_.max_rank,
          "adapters: '{}' and '{}' have rank {} together, {} is configured; raise the maximum rank",
          uses.front().name, uses.back().name, selection.rank(), config_.max_rank);
  selection.content = content_of(selection.parts);
  return selection;
}

AdapterSlots::Slot* AdapterSlots::slot_for(const Digest& matrices) {
  const auto has = [&](const Slot& slot) { return slot.matrices == matrices; };
  if (const auto found = std::ranges::find_if(slots_, has); found != slots_.end()) return &*found;
  Slot* oldest = nullptr;
  for (Slot& slot : slots_) {
    if (slot.holders > 0) continue;
    if (oldest == nullptr || slot.last_use < oldest->last_use) oldest = &slot;
  }
  return oldest;
}

std::optional<AdapterSlot> AdapterSlots::acquire(const AdapterSelection& selection) {
  if (selection.parts.empty()) return AdapterSlot{};
  const Digest matrices = matrices_of(selection);
  Slot* const slot = slot_for(matrices);
  if (slot == nullptr) return std::nullopt;
  const std::int64_t number = slot - slots_.data();
  if (slot->matrices != matrices) {
    slot->matrices.reset();  // in case that the upload fails
    upload(number, selection);
    slot->matrices = matrices;
  }
  ++slot->holders;
  slot->last_use = ++clock_;
  const bool is_one = selection.parts.size() == 1;
  return AdapterSlot{.slot = static_cast<std::uint32_t>(number),
                     .rank = static_cast<std::uint32_t>(selection.rank()),
                     .scale = is_one ? selection.parts.front().scale : 1};
}

void AdapterSlots::release(const AdapterSlot& slot) {
  if (slot.slot == kNoAdapter) return;
  require(slot.slot < slots_.size() && slots_[slot.slot].holders > 0,
          "adapters: slot {} is released, but not held", slot.slot);
  --slots_[slot.slot].holders;
  slots_[slot.slot].last_use = ++clock_;
}

void AdapterSlots::upload(std::int64_t slot, const AdapterSelection& selection) {
  ++uploads_;
  std::vector<std::shared_ptr<const HostAdapter>> parts;
  for (const AdapterSelection::Part& part : selection.parts) {
    parts.push_back(selection.parts.size() == 1 ? part.adapter : scaled(part.adapter, part.scale));
  }
  for (AdapterStacks& stacks : stacks_) {
    stacks.write(slot, [&](std::string_view path) {
      std::vector<StackedFactors> factors;
      for (const auto& part : parts) factors.push_back(part->factors(path));
      return factors;
    });
  }
}

}  // namespace clora

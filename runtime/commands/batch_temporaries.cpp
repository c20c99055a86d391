#include "runtime/commands/batch_temporaries.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace clora {

Tensor BatchTemporaries::add(Shape shape, DType type, std::string_view name) {
  auto storage = std::make_shared<Storage>();
  storage->bytes = bytes_of(type, static_cast<std::size_t>(shape.elements()));
  storage->name = name;
  storages_.push_back(storage);
  return Tensor(std::move(storage), shape, type);
}

void BatchTemporaries::find_lifetimes(const std::vector<Command>& commands) {
  std::unordered_map<const Storage*, std::size_t> index;
  lifetimes_.resize(storages_.size());
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    index[storages_[i].get()] = i;
    lifetimes_[i] = {storages_[i]->bytes, commands.size(), 0, storages_[i]->name};
  }
  for (std::size_t c = 0; c < commands.size(); ++c) {
    for (const Tensor& tensor : tensors_of(commands[c])) {
      const auto found = index.find(tensor.storage().get());
      if (found == index.end()) continue;
      Lifetime& lifetime = lifetimes_[found->second];
      lifetime.first = std::min(lifetime.first, c);
      lifetime.last = std::max(lifetime.last, c);
    }
  }
  // A temporary that no command uses gets the lifetime of command 0 alone.
  for (Lifetime& lifetime : lifetimes_) lifetime.first = std::min(lifetime.first, lifetime.last);
}

void BatchTemporaries::place(Context& context, const std::vector<Command>& commands,
                             std::vector<std::shared_ptr<const Buffer>>& chunks) {
  find_lifetimes(commands);
  const Device& device = context.device();
  const bool apart = !context.config().sub_allocate;
  plan_ = apart ? plan_apart(lifetimes_)
                : plan_memory(lifetimes_, device.base_alignment_bytes, device.max_allocation_bytes);
  for (std::size_t c = 0; c < plan_.chunk_bytes.size(); ++c) {
    if (chunks.size() <= c) chunks.emplace_back();
    const std::size_t has = chunks[c] == nullptr ? 0 : chunks[c]->bytes();
    if (apart ? has == plan_.chunk_bytes[c] : has >= plan_.chunk_bytes[c]) continue;
    chunks[c].reset();  // free the smaller block before allocating
    chunks[c] = std::make_shared<const Buffer>(
        context.pool().allocate(plan_.chunk_bytes[c], MemoryTag::activations));
    if (apart) continue;  // for tools that track initialised values: a fill would count as one
    context.transfers().commit(*chunks[c], MemoryTag::activations);
  }
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    const Place place = plan_.placements[i];
    storages_[i]->buffer = chunks[place.chunk];
    storages_[i]->mem = chunks[place.chunk]->handle();
    storages_[i]->origin = chunks[place.chunk]->offset_bytes() + place.offset;
  }
}

std::size_t BatchTemporaries::planned_bytes() const {
  std::size_t sum = 0;
  for (const std::size_t bytes : plan_.chunk_bytes) sum += bytes;
  return sum;
}

std::size_t BatchTemporaries::live_bytes(const Device& device) const {
  return peak_live_bytes(lifetimes_, device.base_alignment_bytes);
}

std::string BatchTemporaries::text() const {
  std::string text;
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    const Lifetime& life = lifetimes_[i];
    const Place& place = plan_.placements[i];
    text += fmt::format("{:<24} {:>12} bytes, commands {:>5} to {:>5}, block {} at {}\n",
                        storages_[i]->name, life.bytes, life.first, life.last, place.chunk,
                        place.offset);
  }
  return text;
}

}  // namespace clora

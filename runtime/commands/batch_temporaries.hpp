// The temporaries of a Batch: the tensors it has returned, their lifetimes and their locations. For
// batch.cpp.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "clora/runtime/commands/batch.hpp"
#include "runtime/commands/commands.hpp"

namespace clora {

class BatchTemporaries {
 public:
  Tensor add(Shape shape, DType type, std::string_view name);

  // Assigns each temporary a location in the arena's blocks and grows the arena if needed. Errors:
  // out_of_memory, device.
  void place(Context& context, const std::vector<Command>& commands,
             std::vector<std::shared_ptr<const Buffer>>& chunks);

  // REQUIRES for all of these: placed.
  std::size_t planned_bytes() const;
  std::size_t live_bytes(const Device& device) const;
  std::string text() const;

 private:
  void find_lifetimes(const std::vector<Command>& commands);

  std::vector<std::shared_ptr<Storage>> storages_;
  std::vector<Lifetime> lifetimes_;
  MemoryPlan plan_;
};

}  // namespace clora

#include "ops/dispatch/co_resident_groups.hpp"

#include <atomic>

#include "ops/dispatch/ops_state.hpp"
#include "runtime/device/device_capabilities.hpp"

namespace clora {
namespace {

// The holder, if any, whose launches with a grid barrier may use pocl's threads. Two such launches
// could each occupy some threads and wait for the rest; other launches finish without waiting and
// only delay them.
constinit std::atomic<const void*> threads_holder{nullptr};

// Reserves pocl's threads for a Context; its destruction with the Context releases them.
class ThreadsHold {
 public:
  ThreadsHold() = default;
  ~ThreadsHold() {
    const void* mine = this;
    threads_holder.compare_exchange_strong(mine, nullptr);
  }
  ThreadsHold(const ThreadsHold&) = delete;
  ThreadsHold& operator=(const ThreadsHold&) = delete;

  bool take() {
    const void* holder = nullptr;
    return threads_holder.compare_exchange_strong(holder, this) || holder == this;
  }
};

}  // namespace

std::uint32_t co_resident_groups(const CoResidencyFacts& facts) {
  const bool may = facts.capabilities.grid_barrier && !facts.adopted && !facts.shares_units;
  return may ? facts.compute_units : 0;
}

CoResidencyFacts facts_of(const Context& context) {
  const Device& device = context.device();
  return {.capabilities = context.capabilities(),
          .compute_units = device.compute_units,
          .adopted = device.index < 0,
          .shares_units = processes_share_units(device)};
}

std::uint32_t co_resident_groups(Context& context) {
  const Device& device = context.device();
  const std::uint32_t groups = co_resident_groups(facts_of(context));
  if (groups == 0 || device.kind != DeviceKind::cpu) return groups;
  return ops_state<ThreadsHold>(context).take() ? groups : 0;
}

}  // namespace clora

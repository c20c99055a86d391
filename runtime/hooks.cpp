#include "clora/runtime/hooks.hpp"

#include <array>

namespace clora {
namespace {

template <class Hook, class... Args>
void call(const Hook& hook, const Args&... arguments) noexcept {
  if (!hook) return;
  try {
    hook(arguments...);
  } catch (...) {  // the contract of Hooks: logging cannot fail the work
  }
}

}  // namespace

std::string_view name_of(LogLevel level) {
  constexpr std::array<std::string_view, 4> names{"debug", "info", "warning", "error"};
  return names.at(static_cast<std::size_t>(level));
}

void Hooks::log_message(LogLevel level, std::string_view message) const noexcept {
  call(log, level, message);
}

void Hooks::count(const AllocationEvent& event) const noexcept { call(allocation, event); }

void Hooks::measure(std::string_view name, double value) const noexcept {
  call(metric, name, value);
}

void Hooks::report(const ProgramBuild& event) const noexcept { call(build, event); }

}  // namespace clora

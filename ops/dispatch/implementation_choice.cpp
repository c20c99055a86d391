#include "ops/dispatch/implementation_choice.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "ops/dispatch/families.hpp"
#include "ops/dispatch/ops_state.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

struct ChoiceState {
  std::optional<std::vector<ForcedImplementation>> forced;  // empty: not parsed yet
  ChoiceLog* log = nullptr;
};

ChoiceState& state_of(Context& context) { return ops_state<ChoiceState>(context); }

bool runs_self_test(Context& context) {
  return makes_reference(context) || tests_fast_kernel(context);
}

std::string_view forced_for(Context& context, ChoiceState& state, std::string_view family) {
  if (!state.forced) state.forced = forced_implementations(context.config().implementations);
  const auto found = std::ranges::find(*state.forced, family, &ForcedImplementation::family);
  return found == state.forced->end() ? std::string_view() : found->name;
}

ForcedImplementation forced_of(std::string_view item) {
  const std::size_t colon = item.find(':');
  require(colon != std::string_view::npos && colon > 0 && colon + 1 < item.size(),
          "implementations: '{}' must be FAMILY:NAME, such as gemm:portable", item);
  const std::string_view family = item.substr(0, colon);
  require(std::ranges::find(op_families(), family) != op_families().end(),
          "implementations: there is no family '{}'; the families are {}", family,
          fmt::join(op_families(), ", "));
  return {std::string(family), std::string(item.substr(colon + 1))};
}

}  // namespace

std::vector<ForcedImplementation> forced_implementations(std::string_view text) {
  std::vector<ForcedImplementation> all;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const ForcedImplementation item = forced_of(text.substr(0, comma));
    require(std::ranges::find(all, item.family, &ForcedImplementation::family) == all.end(),
            "implementations: {} is given twice", item.family);
    all.push_back(item);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return all;
}

ChoiceLog::ChoiceLog(Context& context) : context_(context) { state_of(context).log = this; }
ChoiceLog::~ChoiceLog() { state_of(context_).log = nullptr; }

ImplementationChoice::ImplementationChoice(Context& context, std::string_view family)
    : family_(family) {
  ChoiceState& state = state_of(context);
  if (state.log == nullptr && context.config().implementations.empty()) return;
  if (runs_self_test(context)) return;
  log_ = state.log;
  forced_ = forced_for(context, state, family);
  made_.family = family;
}

void ImplementationChoice::note(std::string_view name, std::string_view file, const char* reason) {
  if (reason != nullptr) reason_ = reason;
  if (log_ == nullptr) return;
  made_.considered.push_back(
      {std::string(name), std::string(file), reason == nullptr ? "" : reason});
  if (reason == nullptr) log_->choices_.push_back(made_);
}

void ImplementationChoice::fail(std::span<const std::string_view> all,
                                std::span<const std::string_view> valid) const {
  const bool exists = std::ranges::find(all, forced_) != all.end();
  clora::fail(
      ErrorCode::invalid_argument,
      "implementations: {}:{} {}; {} {}; change CLORA_IMPL or ContextConfig::implementations",
      family_, forced_, exists ? fmt::format("cannot be used here: {}", reason_) : "does not exist",
      exists ? "those that support this problem are" : "those of the family are",
      fmt::join(exists ? valid : all, ", "));
}

}  // namespace clora

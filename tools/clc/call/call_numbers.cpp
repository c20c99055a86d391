#include "tools/clc/call/call_numbers.hpp"

#include "tools/clc/call/argument_matching.hpp"
#include "tools/clc/call/call_options.hpp"

namespace clora {
namespace {

// The arguments under the kernel's names; the call may address them by position.
std::vector<CallArgument> named_arguments(const KernelCall& call) {
  const KernelReport& kernel = call.kernel();
  const auto given = matched_arguments(kernel, call.spec().arguments);
  std::vector<CallArgument> named;
  for (std::size_t i = 0; i < given.size(); ++i) {
    named.push_back(*given[i]);
    if (!kernel.arguments[i].name.empty()) named.back().name = kernel.arguments[i].name;
  }
  return named;
}

}  // namespace

Variables call_numbers(const KernelCall& call) {
  return call_variables(call.spec().options, named_arguments(call));
}

NamedNumbers call_sizes(const KernelCall& call) {
  NamedNumbers sizes;
  const Variables numbers = call_variables({}, named_arguments(call));
  for (const KernelArgument& argument : call.kernel().arguments) {
    const auto type = element_type(argument.type);
    const auto number = numbers.find(argument.name);
    if (!type || is_float(*type) || number == numbers.end() || number->second <= 0) continue;
    sizes[argument.name] = static_cast<std::int64_t>(number->second);
  }
  return sizes;
}

}  // namespace clora

// Matches the arguments of a call with those of a kernel: each gets its position, and its type is
// checked. All functions throw UsageError with the argument's position, name and type. Pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "runtime/programs/program_report.hpp"
#include "tools/clc/call/array_spec.hpp"

namespace clora {

// The kernel of that name, or the only kernel if `name` is empty.
const KernelReport& kernel_named(const ProgramReport& program, const std::string& name,
                                 const std::string& file);

// The argument of the call for each argument of the kernel, matched by name or position.
std::vector<const CallArgument*> matched_arguments(const KernelReport& kernel,
                                                   const std::vector<CallArgument>& given);

// "argument 2 'n' (int)"
std::string argument_text(const KernelReport& kernel, std::size_t i);

// Checks that the kernel expects an array, and that `type` fits its pointer type: floats must match
// exactly; integers must have the same size, signed or unsigned, with bf16 and f16 as 16-bit
// patterns; pointers to bytes, void and user-defined types accept any type.
void require_array_fits(const KernelReport& kernel, std::size_t i, ElementType type);

// Checks that the kernel expects memory of any type. `given` describes the argument in the message.
void require_pointer(const KernelReport& kernel, std::size_t i, std::string_view given);

// Checks that the kernel expects local memory.
void require_local(const KernelReport& kernel, std::size_t i);

// The bytes of a value in the kernel's argument type.
ValueBytes value_bytes(const KernelReport& kernel, std::size_t i, const ScalarSpec& value);

}  // namespace clora

// The arguments of a call brought to those of a kernel: each has its place, and its type fits.
// Errors of all: UsageError, with the argument's position, name and type. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "runtime/program_report.hpp"
#include "tools/clc/array_spec.hpp"

namespace clora {

// The kernel of that name; the only one where the name is empty.
const KernelReport& kernel_named(const ProgramReport& program, const std::string& name,
                                 const std::string& file);

// For each argument of the kernel that of the call, by name or position.
std::vector<const CallArgument*> matched_arguments(const KernelReport& kernel,
                                                   const std::vector<CallArgument>& given);

// "argument 2 'n' (int)"
std::string argument_text(const KernelReport& kernel, std::size_t i);

// Whether an array is given where one is wanted, of elements that the kernel's pointer can be to:
// floats of its very type; integers of its size, signed or not, bf16 and f16 as the bits of 16; and
// anything for bytes, void and types that are the program's own.
void require_array_fits(const KernelReport& kernel, std::size_t i, ElementType type);

// Whether memory of any type may be given; given: what is, for the message.
void require_pointer(const KernelReport& kernel, std::size_t i, std::string_view given);

// Whether local memory is given where it is wanted.
void require_local(const KernelReport& kernel, std::size_t i);

// A value's bytes as the kernel takes them.
ValueBytes value_bytes(const KernelReport& kernel, std::size_t i, const ScalarSpec& value);

}  // namespace clora

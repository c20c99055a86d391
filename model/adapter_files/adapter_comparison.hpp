// Whether two adapters compute the same. Private to clora's commands and tests. Pure functions;
// thread-safe.
#pragma once

#include "clora/lora/adapter_values.hpp"

namespace clora {

// Returns the largest |s1 B1 - s2 B2| of a module, relative to the largest |s1 B1| of that module;
// 0 for adapters that compute the same bits. Rows of A and columns of B beyond a rank count as
// zeros, modules of `copy` alone must be zero. Errors: invalid_data, naming the module, if A,
// magnitudes or tensors trained in full differ, or one is missing.
double largest_difference(const AdapterValues& original, const AdapterValues& copy);

}  // namespace clora

// The initial adapter of the float64 LoRA run of the reference values.
#pragma once

#include "clora/lora/adapter.hpp"

namespace clora::test {

// a[i, j] = 0.02 sin(0.37 i + 0.11 j + layer), b = 0. REQUIRES: every linear layer of every block
// has a module, in the order of adapter_sites().
void fill_reference_adapter(const Adapter& adapter);

}  // namespace clora::test

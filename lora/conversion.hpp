// Conversion of adapters whose initialisation changed the base model's weights: PiSSA (Meng et al.,
// 2024), OLoRA (Buyukakyuz, 2024), CorDA (Yang et al., 2024) and LoRA-GA (Wang et al., 2024).
//
// Such a training begins with w0 = w - scale * b0 a0, so that the trained adapter b a belongs to
// w0: w0 + scale * b a = w + scale * (b a - b0 a0). The last term is a plain adapter of w, of twice
// the rank, which PEFT computes in the same way (LoraModel.subtract_mutated_init, 0.21). PEFT
// rounds w0 to the type of w; the conversion is for w0 before that. Pure functions except for
// files; thread-safe.
#pragma once

#include <filesystem>

#include "clora/lora/adapter_matrices.hpp"

namespace clora {

// Returns scale * (b a - b0 a0) in every module, with scale 1. `trained`: a folder whose
// init_lora_weights is one of these initialisations. `initial`: the folder of the same adapter as
// it was saved before the first step. Errors: those of read_adapter_matrices() for both;
// unsupported if `trained` needs no conversion; invalid_argument, naming the module, if the two
// differ in their modules, ranks or scales.
AdapterMatrices converted_adapter(const std::filesystem::path& trained,
                                  const std::filesystem::path& initial);

}  // namespace clora

// cl/gemm/gemm.cl: products for any device. A tile from the tuned tables takes precedence over the
// plan's (ops/gemm/gemm_portable_plan.hpp).
#pragma once

#include <cstdint>

#include "ops/gemm/gemm_portable_plan.hpp"

namespace clora {

// Records the problems with a given plan. REQUIRES: plan.tile.fits(device).
void record_gemm_portable(Batch& batch, GemmPortableProblems problems,
                          const GemmPortablePlan& plan);

// Whether record_gemm_portable_group() supports these problems, and one launch is as fast as one
// for each of them. Their shrinks are computed in a launch before, also those of a sum.
bool gemm_portable_can_group(const Context& context, GemmPortableProblems problems);
void record_gemm_portable_group(Batch& batch, GemmPortableProblems problems);

// Sets UNROLL_STEPS of cl/gemm/register_tile.clh for tiles of `steps` steps, for the device's
// compiler.
void set_unrolling(Defines& defines, const Device& device, std::uint32_t steps);

}  // namespace clora

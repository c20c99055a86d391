// The self-test of a GPU's matrix unit itself: cl/matrix/matrix_unit_check.cl against its
// emulation. It runs before the first kernel over cl/matrix, so that a driver without the unit's
// built-in functions, or with other registers than documented, costs one warning and not one for
// each program. Threads: those of the Context.
#pragma once

#include "ops/dispatch/matrix_unit_defines.hpp"
#include "ops/dispatch/variant_dispatch.hpp"

namespace clora {

// Whether kernels may use the unit of this Context. REQUIRES: matrix_unit_of(context) is not empty.
bool matrix_unit_passed(Context& context);

// Records the check on the inputs of the self-test; an emulated unit if the self-test makes its
// reference.
void record_matrix_unit_check(SelfTest& test, MatrixUnitChoice unit);

}  // namespace clora

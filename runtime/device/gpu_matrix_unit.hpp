// The matrix unit of a GPU, by what its driver reports. Reported does not mean usable: a driver may
// lack the built-in functions, which the self-test of the unit detects.
#pragma once

#include <string_view>

#include "clora/runtime/device/device.hpp"

namespace clora {

// REQUIRES: id, platform, name and vendor are set.
MatrixUnit gpu_matrix_unit_of(const Device& device);

// The unit of AMD's processor with that name: "gfx90a", "gfx942:sramecc+:xnack-", "gfx1100". Other
// names have none.
MatrixUnit amd_matrix_unit_of(std::string_view processor);

}  // namespace clora

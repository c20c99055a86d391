// The names of the library's error codes, which are the values of clora.ErrorCode.
#pragma once

#include "clora/runtime/error.hpp"

namespace clora::python {

// "invalid_argument"
const char* name_of_code(ErrorCode code);

}  // namespace clora::python

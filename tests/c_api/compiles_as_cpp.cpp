// clora.h is valid C++ as well, before and after OpenCL's own header.
#include "model/c_api/clora.h"

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include "model/c_api/clora.h"

#include <type_traits>

static_assert(std::is_same_v<decltype(clora_forward_target::logits), cl_mem>);
static_assert(std::is_trivial_v<clora_context_options> &&
              std::is_standard_layout_v<clora_context_options>);

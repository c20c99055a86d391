// The OpenCL handle types as opaque pointers, so public headers can name them without <CL/cl.h>.
#pragma once

// NOLINTBEGIN(bugprone-reserved-identifier): these names are those of OpenCL's own headers.
struct _cl_platform_id;
struct _cl_device_id;
struct _cl_context;
struct _cl_command_queue;
struct _cl_mem;
struct _cl_event;

using cl_platform_id = _cl_platform_id*;
using cl_device_id = _cl_device_id*;
using cl_context = _cl_context*;
using cl_command_queue = _cl_command_queue*;
using cl_mem = _cl_mem*;
using cl_event = _cl_event*;
// NOLINTEND(bugprone-reserved-identifier)

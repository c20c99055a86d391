// Errors of the library as exceptions: clora.Error, with the library's code.
#include <exception>

#include "python/src/bindings.hpp"
#include "python/src/error_codes.hpp"

namespace nb = nanobind;

namespace clora::python {
namespace {

// The class and the object are made in Python (clora/errors.py), where their documentation is.
void set_python_error(const Error& error) {
  const nb::object made =
      nb::module_::import_("clora.errors")
          .attr("error_of")(name_of_code(error.code()), error.what(), error.opencl_status());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
}

}  // namespace

const char* name_of_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::invalid_file:
      return "invalid_file";
    case ErrorCode::invalid_data:
      return "invalid_data";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::io:
      return "io";
    case ErrorCode::no_device:
      return "no_device";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::build_failed:
      return "build_failed";
    case ErrorCode::device:
      return "device";
    case ErrorCode::device_lost:
      return "device_lost";
    case ErrorCode::diverged:
      return "diverged";
    case ErrorCode::cancelled:
      return "cancelled";
  }
  return "device";
}

void bind_errors(nb::module_& /*module*/) {
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void*) {
        try {
          std::rethrow_exception(pointer);
        } catch (const Error& error) {
          set_python_error(error);
        }
      },
      nullptr);
}

}  // namespace clora::python

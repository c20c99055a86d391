#include "model/c_api/boundary.hpp"

#include <exception>
#include <new>
#include <string>

#include "runtime/fail.hpp"

namespace clora::c_api {
namespace {

// No struct of clora will be this large, so a larger size was never set.
constexpr std::size_t kLargestStruct = 65536;

struct LastError {
  std::string message;
  const char* fixed = "";  // shown instead if there was no memory for the message
  int opencl_status = 0;
};
thread_local LastError last_error;

clora_status remember(clora_status status, const char* message, int opencl_status) noexcept {
  last_error.opencl_status = opencl_status;
  last_error.fixed = nullptr;
  try {
    last_error.message = message;
  } catch (...) {
    last_error.fixed = "clora: an error occurred, but there is no memory for its message";
  }
  return status;
}

}  // namespace

clora_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return CLORA_INVALID_ARGUMENT;
    case ErrorCode::invalid_file:
      return CLORA_INVALID_FILE;
    case ErrorCode::invalid_data:
      return CLORA_INVALID_DATA;
    case ErrorCode::unsupported:
      return CLORA_UNSUPPORTED;
    case ErrorCode::not_found:
      return CLORA_NOT_FOUND;
    case ErrorCode::io:
      return CLORA_IO;
    case ErrorCode::no_device:
      return CLORA_NO_DEVICE;
    case ErrorCode::out_of_memory:
      return CLORA_OUT_OF_MEMORY;
    case ErrorCode::build_failed:
      return CLORA_BUILD_FAILED;
    case ErrorCode::device:
      return CLORA_DEVICE;
    case ErrorCode::device_lost:
      return CLORA_DEVICE_LOST;
    case ErrorCode::diverged:
      return CLORA_DIVERGED;
    case ErrorCode::cancelled:
      return CLORA_CANCELLED;
  }
  return CLORA_INTERNAL;
}

clora_status status_of_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return remember(status_of(error.code()), error.what(), error.opencl_status());
  } catch (const std::bad_alloc&) {
    return remember(CLORA_OUT_OF_MEMORY, "clora: the host is out of memory", 0);
  } catch (const std::exception& error) {
    return remember(CLORA_INTERNAL, error.what(), 0);
  } catch (...) {
    return remember(CLORA_INTERNAL, "clora: an unknown error", 0);
  }
}

void require_given(const void* pointer, std::string_view who, std::string_view name) {
  require(pointer != nullptr, "{}: {} must not be NULL", who, name);
}

void require_size(std::size_t given, std::size_t known, std::string_view who) {
  require(given >= sizeof(std::size_t) && given <= kLargestStruct,
          "{}: the struct's size must be set by its _init function ({} bytes here), got {}", who,
          known, given);
}

void require_zero_beyond(const void* given, std::size_t size, std::size_t known,
                         std::string_view who) {
  const auto* bytes = static_cast<const unsigned char*>(given);
  for (std::size_t i = known; i < size; ++i) {
    if (bytes[i] == 0) continue;
    fail(ErrorCode::unsupported,
         "{}: the struct sets a field at byte {} that this library (version {}) does not support; "
         "leave it 0 or link a newer clora",
         who, i, clora_version_text());
  }
}

}  // namespace clora::c_api

using clora::c_api::last_error;

int32_t clora_version(void) { return CLORA_VERSION; }

#define CLORA_TEXT_OF(value) #value
#define CLORA_DOTTED(major, minor, patch) \
  CLORA_TEXT_OF(major) "." CLORA_TEXT_OF(minor) "." CLORA_TEXT_OF(patch)
const char* clora_version_text(void) {
  return CLORA_DOTTED(CLORA_VERSION_MAJOR, CLORA_VERSION_MINOR, CLORA_VERSION_PATCH);
}

const char* clora_status_text(clora_status status) {
  static constexpr const char* kTexts[] = {
      "ok",        "invalid argument", "invalid file", "invalid data",  "unsupported",
      "not found", "input or output",  "no device",    "out of memory", "build failed",
      "device",    "device lost",      "diverged",     "cancelled",     "internal"};
  const auto index = static_cast<std::size_t>(status);
  return index < std::size(kTexts) ? kTexts[index] : "unknown status";
}

const char* clora_last_error(void) {
  return last_error.fixed != nullptr ? last_error.fixed : last_error.message.c_str();
}

int32_t clora_last_opencl_status(void) { return last_error.opencl_status; }

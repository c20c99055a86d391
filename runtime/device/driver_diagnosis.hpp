// Explains why there is no OpenCL device: which drivers the ICD loader finds, whether they load,
// and why they have no device. Reads the environment and the files that the loader reads.
// Threads: as list_devices().
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace clora {

// Where drivers are registered if no environment variable names another path.
inline constexpr const char* kDefaultDriverFolder = "/etc/OpenCL/vendors";

// A driver that is registered with the ICD loader.
struct RegisteredDriver {
  std::filesystem::path file;  // /etc/OpenCL/vendors/pocl.icd; empty if only a library is named
  std::string library;         // the line in the file; empty if it has none
};

// Returns the drivers named by OCL_ICD_VENDORS, OPENCL_VENDOR_PATH or, without them, in
// kDefaultDriverFolder, in name order. Loads no library.
std::vector<RegisteredDriver> registered_drivers();

// The variable that names them: OCL_ICD_VENDORS, OPENCL_VENDOR_PATH, or empty.
std::string variable_of_drivers();

// "/opt/vendors (named by OCL_ICD_VENDORS)": the path that names the drivers, for messages.
std::string path_of_drivers();

// Loads the library and returns why it does not load; empty if it does.
std::string load_problem(const std::string& library);

// Loads the driver and returns why it cannot be used, as a sentence that names it; empty if it
// loads.
std::string driver_problem(const RegisteredDriver& driver);

// The folder in which pocl caches kernels; without write access to it, pocl has no device.
std::filesystem::path pocl_cache_folder();

// A platform that has no device.
struct EmptyPlatform {
  std::string name;
  int status = 0;  // of clGetDeviceIDs
};

// Returns one sentence: what is missing and what to do. `platforms`: all existing platforms.
std::string why_no_device(const std::vector<EmptyPlatform>& platforms);

// "; PROBLEM" for each registered driver that does not load; empty if all load.
std::string drivers_that_do_not_load();

}  // namespace clora

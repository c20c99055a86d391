// Explains why there is no OpenCL device: which drivers the ICD loader finds, whether they load,
// and why they have no device. Reads the environment and the files that the loader reads.
// Threads: as list_devices().
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace clora {

// A driver that is registered with the ICD loader.
struct RegisteredDriver {
  std::filesystem::path file;  // /etc/OpenCL/vendors/pocl.icd; empty if only a library is named
  std::string library;         // the line in the file
  std::string problem;         // why the library does not load; empty: it loads
};

// Returns the drivers named by OCL_ICD_VENDORS, OPENCL_VENDOR_PATH or, without them,
// /etc/OpenCL/vendors, in name order. Loads the libraries.
std::vector<RegisteredDriver> registered_drivers();

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

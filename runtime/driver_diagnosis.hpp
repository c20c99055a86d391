// Why there is no OpenCL device: which drivers the ICD loader finds, whether they load, and what
// keeps them from having a device. Reads the environment and the files that the loader reads.
// Threads: as list_devices().
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace clora {

// A driver that is registered with the ICD loader.
struct RegisteredDriver {
  std::filesystem::path file;  // /etc/OpenCL/vendors/pocl.icd; empty where a library is named alone
  std::string library;         // the line in it
  std::string problem;         // why the library does not load; empty: it does
};

// What OCL_ICD_VENDORS, OPENCL_VENDOR_PATH or, without them, /etc/OpenCL/vendors name, in the order
// of their names. Loads the libraries.
std::vector<RegisteredDriver> registered_drivers();

// A platform that has no device.
struct EmptyPlatform {
  std::string name;
  int status = 0;  // of clGetDeviceIDs
};

// One sentence: what is missing, and what to do. `platforms`: all that there are.
std::string why_no_device(const std::vector<EmptyPlatform>& platforms);

// "; PROBLEM" for each registered driver that does not load; empty where all do.
std::string drivers_that_do_not_load();

}  // namespace clora

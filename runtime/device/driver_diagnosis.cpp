#include "clora/runtime/device/driver_diagnosis.hpp"

#include <fmt/format.h>

#include <dlfcn.h>

#include <algorithm>
#include <fstream>
#include <string_view>
#include <system_error>

#include "clora/runtime/device/device.hpp"
#include "runtime/device/opencl.hpp"
#include "runtime/environment_variable.hpp"
#include "runtime/files/disk_space.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPackages =
    "Debian packages: pocl-opencl-icd (every CPU), intel-opencl-icd (Intel GPUs), mesa-opencl-icd "
    "(AMD GPUs) and nvidia-opencl-icd (NVIDIA GPUs, non-free)";

// The path where drivers are registered, and the environment variable that sets it; empty if none
// does.
struct Registry {
  fs::path path;
  std::string variable;
};

Registry registry() {
  for (const char* name : {"OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH"}) {
    if (const std::string path = environment_variable(name); !path.empty()) return {path, name};
  }
  return {kDefaultDriverFolder, ""};
}

// Follows the loaders of ocl-icd and Khronos: OCL_ICD_VENDORS is a folder, a library, or an .icd
// file, which is searched for in the default folder first.
std::vector<fs::path> registered_files(const fs::path& path) {
  std::error_code ignored;
  if (path.has_parent_path() && !fs::exists(path, ignored)) return {};
  if (!fs::is_directory(path, ignored)) {
    const fs::path usual = kDefaultDriverFolder / path;
    return {!path.has_parent_path() && fs::exists(usual, ignored) ? usual : path};
  }
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".icd") files.push_back(at->path());
  }
  std::ranges::sort(files);
  return files;
}

RegisteredDriver driver_of(const fs::path& file) {
  if (file.extension() != ".icd") return {{}, file.string()};
  RegisteredDriver driver{.file = file, .library = {}};
  std::ifstream stream(file);
  std::getline(stream, driver.library);
  return driver;
}

std::string reason_of(const EmptyPlatform& platform) {
  if (platform.name == kPoclPlatform) {
    const fs::path cache = pocl_cache_folder();
    if (!could_write(cache)) {
      return fmt::format(
          "pocl cannot write its cache folder {}; set CLORA_CACHE_DIR, HOME or POCL_CACHE_DIR to a "
          "folder that this user can write to",
          cache.string());
    }
    if (const std::string only = environment_variable("POCL_DEVICES"); !only.empty()) {
      return fmt::format(
          "pocl supports none of the devices in POCL_DEVICES='{}'; unset it or set it to 'pthread'",
          only);
    }
  }
  return fmt::format(
      "the driver of '{}' loads but finds no device ({}); check that the device is visible to this "
      "process: the files in /dev (nvidia*, dri/renderD*), this user's permissions for them and, "
      "in a container, the devices passed to it",
      platform.name, opencl_status_text(platform.status));
}

std::string why_no_platform() {
  const std::vector<RegisteredDriver> drivers = registered_drivers();
  if (drivers.empty()) {
    return fmt::format("no driver is installed: there is no .icd file in {}; install one: {}",
                       path_of_drivers(), kPackages);
  }
  std::string problems;
  for (const RegisteredDriver& driver : drivers) {
    const std::string problem = driver_problem(driver);
    if (!problem.empty()) problems += (problems.empty() ? "" : "; ") + problem;
  }
  if (!problems.empty()) {
    return fmt::format(
        "{}; reinstall the package that provides the library, or install another driver: {}",
        problems, kPackages);
  }
  return fmt::format(
      "the driver {} of {} loads but finds no device; check that its device is visible to this "
      "process, or install another driver: {}",
      drivers.front().library, path_of_drivers(), kPackages);
}

}  // namespace

std::string load_problem(const std::string& library) {
  if (void* handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    ::dlclose(handle);
    return {};
  }
  const char* reason = ::dlerror();
  return reason == nullptr ? "it cannot be loaded" : reason;
}

std::string driver_problem(const RegisteredDriver& driver) {
  if (driver.library.empty()) {
    const bool readable = std::ifstream(driver.file).good();
    return fmt::format("{}: {}", driver.file.string(),
                       readable ? "the file names no library" : "the file cannot be read");
  }
  const std::string problem = load_problem(driver.library);
  if (problem.empty()) return {};
  if (driver.file.empty()) return fmt::format("{} does not load: {}", driver.library, problem);
  return fmt::format("{} names {}, which does not load: {}", driver.file.string(), driver.library,
                     problem);
}

fs::path pocl_cache_folder() {
  if (const std::string folder = environment_variable("POCL_CACHE_DIR"); !folder.empty())
    return folder;
  if (const std::string user = environment_variable("XDG_CACHE_HOME"); !user.empty()) {
    return fs::path(user) / "pocl/kcache";
  }
  const std::string home = environment_variable("HOME");
  return home.empty() ? fs::path("/tmp/pocl/kcache") : fs::path(home) / ".cache/pocl/kcache";
}

std::string path_of_drivers() {
  const Registry from = registry();
  return from.variable.empty() ? from.path.string()
                               : fmt::format("{} (named by {})", from.path.string(), from.variable);
}

std::string variable_of_drivers() { return registry().variable; }

std::vector<RegisteredDriver> registered_drivers() {
  std::vector<RegisteredDriver> drivers;
  for (const fs::path& file : registered_files(registry().path)) drivers.push_back(driver_of(file));
  return drivers;
}

std::string why_no_device(const std::vector<EmptyPlatform>& platforms) {
  std::string reasons;
  for (const EmptyPlatform& platform : platforms) {
    reasons += (reasons.empty() ? "" : "; ") + reason_of(platform);
  }
  return "no OpenCL device: " +
         (reasons.empty() ? why_no_platform() : reasons + drivers_that_do_not_load());
}

std::string drivers_that_do_not_load() {
  std::string text;
  for (const RegisteredDriver& driver : registered_drivers()) {
    const std::string problem = driver_problem(driver);
    if (!problem.empty()) text += "; " + problem;
  }
  return text;
}

}  // namespace clora

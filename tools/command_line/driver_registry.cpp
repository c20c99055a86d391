#include "tools/command_line/driver_registry.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <vector>

#include "clora/runtime/device/driver_diagnosis.hpp"
#include "clora/runtime/error.hpp"
#include "clora/runtime/files/file.hpp"
#include "runtime/files/private_folder.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariable = "OCL_ICD_VENDORS";

// One .icd file per library, and nothing else.
void write_registry(const fs::path& folder, const std::set<std::string>& libraries) {
  make_private_folder(folder);
  std::set<fs::path> written;
  for (const std::string& library : libraries) {
    const fs::path file = folder / (fs::path(library).filename().string() + ".icd");
    write_file_atomically(file, library + "\n");
    written.insert(file);
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!written.contains(entry.path())) fs::remove(entry.path());
  }
}

}  // namespace

fs::path own_registry(const fs::path& cache_folder) { return cache_folder / "vendors"; }

bool is_registered(const InstalledDriver& driver) {
  const std::string name = fs::path(driver.library).filename().string();
  const std::string stem = name.substr(0, name.find(".so"));
  return std::ranges::any_of(registered_drivers(), [&](const RegisteredDriver& other) {
    return other.library.find(stem) != std::string::npos;
  });
}

bool register_installed_driver(const InstalledDriver& driver, const fs::path& cache_folder) {
  std::error_code ignored;
  const bool has_device = fs::exists(driver.device, ignored);
  if (!has_device || cache_folder.empty() || !variable_of_drivers().empty()) return false;
  if (is_registered(driver) || !load_problem(driver.library).empty()) return false;
  std::set<std::string> libraries{driver.library};
  for (const RegisteredDriver& other : registered_drivers()) {
    if (!other.library.empty()) libraries.insert(other.library);
  }
  const fs::path folder = own_registry(cache_folder);
  try {
    write_registry(folder, libraries);
  } catch (const std::exception&) {  // without the folder the registered drivers are used
    return false;
  }
  ::setenv(kVariable, folder.c_str(), 1);
  return true;
}

}  // namespace clora

#include "tools/command_line/health/cache_checks.hpp"

#include <algorithm>

#include "clora/runtime/context.hpp"
#include "clora/runtime/device/driver_cache.hpp"
#include "clora/runtime/device/driver_diagnosis.hpp"
#include "clora/runtime/error.hpp"
#include "runtime/environment_variable.hpp"
#include "runtime/files/checksum_list.hpp"
#include "runtime/files/disk_space.hpp"
#include "runtime/files/private_folder.hpp"
#include "tools/command_line/cached_programs.hpp"
#include "tools/command_line/driver_registry.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

std::string size_of(const fs::path& folder) {
  std::uintmax_t bytes = 0;
  for (const std::string& file : files_below(folder)) {
    std::error_code gone;
    const std::uintmax_t more = fs::file_size(folder / file, gone);
    if (!gone) bytes += more;
  }
  return readable_bytes(static_cast<double>(bytes));
}

HealthFinding unwritable(const fs::path& folder, std::string_view consequence,
                         std::string_view variable) {
  return {Health::note, fmt::format("{} cannot be written: {}", folder.string(), consequence),
          fmt::format("chown -R $USER {}, or set {} to a folder that you can write to",
                      folder.string(), variable)};
}

// Folders with code, which programs ignore if other users may write to them.
HealthFindings check_owner(const fs::path& cache_folder) {
  HealthFindings found;
  for (const fs::path& folder :
       {cache_folder / "programs", cache_folder / "pocl", own_registry(cache_folder)}) {
    try {
      require_private_folder(folder);
    } catch (const Error& error) {
      found.push_back(finding_of_message(Health::note, error.what()));
    }
  }
  return found;
}

HealthFindings check_programs(const fs::path& cache_folder) {
  const std::vector<CachedProgram> programs = cached_programs(cache_folder);
  double bytes = 0;
  for (const CachedProgram& each : programs) bytes += static_cast<double>(each.listed.bytes);
  HealthFindings found{
      {Health::good,
       fmt::format("compiled kernels are cached in {}: {} program{}, {}", cache_folder.string(),
                   programs.size(), programs.size() == 1 ? "" : "s", readable_bytes(bytes))}};
  const auto unusable = std::ranges::count_if(
      programs, [](const CachedProgram& each) { return !each.problem().empty(); });
  if (unusable == 0) return found;
  found.push_back({Health::note,
                   fmt::format("{} of the cached programs cannot be used and are compiled again "
                               "when needed",
                               unusable),
                   "'clc cache verify' lists them, 'clc cache clear' removes all"});
  return found;
}

HealthFinding check_free_space(const fs::path& cache_folder) {
  const std::uintmax_t limit = ContextConfig{}.cache_limit_bytes + DriverCache::kLimitBytes;
  const std::optional<std::uintmax_t> free = free_space(cache_folder);
  if (!free) {
    return {Health::note, fmt::format("the free space of the file system of {} is unknown",
                                      cache_folder.string())};
  }
  const std::string text =
      fmt::format("{} free on the file system of {}", readable_bytes(static_cast<double>(*free)),
                  cache_folder.string());
  if (*free >= limit) return {Health::good, text};
  return {
      Health::note,
      fmt::format("{}; the caches grow up to {}", text, readable_bytes(static_cast<double>(limit))),
      "free disk space, or set CLORA_CACHE_DIR to a folder on another file system"};
}

// As in tools/fetch_demo_model.
fs::path model_folder() {
  if (const std::string own = environment_variable("CLORA_MODEL_CACHE"); !own.empty()) return own;
  if (const std::string user = environment_variable("XDG_CACHE_HOME"); !user.empty()) {
    return fs::path(user) / "clora/models";
  }
  const std::string home = environment_variable("HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".cache/clora/models";
}

}  // namespace

HealthFindings check_cache_folder(const fs::path& cache_folder) {
  constexpr const char* kConsequence = "kernels are compiled again in every process";
  if (cache_folder.empty()) {
    return {{Health::note, fmt::format("there is no cache folder: {}", kConsequence),
             "set CLORA_CACHE_DIR, XDG_CACHE_HOME or HOME"}};
  }
  if (!could_write(cache_folder)) {
    return {unwritable(cache_folder, kConsequence, "CLORA_CACHE_DIR")};
  }
  HealthFindings found = check_programs(cache_folder);
  append(found, check_owner(cache_folder));
  found.push_back(check_free_space(cache_folder));
  return found;
}

HealthFindings check_pocl_cache(const std::vector<Device>& devices, const fs::path& cache_folder) {
  const bool used = std::ranges::any_of(devices, is_pocl);
  if (!used) return {};
  const fs::path folder = pocl_cache_folder();
  const std::string text =
      fmt::format("pocl caches machine code in {}: {}", folder.string(), size_of(folder));
  if (folder == fs::absolute(cache_folder / "pocl/kernels")) return {{Health::good, text}};
  const bool by_user = !environment_variable("POCL_CACHE_DIR").empty();
  return {{Health::note, text + ", where damaged files are not detected",
           by_user ? "unset POCL_CACHE_DIR"
                   : "set CLORA_CACHE_DIR to a folder that only you can write to"}};
}

HealthFindings check_downloaded_models() {
  const fs::path folder = model_folder();
  std::error_code ignored;
  if (folder.empty() || !fs::is_directory(folder, ignored)) return {};
  if (!could_write(folder)) {
    return {unwritable(folder, "tools/fetch_demo_model fails", "CLORA_MODEL_CACHE")};
  }
  return {{Health::good,
           fmt::format("downloaded models are in {}: {}", folder.string(), size_of(folder))}};
}

}  // namespace clora

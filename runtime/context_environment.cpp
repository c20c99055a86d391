// Reads the configuration of a Context from the environment (runtime/context.hpp).
#include <cstdlib>

#include "clora/runtime/context.hpp"

namespace clora {
namespace {

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::filesystem::path default_cache_folder() {
  if (const std::string folder = from_environment("CLORA_CACHE_DIR"); !folder.empty()) {
    return folder;
  }
  const std::filesystem::path user = from_environment("XDG_CACHE_HOME");
  if (user.is_absolute()) return user / "clora";  // the specification says to ignore relative paths
  const std::filesystem::path home = from_environment("HOME");
  return home.empty() ? home : home / ".cache" / "clora";
}

ContextConfig config_from_environment() {
  ContextConfig config;
  config.device = from_environment("CLORA_DEVICE");
  const std::string kernel_folder = from_environment("CLORA_KERNEL_DIR");
  if (!kernel_folder.empty()) config.kernel_folders = {kernel_folder};
  config.tuned_table = from_environment("CLORA_TUNED");
  config.sub_allocate = from_environment("CLORA_POOL") != "exact";
  config.wrap_files = from_environment("CLORA_WRAP_FILES") != "0";
  config.self_test = from_environment("CLORA_SELF_TEST") != "0";
  const std::string variant = from_environment("CLORA_VARIANT");
  if (!variant.empty()) config.variant = variant_of(variant);
  const std::string capture = from_environment("CLORA_CAPTURE");
  if (!capture.empty()) {
    config.capture = capture_request(capture, from_environment("CLORA_CAPTURE_DIR"));
  }
  return config;
}

}  // namespace clora

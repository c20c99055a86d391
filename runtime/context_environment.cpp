// Reads the configuration of a Context from the environment (runtime/context.hpp).

#include "clora/runtime/context.hpp"
#include "runtime/environment_variable.hpp"

namespace clora {
std::filesystem::path default_cache_folder() {
  if (const std::string folder = environment_variable("CLORA_CACHE_DIR"); !folder.empty()) {
    return folder;
  }
  const std::filesystem::path user = environment_variable("XDG_CACHE_HOME");
  if (user.is_absolute()) return user / "clora";  // the specification says to ignore relative paths
  const std::filesystem::path home = environment_variable("HOME");
  return home.empty() ? home : home / ".cache" / "clora";
}

ContextConfig config_from_environment() {
  ContextConfig config;
  config.device = environment_variable("CLORA_DEVICE");
  const std::string kernel_folder = environment_variable("CLORA_KERNEL_DIR");
  if (!kernel_folder.empty()) config.kernel_folders = {kernel_folder};
  config.tuned_table = environment_variable("CLORA_TUNED");
  config.sub_allocate = environment_variable("CLORA_POOL") != "exact";
  config.wrap_files = environment_variable("CLORA_WRAP_FILES") != "0";
  if (environment_variable("CLORA_WEIGHT_COPIES") == "0") config.weight_copy_share = 0;
  config.self_test = environment_variable("CLORA_SELF_TEST") != "0";
  const std::string variant = environment_variable("CLORA_VARIANT");
  if (!variant.empty()) config.variant = variant_of(variant);
  config.implementations = environment_variable("CLORA_IMPL");
  const std::string capture = environment_variable("CLORA_CAPTURE");
  if (!capture.empty()) {
    config.capture = capture_request(capture, environment_variable("CLORA_CAPTURE_DIR"));
  }
  return config;
}

}  // namespace clora

#include "tools/command_line/health/environment_checks.hpp"

#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "clora/runtime/commands/capture_request.hpp"
#include "clora/runtime/device/variant.hpp"
#include "clora/runtime/error.hpp"
#include "ops/dispatch/implementation_choice.hpp"
#include "ops/tuned/tuned_table.hpp"
#include "tools/command_line/suggestion.hpp"

namespace clora {
namespace {

constexpr std::string_view kPrefix = "CLORA_";

// A variable that has an effect with one value.
struct Switch {
  std::string_view name;
  std::string_view value;
  std::string_view effect;
};

constexpr Switch kSwitches[] = {
    {"CLORA_SELF_TEST", "0", "fast kernels are used without their self-tests"},
    {"CLORA_POOL", "exact",
     "each tensor gets its own memory object, as tools that check memory need"},
    {"CLORA_WEIGHT_COPIES", "0", "GPUs convert weights to bf16 in each product of many rows"},
    {"CLORA_WRAP_FILES", "0", "CPU devices copy the weights instead of reading the mapped file"},
};

// Variables whose effect other findings report, or that only name something.
struct Named {
  std::string_view name;
  std::string_view effect;
};

constexpr Named kOthersOfPrograms[] = {
    {"CLORA_CACHE_DIR",
     "folder for compiled kernels and measured peaks; by default XDG_CACHE_HOME/clora, else "
     "~/.cache/clora"},
    {"CLORA_CAPTURE_DIR", "folder that CLORA_CAPTURE writes to"},
    {"CLORA_DEVICE", "OpenCL device, if --device names none"},
    {"CLORA_PTXAS", "path of ptxas, by which 'clc stats' counts the registers of NVIDIA's GPUs"}};

// Variables of tests, benches and scripts.
constexpr std::string_view kOfDevelopers[] = {"CLORA_BENCH_DEVICES",  "CLORA_BENCH_FOLDER",
                                              "CLORA_BENCH_LARGE",    "CLORA_BENCH_MODEL",
                                              "CLORA_BENCH_PROFILE",  "CLORA_BINARY_DIR",
                                              "CLORA_CHAT_SUITES",    "CLORA_FAULTS",
                                              "CLORA_FLIPS",          "CLORA_FUZZ_TARGET",
                                              "CLORA_LLAMA_CPP",      "CLORA_MODEL_CACHE",
                                              "CLORA_PEERS",          "CLORA_SECOND_DRIVER_DIR",
                                              "CLORA_SELF_TEST_SUMS", "CLORA_SERVER_KILLS",
                                              "CLORA_SHARED",         "CLORA_SOURCE_DIR",
                                              "CLORA_TEST_DATA",      "CLORA_TEST_SHARED_FOLDER",
                                              "CLORA_TEST_SIZES",     "CLORA_TEST_VECTORS"};

std::string unset(std::string_view name) { return fmt::format("unset {}", name); }

HealthFindings check_switch(const Switch& wanted, const std::string& value) {
  if (value == wanted.value) {
    return {{Health::note, fmt::format("{}={}: {}", wanted.name, value, wanted.effect),
             unset(wanted.name)}};
  }
  return {{Health::note,
           fmt::format("{}='{}' has no effect; only {} has one", wanted.name, value, wanted.value),
           unset(wanted.name)}};
}

HealthFindings check_variant(const std::string& value) {
  try {
    const Variant variant = variant_of(value);
    if (variant == Variant::automatic) return {};
    const char* effect = variant == Variant::portable
                             ? "the specialised kernels for this kind of device are not used"
                             : "the device's best kernels are not chosen automatically";
    return {
        {Health::note, fmt::format("CLORA_VARIANT={}: {}", value, effect), unset("CLORA_VARIANT")}};
  } catch (const Error& error) {
    return {{Health::bad, fmt::format("CLORA_VARIANT: {}", error.what()), unset("CLORA_VARIANT")}};
  }
}

HealthFindings check_implementations(const std::string& value) {
  try {
    (void)forced_implementations(value);
    return {{Health::note,
             fmt::format("CLORA_IMPL={}: these implementations are used instead of the best ones",
                         value),
             unset("CLORA_IMPL")}};
  } catch (const Error& error) {
    return {{Health::bad, fmt::format("CLORA_IMPL: {}", error.what()), unset("CLORA_IMPL")}};
  }
}

HealthFindings check_capture(const std::string& value) {
  try {
    capture_request(value, "");
    return {{Health::note,
             fmt::format("CLORA_CAPTURE={}: each run writes one launch to a folder", value),
             unset("CLORA_CAPTURE")}};
  } catch (const Error& error) {
    return {{Health::bad, fmt::format("CLORA_CAPTURE: {}", error.what()), unset("CLORA_CAPTURE")}};
  }
}

HealthFindings check_kernel_folder(const std::string& value) {
  std::error_code ignored;
  const bool there = std::filesystem::is_directory(value, ignored);
  return {{there ? Health::note : Health::bad,
           fmt::format("CLORA_KERNEL_DIR={}: {}", value,
                       there ? "kernels are read from this folder, not from the program"
                             : "there is no such folder to read kernels from"),
           unset("CLORA_KERNEL_DIR")}};
}

HealthFindings check_tuned_table(const std::string& value) {
  std::error_code ignored;
  if (!std::filesystem::exists(value, ignored)) {
    return {{Health::note, fmt::format("CLORA_TUNED={}: there is no such table", value),
             unset("CLORA_TUNED")}};
  }
  try {
    const std::size_t count = TunedTable::read(value).entries().size();
    return {{Health::good, fmt::format("CLORA_TUNED={}: {} tuned kernels", value, count)}};
  } catch (const Error& error) {
    return {{Health::note, fmt::format("CLORA_TUNED: {}", error.what()), unset("CLORA_TUNED")}};
  }
}

// Variables that have a separate check.
struct Checked {
  std::string_view name;
  HealthFindings (*check)(const std::string& value);
  std::string_view effect;
};

constexpr Checked kChecked[] = {
    {"CLORA_VARIANT", check_variant,
     "kernels to use instead of the device's best ones, such as portable; 'clora devices' shows "
     "those that a device has"},
    {"CLORA_IMPL", check_implementations,
     "implementations to use instead of the best ones, as OP:NAME, separated by commas"},
    {"CLORA_CAPTURE", check_capture,
     "writes a launch, OP:NUMBER, to a folder that 'clc replay' runs"},
    {"CLORA_KERNEL_DIR", check_kernel_folder, "folder to read kernels from"},
    {"CLORA_TUNED", check_tuned_table,
     "table of tuned kernels, as 'clc tune' writes it; by default tuned.json in the cache folder"}};

HealthFindings check_unknown(const std::string& name) {
  std::vector<std::string> ends;  // without the prefix, which would make all names similar
  for (const std::string& known : known_variables()) ends.push_back(known.substr(kPrefix.size()));
  if (std::ranges::find(ends, name.substr(kPrefix.size())) != ends.end()) return {};
  const std::string meant = suggestion_for(name.substr(kPrefix.size()), ends);
  return {{Health::note, fmt::format("{} is set, but clora reads no such variable", name),
           meant.empty() ? unset(name) : fmt::format("did you mean {}{}?", kPrefix, meant)}};
}

HealthFindings check_variable(const std::string& name, const std::string& value) {
  for (const Switch& each : kSwitches) {
    if (each.name == name) return check_switch(each, value);
  }
  for (const Checked& each : kChecked) {
    if (each.name == name) return each.check(value);
  }
  return check_unknown(name);
}

}  // namespace

std::vector<std::string> known_variables() {
  std::vector<std::string> names;
  for (const Switch& each : kSwitches) names.emplace_back(each.name);
  for (const Checked& each : kChecked) names.emplace_back(each.name);
  for (const Named& each : kOthersOfPrograms) names.emplace_back(each.name);
  names.insert(names.end(), std::begin(kOfDevelopers), std::end(kOfDevelopers));
  return names;
}

std::vector<DocumentedVariable> documented_variables() {
  std::vector<DocumentedVariable> all;
  for (const Named& each : kOthersOfPrograms) {
    all.push_back({std::string(each.name), std::string(each.effect)});
  }
  for (const Checked& each : kChecked) {
    all.push_back({std::string(each.name), std::string(each.effect)});
  }
  for (const Switch& each : kSwitches) {
    all.push_back({fmt::format("{}={}", each.name, each.value), std::string(each.effect)});
  }
  return all;
}

HealthFindings check_environment(std::span<const std::string> environment) {
  HealthFindings found;
  for (const std::string& each : environment) {
    const std::size_t equals = each.find('=');
    if (!each.starts_with(kPrefix) || equals == std::string::npos) continue;
    const std::string value = each.substr(equals + 1);
    if (!value.empty()) append(found, check_variable(each.substr(0, equals), value));
  }
  return found;
}

HealthFindings check_environment() {
  std::vector<std::string> all;
  for (char** each = ::environ; *each != nullptr; ++each) all.emplace_back(*each);
  std::ranges::sort(all);
  return check_environment(all);
}

}  // namespace clora

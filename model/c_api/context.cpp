// clora.h: devices, contexts and statistics.
#include "clora/runtime/context.hpp"
#include "runtime/fail.hpp"

#include <span>

#include "model/c_api/boundary.hpp"
#include "model/c_api/handles.hpp"

namespace clora::c_api {
namespace {

clora_device_info info_of(const Device& device) {
  clora_device_info info{};
  info.index = device.index;
  info.kind = device.kind == DeviceKind::cpu   ? CLORA_DEVICE_KIND_CPU
              : device.kind == DeviceKind::gpu ? CLORA_DEVICE_KIND_GPU
                                               : CLORA_DEVICE_KIND_OTHER;
  write_text(info.name, device.name);
  write_text(info.vendor, device.vendor);
  write_text(info.platform, device.platform);
  write_text(info.driver, device.driver);
  write_text(info.opencl_version, device.opencl_version);
  info.memory_bytes = device.memory_bytes;
  info.max_allocation_bytes = device.max_allocation_bytes;
  info.compute_units = device.compute_units;
  info.base_alignment_bytes = device.base_alignment_bytes;
  return info;
}

Hooks hooks_of(const clora_context_options& options) {
  Hooks hooks;
  void* user = options.user;
  if (const auto log = options.log) {
    hooks.log = [=](LogLevel level, std::string_view message) {
      log(user, static_cast<clora_log_level>(level), std::string(message).c_str());
    };
  }
  if (const auto allocation = options.allocation) {
    hooks.allocation = [=](const AllocationEvent& event) {
      allocation(user, std::string(event.tag).c_str(), event.bytes, event.in_use_bytes);
    };
  }
  if (const auto metric = options.metric) {
    hooks.metric = [=](std::string_view name, double value) {
      metric(user, std::string(name).c_str(), value);
    };
  }
  return hooks;
}

// A field that is 0 in the C struct keeps the C++ default.
ContextConfig config_of(const clora_context_options& options) {
  ContextConfig config;
  if (options.device != nullptr) config.device = options.device;
  config.memory_limit_bytes = options.memory_limit_bytes;
  if (options.memory_limit_share != 0) config.memory_limit_share = options.memory_limit_share;
  if (options.cache_folder != nullptr) config.cache_folder = options.cache_folder;
  if (options.cache_limit_bytes != 0) config.cache_limit_bytes = options.cache_limit_bytes;
  if (options.kernel_folder != nullptr) config.kernel_folders = {options.kernel_folder};
  if (options.variant != nullptr) config.variant = variant_of(options.variant);
  if (options.stuck_after_seconds != 0) {
    config.stuck_after_seconds = std::max(0.0, options.stuck_after_seconds);
  }
  if (options.max_commands_in_flight != 0) {
    config.max_commands_in_flight = options.max_commands_in_flight;
  }
  if (options.max_seconds_in_flight != 0) {
    config.max_seconds_in_flight = std::max(0.0, options.max_seconds_in_flight);
  }
  if (options.weight_copy_share != 0) {
    config.weight_copy_share = std::max(0.0, options.weight_copy_share);
  }
  config.precision = options.matrix_unit != 0 ? Precision::automatic : Precision::f32;
  config.self_test = options.skip_self_test == 0;
  config.profile = options.profile != 0;
  config.hooks = hooks_of(options);
  return config;
}

Context& context_of(const clora_context* context, std::string_view who) {
  require_given(context, who, "context");
  return context->core->context;
}

clora_statistics statistics_of(ContextCore& core) {
  const MemoryStatistics memory = core.context.pool().statistics();
  const auto tag = [&](MemoryTag t) { return memory.by_tag[static_cast<std::size_t>(t)]; };
  clora_statistics statistics{};
  statistics.memory_in_use_bytes = memory.in_use_bytes;
  statistics.memory_cached_bytes = memory.cached_bytes;
  statistics.memory_high_water_bytes = memory.high_water_bytes;
  statistics.memory_limit_bytes = memory.limit_bytes;
  statistics.weights_bytes = tag(MemoryTag::weights);
  statistics.activations_bytes = tag(MemoryTag::activations);
  statistics.adapters_bytes = tag(MemoryTag::adapters);
  statistics.cache_bytes = tag(MemoryTag::cache);
  statistics.scratch_bytes = tag(MemoryTag::scratch);
  statistics.prompt_tokens = core.prompt_tokens;
  statistics.generated_tokens = core.generated_tokens;
  statistics.forward_tokens = core.forward_tokens;
  statistics.trained_tokens = core.trained_tokens;
  return statistics;
}

}  // namespace
}  // namespace clora::c_api

using namespace clora;
using namespace clora::c_api;

clora_status clora_device_count(int32_t* count) {
  return guarded([&] {
    require_given(count, "clora_device_count", "count");
    *count = static_cast<int32_t>(list_devices().size());
  });
}

clora_status clora_device_get_info(int32_t index, clora_device_info* info) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_device_get_info";
    const std::vector<Device> devices = list_devices();
    require(index >= 0 && static_cast<std::size_t>(index) < devices.size(),
            "{}: the index must be in [0, {}), got {}", kWho, devices.size(), index);
    write_struct(info, info_of(devices[static_cast<std::size_t>(index)]), kWho);
  });
}

clora_status clora_context_create(const clora_context_options* options, clora_context** context) {
  constexpr std::string_view kWho = "clora_context_create";
  return guarded_create(context, kWho, [&] {
    return new clora_context{std::make_shared<ContextCore>(config_of(read_struct(options, kWho)))};
  });
}

clora_status clora_context_adopt(cl_context opencl_context, cl_device_id device,
                                 cl_command_queue queue, const clora_context_options* options,
                                 clora_context** context) {
  constexpr std::string_view kWho = "clora_context_adopt";
  return guarded_create(context, kWho, [&] {
    require_given(opencl_context, kWho, "opencl_context");
    require_given(device, kWho, "device");
    require_given(queue, kWho, "queue");
    const AdoptedQueue adopted{opencl_context, device, queue};
    return new clora_context{
        std::make_shared<ContextCore>(adopted, config_of(read_struct(options, kWho)))};
  });
}

void clora_context_release(clora_context* context) { delete context; }

clora_status clora_context_get_device(const clora_context* context, clora_device_info* info) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_context_get_device";
    write_struct(info, info_of(context_of(context, kWho).device()), kWho);
  });
}

clora_status clora_context_finish(clora_context* context) {
  return guarded([&] { context_of(context, "clora_context_finish").finish(); });
}

clora_status clora_context_wait_for(clora_context* context, uint32_t count,
                                    const cl_event* events) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_context_wait_for";
    Context& own = context_of(context, kWho);
    if (count > 0) require_given(events, kWho, "events");
    own.wait_for(std::span(events, count));
  });
}

clora_status clora_context_is_lost(const clora_context* context, int32_t* lost) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_context_is_lost";
    require_given(lost, kWho, "lost");
    *lost = context_of(context, kWho).health()->lost() ? 1 : 0;
  });
}

clora_status clora_context_trim(clora_context* context) {
  return guarded([&] { context_of(context, "clora_context_trim").pool().trim(); });
}

clora_status clora_context_get_statistics(const clora_context* context,
                                          clora_statistics* statistics) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_context_get_statistics";
    require_given(context, kWho, "context");
    write_struct(statistics, statistics_of(*context->core), kWho);
  });
}

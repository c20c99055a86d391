#include "tools/clc/kernel_timing.hpp"

#include <algorithm>

#include "runtime/device_capabilities.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

constexpr int kWarmUps = 2;
constexpr double kWarmUpShare = 0.1;
constexpr std::size_t kVector = 16;  // bytes, of cl/ceilings.cl

Grid flush_grid(const Device& device) {
  const std::size_t group = std::min<std::size_t>(64, device.max_work_group_size);
  return {{group * 32 * std::max(1U, device.compute_units), 1, 1}, {group, 1, 1}};
}

}  // namespace

KernelTimer::KernelTimer(Context& context, CacheState caches)
    : context_(context), caches_(caches), flush_(context) {
  require(context.profiling(), "kernel timer: needs a Context with ContextConfig::profile");
  if (caches_ == CacheState::cold) prepare_flush();
}

// A copy by a kernel, not by the driver: it runs on all compute units, and so fills the caches of
// each of them.
void KernelTimer::prepare_flush() {
  if (flush_.commands() > 0) return;
  const auto half = static_cast<std::int64_t>(flush_bytes(context_) / 2 / kVector);
  const Tensor dst = context_.allocate({4 * half}, DType::f32, MemoryTag::scratch);
  const Tensor src = context_.allocate({4 * half}, DType::f32, MemoryTag::scratch);
  Batch touch(context_);
  touch.fill_zero(src);  // memory that was never written may be one page of zeros
  touch.submit().wait();
  flush_.launch({.kernel = context_.kernel("ceilings.cl", "ceilings_copy",
                                           Defines().set("CHAINS", std::int64_t{4})),
                 .grid = flush_grid(context_.device()),
                 .cost = {},
                 .label = "other memory"},
                dst, src, half);
}

double KernelTimer::timed(Batch& batch) {
  const auto seconds = batch.submit().device_seconds();
  if (!seconds) {
    fail(ErrorCode::unsupported, "kernel timer: '{}' tells no times of commands",
         context_.device().name);
  }
  spent_ += *seconds;
  return *seconds;
}

double KernelTimer::time_once(KernelCall& call) {
  if (caches_ == CacheState::cold) timed(flush_);
  return timed(call.batch());
}

std::vector<double> KernelTimer::time(KernelCall& call, const TimingPlan& plan) {
  caches_ = plan.caches;
  if (caches_ == CacheState::cold) prepare_flush();
  spent_ = 0;
  for (int i = 0; i < plan.most && (i < kWarmUps || spent_ < kWarmUpShare * plan.seconds); ++i) {
    time_once(call);
  }
  spent_ = 0;
  std::vector<double> times;
  while (static_cast<int>(times.size()) < plan.most &&
         (static_cast<int>(times.size()) < plan.least || spent_ < plan.seconds)) {
    times.push_back(time_once(call));
  }
  return times;
}

std::size_t flush_bytes(Context& context) {
  const Device& device = context.device();
  const std::size_t least = std::size_t{device.kind == DeviceKind::cpu ? 64U : 256U} << 20;
  const std::size_t wanted = std::max<std::size_t>(least, 4 * cache_bytes_of(device));
  return std::min({wanted, context.pool().statistics().limit_bytes / 4,
                   static_cast<std::size_t>(2 * device.max_allocation_bytes)});
}

}  // namespace clora

#include "tools/clc/bench/kernel_timing.hpp"

#include <algorithm>

#include "runtime/device/device_capabilities.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr int kWarmUps = 2;
constexpr double kWarmUpShare = 0.1;
constexpr std::size_t kVector = 16;  // bytes, as in cl/roofline_peaks/roofline_peaks.cl

Grid flush_grid(const Device& device) {
  const std::size_t group = std::min<std::size_t>(64, device.max_work_group_size);
  return {{group * 32 * std::max(1U, device.compute_units), 1, 1}, {group, 1, 1}};
}

}  // namespace

KernelTimer::KernelTimer(Context& context, CacheState caches) : context_(context), caches_(caches) {
  require(context.profiling(), "kernel timer: requires a Context with ContextConfig::profile");
  if (caches_ == CacheState::cold) prepare_flush();
}

// Copies with a kernel rather than the driver, because a kernel runs on all compute units and so
// fills the caches of each.
void KernelTimer::prepare_flush() {
  if (flush_) return;
  ContextConfig config = context_.config();
  config.kernel_folders.clear();
  flush_context_ = std::make_unique<Context>(
      AdoptedQueue{context_.opencl_context(), context_.device().id, context_.opencl_queue()},
      config);
  Context& context = *flush_context_;
  const auto vectors = static_cast<std::int64_t>(flush_bytes(context) / 2 / kVector);
  const Tensor dst = context.allocate({4 * vectors}, DType::f32, MemoryTag::scratch);
  const Tensor src = context.allocate({4 * vectors}, DType::f32, MemoryTag::scratch);
  Batch touch(context);
  touch.fill_zero(src);  // memory that was never written may map to a single page of zeros
  touch.submit().wait();
  flush_.emplace(context);
  flush_->launch({.kernel = context.kernel("roofline_peaks.cl", "roofline_peaks_copy",
                                           Defines().set("CHAINS", std::int64_t{4})),
                  .grid = flush_grid(context.device()),
                  .cost = {},
                  .label = "other memory"},
                 dst, src, vectors);
}

double KernelTimer::timed(Batch& batch) {
  const auto seconds = batch.submit().device_seconds();
  if (!seconds) {
    fail(ErrorCode::unsupported, "kernel timer: '{}' reports no command times",
         context_.device().name);
  }
  spent_ += *seconds;
  return *seconds;
}

double KernelTimer::time_once(KernelCall& call) {
  if (caches_ == CacheState::cold) timed(*flush_);
  return timed(call.batch());
}

void KernelTimer::warm_up(KernelCall& call, const TimingPlan& plan) {
  const double end = spent_ + kWarmUpShare * plan.seconds;
  for (int i = 0; i < plan.most && (i < kWarmUps || spent_ < end); ++i) time_once(call);
}

std::vector<double> KernelTimer::time(KernelCall& call, const TimingPlan& plan) {
  caches_ = plan.caches;
  if (caches_ == CacheState::cold) prepare_flush();
  warm_up(call, plan);
  const double begin = spent_;
  std::vector<double> times;
  while (plan.wants_more(times.size(), spent_ - begin)) times.push_back(time_once(call));
  return times;
}

PairedTimes time_in_turns(Turn first, Turn second, const TimingPlan& plan) {
  const auto time = [&](const Turn& turn, std::vector<double>& times) {
    if (plan.caches == CacheState::warm) turn.timer.time_once(turn.call);
    times.push_back(turn.timer.time_once(turn.call));
  };
  const auto spent = [&] { return first.timer.spent_seconds() + second.timer.spent_seconds(); };
  first.timer.warm_up(first.call, plan);
  second.timer.warm_up(second.call, plan);
  const double begin = spent();
  PairedTimes times;
  for (std::size_t round = 0; plan.wants_more(round, (spent() - begin) / 2); ++round) {
    if (round % 2 == 0) time(first, times.first);
    time(second, times.second);
    if (round % 2 != 0) time(first, times.first);
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

#include "tools/clc/tune/tune_trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "clora/runtime/error.hpp"
#include "tools/clc/bench/sample_statistics.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

constexpr int kFirstLaunches = 3;  // enough to detect a slow candidate

bool is_the_candidates_own(ErrorCode code) {
  return code == ErrorCode::build_failed || code == ErrorCode::device ||
         code == ErrorCode::out_of_memory || code == ErrorCode::unsupported;
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

TrialResult timed_result(Context& context, KernelCall& call, const TrialPlan& plan,
                         std::optional<double> best_seconds) {
  KernelTimer timer(context, plan.timing.caches);
  double least = timer.time_once(call);
  for (int i = 1; i < kFirstLaunches; ++i) least = std::min(least, timer.time_once(call));
  if (best_seconds && least > plan.drop_above * *best_seconds) {
    return {.end = TrialEnd::slow, .why = {}, .seconds = least};
  }
  return {.end = TrialEnd::timed,
          .why = {},
          .seconds = summary_of(timer.time(call, plan.timing)).median};
}

}  // namespace

Tolerance usual_tolerance(const HostArray& wanted) {
  Tolerance tolerance;
  if (!is_float(wanted.type)) return tolerance;
  const std::size_t bytes = bytes_of(wanted.type);
  const double share = bytes == 2 ? 2e-2 : bytes == 4 ? 1e-4 : 1e-10;
  double largest = 0;
  for (std::int64_t i = 0; i < wanted.elements(); ++i) {
    const double value = std::abs(wanted.value(i));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  tolerance.atol = share * largest;
  return tolerance;
}

std::string difference_in(KernelCall& call, const std::vector<ReferenceArray>& references) {
  for (const ReferenceArray& reference : references) {
    const HostArray got = call.read(reference.name);
    const ArrayComparison found =
        compare(got, reference.wanted, reference.tolerance, reference.name);
    if (found.bad == 0) continue;
    return fmt::format("{} of {} elements of '{}' differ, the worst {} is {} instead of {}",
                       found.bad, got.elements(), reference.name,
                       place_text(got.shape, found.worst), got.value_text(found.worst),
                       reference.wanted.value_text(found.worst));
  }
  return {};
}

TrialResult try_candidate(Context& context, KernelCallSpec spec,
                          const std::vector<ReferenceArray>& references, const TrialPlan& plan,
                          std::optional<double> best_seconds) {
  try {
    KernelCall call(context, std::move(spec));
    call.run();
    std::string difference = difference_in(call, references);
    if (!difference.empty()) return {TrialEnd::wrong, std::move(difference)};
    return timed_result(context, call, plan, best_seconds);
  } catch (const UsageError& error) {  // the grid does not fit the kernel
    return {TrialEnd::refused, first_line(error.what())};
  } catch (const Error& error) {
    if (!is_the_candidates_own(error.code())) throw;
    return {TrialEnd::refused, first_line(error.what())};
  }
}

}  // namespace clora

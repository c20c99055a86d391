#include "ops/dispatch/requirements.hpp"

#include "ops/dispatch/co_resident_groups.hpp"

namespace clora {
namespace {

const char* needs_co_resident(const Context& context) {
  const bool any = co_resident_groups(facts_of(context)) > 0;
  return any ? nullptr : "it needs work-groups that all run at once";
}

}  // namespace

const char* needs_portable(const Context& context) {
  const bool plain = context.variant() == Variant::portable || context.variant() == Variant::matrix;
  return plain ? nullptr : "it is for the variants portable and matrix";
}

const char* needs_cpu(const Context& context) {
  return is_for_cpus(context.variant()) ? nullptr : "it is for CPU devices";
}

const char* needs_bf16_cpu(const Context& context) {
  if (const char* reason = needs_cpu(context)) return reason;
  return has_cpu_matrix_unit(context.variant()) ? nullptr
                                                : "it needs a unit for bf16, and precision auto";
}

const char* needs_mma(const Context& context) {
  return context.variant() == Variant::mma ? nullptr : "it needs mma.sync, and precision auto";
}

const char* needs_matrix_unit(const Context& context) {
  const bool has_one = context.variant() == Variant::mma || context.variant() == Variant::matrix;
  return has_one ? nullptr : "it needs a matrix unit that is not Hopper's, and precision auto";
}

const char* needs_wgmma(const Context& context) {
  return context.variant() == Variant::wgmma ? nullptr : "it needs wgmma, and precision auto";
}

const char* needs_co_resident_cpu(const Context& context) {
  if (const char* reason = needs_cpu(context)) return reason;
  return needs_co_resident(context);
}

const char* needs_co_resident_gpu(const Context& context) {
  if (is_for_cpus(context.variant()) || context.device().kind != DeviceKind::gpu) {
    return "it is for GPUs";
  }
  return needs_co_resident(context);
}

}  // namespace clora

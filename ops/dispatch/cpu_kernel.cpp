#include "ops/dispatch/cpu_kernel.hpp"

#include "ops/dispatch/implementation.hpp"
#include "ops/dispatch/requirements.hpp"

namespace clora {
namespace {

struct Problem {
  const CpuKernel& kernel;
  const SelfTestRecord& self_test;
};

struct Implementation {
  std::string_view name;
  std::string_view file;  // each family has its own
  const char* (*unavailable)(const Context&);
  const char* (*refusal)(const Context&, const Problem&);
  bool (*passed)(Context&, const Problem&);
};

bool cpu_passed(Context& context, const Problem& p) {
  return passed_self_test(context, {p.kernel.file, p.kernel.name, p.kernel.tolerance}, p.self_test);
}

constexpr Implementation kImplementations[] = {
    {"cpu", "", needs_cpu, refuses_nothing, cpu_passed},
    {"portable", "", needs_nothing, refuses_nothing, needs_no_test},
};

}  // namespace

bool takes_cpu_kernel(Context& context, const CpuKernel& kernel, const SelfTestRecord& self_test) {
  const ImplementationList<Implementation> list{kernel.family, kImplementations};
  return &choose_implementation(context, list, Problem{kernel, self_test}) == kImplementations;
}

}  // namespace clora

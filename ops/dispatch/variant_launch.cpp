#include "ops/dispatch/variant_launch.hpp"

#include <algorithm>
#include <bit>

#include "ops/dispatch/implementation.hpp"
#include "ops/dispatch/requirements.hpp"
#include "ops/hopper/ptx.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::int64_t kElementsPerFatGroup = 4096;  // fewer cost less than waking a thread
constexpr std::size_t kFlatGroup = 128;
constexpr std::int64_t kMaxFlatItems = std::int64_t{1}
                                       << 31U;  // the limit of a launch on NVIDIA GPUs
constexpr std::int64_t kMaxRowGroups = 1 << 16;

constexpr std::int64_t kWantedVecs = 4;  // per item: 64 bytes in flight
constexpr std::int64_t kMaxVecs = 8;     // per item; more of two rows exceed the registers
constexpr std::size_t kRowsGroup = 128;  // items per group, shared by several short rows
constexpr std::size_t kMaxRowItems = 256;

Defines formula_of(const VariantKernel& kernel) {
  Defines defines;
  if (!kernel.formula.empty()) defines.set(kernel.formula);
  return defines;
}

Launch cpu_launch(Context& context, const VariantKernel& kernel, std::int64_t parts) {
  return {context.kernel(fmt::format("{}_cpu.cl", kernel.stem), kernel.cpu_function,
                         formula_of(kernel)),
          single_item_groups(cpu_groups(context.device(), parts)),
          {},
          {}};
}

bool all_are(const VariantKernel& kernel, DType type) {
  return std::ranges::all_of(kernel.types,
                             [=](const ActivationType& each) { return each.type == type; });
}

// Elements per vector: 16 bytes of the widest type, if they divide `run`.
std::int64_t vec_size_of(const VariantKernel& kernel, std::int64_t run) {
  const bool halves = all_are(kernel, DType::bf16) || all_are(kernel, DType::f16);
  if (halves && run % 8 == 0) return 8;
  return run % 4 == 0 ? 4 : 1;
}

Defines defines_of(const VariantKernel& kernel, std::int64_t vec_size) {
  Defines defines = formula_of(kernel);
  defines.set("VEC_SIZE", vec_size);
  for (const ActivationType& each : kernel.types) defines.set(each.define, name_of(each.type));
  for (const std::string_view flag : kernel.flags) defines.set(flag);
  return defines;
}

// A kernel with the options of its program with PTX and its self-tests.
struct RowProblem {
  const VariantKernel& kernel;
  const SelfTestRecord& cpu_test;
  const SelfTestRecord& ptx_test;
  std::string ptx_options;
};

struct RowImplementation {
  std::string_view name;
  std::string_view file;  // each family has its own
  const char* (*unavailable)(const Context&);
  const char* (*refusal)(const Context&, const RowProblem&);
  bool (*passed)(Context&, const RowProblem&);
};

const char* cpu_refusal(const Context&, const RowProblem& p) {
  return p.kernel.cpu_function.empty() ? "it does not read tensors of these types" : nullptr;
}
bool cpu_passed(Context& context, const RowProblem& p) {
  const std::string file = fmt::format("{}_cpu.cl", p.kernel.stem);
  const std::string options = formula_of(p.kernel).text();
  return passed_self_test(context, {file, p.kernel.cpu_function, kF32Tolerance, options},
                          p.cpu_test);
}

const char* ptx_refusal(const Context&, const RowProblem& p) {
  return p.ptx_test ? nullptr : "PTX would not make it faster";
}
bool ptx_passed(Context& context, const RowProblem& p) {
  const std::string file = fmt::format("{}.cl", p.kernel.stem);
  const std::string name = fmt::format("{} ptx", p.kernel.function);
  const double tolerance = all_are(p.kernel, DType::f32) ? kF32Tolerance : kBf16Tolerance;
  return passed_self_test(context, {file, name, tolerance, p.ptx_options}, p.ptx_test);
}

constexpr RowImplementation kImplementations[] = {
    {"cpu", "", needs_cpu, cpu_refusal, cpu_passed},
    {"ptx", "", needs_ptx, ptx_refusal, ptx_passed},
    {"portable", "", needs_nothing, refuses_nothing, needs_no_test},
};
constexpr const RowImplementation& kCpu = kImplementations[0];
constexpr const RowImplementation& kPtx = kImplementations[1];

const RowImplementation& choose(Context& context, const RowProblem& p) {
  const ImplementationList<RowImplementation> list{p.kernel.stem, kImplementations};
  return choose_implementation(context, list, p);
}

}  // namespace

VariantKernel kernel_of(std::string_view stem, std::string_view function,
                        std::vector<ActivationType> types) {
  VariantKernel kernel{.stem = stem, .function = function, .types = std::move(types)};
  if (all_are(kernel, DType::f32)) kernel.cpu_function = function;
  return kernel;
}

bool takes_cpu_kernel(Context& context, const VariantKernel& kernel,
                      const SelfTestRecord& self_test) {
  return &choose(context, {kernel, self_test, {}, {}}) == &kCpu;
}

Launch rows_launch(Context& context, const VariantKernel& kernel, std::int64_t rows,
                   std::int64_t width, const SelfTestRecord& self_test,
                   const SelfTestRecord& ptx_test) {
  require(rows >= 1 && width >= 1, "{}: at least one row and one column are required, got [{}, {}]",
          kernel.stem, rows, width);
  const std::int64_t vec_size = vec_size_of(kernel, width);
  const std::int64_t vecs = width / vec_size;
  const auto wanted = static_cast<std::size_t>(divide_up(vecs, kWantedVecs));
  const std::size_t items =
      std::min(std::bit_ceil(wanted), reduction_group(context.device(), kMaxRowItems));
  const std::size_t group = std::max(items, reduction_group(context.device(), kRowsGroup));
  const std::int64_t of_item = divide_up(vecs, static_cast<std::int64_t>(items));
  Defines defines = defines_of(kernel, vec_size);
  defines.set("GROUP", group).set("ITEMS", items);
  defines.set("VECS_PER_ITEM", of_item <= kMaxVecs ? of_item : 0);
  if (of_item <= kMaxVecs && of_item * static_cast<std::int64_t>(items) == vecs) {
    defines.set("FULL_ROWS");
  }
  Defines with_ptx = defines;
  with_ptx.set(kUsePtx);
  const RowImplementation& chosen = choose(context, {kernel, self_test, ptx_test, with_ptx.text()});
  if (&chosen == &kCpu) return cpu_launch(context, kernel, rows);
  if (&chosen == &kPtx) defines = with_ptx;
  const std::int64_t sets = divide_up(rows, static_cast<std::int64_t>(group / items));
  return {context.kernel(fmt::format("{}.cl", kernel.stem), kernel.function, defines),
          groups_of(group, static_cast<std::size_t>(std::min(sets, kMaxRowGroups))),
          {},
          {}};
}

Launch flat_launch(Context& context, const VariantKernel& kernel, std::int64_t elements,
                   std::int64_t run, const SelfTestRecord& self_test) {
  require(elements >= 1, "{}: at least one element is required, got {}", kernel.stem, elements);
  if (takes_cpu_kernel(context, kernel, self_test)) {
    return cpu_launch(context, kernel, divide_up(elements, kElementsPerFatGroup));
  }
  const bool single = kernel.singly_on_cpus && all_are(kernel, DType::f32) &&
                      context.device().kind == DeviceKind::cpu;
  const std::int64_t vec_size = single ? 1 : vec_size_of(kernel, run);
  const std::size_t group = reduction_group(context.device(), kFlatGroup);
  if (context.device().kind != DeviceKind::cpu && elements / vec_size > kMaxFlatItems) {
    fail(ErrorCode::unsupported,
         "{}: at most 2^31 vectors of {} elements at a time, got {} elements", kernel.stem,
         vec_size, elements);
  }
  const std::int64_t groups = divide_up(elements / vec_size, static_cast<std::int64_t>(group));
  return {context.kernel(fmt::format("{}.cl", kernel.stem), kernel.function,
                         defines_of(kernel, vec_size)),
          groups_of(group, static_cast<std::size_t>(groups)),
          {},
          {}};
}

}  // namespace clora

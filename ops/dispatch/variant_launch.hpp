// The launch of a row-wise or elementwise kernel in the Context's variant. These families have
// kernels in two files, STEM_cpu.cl and STEM.cl; the functions here choose the file, its options
// and the grid. The caller sets cost and label.
//
// The kernels of STEM.cl support f32, bf16 and f16 activations (cl/activations.clh) and run on any
// device; those of STEM_cpu.cl support certain types, mostly f32: for other types a CPU device uses
// STEM.cl.
#pragma once

#include <string_view>
#include <vector>

#include "clora/runtime/commands/batch.hpp"
#include "ops/dispatch/variant_dispatch.hpp"

namespace clora {

// The type of a kernel's tensors, by its -D: {"X_TYPE", DType::bf16}.
struct ActivationType {
  std::string_view define;
  DType type;
};

struct VariantKernel {
  std::string_view stem;
  std::string_view function;                 // in STEM.cl
  std::string_view cpu_function = {};        // in STEM_cpu.cl; empty: none supports these types
  std::vector<ActivationType> types;         // in STEM.cl
  std::vector<std::string_view> flags = {};  // further -D of STEM.cl without a value
  std::string_view formula = {};             // the same of both files, or empty
  // On a CPU, STEM.cl processes f32 singly: its compiler forms wider vectors than VEC_SIZE.
  bool singly_on_cpus = false;
};

// A VariantKernel whose CPU kernel has the same name and supports only f32.
VariantKernel kernel_of(std::string_view stem, std::string_view function,
                        std::vector<ActivationType> types);

// For costs. REQUIRES: a type that is not quantised.
inline double element_bytes(DType type) { return static_cast<double>(bytes_of(type, 1)); }

// Whether the two functions below choose the CPU kernel.
bool takes_cpu_kernel(Context& context, const VariantKernel& kernel,
                      const SelfTestRecord& self_test);

// Each row belongs to one group. cpu: groups of one item share the rows evenly
// (cl/group_range.clh). STEM.cl: as described in cl/rowwise/row_vecs.clh, whose -D options are set
// here and depend on the width. `self_test` is that of the CPU kernel
// (ops/dispatch/variant_dispatch.hpp). `ptx_test` records the same op on kPtxTestRows rows of this
// width and these types, for several work-groups: if it is given, PTX is used if uses_ptx() and the
// exact program with PTX has passed. REQUIRES: rows and width at least 1.
Launch rows_launch(Context& context, const VariantKernel& kernel, std::int64_t rows,
                   std::int64_t width, const SelfTestRecord& self_test,
                   const SelfTestRecord& ptx_test = {});
inline constexpr std::int64_t kPtxTestRows = 9;

// A flat range. cpu: groups of one item share it evenly. STEM.cl: one work-item per vec, rounded up
// to full groups, so the kernel guards the end. A vec does not cross a multiple of `run`.
// REQUIRES: at least one element, a multiple of run. Errors: unsupported if a GPU would process
// more than 2^31 vectors.
Launch flat_launch(Context& context, const VariantKernel& kernel, std::int64_t elements,
                   std::int64_t run, const SelfTestRecord& self_test);

}  // namespace clora

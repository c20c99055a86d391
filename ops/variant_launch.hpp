// The launch of a row-wise or elementwise kernel in the Context's variant. Such families have
// kernels in two files, STEM_cpu.cl and STEM.cl; here the file, its options and the grid are
// decided. Cost and label are left to the caller.
//
// The kernels of STEM.cl take activations of f32 or bf16 (cl/activations.clh) and run on any
// device; those of STEM_cpu.cl are of certain types, most of f32: for others a CPU device takes
// STEM.cl's.
#pragma once

#include <string_view>
#include <vector>

#include "ops/variant_dispatch.hpp"
#include "runtime/batch.hpp"

namespace clora {

// The type of a kernel's tensors, by its -D: {"X_TYPE", DType::bf16}.
struct ActivationType {
  std::string_view define;
  DType type;
};

struct VariantKernel {
  std::string_view stem;
  std::string_view function;                 // in STEM.cl
  std::string_view cpu_function = {};        // in STEM_cpu.cl; empty: none takes these types
  std::vector<ActivationType> types;         // in STEM.cl
  std::vector<std::string_view> flags = {};  // further -D of STEM.cl, without a value
  // STEM.cl's on a CPU: f32 one by one, which its compiler makes wider vectors of than VEC_SIZE.
  bool singly_on_cpus = false;
};

// A VariantKernel whose CPU kernel has the same name and takes f32 alone.
VariantKernel kernel_of(std::string_view stem, std::string_view function,
                        std::vector<ActivationType> types);

// For costs. REQUIRES: a type that is not quantised.
inline double element_bytes(DType type) { return static_cast<double>(bytes_of(type, 1)); }

// Whether the two below choose the CPU kernel.
bool takes_cpu_kernel(Context& context, const VariantKernel& kernel,
                      const SelfTestRecord& self_test);

// Rows owned whole. cpu: groups of one item share the rows evenly (cl/group_range.clh). STEM.cl:
// as cl/row_vecs.clh says, whose -D are set here and follow the width.
// `self_test` is the CPU kernel's (ops/variant_dispatch.hpp). `ptx_test` records the same op on
// rows of this width and these types, some for each of several work-groups: with it PTX is used
// where uses_ptx() and the very program that uses it has passed. Without it none is. REQUIRES: rows
// and width at least 1.
Launch rows_launch(Context& context, const VariantKernel& kernel, std::int64_t rows,
                   std::int64_t width, const SelfTestRecord& self_test,
                   const SelfTestRecord& ptx_test = {});
inline constexpr std::int64_t kPtxTestRows = 9;

// A flat range. cpu: groups of one item share it evenly. STEM.cl: one work-item a vec, rounded up
// to whole groups, so the kernel guards the end. A vec does not reach over a multiple of `run`.
// REQUIRES: at least one element, a multiple of run. Errors: unsupported, where a GPU is to take
// more than 2^31 vectors.
Launch flat_launch(Context& context, const VariantKernel& kernel, std::int64_t elements,
                   std::int64_t run, const SelfTestRecord& self_test);

}  // namespace clora

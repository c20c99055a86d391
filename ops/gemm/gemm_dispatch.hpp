// The implementations of a product, and the choice among them (ops/dispatch/implementation.hpp).
#pragma once

#include <span>

#include "ops/dispatch/implementation.hpp"
#include "ops/gemm/gemm_kernels.hpp"

namespace clora {

struct GemmImplementation {
  std::string_view name;
  std::string_view file;
  const char* (*unavailable)(const Context&);
  const char* (*refusal)(const Context&, const GemmProduct&);
  bool (*passed)(Context&, const GemmProduct&);
  // Whether it computes the shrink of a product, fused or in a launch of its own. The only place
  // that decides it.
  bool (*fuses_shrink)(const Context&, const GemmProduct&);
  // REQUIRES: no refusal; a shrink only if fuses_shrink(); s is f32 unless takes_bf16_s.
  void (*record)(Batch&, const GemmProduct&);
  bool takes_bf16_s = false;
  // It reads the bf16 copies of an adapter's matrices, if any, also in a separate shrink.
  bool reads_bf16_adapter = false;
  // Whether one launch can compute several problems, which it does not refuse, and their program
  // has passed its self-test; null: it computes one problem per launch.
  bool (*can_group)(Context&, std::span<const GemmProduct>) = nullptr;
  void (*record_group)(Batch&, std::span<const GemmProduct>) = nullptr;
  // Whether it computes the shrinks of rows with several adapters: of all that it does not refuse.
  bool shrinks_rows = false;
};

// The last one computes any product.
const ImplementationList<GemmImplementation>& gemm_implementations();
const GemmImplementation& choose_gemm(Context& context, const GemmProduct& p);

// The first implementation that computes these problems in one launch; null if there is none.
const GemmImplementation* choose_gemm_group(Context& context,
                                            std::span<const GemmProduct> problems);

// Whether a product with row groups and a shrink is faster with the ranks of all adapters of its
// stack (record_wide_shrinks()): on Hopper, whose implementation has no row groups, if they are few
// against K.
bool gemm_takes_wide_ranks(const Context& context, const GemmProduct& p);

// Whether the implementation that is chosen for these products, of rows with several adapters,
// computes their shrinks in its launch. REQUIRES: weights in one part; no f16.
bool gemm_shrinks_rows(Context& context, std::span<const GemmProduct> problems);

// Whether an implementation that is available on the Context reads the bf16 copies of an adapter's
// matrices.
bool gemm_reads_bf16_adapter(const Context& context);

}  // namespace clora

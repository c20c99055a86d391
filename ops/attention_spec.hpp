// What attention's ops share: the checked sizes of one call, and what follows from them and the
// device: -D options, grids, local memory, self-test inputs.
#pragma once

#include <optional>
#include <string_view>

#include "ops/attention.hpp"
#include "ops/variant_dispatch.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {

struct AttentionSpec {
  static constexpr std::int64_t kQueries = 32;  // query rows of a block: QUERIES of the CPU kernels
  static constexpr std::int64_t kKeys = 64;     // keys of a block of scores, CPU devices
  static constexpr std::int64_t kStaged = 256;  // keys that the bf16 backward keeps as pairs
  static constexpr std::int64_t kDecodeRows = 16;  // up to here, rows one by one beat blocks
  static constexpr std::int64_t kMaxHeads = 4;     // whose operands lie in local memory at once
  static constexpr std::int64_t kMaxBlocks = 2;    // of rows, with kMaxHeads
  static constexpr std::int64_t kMinChunk = 64;    // of the backward

  Context& context;
  std::int64_t T, Tk, H, G, E;
  Variant variant = Variant::portable;
  bool bf16 = false;          // where cpu(): products of operands rounded to bf16
  bool bf16_tensors = false;  // q, k and v
  double keys_per_row = 0;    // of the inputs

  std::size_t units() const { return std::max(1U, context.device().compute_units); }
  bool cpu() const { return variant == Variant::cpu; }
  bool wgmma() const { return variant == Variant::wgmma; }
  bool decodes() const { return T <= kDecodeRows; }  // where cpu()
  std::int64_t wanted_groups() const;

  // Forward of few rows: in how many shares a row's keys are dealt out.
  std::int64_t splits() const { return attention_decode_splits(context.device(), T, G); }
  // Backward: keys of one work-group. A power of two, so that documents that fill a power of two
  // begin where chunks begin.
  std::int64_t chunk() const;
  // bf16: heads of one key head that a work-group takes at once.
  std::int64_t forward_heads() const;
  // bf16: blocks of rows that a work-group takes at once, and rounds keys and values once for.
  std::int64_t forward_blocks() const;
  std::int64_t backward_heads() const { return std::min(H / G, kMaxHeads); }

  std::int64_t padded_width() const { return divide_up(E, 16) * 16; }
  // Errors: unsupported, where the device has less.
  LocalMemory local(std::int64_t floats) const;
  // Floats of local memory.
  std::int64_t forward_scratch() const;
  std::int64_t backward_scratch() const;
  std::int64_t decode_scratch() const { return H / G * (2 * padded_width() + 2) + kKeys; }
  // Whether Hopper's matrix units are to be taken.
  bool wants_wgmma() const;
  // Whether products are to be rounded on a CPU, and the device has the local memory for it.
  bool wants_bf16(std::int64_t (AttentionSpec::*scratch)() const) const;

  std::int64_t work_group() const;
  Defines defines() const;
  Grid groups(std::int64_t x, std::int64_t y) const;
  Kernel kernel(std::string_view file, std::string_view function) const {
    return context.kernel(file, function, defines());
  }

  Cost cost() const;
};

// n as a kernel's argument. Errors: unsupported, where it is 2^31 or more.
std::int32_t narrow(std::int64_t n);

// The sizes of `inputs`, for `op`. Errors: invalid_argument, where shapes do not match.
AttentionSpec checked_spec(std::string_view op, Context& context, const AttentionInputs& inputs);

// The inputs in f32: themselves, or temporaries that are made here.
AttentionInputs upcast(Batch& batch, const AttentionInputs& inputs);

// Of a self-test: `rows` queries, the last ones of a row of `keys` keys; the first keys are another
// document.
AttentionInputs attention_test_inputs(SelfTest& test, std::int64_t rows, std::int64_t keys,
                                      std::int64_t width = 20, DType type = DType::f32);

}  // namespace clora

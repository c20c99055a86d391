// Shared by the attention ops: the checked sizes of one call and everything derived from them and
// the device: -D options, grids, local memory.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "clora/ops/attention/attention.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {

#include "cl/attention/attention_problem.clh"

// Floats of local memory of attend_split() (cl/attention/attention_decode_cpu.clh), for `heads`
// query heads of E elements that share a key head, over keys of that type, which are read in place
// if they are f32 and not in pages.
std::int64_t attention_decode_scratch(std::int64_t heads, std::int64_t E, DType key_type,
                                      bool in_pages);

struct AttentionSpec {
  static constexpr std::int64_t kQueries = 32;  // query rows of a block: QUERIES of the CPU kernels
  static constexpr std::int64_t kKeys = 64;     // keys of a block of scores on CPU devices
  static constexpr std::int64_t kStaged = 256;  // keys that the bf16 backward stages as pairs
  static constexpr std::int64_t kDecodeRows = 16;  // up to this T, rows are processed singly
  static constexpr std::int64_t kMaxHeads = 4;     // heads with operands in local memory at once
  static constexpr std::int64_t kMaxBlocks = 2;    // blocks of rows, with kMaxHeads heads
  static constexpr std::int64_t kMinChunk = 64;    // keys of a chunk of the backward

  Context& context;
  std::int64_t T, Tk, H, G, E;
  bool cpu = false;             // for kernels of CPU devices
  bool bf16 = false;            // if cpu: the products round their operands to bf16
  double keys_per_row = 0;      // AttentionInputs::keys_per_row
  float soft_cap = 0;           // AttentionInputs::soft_cap
  bool causal = true;           // AttentionInputs::causal
  bool has_bias = false;        // AttentionInputs::bias
  DType key_type = DType::f32;  // of k and v
  std::int64_t page = 0;        // KeyPages::positions; 0: not in pages

  std::size_t units() const { return std::max(1U, context.device().compute_units); }
  bool decodes() const { return T <= kDecodeRows || page > 0; }
  std::int64_t wanted_groups() const;

  // Forward of few rows: the number of splits of a row's keys.
  std::int64_t splits() const { return attention_decode_splits(context.device(), T, G); }
  // The same for the portable kernel, whose groups own several query heads of a key head.
  std::int64_t portable_splits() const;
  std::int64_t decode_heads() const;
  // Backward: keys of one work-group. A power of two, so that documents with a power-of-two length
  // begin at chunk boundaries.
  std::int64_t chunk() const;
  // bf16: query heads of one key head per work-group.
  std::int64_t forward_heads() const;
  // bf16: blocks of rows per work-group, for which keys and values are rounded only once.
  std::int64_t forward_blocks() const;
  std::int64_t backward_heads() const { return std::min(H / G, kMaxHeads); }

  // Errors: unsupported if the device has less local memory.
  LocalMemory local(std::int64_t floats) const;
  // Floats of local memory.
  std::int64_t forward_scratch() const;
  std::int64_t backward_scratch() const;
  std::int64_t decode_scratch() const {
    return attention_decode_scratch(H / G, E, key_type, page > 0);
  }
  // The same sizes for a kernel for CPU devices, in f32 or bf16.
  AttentionSpec for_cpus(bool rounds) const;

  std::int64_t work_group() const;
  Defines defines() const;
  // The same for portable kernels, with the types of queries and results.
  Defines defines(DType x, DType result) const;
  Grid groups(std::int64_t x, std::int64_t y) const;
  Kernel kernel(std::string_view file, std::string_view function) const {
    return context.kernel(file, function, defines());
  }

  // For the kernels. Errors: unsupported if a size is 2^31 or more.
  ValueBytes problem(float scale) const;

  Cost cost() const;
};

// What the launches of one forward read and write.
struct AttentionForward {
  AttentionSpec spec;
  Tensor y;            // [T, H, E], f32, bf16 or f16
  Tensor log_sum_exp;  // [T, H], or empty
  AttentionInputs in;

  bool keeps_log_sum_exp() const { return !log_sum_exp.empty(); }
  // As a kernel argument: another tensor, which is not written, if it is empty.
  const Tensor& logs_or_y() const { return keeps_log_sum_exp() ? log_sum_exp : y; }
  // With these the arguments of kernels begin that read q, k and v as they are: results, inputs,
  // the problem, and whether log_sum_exp is kept.
  std::vector<Argument> arguments() const;
};

// The same for one backward.
struct AttentionBackward {
  AttentionSpec spec;
  AttentionGradients out;
  Tensor dy, y, log_sum_exp;
  AttentionInputs in;
  Cost cost;  // of all launches
};

// n as a kernel argument. Errors: unsupported if n is 2^31 or more.
std::int32_t narrow(std::int64_t n);

// The sizes of `inputs`, for `op`. Errors: invalid_argument if shapes do not match.
AttentionSpec checked_spec(std::string_view op, Context& context, const AttentionInputs& inputs);

// Whether the portable kernels can read q, k and v as vectors of four elements.
bool reads_vec4s(const AttentionSpec& spec, const AttentionInputs& inputs);

// The arguments of BIAS_PARAMETERS (cl/attention/attention_bias.clh), if there is a bias.
void append_bias(std::vector<Argument>& arguments, const AttentionInputs& inputs);

// The arguments of PAGE_TABLE_PARAMETERS (cl/attention/paged_keys.clh), if keys are in pages.
void append_page_tables(std::vector<Argument>& arguments, const AttentionInputs& inputs);

// Errors: invalid_argument if heads of E elements cannot be stored in q8_0.
void require_q8_heads(std::string_view op, std::int64_t E);

// Errors: invalid_argument if the pages are not of a cache of `cache_rows` rows, or not for T rows.
void require_pages(std::string_view op, const KeyPages& pages, std::int64_t cache_rows,
                   std::int64_t T);

// The inputs in f32: the given tensors, or new temporaries.
AttentionInputs upcast(Batch& batch, const AttentionInputs& inputs);

}  // namespace clora

// cl/attention/attention_decode_matrix.cl: attention of rows that each attend to their own keys, on
// matrix units. It rounds queries, and the weights of values, to the type of the keys.
#pragma once

#include <string_view>

#include "ops/attention/attention_spec.hpp"
#include "ops/dispatch/matrix_unit_defines.hpp"
#include "ops/dispatch/variant_dispatch.hpp"

namespace clora {

inline constexpr std::string_view kAttentionDecodeMatrix = "attention_decode_matrix.cl";

// The -D parameters of the kernel: sub-groups of a work-group, blocks of 16 keys that each has in
// local memory, and the fewest keys of a split; and the most splits of a row's keys.
struct AttentionDecodeTile {
  std::int64_t subgroups, stages, splits = 1, split_keys = 768;

  std::int64_t local_bytes(std::int64_t E) const;
};
// Local memory: 99 KB for a work-group, or 227 KB for those of a compute unit (Hopper).
enum class AttentionDecodeMemory { medium, large };
// The tile for heads of E elements, without splits. many: whether there are more work-groups than
// compute units. REQUIRES: E is supported.
AttentionDecodeTile attention_decode_tile(std::int64_t E, AttentionDecodeMemory memory, bool many);

// Whether decoding rows over keys of this type, with heads of E elements, use the kernel.
bool attention_decode_rounds(const Capabilities& capabilities, std::int64_t E, DType key_type);

const char* attention_decode_matrix_refusal(const Context& context,
                                            const AttentionForward& forward);
bool attention_decode_matrix_passed(Context& context, const AttentionForward& forward);
void record_attention_decode_matrix(Batch& batch, const AttentionForward& forward);

// The same with a given unit and a given tile, for tests.
void record_attention_decode_matrix(Batch& batch, const AttentionForward& forward,
                                    MatrixUnitChoice unit, const AttentionDecodeTile& tile);
// The problem of the self-test of the program for `forward`, whose keys are split or not.
AttentionForward attention_decode_matrix_test(SelfTest& test, const AttentionForward& forward,
                                              bool splits);

}  // namespace clora

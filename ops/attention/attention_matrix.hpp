// cl/attention/attention_matrix.cl and cl/attention/attention_backward_*_matrix.cl: attention on
// the matrix units of GPUs (cl/matrix/matrix_unit.clh).
#pragma once

#include <string_view>

#include "ops/attention/attention_spec.hpp"
#include "ops/dispatch/matrix_unit_defines.hpp"

namespace clora {

inline constexpr std::string_view kAttentionMatrix = "attention_matrix.cl";
inline constexpr std::string_view kAttentionBackwardMatrix = "attention_backward_keys_matrix.cl";

// The tile of a work-group: the -D parameters of attention_matrix.clh. Its rows and columns divide
// 128.
struct AttentionMatrixTile {
  std::int64_t subgroups, subgroup_rows, columns;
  std::int64_t slots = 2;  // forward: tiles of keys and values in local memory
  std::int64_t parts = 1;  // gradients of keys and values: work-groups that share their elements

  std::int64_t rows() const noexcept { return subgroups * subgroup_rows; }
};
struct AttentionMatrixTiles {
  AttentionMatrixTile forward, keys, queries;
};

// Local memory: 64 KB for a work-group (AMD; Intel, whose sub-groups have 16 lanes), 99 KB
// (NVIDIA), or 99 KB for each of two work-groups of a compute unit (Hopper).
enum class AttentionMatrixMemory { small, small_xmx, medium, large };

// The tiles for heads of E elements. REQUIRES: E is one of the supported head dims.
AttentionMatrixTiles attention_matrix_tiles(std::int64_t E, AttentionMatrixMemory memory);

// Whether the kernels support T queries of head dim E.
bool attention_matrix_supports(std::int64_t T, std::int64_t E);

const char* attention_matrix_refusal(const Context& context, const AttentionForward& forward);
bool attention_matrix_passed(Context& context, const AttentionForward& forward);
void record_attention_matrix(Batch& batch, const AttentionForward& forward);

const char* attention_backward_matrix_refusal(const Context& context,
                                              const AttentionBackward& backward);
bool attention_backward_matrix_passed(Context& context, const AttentionBackward& backward);
// Returns the tensors written: if H > G, its dk and dv hold one part per query head.
AttentionGradients record_attention_backward_matrix(Batch& batch,
                                                    const AttentionBackward& backward);

// The same with a given unit and given tiles, for tests.
void record_attention_matrix(Batch& batch, const AttentionForward& forward, MatrixUnitChoice unit,
                             const AttentionMatrixTile& tile);
AttentionGradients record_attention_backward_matrix(Batch& batch, const AttentionBackward& backward,
                                                    MatrixUnitChoice unit,
                                                    const AttentionMatrixTiles& tiles);

}  // namespace clora

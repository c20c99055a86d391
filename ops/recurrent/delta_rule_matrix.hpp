// cl/recurrent/delta_rule_matrix.cl and delta_rule_backward_matrix.cl: delta_rule on a GPU's matrix
// unit, in training.
#pragma once

#include "ops/dispatch/matrix_unit_defines.hpp"
#include "ops/recurrent/delta_rule_calls.hpp"

namespace clora {

inline constexpr std::string_view kDeltaRuleMatrix = "delta_rule_matrix.cl";
inline constexpr std::string_view kDeltaRuleBackwardMatrix = "delta_rule_backward_matrix.cl";

// slice: columns of a state that a work-group owns; stages: of its ring of chunks.
struct DeltaRuleMatrixTile {
  std::int64_t slice = 0, stages = 0;
};

const char* delta_rule_matrix_refusal(const Context& context, const DeltaRuleForward& forward);
const char* delta_rule_backward_matrix_refusal(const Context& context,
                                               const DeltaRuleBackward& backward);
bool delta_rule_matrix_passed(Context& context, const DeltaRuleForward& forward);
bool delta_rule_backward_matrix_passed(Context& context, const DeltaRuleBackward& backward);
void record_delta_rule_matrix(Batch& batch, const DeltaRuleForward& forward);
void record_delta_rule_backward_matrix(Batch& batch, const DeltaRuleBackward& backward);

// With any unit and tile, for tests.
void record_delta_rule_matrix(Batch& batch, const DeltaRuleForward& forward, MatrixUnitChoice unit,
                              DeltaRuleMatrixTile tile);
void record_delta_rule_backward_matrix(Batch& batch, const DeltaRuleBackward& backward,
                                       MatrixUnitChoice unit, DeltaRuleMatrixTile tile);

}  // namespace clora

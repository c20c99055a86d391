// StepLayout: a planned step as rows of a recorded one (model/transformer/step_inputs.hpp): which
// rows its chunks take, how many rows are padding, and of which rows logits are computed.
#pragma once

#include <cstdint>
#include <vector>

#include "model/generation/scheduler.hpp"
#include "model/transformer/paged_forward.hpp"

namespace clora {

// Few shapes are recorded: numbers of rows are rounded up.
struct ShapeRules {
  bool pads_to_powers_of_two = false;  // on devices where padding costs little
  std::int64_t paged_alignment = 1;    // of the paged rows, if rows of prompts follow them
  // Up to so many rows of prompts attend to pages one by one, as rows of replies do.
  std::int64_t max_paged_prompt_rows = 16;

  // A number of rows or outputs, rounded up.
  std::int64_t rounded(std::int64_t rows) const;
  // SchedulerConfig::prompt_rows.
  std::int64_t prompt_rows(std::int64_t wanted) const;
};

// A row of logits, from which a token is drawn, or which gives the log-probability of a token.
struct OutputRow {
  const Sequence* sequence = nullptr;
  std::int64_t drawn = 0;    // tokens of the reply before it
  std::int64_t row = 0;      // of the step
  std::int32_t target = -1;  // the token of the prompt after it; -1: a token is drawn

  bool draws() const { return target < 0; }
};

class StepLayout {
 public:
  StepLayout(const StepPlan& plan, const ShapeRules& rules);

  const StepShape& shape() const noexcept { return shape_; }
  // Those of decoding chunks in their order, each with its drafts; then those of prompts, each with
  // the positions that it measures.
  const std::vector<OutputRow>& outputs() const noexcept { return outputs_; }
  // The chunks that have outputs, in the order of these.
  std::vector<const Chunk*> chunks_with_outputs() const;
  void fill(const PagedForward::Staged& staged, std::int64_t page_positions) const;

 private:
  void group_by_adapter();
  void add_outputs(const Chunk& chunk, std::int64_t begin);
  void count_keys();
  void write_row_groups(const PagedForward::Staged& staged) const;

  std::vector<const Chunk*> paged_, prompts_;
  StepShape shape_;
  std::vector<OutputRow> outputs_;
};

}  // namespace clora

#include "clora/ops/loss/preference.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "ops/launch_grids.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

#include "cl/loss/preference_sums.clh"

static_assert(kPreferenceSums == PREFERENCE_SUMS);
static_assert(offsetof(PreferenceSums, nll) == 4 * SUM_NLL);
static_assert(offsetof(PreferenceSums, rejected_count) == 4 * SUM_REJECTED_COUNT);
static_assert(offsetof(PreferenceSums, kl_count) == 4 * SUM_KL_COUNT);

constexpr std::string_view kOp = "preference loss";
constexpr std::string_view kFile = "preference.cl";
constexpr std::size_t kGroup = 64, kLargeGroup = 256, kColumns = 64;
constexpr std::int64_t kMaxRowGroups = 1 << 15;  // GPUs support 65535 in the second dimension

const char* name_of(PreferenceKind kind) {
  switch (kind) {
    case PreferenceKind::ipo:
      return "KIND_IPO";
    case PreferenceKind::orpo:
      return "KIND_ORPO";
    case PreferenceKind::kto:
      return "KIND_KTO";
    case PreferenceKind::dpo:
      break;
  }
  return "KIND_DPO";
}

Kernel kernel_of(Batch& batch, std::string_view function, std::size_t group,
                 PreferenceKind kind = PreferenceKind::dpo, bool nll = false) {
  Defines defines;
  defines.set("GROUP", group).set("KIND", name_of(kind));
  if (nll) defines.set("NLL");
  return batch.context().kernel(kFile, function, defines);
}

// Returns the number of labelled rows.
std::int64_t require_answers(const Tensor& rows, const Segments& answers) {
  require(!rows.empty() && rows.shape().rank() == 1 && rows.elements() > 0,
          "{}: f32 [C] with at least one element is required, got {}", kOp,
          rows.empty() ? "nothing" : rows.text());
  const std::int64_t C = rows.shape()[0];
  require_tensor(kOp, "rows", rows, {C});
  require_tensor(kOp, "begin", answers.begin, {C}, DType::i32);
  require_tensor(kOp, "end", answers.end, {C}, DType::i32);
  return C;
}

void require_formula(const PreferenceFormula& formula) {
  const auto& [kind, beta, smoothing, desirable, undesirable] = formula;
  require(std::isfinite(beta) && beta > 0, "{}: beta must be finite and above 0, got {}", kOp,
          beta);
  require(smoothing >= 0 && smoothing < 0.5F,
          "{}: the label smoothing must be at least 0 and below 0.5, got {}", kOp, smoothing);
  require(smoothing == 0 || kind == PreferenceKind::dpo, "{}: only dpo has label smoothing", kOp);
  for (const float weight : {desirable, undesirable}) {
    require(std::isfinite(weight) && weight >= 0,
            "{}: the weights of answers must be finite and not negative, got {}", kOp, weight);
  }
}

}  // namespace

void record_answer_logps(Batch& batch, const Tensor& logps, const Tensor& loss,
                         const Segments& answers) {
  const std::int64_t C = require_answers(loss, answers);
  require_tensor(kOp, "logps", logps, {C});
  const std::size_t group = reduction_group(batch.context().device(), kGroup);
  const auto rows = static_cast<double>(C);
  batch.launch({kernel_of(batch, "answer_logps", group),
                groups_of(group, static_cast<std::size_t>(C)),
                {rows, 16 * rows},
                "preference/logps"},
               logps, loss, answers.begin, answers.end);
}

void record_preference_loss(Batch& batch, const Tensor& sums, const Tensor& row_factors,
                            const Tensor& logps, const PreferenceInputs& in,
                            const PreferenceFormula& formula) {
  const std::int64_t C = require_answers(in.loss, in.answers);
  require_formula(formula);
  require_tensor(kOp, "sums", sums, {kPreferenceSums});
  require_tensor(kOp, "logps", logps, {C});
  require_tensor(kOp, "answer", in.answer, {C}, DType::i32);
  require_tensor(kOp, "reference", in.reference, {C});
  require_tensor(kOp, "label", in.label, {C}, DType::i32);
  require_tensor(kOp, "weights", in.weights, {2});
  const bool has_kl = formula.kind == PreferenceKind::kto;
  if (has_kl) require_tensor(kOp, "kl", in.kl, {2});
  const Tensor factors = batch.temporary({C}, DType::f32, "preference factors");
  const Tensor of_rows = row_factors.empty()
                             ? batch.temporary({C}, DType::f32, "preference row factors")
                             : row_factors;
  require_tensor(kOp, "row_factors", of_rows, {C});
  const std::size_t group = reduction_group(batch.context().device(), kLargeGroup);
  const auto rows = static_cast<double>(C);
  batch.launch({kernel_of(batch, "preference_loss", group, formula.kind, in.nll),
                groups_of(group, 1),
                {10 * rows, 28 * rows},
                "preference/loss"},
               sums, of_rows, factors, logps, in.loss, in.answers.begin, in.answers.end, in.answer,
               in.reference, in.label, in.weights, has_kl ? in.kl : in.weights, formula.beta,
               formula.label_smoothing, formula.desirable_weight, formula.undesirable_weight,
               i32(C));
}

void record_scaled_rows(Batch& batch, const Tensor& dx, const Tensor& row_factors) {
  require(!dx.empty() && dx.shape().rank() == 2, "{}: dx must be f32 [C, D], got {}", kOp,
          dx.empty() ? "nothing" : dx.text());
  const std::int64_t C = dx.shape()[0], D = dx.shape()[1];
  require_tensor(kOp, "dx", dx, {C, D});
  require_tensor(kOp, "row_factors", row_factors, {C});
  const auto elements = static_cast<double>(dx.elements());
  batch.launch({kernel_of(batch, "scale_rows", kGroup),
                {{static_cast<std::size_t>(round_up(D, kColumns)),
                  static_cast<std::size_t>(std::min(C, kMaxRowGroups)), 1},
                 {kColumns, 1, 1}},
                {elements, 8 * elements},
                "preference/gradient"},
               dx, row_factors, u32(C), u32(D));
}

void record_kl_sums(Batch& batch, const Tensor& kl, const Tensor& logps, const Segments& answers,
                    const Tensor& reference) {
  const std::int64_t C = require_answers(logps, answers);
  require_tensor(kOp, "kl", kl, {2});
  require_tensor(kOp, "reference", reference, {C});
  const std::size_t group = reduction_group(batch.context().device(), kLargeGroup);
  const auto rows = static_cast<double>(C);
  batch.launch(
      {kernel_of(batch, "kl_sums", group), groups_of(group, 1), {rows, 16 * rows}, "preference/kl"},
      kl, logps, answers.begin, answers.end, reference, i32(C));
}

}  // namespace clora

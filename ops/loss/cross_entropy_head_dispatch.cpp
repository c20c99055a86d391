#include "ops/loss/cross_entropy_head_dispatch.hpp"

#include "ops/dispatch/requirements.hpp"
#include "ops/loss/cross_entropy_head_hopper.hpp"
#include "ops/loss/cross_entropy_head_matrix.hpp"

namespace clora {
namespace {

constexpr HeadLossImplementation kImplementations[] = {
    {"wgmma", kHeadLossWgmma, needs_wgmma, head_loss_wgmma_refusal, head_loss_wgmma_passed,
     record_head_loss_wgmma},
    {"matrix", kHeadLossMatrix, needs_matrix_unit, head_loss_matrix_refusal,
     head_loss_matrix_passed, record_head_loss_matrix},
    {"portable", "cross_entropy.cl", needs_nothing, refuses_nothing, needs_no_test,
     record_head_loss_by_rows},
};
constexpr ImplementationList<HeadLossImplementation> kList{"cross_entropy_head", kImplementations};

}  // namespace

const ImplementationList<HeadLossImplementation>& head_loss_implementations() { return kList; }

const HeadLossImplementation& choose_head_loss(Context& context, const HeadLoss& head) {
  return choose_implementation(context, kList, head);
}

}  // namespace clora

#include "ops/loss/cross_entropy_head_dispatch.hpp"

#include "ops/dispatch/requirements.hpp"
#include "ops/loss/cross_entropy_head_hopper.hpp"

namespace clora {
namespace {

constexpr HeadLossImplementation kImplementations[] = {
    {"wgmma", kHeadLossWgmma, needs_wgmma, head_loss_wgmma_refusal, head_loss_wgmma_passed,
     record_head_loss_wgmma},
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

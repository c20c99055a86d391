#include "ops/lora_linear/lora_gradient_dispatch.hpp"

#include "ops/dispatch/requirements.hpp"
#include "ops/lora_linear/lora_gradient_hopper.hpp"
#include "ops/lora_linear/lora_gradient_kernels.hpp"
#include "ops/lora_linear/lora_gradient_matrix.hpp"

namespace clora {
namespace {

constexpr LoraGradientImplementation kImplementations[] = {
    {"wgmma", kLoraWgmma, needs_wgmma, refuses_nothing, lora_gradient_wgmma_passed,
     record_gradients_wgmma, true, kMaxGradientProblems, lora_gradients_can_join},
    {"matrix", kLoraMatrix, needs_matrix_unit, lora_gradient_matrix_refusal,
     lora_gradient_matrix_passed, record_gradients_matrix, true, kMaxMatrixGradients,
     lora_gradients_can_join},
    {"cpu", kLoraCpu, needs_cpu, refuses_nothing, lora_gradient_cpu_passed, record_gradient_cpu},
    {"portable", kLoraPortable, needs_nothing, refuses_nothing, needs_no_test,
     record_gradients_portable, false, kMaxPortableGradients, portable_gradients_can_join},
};
constexpr ImplementationList<LoraGradientImplementation> kList{"lora_gradient", kImplementations};

}  // namespace

const ImplementationList<LoraGradientImplementation>& lora_gradient_implementations() {
  return kList;
}

const LoraGradientImplementation& choose_lora_gradient(Context& context,
                                                       const LoraGradientProduct& p) {
  return choose_implementation(context, kList, p);
}

}  // namespace clora

#include "ops/decode/decode_layers_dispatch.hpp"

#include <algorithm>
#include <limits>

#include "ops/decode/decode_layers_cpu.hpp"
#include "ops/decode/decode_layers_gpu.hpp"
#include "ops/decode/decode_layers_portable.hpp"
#include "ops/dispatch/requirements.hpp"

namespace clora {
namespace {

void record_unfused(Batch& batch, const Tensor& x, const DecodeLayers& decode, const Tensor&) {
  record_decode_layers_unfused(batch, x, decode);
}

constexpr DecodeLayersImplementation kImplementations[] = {
    {"gpu", kDecodeLayersGpu, needs_co_resident_gpu, decode_layers_gpu_refusal, 1,
     decode_layers_gpu_passed, record_decode_layers_gpu_in_full, true},
    {"cpu", kDecodeLayersCpu, needs_co_resident_cpu, decode_layers_cpu_refusal, kMaxDecodeRowsCpu,
     decode_layers_cpu_passed, record_decode_layers_cpu, true},
    {"portable", kDecodeLayersPortable, needs_portable, decode_layers_portable_refusal, 1,
     needs_no_test, record_decode_layers_portable},
    {"unfused", "", needs_nothing, refuses_nothing, std::numeric_limits<std::int64_t>::max(),
     needs_no_test, record_unfused, false, false},
};
constexpr ImplementationList<DecodeLayersImplementation> kList{"decode_layers", kImplementations};

}  // namespace

const ImplementationList<DecodeLayersImplementation>& decode_layers_implementations() {
  return kList;
}

const DecodeLayersImplementation& choose_decode_layers(Context& context,
                                                       const DecodeLayers& decode) {
  return choose_implementation(context, kList, decode);
}

bool decodes_rows(Context& context, std::int64_t rows) {
  const ImplementationChoice choice(context, kList.family);
  if (!choice.allows(kList.all.back().name)) return true;
  return std::ranges::any_of(kList.all, [&](const DecodeLayersImplementation& each) {
    return each.is_fused && each.unavailable(context) == nullptr && rows <= each.max_rows;
  });
}

}  // namespace clora

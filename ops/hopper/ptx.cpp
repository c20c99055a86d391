#include "ops/hopper/ptx.hpp"

#include "ops/dispatch/variant_dispatch.hpp"

namespace clora {

bool uses_ptx(Context& context) { return context.capabilities().ptx && !makes_reference(context); }

Defines& set_use_ptx(Defines& defines, Context& context) {
  return uses_ptx(context) ? defines.set(kUsePtx) : defines;
}

}  // namespace clora

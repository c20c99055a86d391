#include "runtime/host_hold.hpp"

namespace clora {

bool comes_to_rest(Context& context) noexcept {
  try {
    context.finish();
    return true;
  } catch (...) {  // waited for in another way, or not known
    return context.health()->settle();
  }
}

}  // namespace clora

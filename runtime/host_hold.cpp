#include "runtime/host_hold.hpp"

namespace clora {

bool drain_queue(Context& context) noexcept {
  try {
    context.finish();
    return true;
  } catch (...) {  // waited for in another way, or not known
    return context.health()->drain();
  }
}

}  // namespace clora

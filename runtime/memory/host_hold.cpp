#include "runtime/memory/host_hold.hpp"

namespace clora {

bool drain_queue(Context& context) noexcept {
  try {
    context.finish();
    return true;
  } catch (...) {  // wait in another way, if that is possible
    return context.health()->drain();
  }
}

}  // namespace clora

#include "runtime/host_hold.hpp"

namespace clora {

bool comes_to_rest(Context& context) noexcept {
  constexpr int kAttempts = 2;  // a driver may refuse one wait for want of memory
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    try {
      context.finish();
      return true;
    } catch (...) {  // asked again, or reported as not known
    }
  }
  // A loss of another kind than "no progress" left the queue at rest.
  return context.health()->lost() && !context.health()->stuck();
}

}  // namespace clora

#include "clora/model/generation/generation_request.hpp"

namespace clora {

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      break;
  }
  return "cancelled";
}

}  // namespace clora

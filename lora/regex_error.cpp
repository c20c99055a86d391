#define PCRE2_CODE_UNIT_WIDTH 8
#include "lora/regex_error.hpp"

#include <pcre2.h>

#include <array>

namespace clora {

std::string regex_error_text(int status) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(status, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace clora

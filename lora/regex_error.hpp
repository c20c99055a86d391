// PCRE2's texts for its errors. Thread-safe.
#pragma once

#include <string>

namespace clora {

// The text of a negative status of PCRE2, or of an error of its compiler.
std::string regex_error_text(int status);

}  // namespace clora

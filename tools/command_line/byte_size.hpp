// ByteSize: a validator of amounts of memory for CLI11: a number of bytes, or with a unit, 512MiB,
// 8GB, 1.5 GiB (1024^3 bytes; GB are 1000^3). A valid value is rewritten as whole bytes, so use
// transform(). Immutable; thread-safe.
#pragma once

#include <CLI/CLI.hpp>

namespace clora {

class ByteSize : public CLI::Validator {
 public:
  ByteSize();
};

}  // namespace clora

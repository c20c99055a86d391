// The functions that libFuzzer calls. One program holds all targets; $CLORA_FUZZ_TARGET names the
// one to run.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/target.hpp"

namespace {

const clora::fuzz::Target* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* name = std::getenv("CLORA_FUZZ_TARGET");
  chosen = clora::fuzz::find_target(name == nullptr ? "" : name);
  if (chosen != nullptr) return 0;
  std::fputs("CLORA_FUZZ_TARGET must name one of:", stderr);
  for (const auto& target : clora::fuzz::targets())
    std::fprintf(stderr, " %.*s", static_cast<int>(target.name.size()), target.name.data());
  std::fputc('\n', stderr);
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  clora::fuzz::feed(*chosen, {reinterpret_cast<const char*>(data), size});
  return 0;
}

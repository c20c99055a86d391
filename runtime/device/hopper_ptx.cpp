#include "runtime/device/hopper_ptx.hpp"

#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::string_view kMark = "//@90a ";
constexpr std::string_view kOnlyBefore = "exit; //@90a-";
constexpr std::string_view kTarget = ".target sm_90,";
constexpr std::string_view kHopperTarget = ".target sm_90a,";

std::string without(std::string_view words, std::string_view text) {
  std::string rest;
  rest.reserve(text.size());
  std::size_t from = 0;
  for (std::size_t at = text.find(words); at != std::string_view::npos;
       at = text.find(words, from)) {
    rest.append(text, from, at - from);
    from = at + words.size();
  }
  return rest.append(text, from);
}

}  // namespace

bool has_hopper_instructions(std::string_view source) {
  return source.find(kMark) != std::string_view::npos;
}

std::string with_hopper_instructions(std::string ptx) {
  const std::size_t target = ptx.find(kTarget);
  if (target == std::string::npos) {
    fail(ErrorCode::build_failed,
         "program cache: a kernel with warp-group instructions needs PTX for sm_90, but the "
         "driver's binary is not PTX; use another variant");
  }
  ptx.replace(target, kTarget.size(), kHopperTarget);
  return without(kMark, without(kOnlyBefore, ptx));
}

}  // namespace clora

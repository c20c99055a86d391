#include "runtime/hopper_ptx.hpp"

#include "runtime/error.hpp"

namespace clora {
namespace {

constexpr std::string_view kMark = "//@90a ";
constexpr std::string_view kTarget = ".target sm_90,";
constexpr std::string_view kHopperTarget = ".target sm_90a,";

}  // namespace

bool has_hopper_instructions(std::string_view source) {
  return source.find(kMark) != std::string_view::npos;
}

std::string with_hopper_instructions(std::string ptx) {
  const std::size_t target = ptx.find(kTarget);
  if (target == std::string::npos) {
    fail(ErrorCode::build_failed,
         "program cache: a kernel with warp-group instructions needs PTX for sm_90, and the "
         "driver's binary is none; take another variant");
  }
  ptx.replace(target, kTarget.size(), kHopperTarget);
  std::string uncommented;
  uncommented.reserve(ptx.size());
  std::size_t from = 0;
  for (std::size_t at = ptx.find(kMark); at != std::string::npos; at = ptx.find(kMark, from)) {
    uncommented.append(ptx, from, at - from);
    from = at + kMark.size();
  }
  return uncommented.append(ptx, from);
}

}  // namespace clora

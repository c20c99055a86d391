#include "clora/model/training/moments.hpp"

#include "runtime/fail.hpp"

namespace clora {

std::string_view name_of(MomentType type) { return type == MomentType::q8 ? "q8" : "f32"; }

MomentType named_moment_type(std::string_view name) {
  for (const MomentType type : {MomentType::f32, MomentType::q8}) {
    if (name == name_of(type)) return type;
  }
  fail(ErrorCode::invalid_argument,
       "trainer: the type of the optimizer's moments must be f32 or q8, got '{}'", name);
}

MomentType type_of(const Moments& moments) {
  return std::holds_alternative<MomentsQ8>(moments) ? MomentType::q8 : MomentType::f32;
}

}  // namespace clora

#include "clora/model/generation/kv_cache_type.hpp"

#include <algorithm>
#include <array>

#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::array<DType, 4> kKvCacheTypes{DType::f32, DType::bf16, DType::f16, DType::q8_0};

}  // namespace

DType kv_cache_type_of(const Context& context, std::optional<DType> wanted) {
  if (!wanted) return context.precision() == Precision::f32 ? DType::f32 : DType::bf16;
  require(std::ranges::find(kKvCacheTypes, *wanted) != kKvCacheTypes.end(),
          "KV cache: the type must be f32, bf16, f16 or q8_0, got {}", name_of(*wanted));
  return *wanted;
}

std::optional<DType> named_kv_cache_type(std::string_view name) {
  if (name == "auto") return {};
  for (const DType type : kKvCacheTypes) {
    if (name == name_of(type)) return type;
  }
  fail(ErrorCode::invalid_argument,
       "KV cache: the type must be auto, f32, bf16, f16 or q8_0, got '{}'", name);
}

}  // namespace clora

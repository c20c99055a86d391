#include "clora/model/generation/kv_cache_type.hpp"

#include "runtime/fail.hpp"

namespace clora {

DType kv_cache_type_of(const Context& context, std::optional<DType> wanted) {
  if (!wanted) return context.precision() == Precision::f32 ? DType::f32 : DType::bf16;
  require(*wanted == DType::f32 || *wanted == DType::bf16 || *wanted == DType::f16,
          "KV cache: the type must be f32, bf16 or f16, got {}", name_of(*wanted));
  return *wanted;
}

std::optional<DType> named_kv_cache_type(std::string_view name) {
  if (name == "auto") return {};
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    if (name == name_of(type)) return type;
  }
  fail(ErrorCode::invalid_argument, "KV cache: the type must be auto, f32, bf16 or f16, got '{}'",
       name);
}

}  // namespace clora

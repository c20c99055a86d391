#include "bench/support/demo_model.hpp"

#include <cstdlib>

#include "runtime/fail.hpp"

namespace clora::bench {
namespace {

std::filesystem::path folder(const char* variable, const char* below) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : std::filesystem::path(value) / below;
}

}  // namespace

std::filesystem::path demo_model_path() {
  constexpr const char* kFile = "SmolLM2-135M-Instruct.Q4_1.gguf";
  if (const char* own = std::getenv("CLORA_BENCH_MODEL")) return own;
  for (const auto& models :
       {folder("CLORA_MODEL_CACHE", ""), folder("XDG_CACHE_HOME", "clora/models"),
        folder("HOME", ".cache/clora/models")}) {
    if (!models.empty()) return models / kFile;
  }
  return kFile;
}

std::filesystem::path require_demo_model() {
  std::filesystem::path path = demo_model_path();
  if (std::filesystem::exists(path)) return path;
  fail(ErrorCode::io,
       "demo model: '{}' is required; download it with tools/fetch_demo_model, or name a model "
       "with CLORA_BENCH_MODEL",
       path.string());
}

}  // namespace clora::bench

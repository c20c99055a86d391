#include "model/adapter_files/mlx_names.hpp"

#include <algorithm>
#include <array>

#include "runtime/fail.hpp"

namespace clora {
namespace {

// The families of clora that mlx-lm has, and the prefix of their modules.
struct MlxFamily {
  std::string_view family, prefix;
};
constexpr std::array<MlxFamily, 14> kFamilies{{{"gemma2", ""},
                                               {"gemma3_text", ""},
                                               {"granite", ""},
                                               {"lfm2", ""},
                                               {"llama", ""},
                                               {"ministral3", ""},
                                               {"mistral", ""},
                                               {"mixtral", ""},
                                               {"phi3", ""},
                                               {"qwen2", ""},
                                               {"qwen3", ""},
                                               {"qwen3_5_text", "language_model."},
                                               {"qwen3_moe", ""},
                                               {"smollm3", ""}}};

}  // namespace

std::string_view mlx_prefix(const ModelConfig& config) {
  const auto at = std::ranges::find(kFamilies, config.family, &MlxFamily::family);
  if (at != kFamilies.end()) return at->prefix;
  fail(ErrorCode::unsupported,
       "adapter: mlx-lm has no models of the family {}, so that there are "
       "no MLX adapters for them",
       config.family);
}

bool is_expert(std::string_view path) { return path.find(".experts.") != std::string_view::npos; }

}  // namespace clora

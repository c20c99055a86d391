// An adapter of all linear layers with random values, so that it changes every reply.
#pragma once

#include <filesystem>
#include <span>

#include "clora/lora/peft_files.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_models.hpp"

namespace clora::test {

inline void write_random_adapter(LanguageModel& model, const std::filesystem::path& folder,
                                 std::uint32_t seed) {
  const Adapter adapter(model.context(), adapter_sites(model.config()), {.rank = 2, .alpha = 2});
  for (const AdapterModule& module : adapter.modules()) {
    const LoraWeights weights = adapter.weights(module.site.path);
    for (const Tensor& matrix : {weights.a, weights.bt}) {
      const auto values = random_values(static_cast<std::size_t>(matrix.elements()), seed++, 0.7F);
      model.context().write(matrix, std::as_bytes(std::span(values)));
    }
  }
  save_adapter(adapter, folder);
}

}  // namespace clora::test

// An adapter on its model against the model that it is merged into.
#pragma once

#include <filesystem>

#include "clora/lora/adapter.hpp"
#include "tests/support/test_models.hpp"

namespace clora::test {

// Merges the adapter into the model and writes the result into `folder`; expects that it computes
// what the model does with the adapter: logits and the loss of two documents to 1e-4, and the same
// tokens of a greedy reply. Evaluations take LoRA's launches, replies those of decoding.
void expect_same_as_merged(OpenModel& open, const Adapter& adapter,
                           const std::filesystem::path& folder);

}  // namespace clora::test

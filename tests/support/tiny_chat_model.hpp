// A tiny model with everything that chatting needs: weights, tokeniser and chat template.
#pragma once

#include <filesystem>

namespace clora::test {

// A Llama folder of two blocks with byte_level_spec()'s vocabulary and the ChatML template.
void write_tiny_chat_model(const std::filesystem::path& folder);

}  // namespace clora::test

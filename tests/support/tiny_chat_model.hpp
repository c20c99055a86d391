// A tiny model with everything that chatting needs: weights, tokeniser and chat template.
#pragma once

#include <filesystem>
#include <string_view>

namespace clora::test {

// A folder of two blocks, those of tiny_models() of that name, with byte_level_spec()'s vocabulary
// and the ChatML template.
void write_tiny_chat_model(const std::filesystem::path& folder, std::string_view name = "Llama");

}  // namespace clora::test

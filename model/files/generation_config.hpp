// generation_config.json of a Hugging Face folder: the tokens that end a generation, which are
// often stored only there. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace clora {

inline constexpr const char* kGenerationConfigName = "generation_config.json";

// The ids of eos_token_id, one or a list, in the order of the file; none if there is no file or no
// such key. Ids outside of the vocabulary are omitted, because they are never generated. Errors:
// invalid_file if the file is not a JSON object or an id is not an integer.
std::vector<std::int32_t> generation_end_ids(const std::filesystem::path& folder,
                                             std::int64_t vocabulary);

}  // namespace clora

// The files that a sentence-transformers model has beside a transformer: how its rows become a
// vector, and how its texts are prepared. Private to model/ and tools/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "clora/model/embedding/embedder.hpp"

namespace clora {

struct SentenceTransformersConfig {
  std::optional<Pooling> pooling;
  bool normalises = false;
  std::int64_t max_length = 0;                 // tokens; 0: not limited by these files
  std::map<std::string, std::string> prompts;  // by name: "query" -> "query: "
  std::string default_prompt;                  // a name of a prompt, or empty
};

// Reads modules.json and the files that it names; nullopt if the folder has none. Errors:
// invalid_file, unsupported (a module or a pooling that clora does not compute), with the file.
std::optional<SentenceTransformersConfig> read_sentence_transformers(
    const std::filesystem::path& folder);

}  // namespace clora

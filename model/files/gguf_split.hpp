// Models that are split into several GGUF files, NAME-00001-of-00003.gguf and so on, as llama.cpp's
// gguf-split writes them: the first part has the metadata, each part has the keys split.no (from
// 0), split.count and split.tensors.count (of all parts), and tensors of its own. GgufFile::open()
// joins them. Pure functions; thread-safe. Private to model/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace clora {

// What the name of a part says.
struct GgufPartName {
  std::filesystem::path folder;
  std::string model;        // "NAME"
  std::int64_t number = 1;  // from 1
  std::int64_t count = 1;

  // Returns the path of the part with this number.
  std::filesystem::path path_of(std::int64_t part) const;
  // True iff both name parts of one model.
  bool is_same_model(const GgufPartName& other) const;
};

// Returns nullopt if the file is not named NAME-NNNNN-of-NNNNN.gguf with 1 <= number <= count.
std::optional<GgufPartName> gguf_part_name(const std::filesystem::path& path);

}  // namespace clora

// Splits GGUF files for tests as llama.cpp's gguf-split does.
#pragma once

#include <filesystem>
#include <string>

#include "clora/model/files/gguf.hpp"
#include "tests/support/gguf_bytes.hpp"

namespace clora::test {

// "NAME-00002-of-00003.gguf"
std::string gguf_part_file(std::string_view name, int number, int count);

// Adds the keys of part `index` (from 0) in the types of gguf-split.
void add_split_keys(GgufBytes& part, int index, int count, int tensors);

// Writes all metadata into the first of `count` parts in the folder, and the tensors in turns.
void write_gguf_parts(const GgufFile& model, const std::filesystem::path& folder,
                      std::string_view name, int count);

}  // namespace clora::test

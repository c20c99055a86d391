// Writes a model as one GGUF file, with an adapter merged into it or alone, in any type that
// model/files/quantise.hpp supports. The counterpart for Hugging Face's folders is
// model/weights/fuse.hpp. docs/interop-models.md describes the files.
//
// From a GGUF file, its metadata is copied, and its tensors are written in their order and under
// their names, with rows of q and k as the file has them; tensors that the adapter does not change
// are copied byte for byte unless another type is wanted, so no 16-bit copy of a quantised model is
// needed. A split model becomes one file. From a Hugging Face folder, metadata and tokenizer are
// written as llama.cpp's converter does. One tensor at a time is in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/weights/weights.hpp"

namespace clora {

struct GgufModelOptions {
  // Of the matrices; nullopt: of each tensor its own. Vectors are f32, and the head of a quantised
  // model is q6_k (q8_0 in a model of q8_0).
  std::optional<DType> type = {};
  std::function<bool()> go_on = {};  // called before each tensor
};

// What was written.
struct GgufModelSummary {
  std::uintmax_t bytes = 0;
  std::int64_t copied = 0;     // tensors that have the bytes of the base
  std::int64_t converted = 0;  // all others
  // "blk.0.ffn_down.weight as q8_0": tensors whose rows are no multiple of the wanted type's block.
  std::vector<std::string> other_types;
  std::string missing_tokenizer;  // why the file has no tokenizer; empty if it has one
  std::string tokenizer_warning;  // what it does otherwise than that of the folder; or empty
};

// Writes the file atomically; REQUIRES: nothing is at `path`. A file from a Hugging Face folder is
// read back, and removed unless its configuration and its tokenizer are those of the folder.
// adapter: null for the base model alone. Errors: io, also if the disk is too small, before
// anything is written; invalid_data, naming the tensor, for a value that is not finite or too large
// for its type; unsupported, naming it: a family, a rope or a tokenizer that GGUF or this writer
// does not have, a changed tensor of a type without a quantiser; cancelled if go_on returns false.
GgufModelSummary write_gguf_model(const WeightFiles& base, const Adapter* adapter,
                                  const std::filesystem::path& path,
                                  const GgufModelOptions& options = {});

}  // namespace clora

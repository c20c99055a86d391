// The modules of a language model outside of its blocks that an adapter may attach to: the token
// embeddings and the head. Pure functions; thread-safe.
#pragma once

#include <string_view>

namespace clora {

inline constexpr std::string_view kEmbeddingsPath = "model.embed_tokens";
inline constexpr std::string_view kHeadPath = "lm_head";

// True iff the path is that of token embeddings. Their site has the V tokens as inputs and the D
// elements of an embedding as outputs; PEFT's tensors have names of their own, and the table [V, D]
// in files is the transpose of what a linear layer of these sizes has.
constexpr bool is_embedding(std::string_view path) { return path == kEmbeddingsPath; }

}  // namespace clora

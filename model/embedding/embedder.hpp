// Embedder: vectors of texts, by an encoder or by a decoder: the rows of the model's output for a
// text, pooled into one.
//
// Texts of mixed lengths are packed one after the other into steps of a fixed number of rows, so
// that no row is spent on padding between them. A step is recorded once for each number of rows
// that occurs. Threads: one at a time. Must not outlive the model or the adapter.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/transformer/language_model.hpp"

namespace clora {

struct EmbedderOptions {
  Pooling pooling = Pooling::mean;
  bool normalises = true;  // vectors have length 1
};

class Embedder {
 public:
  // adapter may be null.
  Embedder(LanguageModel& model, const Adapter* adapter, const EmbedderOptions& options = {});
  ~Embedder();
  Embedder(Embedder&&) noexcept;
  Embedder& operator=(Embedder&&) noexcept;

  std::int64_t width() const;       // D
  std::int64_t max_length() const;  // tokens of a text

  // Returns a row of D numbers for each text, in order. Waits. texts: ids with the special tokens
  // that the model expects. REQUIRES: each text has 1 to max_length() ids in [0, V). Errors:
  // invalid_argument, out_of_memory, device.
  std::vector<float> embed(std::span<const std::vector<std::int32_t>> texts);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace clora

// Sequence: a request that waits or runs, with its tokens, its pages of the cache, and what of it
// is computed.
//
// Every position below `computed` is in the cache, or will be when the enqueued steps are done. A
// token that an enqueued step draws is `pending` until it is read: the next step may begin before.
// The same holds for log-probabilities of the prompt, of which the first `measured` tokens need
// none any more: the position of each token gives that of the next one.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "clora/model/generation/generation_request.hpp"
#include "clora/runtime/files/digest.hpp"
#include "model/generation/adapter_slots.hpp"

namespace clora {

struct Sequence {
  RequestId id = 0;
  GenerationRequest request = {};
  std::vector<std::int32_t> tokens = {};  // the prompt, and the reply as far as it is read
  std::int64_t pending = 0;               // 0, 1 or 2
  std::int64_t computed = 0;
  std::int64_t measured = 1;       // tokens of the prompt: the first one has no log-probability
  std::int64_t reported = 1;       // of these, those whose log-probabilities are read
  std::int64_t cached_tokens = 0;  // of the prompt, when it was first admitted
  // When it was submitted, and when its first step was planned.
  std::chrono::steady_clock::time_point submitted = {};
  std::optional<std::chrono::steady_clock::time_point> started = {};
  // What keys and values depend on besides the tokens, and where it is while the sequence runs.
  AdapterSelection adapters = {};
  AdapterSlot adapter = {};

  // While it runs: its slot, below the number of sequences, and its pages, of which the first
  // `published` ones can be found by other sequences, under this digest.
  std::int32_t slot = -1;
  bool is_prepared = false;  // the slot has the sequence's state on the device
  std::vector<std::int32_t> pages = {};
  std::int64_t published = 0;
  Digest published_digest = {};

  bool is_running() const { return slot >= 0; }
  std::int64_t prompt_tokens() const { return static_cast<std::int64_t>(request.prompt.size()); }
  std::int64_t known() const { return static_cast<std::int64_t>(tokens.size()); }
  // Tokens of the reply that are drawn, read or not.
  std::int64_t drawn() const { return known() + pending - prompt_tokens(); }
  // Positions to compute before the next token can be drawn.
  std::int64_t remaining() const { return known() + pending - computed; }
  // Whether log-probabilities of the prompt are still to be enqueued.
  bool measures() const { return request.prompt_logprobs >= 0 && measured < prompt_tokens(); }
  // The first position that must be computed for itself, though its keys may be in the cache.
  std::int64_t first_needed() const { return measures() ? measured - 1 : known() - 1; }
  // Whether nothing but the prompt's log-probabilities is wanted. Its last position is not needed.
  bool draws_nothing() const { return request.max_tokens == 0; }
};

}  // namespace clora

// CachePlaces: where the rows of a pass are in the KV cache, which is in pages, and how they attend
// to it. One pass has rows of any number of sequences.
//
// The first `paged_rows` rows attend to the pages of their sequences one by one, as in decoding.
// The rows after them, of prompts, are many for each sequence: they attend to keys side by side,
// for which kernels compute a tile of rows at once. These keys are those of the same rows, if no
// earlier position of their sequences is in the cache; else they are gathered from the cache.
#pragma once

#include <cstdint>

#include "clora/ops/attention/attention.hpp"

namespace clora {

struct CachePlaces {
  // [T] i32: the row of the cache in which a row's key and value are stored; -1: in none.
  Tensor slots;
  std::int64_t paged_rows = 0;
  KeyPages pages;  // table_of [paged_rows]
  // [K] i32: the rows of the cache that become keys 0 to K - 1; -1: unused. Empty: the keys are
  // those of the rows after the first paged_rows.
  Tensor gathered;
  Tensor first, last;  // [T - paged_rows] i32, as in AttentionInputs, of these keys
};

}  // namespace clora

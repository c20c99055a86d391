// PagePool: which pages of the KV cache are in use, by how many sequences, and which hold the keys
// and values of a prefix that later sequences may share. It has no device memory.
//
// A prefix is identified by a chain of digests of its pages' tokens, from a seed
// that says what else the keys depend on: the adapters. A page that no sequence uses any more keeps
// its prefix until it is needed for something else; the least recently used one is taken first.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "clora/runtime/files/digest.hpp"

namespace clora {

class PagePool {
 public:
  PagePool(std::int64_t pages, std::int64_t page_positions);

  std::int64_t pages() const noexcept { return static_cast<std::int64_t>(pages_.size()); }
  std::int64_t page_positions() const noexcept { return page_positions_; }
  // Pages that allocate() could return: those without a user.
  std::int64_t available() const noexcept;
  std::int64_t cached() const noexcept { return static_cast<std::int64_t>(unused_.size()); }

  // A page with one user and no prefix; nothing if every page has a user.
  std::optional<std::int32_t> allocate();
  void release(std::int32_t page);

  // Pages that hold the first tokens, each with one user more; at most `most` pages. `seed` becomes
  // the digest of these tokens.
  std::vector<std::int32_t> acquire_prefix(Digest& seed, std::span<const std::int32_t> tokens,
                                           std::size_t most);
  // Declares that a page holds the keys and values of `tokens`, as many as it has positions, after
  // those of `before`. Returns the digest of all. If another page holds the same, that one remains
  // the one that is found.
  Digest publish(std::int32_t page, const Digest& before, std::span<const std::int32_t> tokens);
  // Forgets all prefixes.
  void forget_prefixes();

 private:
  struct Page {
    std::int64_t users = 0;
    std::optional<Digest> prefix;             // under which it is found
    std::vector<std::int32_t> tokens;         // of the prefix's last page: digests may collide
    std::list<std::int32_t>::iterator place;  // in unused_, if it has a prefix and no user
  };
  Page& at(std::int32_t page) { return pages_[static_cast<std::size_t>(page)]; }
  void forget(Page& page);
  void retain(std::int32_t page);

  std::int64_t page_positions_;
  std::vector<Page> pages_;
  std::vector<std::int32_t> free_;  // without users and prefix
  std::list<std::int32_t> unused_;  // with a prefix and without users, least recently used first
  std::map<Digest, std::int32_t> found_;
};

}  // namespace clora

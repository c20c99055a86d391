#include "model/generation/page_pool.hpp"

#include <algorithm>

#include "runtime/fail.hpp"

namespace clora {
namespace {

Digest digest_after(const Digest& before, std::span<const std::int32_t> tokens) {
  std::vector<std::uint64_t> words{before.low, before.high};
  for (const std::int32_t token : tokens) words.push_back(static_cast<std::uint64_t>(token));
  return digest_of(std::as_bytes(std::span(words)));
}

}  // namespace

PagePool::PagePool(std::int64_t pages, std::int64_t page_positions)
    : page_positions_(page_positions), pages_(static_cast<std::size_t>(pages)) {
  for (std::int64_t page = pages; page-- > 0;) free_.push_back(static_cast<std::int32_t>(page));
}

std::int64_t PagePool::available() const noexcept {
  return static_cast<std::int64_t>(free_.size() + unused_.size());
}

std::optional<std::int32_t> PagePool::allocate() {
  if (free_.empty() && unused_.empty()) return {};
  std::int32_t page = 0;
  if (!free_.empty()) {
    page = free_.back();
    free_.pop_back();
  } else {
    page = unused_.front();
    unused_.pop_front();
    forget(at(page));
  }
  at(page).users = 1;
  return page;
}

void PagePool::retain(std::int32_t number) {
  Page& page = at(number);
  if (page.users++ == 0) unused_.erase(page.place);
}

void PagePool::release(std::int32_t number) {
  Page& page = at(number);
  require(page.users > 0, "page pool: page {} has no user", number);
  if (--page.users > 0) return;
  if (page.prefix) {
    page.place = unused_.insert(unused_.end(), number);
  } else {
    free_.push_back(number);
  }
}

std::vector<std::int32_t> PagePool::acquire_prefix(Digest& seed,
                                                   std::span<const std::int32_t> tokens,
                                                   std::size_t most) {
  const auto width = static_cast<std::size_t>(page_positions_);
  std::vector<std::int32_t> pages;
  while (pages.size() < most && (pages.size() + 1) * width <= tokens.size()) {
    const auto part = tokens.subspan(pages.size() * width, width);
    const Digest digest = digest_after(seed, part);
    const auto found = found_.find(digest);
    if (found == found_.end() || !std::ranges::equal(at(found->second).tokens, part)) break;
    retain(found->second);
    pages.push_back(found->second);
    seed = digest;
  }
  return pages;
}

Digest PagePool::publish(std::int32_t number, const Digest& before,
                         std::span<const std::int32_t> tokens) {
  const Digest digest = digest_after(before, tokens);
  Page& page = at(number);
  require(page.users > 0 && !page.prefix, "page pool: page {} cannot be published", number);
  if (!found_.emplace(digest, number).second) return digest;
  page.prefix = digest;
  page.tokens.assign(tokens.begin(), tokens.end());
  return digest;
}

void PagePool::forget(Page& page) {
  if (page.prefix) found_.erase(*page.prefix);
  page.prefix.reset();
  page.tokens.clear();
}

void PagePool::forget_prefixes() {
  for (const std::int32_t page : unused_) free_.push_back(page);
  unused_.clear();
  for (Page& page : pages_) forget(page);
}

}  // namespace clora

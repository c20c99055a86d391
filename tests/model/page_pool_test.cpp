#include "model/generation/page_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "clora/runtime/error.hpp"

namespace clora {
namespace {

using Tokens = std::vector<std::int32_t>;
using Pages = std::vector<std::int32_t>;

constexpr std::size_t kWidth = 4;  // positions of a page
const Digest kBase{1, 2};

Tokens tokens_from(std::int32_t first, std::size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Allocates and publishes the full pages of `tokens`.
Pages store(PagePool& pool, const Tokens& tokens, Digest digest = kBase) {
  Pages pages;
  for (std::size_t begin = 0; begin + kWidth <= tokens.size(); begin += kWidth) {
    pages.push_back(pool.allocate().value());
    digest = pool.publish(pages.back(), digest, std::span(tokens).subspan(begin, kWidth));
  }
  return pages;
}

void release(PagePool& pool, const Pages& pages) {
  for (auto page = pages.rbegin(); page != pages.rend(); ++page) pool.release(*page);
}

Pages find(PagePool& pool, const Tokens& tokens, Digest seed = kBase, std::size_t most = 99) {
  return pool.acquire_prefix(seed, tokens, most);
}

TEST(PagePool, GivesEveryPageOnceAndThenNone) {
  PagePool pool(3, kWidth);
  EXPECT_EQ(pool.available(), 3);
  Pages pages;
  for (int i = 0; i < 3; ++i) pages.push_back(pool.allocate().value());
  std::ranges::sort(pages);
  EXPECT_EQ(pages, (Pages{0, 1, 2}));
  EXPECT_FALSE(pool.allocate());
  pool.release(1);
  EXPECT_EQ(pool.allocate(), 1);
}

TEST(PagePool, FindsTheFullPagesOfAPrefix) {
  PagePool pool(8, kWidth);
  const Pages pages = store(pool, tokens_from(0, 12));
  EXPECT_EQ(find(pool, tokens_from(0, 20)), pages);
  EXPECT_EQ(find(pool, tokens_from(0, 11)), (Pages{pages[0], pages[1]}));
  EXPECT_EQ(find(pool, tokens_from(0, 20), kBase, 1), (Pages{pages[0]}));
  EXPECT_EQ(find(pool, tokens_from(0, 3)), Pages{});
  Tokens other = tokens_from(0, 12);
  other[5] = 99;
  EXPECT_EQ(find(pool, other), (Pages{pages[0]}));
}

TEST(PagePool, FindsNoPrefixOfAnotherAdapter) {
  PagePool pool(4, kWidth);
  store(pool, tokens_from(0, 8));
  EXPECT_EQ(find(pool, tokens_from(0, 8), Digest{3, 4}), Pages{});
}

TEST(PagePool, DoesNotFindAPageAfterAnotherPrefix) {
  PagePool pool(4, kWidth);
  store(pool, tokens_from(0, 8));
  EXPECT_EQ(find(pool, tokens_from(4, 4)), Pages{});
}

TEST(PagePool, KeepsAPageUntilItsLastUserReleasesIt) {
  PagePool pool(2, kWidth);
  const Pages pages = store(pool, tokens_from(0, 8));
  EXPECT_EQ(find(pool, tokens_from(0, 8)), pages);
  release(pool, pages);
  EXPECT_EQ(pool.available(), 0);
  release(pool, pages);
  EXPECT_EQ(pool.available(), 2);
  EXPECT_EQ(pool.cached(), 2);
}

TEST(PagePool, KeepsPrefixesWithoutUsersUntilPagesAreNeeded) {
  PagePool pool(3, kWidth);
  release(pool, store(pool, tokens_from(0, 8)));
  EXPECT_EQ(pool.cached(), 2);
  EXPECT_TRUE(pool.allocate());  // the free one
  EXPECT_EQ(find(pool, tokens_from(0, 8)).size(), 2U);
}

TEST(PagePool, TakesTheLeastRecentlyUsedPrefixFirstAndItsEndBeforeItsBegin) {
  PagePool pool(4, kWidth);
  const Pages old = store(pool, tokens_from(0, 8));
  const Pages recent = store(pool, tokens_from(100, 8));
  release(pool, old);
  release(pool, recent);
  EXPECT_EQ(pool.allocate(), old[1]);
  EXPECT_EQ(find(pool, tokens_from(0, 8)), (Pages{old[0]}));
  release(pool, {old[0]});  // now the most recent one
  EXPECT_EQ(pool.allocate(), recent[1]);
  EXPECT_EQ(pool.allocate(), recent[0]);
  EXPECT_EQ(pool.allocate(), old[0]);
  EXPECT_FALSE(pool.allocate());
}

TEST(PagePool, FindsTheFirstOfTwoPagesWithTheSameContents) {
  PagePool pool(4, kWidth);
  const Pages first = store(pool, tokens_from(0, 4)), second = store(pool, tokens_from(0, 4));
  EXPECT_EQ(find(pool, tokens_from(0, 4)), first);
  release(pool, second);
  EXPECT_EQ(pool.cached(), 0);
}

TEST(PagePool, ForgetsPrefixesOnRequest) {
  PagePool pool(3, kWidth);
  const Pages used = store(pool, tokens_from(0, 4));
  release(pool, store(pool, tokens_from(50, 8)));
  pool.forget_prefixes();
  EXPECT_EQ(pool.cached(), 0);
  EXPECT_EQ(pool.available(), 2);
  EXPECT_EQ(find(pool, tokens_from(0, 4)), Pages{});
  release(pool, used);
  EXPECT_EQ(pool.available(), 3);
}

TEST(PagePool, RefusesToReleaseAPageWithoutUsers) {
  PagePool pool(1, kWidth);
  EXPECT_THROW(pool.release(0), Error);
}

}  // namespace
}  // namespace clora

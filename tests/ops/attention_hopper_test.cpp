// The order in which Hopper's attention processes its tiles. attention_test.cpp checks the results,
// with Hopper's kernels as one of its variants.
#include "ops/attention/attention_hopper.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/copied_kernels.hpp"
#include "tests/support/key_ranges.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using Ints = std::vector<std::int32_t>;

class AttentionOrder : public testing::Test {
 protected:
  // For documents of these lengths: the order of query blocks, the order of key blocks, the
  // position of each key block in that order, and whether a key block visits its queries in
  // ascending order.
  std::array<Ints, 4> of(const std::vector<std::size_t>& documents, std::int64_t concurrent = 1) {
    const auto [first, last] = test::packed_ranges(documents);
    const Shape rows{std::ssize(first)};
    const Tensor begins = test::upload(context_, rows, first);
    const Tensor ends = test::upload(context_, rows, last);
    const std::int64_t blocks = divide_up(rows[0], std::int64_t{128});
    const Tensor copied = context_.allocate({3 * blocks + 1}, DType::i32, MemoryTag::scratch);
    Batch batch(context_);
    batch.copy(copied, record_tile_order(batch, begins, ends, concurrent));
    batch.submit().wait();
    const Ints all = context_.read<std::int32_t>(copied);
    std::array<Ints, 4> parts;
    for (std::ptrdiff_t i = 0; i < 4; ++i) {
      const auto end = std::min<std::ptrdiff_t>((i + 1) * blocks, std::ssize(all));
      parts[static_cast<std::size_t>(i)].assign(all.begin() + i * blocks, all.begin() + end);
    }
    return parts;
  }

 private:
  Context& context_ = test::context_of(Variant::portable);
};

TEST_F(AttentionOrder, OfOneLongDocumentStartsWithItsLastQueriesAndItsFirstKeys) {
  const auto [queries, keys, positions, upwards] = of({640});
  EXPECT_EQ(queries, (Ints{4, 3, 2, 1, 0}));
  EXPECT_EQ(keys, (Ints{0, 1, 2, 3, 4}));
  EXPECT_EQ(positions, (Ints{0, 1, 2, 3, 4}));
  EXPECT_EQ(upwards, Ints{0});
}

TEST_F(AttentionOrder, TakesTheLongestOfSeveralDocumentsFirst) {
  // Blocks 0 and 1 are the first document, 2 to 6 the second. They attend to 1, 2,
  // 1, 2, 3, 4 and 5 blocks of keys.
  const auto [queries, keys, positions, upwards] = of({256, 640});
  EXPECT_EQ(queries, (Ints{6, 5, 4, 1, 3, 0, 2}));
  EXPECT_EQ(keys, (Ints{2, 3, 4, 0, 5, 1, 6}));
  EXPECT_EQ(positions, (Ints{3, 5, 0, 1, 2, 4, 6}));
}

TEST_F(AttentionOrder, OfShortDocumentsTakesTheLastOfConcurrentKeyBlocksFirst) {
  // Sorted by cost alone, the order of key blocks is 2 0 3 1 4. Within each group of `concurrent`
  // blocks, the last ones come first.
  const auto [queries, keys, positions, upwards] = of({256, 384}, 2);
  EXPECT_EQ(queries, (Ints{4, 1, 3, 0, 2}));
  EXPECT_EQ(keys, (Ints{2, 0, 3, 1, 4}));
  EXPECT_EQ(upwards, Ints{1});
  const auto [same, three, where, also] = of({256, 384}, 3);
  EXPECT_EQ(three, (Ints{3, 2, 0, 4, 1}));
  EXPECT_EQ(where, (Ints{2, 4, 1, 0, 3}));
}

TEST_F(AttentionOrder, CountsABlockInWhichADocumentEndsForBoth) {
  // Block 1 holds the end of the first document and the start of the second, which ends in block 2.
  const auto [queries, keys, positions, upwards] = of({200, 100});
  EXPECT_EQ(queries, (Ints{1, 2, 0}));
  EXPECT_EQ(keys, (Ints{0, 1, 2}));
}

TEST_F(AttentionOrder, IsAPermutationOfManyBlocks) {
  for (const std::int64_t concurrent : {1, 7, 200}) {
    const auto [queries, keys, positions, upwards] = of({1, 40000, 300, 20000, 77}, concurrent);
    Ints blocks(queries.size());
    std::iota(blocks.begin(), blocks.end(), 0);
    EXPECT_THAT(queries, testing::UnorderedElementsAreArray(blocks));
    EXPECT_THAT(keys, testing::UnorderedElementsAreArray(blocks));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(positions[static_cast<std::size_t>(keys[i])], static_cast<std::int32_t>(i));
    }
  }
}

// The partial sums of dq are added in the order of their tasks; a thread waits for all earlier
// ones. A wait that times out gives up and leaves NaN in the incomplete elements, so a training
// step detects it in the norm of its gradients.
TEST(AttentionBackwardWait, ForAPartThatNeverComesEndsAndLeavesNaN) {
  if (!test::is_for_this_device(Variant::wgmma)) GTEST_SKIP() << "for GPUs with wgmma";
  const test::Folders folders;
  folders.replace("attention_backward_wgmma_copies.clh", "LONGEST_WAIT 10000000",
                  "LONGEST_WAIT 1000");
  folders.replace("attention_backward_wgmma_copies.clh",
                  "if (complete) release(counter, before + 1);",
                  "if (before > 0 && complete) release(counter, before + 1);");
  for (const std::int64_t width : {64, 128}) {
    constexpr std::int64_t kRows = 300;
    const test::Observed observed(folders, Variant::wgmma, false);
    const auto results = observed.run([&](SelfTest& t) {
      const Shape q{kRows, 2, width};
      Ints last(kRows);
      std::iota(last.begin(), last.end(), 0);
      const AttentionInputs in{.q = t.input(q),
                               .k = t.input(q),
                               .v = t.input(q),
                               .first = t.input({kRows}, Ints(kRows, 0)),
                               .last = t.input({kRows}, last),
                               .scale = 0.1F};
      record_attention_backward(t.batch(), {t.output(q), t.output(q), t.output(q)}, t.input(q),
                                t.input(q), t.input({kRows, 2}), in);
    });
    const std::vector<float> dq = results[0].floats();
    const auto of_row = static_cast<std::size_t>(2 * width);
    for (std::size_t i = 0; i < dq.size(); ++i) {
      // The queries of the first block attend only to the first block of keys.
      EXPECT_EQ(std::isnan(dq[i]), i / of_row >= 128) << i;
    }
    for (const float value : results[1].floats())
      ASSERT_FALSE(std::isnan(value)) << "dk contains NaN";
  }
}

}  // namespace
}  // namespace clora

// Attention of decoding rows on matrix units, in the units' emulation on any device: the kernel's
// indices, masks, splits and pages. attention_pages_test.cpp and attention_test.cpp run the kernel
// on GPUs that have the units.
#include "ops/attention/attention_decode_matrix.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/attention_problems.hpp"
#include "tests/support/copied_kernels.hpp"

namespace clora {
namespace {

using test::AttentionResult;
using test::expect_close;
using test::Floats;
using test::Ints;
using test::Output;
using test::shape_of;
using test::Types;
using test::upload;

constexpr std::size_t kPage = 16;

// Rows that attend to ranges of their sequences' keys, whose pages are in the cache in reverse
// order: row t belongs to sequence t % sequences.
struct Paged {
  test::Problem p;  // of the cache
  std::size_t sequences;

  Paged(std::size_t count, std::size_t pages, const Ints& first, const Ints& last, std::size_t H,
        std::size_t G, std::size_t E)
      : p({last.size(), count * pages * kPage, H, G, E}, first, last), sequences(count) {
    p = p.stored_as({.x = DType::bf16});
  }
  std::size_t pages() const { return p.n.Tk / kPage / sequences; }
  std::size_t page(std::size_t sequence, std::size_t n) const {
    return p.n.Tk / kPage - 1 - sequence * pages() - n;
  }
  // The cache row of a key of row t.
  std::size_t place(std::size_t t, std::size_t key) const {
    return page(t % sequences, key / kPage) * kPage + key % kPage;
  }
  Ints tables() const {
    Ints tables;
    for (std::size_t n = 0; n < p.n.Tk / kPage; ++n) {
      tables.push_back(static_cast<std::int32_t>(page(n / pages(), n % pages())));
    }
    return tables;
  }
  Ints table_of() const {
    Ints of(p.n.T);
    for (std::size_t t = 0; t < of.size(); ++t) of[t] = static_cast<std::int32_t>(t % sequences);
    return of;
  }
  // Row t alone, over its keys in order.
  AttentionResult reference(std::size_t t) const {
    test::Problem one({1, pages() * kPage, p.n.H, p.n.G, p.n.E}, {p.first[t]}, {p.last[t]});
    const std::size_t width = p.n.G * p.n.E, row = p.n.H * p.n.E;
    std::copy_n(p.q.begin() + static_cast<std::ptrdiff_t>(t * row), row, one.q.begin());
    for (std::size_t i = 0; i < one.k.size(); ++i) {
      const std::size_t from = place(t, i / width) * width + i % width;
      one.k[i] = p.k[from];
      one.v[i] = p.v[from];
    }
    one.soft_cap = p.soft_cap;
    return one.reference();
  }
};

class AttentionDecodeMatrix : public testing::Test {
 protected:
  struct Results {
    Floats y, log_sum_exp;
  };
  Context& context_ = test::context_of(Variant::portable);

  AttentionInputs inputs(const Paged& paged, DType keys = DType::bf16) {
    AttentionInputs in = paged.p.inputs(context_, {.keys = keys});
    const auto sequences = static_cast<std::int64_t>(paged.sequences);
    in.pages = {
        .tables =
            upload(context_, {sequences, static_cast<std::int64_t>(paged.pages())}, paged.tables()),
        .table_of = upload(context_, {static_cast<std::int64_t>(paged.p.n.T)}, paged.table_of()),
        .positions = kPage};
    return in;
  }
  Results run(const AttentionInputs& in, std::int64_t splits) {
    const Output y(context_, in.q.shape()), logs(context_, {in.q.shape()[0], in.q.shape()[1]});
    const AttentionForward forward{.spec = checked_spec("attention", context_, in),
                                   .y = y.tensor(),
                                   .log_sum_exp = logs.tensor(),
                                   .in = in};
    Batch batch(context_);
    record_attention_decode_matrix(
        batch, forward, {MatrixUnit::mma, true},
        {.subgroups = 2, .stages = 2, .splits = splits, .split_keys = 20});
    batch.submit().wait();
    return {y.values(), logs.values()};
  }
  // The weights of values are rounded to the type of the keys; those of the total are not.
  void check(const Paged& paged, std::int64_t splits, const std::string& what,
             DType keys = DType::bf16) {
    const Results got = run(inputs(paged, keys), splits);
    const auto& n = paged.p.n;
    const auto part = [](const Floats& of, std::size_t t, std::size_t width) {
      const auto begin = of.begin() + static_cast<std::ptrdiff_t>(t * width);
      return Floats(begin, begin + static_cast<std::ptrdiff_t>(width));
    };
    for (std::size_t t = 0; t < n.T; ++t) {
      const AttentionResult want = paged.reference(t);
      const std::string row = fmt::format("{}, {} splits, row {}", what, splits, t);
      expect_close(part(got.y, t, n.H * n.E), want.y, 2 * test::rounding_of(keys) + 1e-5,
                   row + ": y");
      expect_close(part(got.log_sum_exp, t, n.H), want.log_sum_exp, test::tolerance_of(n.Tk + n.E),
                   row + ": log_sum_exp");
    }
  }
};

// Keys of one block and of several; ranges that begin and end inside of blocks and at their limits.
const Ints kFirst{0, 0, 0, 0, 5, 31, 16, 40, 0, 79}, kLast{0, 14, 15, 16, 5, 64, 63, 79, 79, 79};

TEST_F(AttentionDecodeMatrix, MatchesTheFormulaOverPages) {
  for (const std::int64_t splits : {1, 2, 8}) {
    check(Paged(3, 5, kFirst, kLast, 14, 2, 32), splits, "seven heads of a key head");
  }
}

TEST_F(AttentionDecodeMatrix, MatchesTheFormulaOverKeysOfF16) {
  Paged paged(3, 5, kFirst, kLast, 6, 2, 32);
  paged.p.k = test::random_values(paged.p.k.size(), 5, 2);  // more bits than bf16 has
  paged.p.v = test::random_values(paged.p.v.size(), 6);
  paged.p = paged.p.stored_as({.x = DType::f16});
  check(paged, 2, "f16", DType::f16);
}

TEST_F(AttentionDecodeMatrix, MatchesTheFormulaForAnyNumberOfHeadsOfAKeyHead) {
  const Ints first{3, 0}, last{60, 31};
  for (const std::size_t heads : {1, 2, 16, 18, 32}) {  // 18 and 32: of tiles of 9 and of 16
    check(Paged(2, 4, first, last, 2 * heads, 2, 32), 1, fmt::format("{} heads", heads));
    check(Paged(2, 4, first, last, heads, 1, 32), 2, fmt::format("{} heads", heads));
  }
}

TEST_F(AttentionDecodeMatrix, ScalesEarlierSumsToLargerMaxima) {
  Paged paged(1, 8, {0, 0}, {127, 127}, 4, 1, 32);
  const std::size_t width = paged.p.n.E;
  for (std::size_t key = 0; key < 128; ++key) {  // scores grow from block to block
    const std::size_t at = paged.place(0, key) * width;
    for (std::size_t e = 0; e < width; ++e) {
      paged.p.k[at + e] *= 1 + static_cast<float>(key / kPage);
    }
  }
  paged.p = paged.p.stored_as({.x = DType::bf16});
  for (const std::int64_t splits : {1, 4}) check(paged, splits, "growing scores");
}

TEST_F(AttentionDecodeMatrix, ReadsNoKeyOutsideOfTheRange) {
  Paged paged(3, 5, kFirst, kLast, 4, 2, 32);
  const Results want = run(inputs(paged), 2);
  std::vector<bool> is_read(paged.p.n.Tk);
  for (std::size_t t = 0; t < paged.p.n.T; ++t) {
    for (std::int32_t key = paged.p.first[t]; key <= paged.p.last[t]; ++key) {
      is_read[paged.place(t, static_cast<std::size_t>(key))] = true;
    }
  }
  const std::size_t width = paged.p.n.G * paged.p.n.E;
  for (std::size_t i = 0; i < paged.p.k.size(); ++i) {
    if (is_read[i / width]) continue;
    paged.p.k[i] = paged.p.v[i] = std::numeric_limits<float>::quiet_NaN();
  }
  EXPECT_EQ(run(inputs(paged), 2).y, want.y);
  // Of a row that shares its pages with longer ones, too: row 1 alone.
  Paged alone(1, 2, {2}, {20}, 4, 2, 32);
  const Results right = run(inputs(alone), 1);
  for (std::size_t key = 0; key < 2 * kPage; ++key) {
    if (key >= 2 && key <= 20) continue;
    const std::size_t at = alone.place(0, key) * width;
    std::fill_n(alone.p.k.begin() + static_cast<std::ptrdiff_t>(at), width,
                std::numeric_limits<float>::quiet_NaN());
    std::fill_n(alone.p.v.begin() + static_cast<std::ptrdiff_t>(at), width,
                std::numeric_limits<float>::quiet_NaN());
  }
  EXPECT_EQ(run(inputs(alone), 1).y, right.y);
}

TEST_F(AttentionDecodeMatrix, GivesARowOfOneKeyItsValueExactly) {
  const Ints keys{0, 15, 16, 31};
  const Paged paged(1, 2, keys, keys, 6, 1, 32);
  const Floats got = run(inputs(paged), 1).y;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::size_t t = i / (6 * 32);
    EXPECT_EQ(got[i], paged.p.v[paged.place(t, static_cast<std::size_t>(keys[t])) * 32 + i % 32]);
  }
}

TEST_F(AttentionDecodeMatrix, ShowsAValueThatIsNotFiniteInTheRowsThatAttendToIt) {
  Paged paged(1, 5, kFirst, kLast, 2, 1, 32);
  paged.p.v[paged.place(0, 16) * 32 + 3] = std::numeric_limits<float>::quiet_NaN();
  const Results got = run(inputs(paged), 2);
  for (std::size_t t = 0; t < kLast.size(); ++t) {
    const bool attends = kFirst[t] <= 16 && kLast[t] >= 16;
    EXPECT_EQ(std::isnan(got.y[t * 64 + 3]), attends) << t;
    EXPECT_FALSE(std::isnan(got.y[t * 64 + 4])) << t;
  }
}

// The largest difference of two results, relative to the largest value.
double difference(const Floats& got, const Floats& want) {
  double largest = 0, differs = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(double{want[i]}));
    differs = std::max(differs, std::abs(double{got.at(i)} - want[i]));
  }
  return differs / largest;
}

// The y of the self-test of f32 over keys of bf16, by the emulated unit or by portable kernels.
Floats self_test_result(Context& context, bool emulates) {
  const Tensor q = context.allocate({1, 2, 32}, DType::f32, MemoryTag::scratch);
  const Tensor k = context.allocate({1, 1, 32}, DType::bf16, MemoryTag::scratch);
  const Tensor of_row = upload(context, {1}, Ints{0});
  const AttentionInputs in{.q = q, .k = k, .v = k, .first = of_row, .last = of_row};
  const AttentionForward given{checked_spec("attention", context, in), q, {}, in};
  SelfTest test(context);
  const AttentionForward tested = attention_decode_matrix_test(test, given, false);
  if (emulates) {
    record_attention_decode_matrix(test.batch(), tested, {MatrixUnit::mma, true},
                                   {.subgroups = 2, .stages = 2});
  } else {
    record_attention(test.batch(), tested.y, tested.log_sum_exp, tested.in);
  }
  return test.run().front().floats();
}

TEST(AttentionDecodeMatrixSelfTest, SeesARowThatAttendsToOtherKeys) {
  const test::Folders folders;
  folders.replace("attention_decode_matrix.cl", "key <= keys.y) continue;", "true) continue;");
  const test::Observed broken(folders, Variant::portable);
  Context& intact = test::context_of(Variant::portable);
  const Floats want = self_test_result(intact, false);
  EXPECT_LT(difference(self_test_result(intact, true), want), kBf16Tolerance / 2);
  EXPECT_GT(difference(self_test_result(*broken.context, true), want), 4 * kBf16Tolerance);
}

TEST(AttentionDecodeTiles, FitLocalMemory) {
  for (std::int64_t E = 16; E <= 256; E += 16) {
    for (const bool many : {false, true}) {
      const auto bytes = [&](AttentionDecodeMemory memory) {
        return attention_decode_tile(E, memory, many).local_bytes(E);
      };
      EXPECT_LE(bytes(AttentionDecodeMemory::medium), 99 << 10) << E;
      EXPECT_LE(bytes(AttentionDecodeMemory::large), (many && E <= 128 ? 113 : 227) << 10) << E;
    }
  }
}

}  // namespace
}  // namespace clora

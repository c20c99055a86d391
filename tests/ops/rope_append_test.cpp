// rope_append: rotated queries and keys, and rows of a KV cache, in one launch.
#include "clora/ops/attention/rope_append.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "clora/ops/attention/attention.hpp"
#include "clora/ops/quant/quant.hpp"
#include "tests/reference/rope_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::Output;
using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

constexpr std::int64_t kPositions = 20, kCacheRows = 90;

// Cosines and sines of kPositions positions and R pairs.
Floats table_of(std::int64_t R, double base) {
  Floats table;
  for (std::int64_t p = 0; p < kPositions; ++p) {
    for (std::int64_t i = 0; i < R; ++i) {
      const double angle = static_cast<double>(p) * std::pow(base, static_cast<double>(i));
      table.push_back(static_cast<float>(std::cos(angle)));
      table.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return table;
}

struct Case {
  std::int64_t T, H, G, E;
  std::int64_t R = 0;  // rotated pairs; 0: E/2
  DType type = DType::f32, cache_type = DType::f32;
  RopeLayout layout = RopeLayout::half_split;
  bool has_key_table = false;

  std::int64_t pairs() const { return R == 0 ? E / 2 : R; }
  std::string text() const {
    return fmt::format("{}x{}+{}x{}, {} pairs, {} to {}{}{}", T, H, G, E, pairs(), name_of(type),
                       name_of(cache_type),
                       layout == RopeLayout::interleaved ? ", interleaved" : "",
                       has_key_table ? ", key table" : "");
  }
};

// What the op reads. Positions repeat, slots are unordered, and every fifth row has none.
struct Inputs {
  Floats q, k, v;
  Ints positions, slots;

  explicit Inputs(const Case& c) {
    const auto values = [&](std::int64_t heads, std::uint32_t seed) {
      return test::random_values(static_cast<std::size_t>(c.T * heads * c.E), seed);
    };
    q = values(c.H, 1);
    k = values(c.G, 2);
    v = values(c.G, 3);
    for (std::int64_t t = 0; t < c.T; ++t) {
      positions.push_back(static_cast<std::int32_t>((t * 37 + 11) % kPositions));
      const std::int64_t slot = (t * 49 + 5) % kCacheRows;
      slots.push_back(
          static_cast<std::int32_t>(t % 5 != 4 ? slot : (t % 2 == 0 ? -1 : kCacheRows + t)));
    }
  }
};

struct Results {
  Floats q, k, key_cache, value_cache;
};

class RopeAppendTest : public test::OpTest {
 protected:
  // By the op, or by the ops whose results it has.
  Results results(const Case& c, bool fused) {
    Inputs in(c);
    const auto at = [&](std::int64_t heads, Floats& x) {
      return test::upload_as(context(), c.type, {c.T, heads, c.E}, x);
    };
    const Output key_cache(context(), {kCacheRows, c.G, c.E}, c.cache_type);
    const Output value_cache(context(), {kCacheRows, c.G, c.E}, c.cache_type);
    const Output q(context(), {c.T, c.H, c.E}, c.type), k(context(), {c.T, c.G, c.E}, c.type);
    const Tensor from_q = at(c.H, in.q), from_k = at(c.G, in.k), v = at(c.G, in.v);
    const Shape table{kPositions, c.pairs(), 2};
    const RopeAppend tensors{
        .queries = q.tensor(),
        .keys = k.tensor(),
        .values = v,
        .key_cache = key_cache.tensor(),
        .value_cache = value_cache.tensor(),
        .positions = test::upload(context(), {c.T}, in.positions),
        .slots = test::upload(context(), {c.T}, in.slots),
        .table = test::upload(context(), table, table_of(c.pairs(), 0.7)),
        .key_table =
            c.has_key_table ? test::upload(context(), table, table_of(c.pairs(), 0.4)) : Tensor()};
    run([&](Batch& b) {
      b.copy(tensors.queries, from_q);
      b.copy(tensors.keys, from_k);
      if (fused) return record_rope_append(b, tensors, c.layout);
      record_rope_of_two(b, {tensors.queries, tensors.queries},
                         {tensors.keys, tensors.keys, tensors.key_table}, tensors.positions,
                         tensors.table, c.layout, RopeDirection::forward);
      record_cache_append(b, tensors.key_cache, tensors.keys, tensors.slots);
      record_cache_append(b, tensors.value_cache, tensors.values, tensors.slots);
    });
    return {q.values(), k.values(), key_cache.values(), value_cache.values()};
  }
  void check_reference(const Case& c);
  void check_bits(const Case& c);
};
INSTANTIATE_TEST_SUITE_P(Variants, RopeAppendTest, test::all_variants(), test::variant_name);

// Heads of E elements, of which the first 2 R are rotated.
std::vector<double> rotated(const Case& c, std::int64_t heads, const Floats& x,
                            const Ints& positions, double base) {
  const auto E = static_cast<std::size_t>(c.E), part = static_cast<std::size_t>(2 * c.pairs());
  std::vector<double> all = test::to_double(x), parts;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % E < part) parts.push_back(all[i]);
  }
  parts = reference::rope(parts, positions, test::to_double(table_of(c.pairs(), base)),
                          {static_cast<std::size_t>(c.T), static_cast<std::size_t>(heads), part},
                          c.layout == RopeLayout::interleaved, 1);
  std::size_t next = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % E < part) all[i] = parts[next++];
  }
  return all;
}

// The rows that have slots are those of `rows` [T, G E]; all others are NaN, as before the op.
void expect_cache(const Floats& cache, const std::vector<double>& rows, const Case& c,
                  const std::string& what) {
  const auto width = static_cast<std::size_t>(c.G * c.E);
  std::vector<double> got_rows, want_rows;
  std::vector<bool> is_written(kCacheRows);
  const Inputs in(c);
  for (std::size_t t = 0; t < static_cast<std::size_t>(c.T); ++t) {
    if (in.slots[t] < 0 || in.slots[t] >= kCacheRows) continue;
    const auto slot = static_cast<std::size_t>(in.slots[t]);
    is_written[slot] = true;
    for (std::size_t i = 0; i < width; ++i) {
      got_rows.push_back(static_cast<double>(cache[slot * width + i]));
      want_rows.push_back(rows[t * width + i]);
    }
  }
  const double rounding = test::rounding_of(c.type) + test::rounding_of(c.cache_type);
  test::expect_close(got_rows, want_rows, test::tolerance_of(2) + rounding, what);
  for (std::size_t i = 0; i < cache.size(); ++i) {
    ASSERT_TRUE(is_written[i / width] || std::isnan(cache[i])) << what << " at " << i;
  }
}

void RopeAppendTest::check_reference(const Case& c) {
  SCOPED_TRACE(c.text());
  Inputs in(c);
  for (Floats* x : {&in.q, &in.k, &in.v}) *x = test::stored_as(c.type, *x);
  const Results got = results(c, true);
  const std::vector<double> q = rotated(c, c.H, in.q, in.positions, 0.7);
  const std::vector<double> k = rotated(c, c.G, in.k, in.positions, c.has_key_table ? 0.4 : 0.7);
  const double tolerance = test::tolerance_of(2) + test::rounding_of(c.type);
  test::expect_close(got.q, q, tolerance, "queries");
  test::expect_close(got.k, k, tolerance, "keys");
  expect_cache(got.key_cache, k, c, "key cache");
  expect_cache(got.value_cache, test::to_double(in.v), c, "value cache");
}

TEST_P(RopeAppendTest, RotatesQueriesAndKeysAndAppendsKeysAndValues) {
  for (const auto& [T, H, G, E] : std::vector<std::array<std::int64_t, 4>>{
           {1, 1, 1, 2}, {7, 3, 1, 34}, {5, 4, 2, 40}, {64, 14, 2, 64}, {67, 6, 3, 128}}) {
    if (!test::affords(T * (H + 2 * G) * E)) continue;
    for (const RopeLayout layout : {RopeLayout::half_split, RopeLayout::interleaved}) {
      check_reference({.T = T, .H = H, .G = G, .E = E, .layout = layout});
    }
  }
}

TEST_P(RopeAppendTest, RoundsToTheTypesOfRowsAndCaches) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    for (const DType cache_type : {DType::f32, DType::bf16, DType::f16}) {
      for (const std::int64_t E : {30, 64}) {
        check_reference({.T = 9, .H = 6, .G = 2, .E = E, .type = type, .cache_type = cache_type});
      }
    }
  }
}

TEST_P(RopeAppendTest, KeepsTheElementsBeyondTheTablesPairs) {
  for (const auto& [R, E] :
       std::vector<std::array<std::int64_t, 2>>{{24, 64}, {3, 8}, {1, 10}, {16, 96}, {32, 80}}) {
    for (const RopeLayout layout : {RopeLayout::half_split, RopeLayout::interleaved}) {
      check_reference({.T = 6, .H = 4, .G = 2, .E = E, .R = R, .layout = layout});
    }
    check_reference(
        {.T = 6, .H = 4, .G = 2, .E = E, .R = R, .type = DType::bf16, .cache_type = DType::bf16});
  }
}

TEST_P(RopeAppendTest, RotatesKeysByTheirOwnTable) {
  for (const DType type : {DType::f32, DType::bf16}) {
    check_reference({.T = 11, .H = 6, .G = 2, .E = 24, .type = type, .has_key_table = true});
  }
}

// NaN, in rows that get no values, is not equal to itself.
void expect_same(const Floats& got, const Floats& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    ASSERT_EQ(got[i], want[i]) << what << " at " << i;
  }
}

void RopeAppendTest::check_bits(const Case& c) {
  SCOPED_TRACE(c.text());
  const Results got = results(c, true), want = results(c, false);
  expect_same(got.q, want.q, "queries");
  expect_same(got.k, want.k, "keys");
  expect_same(got.key_cache, want.key_cache, "key cache");
  expect_same(got.value_cache, want.value_cache, "value cache");
}

TEST_P(RopeAppendTest, HasTheBitsOfRopeAndTwoAppends) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    for (const DType cache_type : {type, DType::bf16, DType::f16}) {
      for (const std::int64_t R : {0, 12}) {
        check_bits({.T = 33,
                    .H = 6,
                    .G = 2,
                    .E = 64,
                    .R = R,
                    .type = type,
                    .cache_type = cache_type,
                    .has_key_table = true});
      }
    }
  }
}

// A cache of q8_0 is compared in its bytes.
TEST_P(RopeAppendTest, AppendsToCachesOfEightBitsWithTheBitsOfTheOps) {
  constexpr std::int64_t T = 7, H = 4, G = 2, E = 64;
  for (const DType type : {DType::f32, DType::bf16}) {
    Inputs in({.T = T, .H = H, .G = G, .E = E});
    const Floats ones(static_cast<std::size_t>(kCacheRows * G * E), 1.0F);
    std::vector<std::vector<float>> bytes;
    for (const bool fused : {true, false}) {
      Floats stored = ones;
      const Tensor keys = test::upload_as(context(), DType::q8_0, {kCacheRows, G, E}, stored);
      const Tensor values = test::upload_as(context(), DType::q8_0, {kCacheRows, G, E}, stored);
      const Tensor q = test::upload_as(context(), type, {T, H, E}, in.q);
      const Tensor k = test::upload_as(context(), type, {T, G, E}, in.k);
      const Tensor v = test::upload_as(context(), type, {T, G, E}, in.v);
      const Tensor positions = test::upload(context(), {T}, in.positions);
      const Tensor slots = test::upload(context(), {T}, in.slots);
      const Tensor table = test::upload(context(), {kPositions, E / 2, 2}, table_of(E / 2, 0.7));
      const Shape rows{kCacheRows, G * E};
      const Output key_rows(context(), rows), value_rows(context(), rows);
      run([&](Batch& b) {
        if (fused) {
          record_rope_append(b, {q, k, v, keys, values, positions, slots, table},
                             RopeLayout::half_split);
        } else {
          record_rope_of_two(b, {q, q}, {k, k}, positions, table, RopeLayout::half_split,
                             RopeDirection::forward);
          record_cache_append(b, keys, k, slots);
          record_cache_append(b, values, v, slots);
        }
        record_dequantise(b, key_rows.tensor(), keys.reshape(rows));
        record_dequantise(b, value_rows.tensor(), values.reshape(rows));
      });
      bytes.push_back(key_rows.values());
      bytes.push_back(value_rows.values());
    }
    expect_same(bytes[0], bytes[2], "key cache");
    expect_same(bytes[1], bytes[3], "value cache");
    EXPECT_NE(bytes[0], bytes[1]);
  }
}

TEST_P(RopeAppendTest, IsOneLaunch) {
  const auto of = [&](std::int64_t heads) {
    return context().allocate({4, heads, 32}, DType::f32, MemoryTag::scratch);
  };
  const Tensor cache = context().allocate({8, 2, 32}, DType::bf16, MemoryTag::scratch);
  const Tensor other = context().allocate({8, 2, 32}, DType::bf16, MemoryTag::scratch);
  const Tensor ids = test::upload(context(), {4}, Ints{0, 1, 2, 3});
  const Tensor table = test::upload(context(), {kPositions, 16, 2}, table_of(16, 0.7));
  Batch b(context());
  record_rope_append(b, {of(6), of(2), of(2), cache, other, ids, ids, table},
                     RopeLayout::half_split);
  EXPECT_EQ(b.commands(), 1U);
}

TEST_P(RopeAppendTest, RefusesTensorsThatDoNotMatch) {
  Batch b(context());
  const auto of = [&](Shape shape, DType type = DType::f32) {
    return context().allocate(shape, type, MemoryTag::scratch);
  };
  const Tensor ids = test::upload(context(), {4}, Ints{0, 1, 2, 3});
  const RopeAppend right{.queries = of({4, 6, 8}),
                         .keys = of({4, 2, 8}),
                         .values = of({4, 2, 8}),
                         .key_cache = of({9, 2, 8}, DType::bf16),
                         .value_cache = of({9, 2, 8}, DType::bf16),
                         .positions = ids,
                         .slots = ids,
                         .table = of({kPositions, 4, 2})};
  const auto message = [&](auto change) {
    RopeAppend wrong = right;
    change(wrong);
    return test::error_of([&] { record_rope_append(b, wrong, RopeLayout::half_split); });
  };
  using T = RopeAppend;
  using testing::HasSubstr;
  EXPECT_THAT(message([](T& t) { t.queries = {}; }),
              HasSubstr("[T, H, E] with an even head dim E"));
  EXPECT_THAT(message([&](T& t) { t.queries = of({4, 6, 7}); }), HasSubstr("even head dim E, got"));
  EXPECT_THAT(message([](T& t) { t.keys = {}; }), HasSubstr("keys must be [4, G, 8], got nothing"));
  EXPECT_THAT(message([&](T& t) {
                t.keys = of({4, 2, 8}, DType::bf16);
              }),
              HasSubstr("keys must be f32 [4, 2, 8], got bf16"));
  EXPECT_THAT(message([&](T& t) {
                t.keys = of({3, 2, 8});
              }),
              HasSubstr("keys must be f32 [4, 2, 8]"));
  EXPECT_THAT(message([&](T& t) {
                t.values = of({4, 3, 8});
              }),
              HasSubstr("values must be f32 [4, 2, 8]"));
  EXPECT_THAT(message([&](T& t) { t.positions = ids.rows(0, 3); }),
              HasSubstr("positions must be i32 [4]"));
  EXPECT_THAT(message([&](T& t) { t.slots = ids.rows(0, 3); }), HasSubstr("slots must be i32 [4]"));
  EXPECT_THAT(message([](T& t) { t.table = {}; }),
              HasSubstr("table must be f32 [P, 4, 2], got nothing"));
  EXPECT_THAT(message([&](T& t) {
                t.table = of({kPositions, 5, 2});
              }),
              HasSubstr("table must be f32 [20, 4, 2], got f32 [20, 5, 2]"));
  EXPECT_THAT(message([&](T& t) {
                t.key_table = of({kPositions, 3, 2});
              }),
              HasSubstr("key_table must be f32 [20, 4, 2]"));
  EXPECT_THAT(message([](T& t) { t.key_cache = {}; }),
              HasSubstr("key_cache must be f32, bf16, f16 or q8_0 [S, 2, 8], got nothing"));
  EXPECT_THAT(message([&](T& t) {
                t.key_cache = of({9, 3, 8});
              }),
              HasSubstr("key_cache must be f32 [9, 2, 8]"));
  EXPECT_THAT(message([&](T& t) {
                t.value_cache = of({9, 2, 8});
              }),
              HasSubstr("value_cache must be bf16 [9, 2, 8], got f32"));
  EXPECT_THAT(message([&](T& t) {
                t.key_cache = of({9, 2, 8});
                t.value_cache = t.key_cache;
                t.values = t.key_cache.rows(0, 4);
              }),
              HasSubstr("the caches must not overlap the rows"));
  EXPECT_EQ(b.commands(), 0U);
}

}  // namespace
}  // namespace clora

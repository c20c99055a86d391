// Attention on matrix units, in the units' emulation on any device: the kernels' indices, masks and
// ranges, with small tiles. attention_test.cpp runs the kernels on GPUs that have the units.
#include "ops/attention/attention_matrix.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/reference/attention_reference.hpp"
#include "tests/support/key_ranges.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::AttentionSizes;
using test::expect_close;
using test::Output;
using test::to_double;
using Ints = std::vector<std::int32_t>;
using Floats = std::vector<float>;

// Random rows whose values are exact in bf16, and the range of keys that each query attends to.
struct Problem {
  AttentionSizes n;
  Floats q, k, v, dy;
  Ints first, last;
  float soft_cap = 0;

  Problem(AttentionSizes sizes, Ints begins, Ints ends)
      : n(sizes), first(std::move(begins)), last(std::move(ends)) {
    q = exact(n.queries(), 1, 2);
    k = exact(n.keys(), 2, 2);
    v = exact(n.keys(), 3, 1);
    dy = exact(n.queries(), 4, 1);
  }
  float scale() const { return 1 / std::sqrt(static_cast<float>(n.E)); }

 private:
  static Floats exact(std::size_t count, std::uint32_t seed, float limit) {
    Floats values = test::random_values(count, seed, limit);
    const auto rounded = test::rounded_to_bf16(to_double(values));
    std::ranges::transform(rounded, values.begin(), [](double x) { return static_cast<float>(x); });
    return values;
  }
};

// Documents of these lengths, packed one after another.
Problem packed(const std::vector<std::size_t>& documents, std::size_t H, std::size_t G,
               std::size_t E) {
  test::KeyRanges ranges = test::packed_ranges(documents);
  const AttentionSizes n{ranges.rows(), ranges.rows(), H, G, E};
  return {n, std::move(ranges.first), std::move(ranges.last)};
}

struct Results {
  Floats y, log_sum_exp, dq, dk, dv;  // dk and dv of each query head
};

class AttentionMatrix : public testing::Test {
 protected:
  static constexpr AttentionMatrixTile kTile{.subgroups = 2, .subgroup_rows = 16, .columns = 32};

  // The forward and, if q and k have the same rows, the backward. `type` is that of all tensors.
  Results run(const Problem& p, AttentionMatrixTile tile = kTile, DType type = DType::f32,
              MatrixUnit unit = MatrixUnit::mma) {
    const MatrixUnitChoice emulated{unit, true};
    const auto rows = [&](std::size_t count, std::size_t heads) {
      return Shape{static_cast<std::int64_t>(count), static_cast<std::int64_t>(heads),
                   static_cast<std::int64_t>(p.n.E)};
    };
    const auto uploaded = [&](const Shape& shape, Floats values) {
      return test::upload_as(context_, type, shape, values);
    };
    const Shape queries = rows(p.n.T, p.n.H), keys = rows(p.n.Tk, p.n.G);
    const Output y(context_, queries, type), logs(context_, {queries[0], queries[1]});
    AttentionForward forward{
        .spec = {context_, queries[0], keys[0], queries[1], keys[1], queries[2]},
        .y = y.tensor(),
        .log_sum_exp = logs.tensor(),
        .in = {.q = uploaded(queries, p.q),
               .k = uploaded(keys, p.k),
               .v = uploaded(keys, p.v),
               .first = test::upload(context_, {queries[0]}, p.first),
               .last = test::upload(context_, {queries[0]}, p.last),
               .scale = p.scale(),
               .soft_cap = p.soft_cap}};
    forward.spec.soft_cap = p.soft_cap;
    Batch batch(context_);
    record_attention_matrix(batch, forward, emulated, tile);
    if (p.n.T != p.n.Tk) {
      batch.submit().wait();
      return {y.values(), logs.values(), {}, {}, {}};
    }
    const Output dq(context_, queries, type), dk(context_, keys, type), dv(context_, keys, type);
    const AttentionBackward backward{.spec = forward.spec,
                                     .out = {dq.tensor(), dk.tensor(), dv.tensor()},
                                     .dy = uploaded(queries, p.dy),
                                     .y = y.tensor(),
                                     .log_sum_exp = logs.tensor(),
                                     .in = forward.in,
                                     .cost = {}};
    const AttentionGradients parts =
        record_attention_backward_matrix(batch, backward, emulated, {tile, tile, tile});
    const Output dk_parts(context_, parts.dk.shape(), type);
    const Output dv_parts(context_, parts.dv.shape(), type);
    batch.copy(dk_parts.tensor(), parts.dk);
    batch.copy(dv_parts.tensor(), parts.dv);
    batch.submit().wait();
    return {y.values(), logs.values(), dq.values(), dk_parts.values(), dv_parts.values()};
  }

  // The sums over the query heads of each key head.
  static Floats over_heads(const Floats& parts, const AttentionSizes& n) {
    const std::size_t group = n.H / n.G;
    Floats sums(n.keys());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      sums[i / n.E / group * n.E + i % n.E] += parts[i];
    }
    return sums;
  }

  // p and ds are rounded to bf16, and the results to `type`.
  void check(const Problem& p, const std::string& what, AttentionMatrixTile tile = kTile,
             DType type = DType::f32, MatrixUnit unit = MatrixUnit::mma) {
    const Results got = run(p, tile, type, unit);
    const auto q = to_double(p.q), k = to_double(p.k), v = to_double(p.v);
    const auto want =
        test::attention_reference(p.n, q, k, v, p.first, p.last, p.scale(), p.soft_cap);
    expect_close(got.y, want.y, 0x1p-7, what + ": y");
    expect_close(got.log_sum_exp, want.log_sum_exp, 1e-5, what + ": log_sum_exp");
    if (p.n.T != p.n.Tk) return;
    const auto gradients = test::attention_backward_reference(
        p.n, to_double(p.dy), q, k, v, p.first, p.last, p.scale(), p.soft_cap);
    expect_close(got.dq, gradients.dq, 0x1p-6, what + ": dq");
    expect_close(over_heads(got.dk, p.n), gradients.dk, 0x1p-6, what + ": dk");
    expect_close(over_heads(got.dv, p.n), gradients.dv, 0x1p-6, what + ": dv");
  }

 private:
  Context& context_ = test::context_of(Variant::portable);
};

TEST_F(AttentionMatrix, MatchesTheFormulaForPackedDocumentsAndGroupedHeads) {
  for (const std::size_t E : {16, 32, 80}) {
    check(packed({31, 1, 70, 2, 33}, 4, 2, E), fmt::format("E {}", E));
  }
  check(packed({140}, 3, 1, 64), "one document");
  check(packed({32, 32}, 1, 1, 16), "documents of whole blocks");
}

TEST_F(AttentionMatrix, CapsScoresSoftly) {
  Problem p = packed({31, 1, 70, 2, 33}, 4, 2, 32);
  p.soft_cap = 0.7F;
  check(p, "mma");
  check(p, "xmx", kTile, DType::bf16, MatrixUnit::xmx);
}

TEST_F(AttentionMatrix, TakesAndGivesHalves) {
  check(packed({50, 41}, 2, 1, 96), "bf16", kTile, DType::bf16);
  for (const MatrixUnit unit : {MatrixUnit::mma, MatrixUnit::wmma_gfx11, MatrixUnit::xmx}) {
    check(packed({50, 41}, 2, 1, 96), fmt::format("f16, {}", name_of(unit)), kTile, DType::f16,
          unit);
  }
}

TEST_F(AttentionMatrix, MatchesTheFormulaWithEveryKindOfTile) {
  const Problem p = packed({70, 60}, 2, 2, 64);
  check(p, "sub-groups of 32 rows", {.subgroups = 2, .subgroup_rows = 32, .columns = 64});
  check(p, "a longer ring, elements in two parts",
        {.subgroups = 1, .subgroup_rows = 16, .columns = 16, .slots = 3, .parts = 2});
  check(p, "four slots", {.subgroups = 8, .subgroup_rows = 16, .columns = 64, .slots = 4});
}

TEST_F(AttentionMatrix, MatchesTheFormulaOnEveryUnit) {
  const Problem p = packed({21, 40}, 2, 1, 32);
  for (const MatrixUnit unit :
       {MatrixUnit::mfma, MatrixUnit::wmma_gfx11, MatrixUnit::wmma_gfx12, MatrixUnit::xmx}) {
    check(p, fmt::format("{}", name_of(unit)), kTile, DType::bf16, unit);
  }
}

TEST_F(AttentionMatrix, MatchesTheFormulaForWindowsOfACache) {
  constexpr std::size_t kRows = 37;
  Problem p({kRows, 203, 4, 2, 32}, Ints(kRows), Ints(kRows));
  for (std::size_t t = 0; t < kRows; ++t) {
    p.first[t] = static_cast<std::int32_t>(t * 89 % 150);
    p.last[t] = p.first[t] + static_cast<std::int32_t>(t * 7 % 50);
  }
  check(p, "windows");
  check({{20, 64, 1, 1, 16}, Ints(20, 0), Ints(20, 30)}, "all of a block but its last key");
  check({{20, 64, 1, 1, 16}, Ints(20, 33), Ints(20, 63)}, "all of a block but its first key");
}

TEST_F(AttentionMatrix, GivesTheSameBitsAgain) {
  const Problem p = packed({90, 20}, 2, 1, 32);
  const Results a = run(p), b = run(p);
  EXPECT_EQ(a.y, b.y);
  EXPECT_EQ(a.dq, b.dq);
  EXPECT_EQ(a.dk, b.dk);
  EXPECT_EQ(a.dv, b.dv);
}

// A tile holds rows of several documents, and a masked pair's weight of zero times NaN is NaN.
TEST_F(AttentionMatrix, KeepsANaNOfOneDocumentOutOfTheOthers) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr std::size_t kWidth = 32, kBegin = 20 * kWidth;
  const Problem p = packed({20, 45}, 1, 1, kWidth);
  const Results want = run(p);
  for (Floats Problem::*values : {&Problem::q, &Problem::k, &Problem::v, &Problem::dy}) {
    Problem other = p;
    std::fill_n((other.*values).begin(), kBegin, nan);
    const Results got = run(other);
    for (Floats Results::*result : {&Results::y, &Results::dq, &Results::dk, &Results::dv}) {
      EXPECT_TRUE(std::equal((got.*result).begin() + kBegin, (got.*result).end(),
                             (want.*result).begin() + kBegin));
    }
    const bool only_gradients = values == &Problem::dy;
    EXPECT_EQ(std::isnan(got.y[kBegin - 1]), !only_gradients);
    for (Floats Results::*result : {&Results::dq, &Results::dk}) {
      EXPECT_TRUE(std::isnan((got.*result)[kBegin - 1]));
    }
    if (values != &Problem::v) {
      EXPECT_TRUE(std::isnan(got.dv[kBegin - 1]));
    }
  }
}

TEST_F(AttentionMatrix, ShowsAValueThatIsNotFiniteInTheRowsThatAttendToIt) {
  constexpr std::size_t kWidth = 16;
  Problem p = packed({40}, 1, 1, kWidth);
  p.v[35 * kWidth + 3] = std::numeric_limits<float>::quiet_NaN();
  const Results got = run(p);
  for (std::size_t t = 0; t < 40; ++t) EXPECT_EQ(std::isnan(got.y[t * kWidth + 3]), t >= 35) << t;
}

// Of a work-group: `rows` and `columns` rows of E elements, and ranges, statistics and the like.
std::int64_t local_bytes(std::int64_t E, std::int64_t rows, std::int64_t columns,
                         const AttentionMatrixTile& tile) {
  const std::int64_t row_bytes = (E <= 32 ? E : round_up(E, 64)) * 2;
  return (rows + columns) * row_bytes + tile.rows() * 8 + tile.columns * 20 + 64;
}

TEST(AttentionMatrixTiles, DivideTheBlocksOfTheOrderAndFitLocalMemory) {
  using Memory = AttentionMatrixMemory;
  for (const Memory memory : {Memory::small, Memory::small_xmx, Memory::medium, Memory::large}) {
    const bool is_small = memory == Memory::small || memory == Memory::small_xmx;
    const std::int64_t most = is_small ? 64 << 10 : 99 << 10;
    for (std::int64_t E = 16; E <= 256; E += 16) {
      if (!attention_matrix_supports(1000, E)) continue;
      const auto [forward, keys, queries] = attention_matrix_tiles(E, memory);
      for (const AttentionMatrixTile& tile : {forward, keys, queries}) {
        EXPECT_EQ(128 % tile.rows(), 0) << E;
        EXPECT_EQ(128 % tile.columns, 0) << E;
        EXPECT_EQ(E / 16 % tile.parts, 0) << E;
      }
      EXPECT_LE(local_bytes(E, forward.rows(), forward.slots * forward.columns, forward), most);
      EXPECT_LE(local_bytes(E, 2 * keys.rows(), 4 * keys.columns, keys), most) << E;
      EXPECT_LE(local_bytes(E, 2 * queries.rows(), 4 * queries.columns, queries), most) << E;
    }
  }
}

TEST(AttentionMatrixTiles, AreForManyRowsAndHeadDimsOfWholeSteps) {
  EXPECT_TRUE(attention_matrix_supports(17, 16));
  EXPECT_TRUE(attention_matrix_supports(1000, 256));
  EXPECT_FALSE(attention_matrix_supports(16, 64));
  EXPECT_FALSE(attention_matrix_supports(1000, 72));
  EXPECT_FALSE(attention_matrix_supports(1000, 144));
  EXPECT_FALSE(attention_matrix_supports(1000, 272));
}

}  // namespace
}  // namespace clora

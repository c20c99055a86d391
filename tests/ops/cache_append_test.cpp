// cache_append: rows of keys and values at their positions of a KV cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "clora/ops/quant/quant.hpp"
#include "tests/reference/attention_reference.hpp"
#include "tests/support/attention_problems.hpp"

namespace clora {
namespace {

using test::expect_close;
using test::Floats;
using test::Ints;
using test::Output;
using test::packed;
using test::Problem;
using test::tolerance_of;

class CacheAppend : public test::OpTest {};
INSTANTIATE_TEST_SUITE_P(Variants, CacheAppend, test::all_variants(), test::variant_name);

class CacheAppendOfTypes : public CacheAppend {
 protected:
  void check(DType cache_type, DType row_type);
};
INSTANTIATE_TEST_SUITE_P(Variants, CacheAppendOfTypes, test::all_variants(), test::variant_name);

void CacheAppendOfTypes::check(DType cache_type, DType row_type) {
  const Ints positions = {3, -1, 0, 5, 6};
  Floats rows = test::random_values(5 * 34, 1);
  const Output cache(context(), {6, 2, 17}, cache_type);
  const Tensor source = test::upload_as(context(), row_type, {5, 2, 17}, rows);
  rows = test::stored_as(cache_type, rows);
  const Tensor positions_of_rows = test::upload(context(), {5}, positions);
  run([&](Batch& batch) { record_cache_append(batch, cache.tensor(), source, positions_of_rows); });
  const Floats got = cache.values();
  for (std::size_t t = 0; t < 5; ++t) {
    if (positions[t] < 0 || positions[t] >= 6) continue;
    EXPECT_TRUE(std::equal(rows.begin() + static_cast<std::ptrdiff_t>(t * 34),
                           rows.begin() + static_cast<std::ptrdiff_t>(t * 34 + 34),
                           got.begin() + positions[t] * 34))
        << "row " << t;
  }
  for (const std::size_t row : {1, 2, 4}) EXPECT_TRUE(std::isnan(got[row * 34]));
}

TEST_P(CacheAppendOfTypes, WritesRowsToTheirPositionsAndSkipsOthers) {
  check(DType::f32, DType::f32);
  check(DType::f16, DType::f16);
  check(DType::f16, DType::f32);
  check(DType::bf16, DType::f32);
  check(DType::bf16, DType::f16);
}

// The elements of a cache [S, G, E] of q8_0.
Floats values_of_q8_0(Context& context, const Tensor& cache) {
  const Shape rows{cache.shape()[0], cache.shape()[1] * cache.shape()[2]};
  const Output wide(context, rows);
  Batch batch(context);
  record_dequantise(batch, wide.tensor(), cache.reshape(rows));
  batch.submit().wait();
  return wide.values();
}

class CacheAppendOfEightBits : public CacheAppend {
 protected:
  // [6, G, E] after rows were appended at 3, -1, 0, 5 and 6; other positions are all ones before.
  Floats appended(const Floats& rows, std::int64_t G, std::int64_t E, DType row_type) {
    Floats values = rows, ones(static_cast<std::size_t>(6 * G * E), 1.0F);
    const Tensor cache = test::upload_as(context(), DType::q8_0, {6, G, E}, ones);
    const Tensor source = test::upload_as(context(), row_type, {5, G, E}, values);
    const Tensor positions = test::upload(context(), {5}, Ints{3, -1, 0, 5, 6});
    run([&](Batch& batch) { record_cache_append(batch, cache, source, positions); });
    return values_of_q8_0(context(), cache);
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, CacheAppendOfEightBits, test::all_variants(),
                         test::variant_name);

// A tie may be rounded either way, since the device multiplies by the inverse of the scale.
TEST_P(CacheAppendOfEightBits, QuantisesEachBlockOfItsRowsAndKeepsOtherRows) {
  for (const auto& [G, E] : std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 32}, {3, 64}}) {
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      const auto width = static_cast<std::size_t>(G * E);
      const Floats rows = test::stored_as(type, test::random_values(5 * width, 7, 3.0F));
      const Floats got = appended(rows, G, E, type);
      const Floats want = test::stored_as(DType::q8_0, rows);
      const Ints positions = {3, -1, 0, 5, 6};
      for (std::size_t t = 0; t < 5; ++t) {
        if (positions[t] < 0 || positions[t] > 5) continue;
        const std::size_t to = static_cast<std::size_t>(positions[t]) * width;
        std::size_t apart = 0;
        for (std::size_t i = 0; i < width; ++i) {
          ASSERT_NEAR(got[to + i], rows[t * width + i], 3.0 / 127 * 0.502) << t << ", " << i;
          apart += got[to + i] != want[t * width + i] ? 1 : 0;
        }
        EXPECT_LE(apart, width / 32) << "row " << t;
      }
      const float one = test::stored_as(DType::q8_0, Floats(32, 1.0F)).front();
      for (const std::size_t row : {1, 2, 4}) EXPECT_EQ(got[row * width], one);
    }
  }
}

// The scale of a block of the smallest magnitudes is a coarse half, for which an integer could
// exceed its 8 bits.
TEST_P(CacheAppendOfEightBits, KeepsTheSignsAndBoundsOfTinyValues) {
  Floats rows(5 * 32);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = 0x1p-24F * (static_cast<float>(i % 32) - 16) * 11.75F;  // up to 188 steps
  }
  const Floats got = appended(rows, 1, 32, DType::f32);
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_NEAR(got[i], std::clamp(rows[i], -127 * 0x1p-24F, 127 * 0x1p-24F), 0x1p-25F) << i;
  }
}

TEST_P(CacheAppendOfEightBits, MakesABlockWithAValueThatIsNotFiniteNaN) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::infinity(), 127 * 65600.0F}) {
    Floats rows(5 * 64, 0.5F);
    rows[2 * 64 + 40] = bad;  // in the second block of position 0
    const Floats got = appended(rows, 1, 64, DType::f32);
    for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(std::isnan(got[i]), i >= 32) << bad << ", " << i;
    EXPECT_EQ(std::ranges::count_if(got, [](float x) { return std::isnan(x); }), 32) << bad;
  }
}

TEST_P(CacheAppendOfEightBits, RefusesHeadsThatAreNoBlocks) {
  Batch batch(context());
  const Tensor cache = context().allocate({6, 2, 16}, DType::q8_0, MemoryTag::scratch);
  const Tensor rows = context().allocate({3, 2, 16}, DType::f32, MemoryTag::scratch);
  const Tensor positions = test::upload(context(), {3}, Ints{0, 1, 2});
  EXPECT_THAT(test::error_of([&] { record_cache_append(batch, cache, rows, positions); }),
              testing::HasSubstr("heads in q8_0 must have a multiple of 32 elements, got 16"));
}

TEST_P(CacheAppend, ThenAttentionOverTheCacheEqualsPackedAttention) {
  const Problem p = packed({41}, 4, 2, 16);
  if (!p.affordable()) GTEST_SKIP() << "not with CLORA_TEST_SIZES=small";
  const Tensor k_cache = context().allocate({64, 2, 16}, DType::f32, MemoryTag::scratch);
  const Tensor v_cache = context().allocate({64, 2, 16}, DType::f32, MemoryTag::scratch);
  const Floats unset(64 * 32, std::numeric_limits<float>::quiet_NaN());
  context().write(k_cache, std::as_bytes(std::span(unset)));
  context().write(v_cache, std::as_bytes(std::span(unset)));
  const AttentionInputs all = p.inputs(context());
  Floats got;
  // A prompt of 23 rows, then one row at a time.
  for (std::int64_t t = 0, count = 23; t < 41; t += count, count = 1) {
    const auto at = [&](const Tensor& x) {  // a copy: views must be aligned
      const auto values = context().read<float>(x);
      const std::size_t width = values.size() / 41;
      return Floats(values.begin() + t * static_cast<std::ptrdiff_t>(width),
                    values.begin() + (t + count) * static_cast<std::ptrdiff_t>(width));
    };
    const Ints positions(p.last.begin() + t, p.last.begin() + t + count);
    const Tensor positions_of_rows = test::upload(context(), {count}, positions);
    const Tensor zeros = test::upload(context(), {count}, Ints(static_cast<std::size_t>(count), 0));
    const Tensor q = test::upload(context(), {count, 4, 16}, at(all.q));
    const Tensor k = test::upload(context(), {count, 2, 16}, at(all.k));
    const Tensor v = test::upload(context(), {count, 2, 16}, at(all.v));
    const Output y(context(), {count, 4, 16});
    run([&](Batch& batch) {
      record_cache_append(batch, k_cache, k, positions_of_rows);
      record_cache_append(batch, v_cache, v, positions_of_rows);
      record_attention(batch, y.tensor(), {},
                       {q, k_cache, v_cache, zeros, positions_of_rows, p.scale});
    });
    const Floats values = y.values();
    got.insert(got.end(), values.begin(), values.end());
  }
  // The prompt's operands and weights may be rounded to bf16, those of single rows are not.
  const bool rounds = attention_rounds_to_bf16(context().capabilities(), 23, 16);
  const double tolerance = rounds ? 0x1p-6 : tolerance_of(60);
  expect_close(got, p.reference().y, tolerance, "y");
}

TEST_P(CacheAppend, RefusesTensorsThatDoNotMatch) {
  Batch batch(context());
  const Tensor cache = context().allocate({6, 2, 8}, DType::f32, MemoryTag::scratch);
  const Tensor rows = context().allocate({3, 2, 8}, DType::f32, MemoryTag::scratch);
  const Tensor positions_of_rows = test::upload(context(), {3}, Ints{0, 1, 2});
  const auto message = [&](const Tensor& a, const Tensor& b, const Tensor& c) {
    return test::error_of([&] { record_cache_append(batch, a, b, c); });
  };
  using testing::HasSubstr;
  EXPECT_THAT(message({}, rows, positions_of_rows),
              HasSubstr("cache must be f32, bf16, f16 or q8_0 [S, G, E], got nothing"));
  EXPECT_THAT(message(cache, {}, positions_of_rows),
              HasSubstr("rows must be f32, bf16 or f16 [T, 2, 8]"));
  EXPECT_THAT(message(cache, rows.reshape({3, 4, 4}), positions_of_rows),
              HasSubstr("rows must be f32 [3, 2, 8]"));
  EXPECT_THAT(message(cache, rows, positions_of_rows.rows(0, 2)),
              HasSubstr("positions must be i32 [3]"));
}

}  // namespace
}  // namespace clora

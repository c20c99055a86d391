// Weights in several parts: the parts that a device needs, and every op on them against the same op
// on the weight in one part.
#include "clora/ops/quant/weight.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "clora/ops/lora_linear/lora_linear.hpp"
#include "clora/ops/loss/cross_entropy.hpp"
#include "clora/ops/rowwise/embedding.hpp"
#include "tests/reference/quant_reference.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/row_groups.hpp"

namespace clora {
namespace {

using test::Output;
using testing::HasSubstr;

std::vector<float> values(std::int64_t count, std::uint32_t seed) {
  return test::random_values(static_cast<std::size_t>(count), seed);
}

Device device_of(std::uint64_t max_allocation_bytes, std::uint32_t base_alignment_bytes = 128) {
  Device device;
  device.name = "a phone";
  device.max_allocation_bytes = max_allocation_bytes;
  device.base_alignment_bytes = base_alignment_bytes;
  return device;
}

TEST(PartRows, AreOnePartIfTheMatrixFitsAnAllocation) {
  EXPECT_EQ(part_rows(device_of(1000 * 4), "w", 1000, 4), (std::vector<RowRange>{{0, 1000}}));
}

TEST(PartRows, AreFewAndOfEqualSizeAndStartWhereVectorsCan) {
  EXPECT_EQ(part_rows(device_of(1000 * 4 - 1), "w", 1000, 4),
            (std::vector<RowRange>{{0, 512}, {512, 488}}));
  // Qwen2.5-0.5B's head in f32 on a phone.
  const auto parts = part_rows(device_of(std::uint64_t{256} << 20U), "head", 151936, 896 * 4);
  EXPECT_EQ(parts, (std::vector<RowRange>{{0, 50688}, {50688, 50688}, {101376, 50560}}));
}

TEST(PartRows, CoverEachRowOnceWhateverTheLimit) {
  for (const std::uint32_t alignment : {1U, 128U, 512U, 4096U}) {
    for (std::uint64_t limit = 4096 * 36; limit < 3000 * 36; limit += 3333) {
      const Device device = device_of(limit, alignment);
      std::int64_t next = 0;
      for (const auto& [begin, count] : part_rows(device, "w", 2999, 36)) {
        EXPECT_EQ(begin, next);
        EXPECT_EQ(begin % part_row_step(device), 0);
        EXPECT_LE(static_cast<std::uint64_t>(count) * 36, limit);
        EXPECT_GT(count, 0);
        next += count;
      }
      EXPECT_EQ(next, 2999);
    }
  }
}

TEST(PartRows, RefuseRowsThatExceedAnAllocation) {
  EXPECT_THAT(test::error_of([] { part_rows(device_of(1 << 20), "lm_head", 128, 1 << 16); }),
              HasSubstr("64 rows of lm_head need 4096 KiB, the largest allocation on 'a phone' is "
                        "1024 KiB"));
}

// A matrix whose parts end at these rows.
Weight in_parts(Context& context, const test::WeightMatrix& w, WeightForm form,
                std::span<const std::int64_t> ends) {
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  const std::size_t row_bytes = w.bytes.size() / static_cast<std::size_t>(w.rows);
  for (const std::int64_t end : ends) {
    test::WeightMatrix part{w.type, end - begin, w.columns, {}, {}};
    const auto first = w.bytes.begin() + begin * static_cast<std::int64_t>(row_bytes);
    part.bytes.assign(first, first + part.rows * static_cast<std::int64_t>(row_bytes));
    parts.push_back(part.upload(context, form));
    begin = end;
  }
  return Weight(std::move(parts));
}

class WeightInParts : public test::OpTest {
 protected:
  Tensor up(Shape shape, std::uint32_t seed, DType type = DType::f32) {
    auto v = values(shape.elements(), seed);
    return test::upload_as(context(), type, shape, v);
  }

  static constexpr std::int64_t kRank = 3;

  LowRankTerm low_rank(const Tensor& s, std::int64_t in, std::int64_t out) {
    return {s, up({kRank, out}, 6), 0.5F, up({kRank, in}, 7), 0.25F};
  }

  // Results of one op: y, and the s of an adapter.
  using Results = std::pair<std::vector<float>, std::vector<float>>;

  Results forward(const Weight& w, std::int64_t rows, DType type) {
    const std::int64_t n = w.shape()[0], k = w.shape()[1];
    const Output y(context(), {rows, n}, type), s(context(), {rows, kRank});
    run([&](Batch& batch) {
      record_gemm(batch, y.tensor(), up({rows, k}, 2, type), w,
                  {.bias = up({n}, 3),
                   .residual = up({rows, n}, 4, type),
                   .low_rank = low_rank(s.tensor(), k, n),
                   .scale = 0.5F});
    });
    return {y.values(), s.values()};
  }
  Results backward(const Weight& w, std::int64_t rows, DType type, Accumulate accumulate) {
    const std::int64_t n = w.shape()[0], k = w.shape()[1];
    const Output dx(context(), {rows, k}, type), s(context(), {rows, kRank});
    run([&](Batch& batch) {
      batch.copy(dx.tensor(), up({rows, k}, 4, type));
      record_gemm_backward(batch, dx.tensor(), up({rows, n}, 2, type), w, accumulate,
                           low_rank(s.tensor(), n, k));
    });
    return {dx.values(), s.values()};
  }

  void expect_same(const Results& got, const Results& want, std::size_t terms, DType type,
                   const std::string& what) {
    // Small parts may use kernels that round less.
    const double allowed =
        2 * test::product_tolerance_of(GetParam(), terms) + 2 * test::rounding_of(type);
    test::expect_close(got.first, test::to_double(want.first), allowed, what);
    test::expect_close(got.second, test::to_double(want.second), allowed, "s of " + what);
  }

  // The products with a matrix [N, K] in parts are those with the matrix in one part.
  void expect_products(const test::WeightMatrix& w, WeightForm form,
                       std::span<const std::int64_t> ends, std::int64_t rows, DType type) {
    const Weight whole = w.upload(context(), form), parts = in_parts(context(), w, form, ends);
    const std::string what = fmt::format("{} rows of {} and {}", rows, name_of(type), parts.text());
    expect_same(forward(parts, rows, type), forward(whole, rows, type),
                static_cast<std::size_t>(w.columns), type, what);
    for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes}) {
      expect_same(backward(parts, rows, type, accumulate), backward(whole, rows, type, accumulate),
                  static_cast<std::size_t>(w.rows), type, what + ", backward");
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, WeightInParts, test::all_variants(), test::variant_name);

TEST_P(WeightInParts, ScalesColumnsAndHasTheTermsOfRowGroups) {
  constexpr std::int64_t kColumns = 160, kSteps = 64, kAdapters = 2;
  const auto w = test::random_weights(DType::f32, kColumns, kSteps, 1);
  const Weight whole = w.upload(context());
  const Weight parts = in_parts(context(), w, {}, std::array<std::int64_t, 2>{64, 160});
  for (const std::int64_t rows : {1, 5, 40}) {
    const std::array groups{RowGroup{0, 1, 1, 2, 0.5F}, RowGroup{rows / 2, rows, 0}};
    std::vector<std::vector<float>> results;
    for (const Weight& weight : {parts, whole}) {
      const Output y(context(), {rows, kColumns});
      const Tensor s = context().allocate({rows, kRank}, DType::f32, MemoryTag::scratch);
      const LowRankTerm term{.s = s,
                             .u = up({kAdapters, kRank, kColumns}, 3),
                             .a = up({kAdapters, kRank, kSteps}, 4),
                             .row_groups = test::upload_row_groups(
                                 context(), rows, std::span(groups).first(rows == 1 ? 1 : 2))};
      run([&](Batch& batch) {
        record_gemm(batch, y.tensor(), up({rows, kSteps}, 2), weight,
                    {.bias = up({kColumns}, 5),
                     .residual = up({rows, kColumns}, 6),
                     .low_rank = term,
                     .column_scale = up({kColumns}, 7)});
      });
      results.push_back(y.values());
    }
    test::expect_close(results[0], test::to_double(results[1]),
                       2 * test::product_tolerance_of(GetParam(), kSteps),
                       fmt::format("{} rows", rows));
  }
}

TEST_P(WeightInParts, HasTheProductsOfTheWholeInEveryStorageTypeAndLayout) {
  constexpr std::array<std::int64_t, 3> kEnds{64, 192, 240};
  // One type of each kind of block; rows of mxfp4 begin at odd addresses.
  for (const DType type :
       {DType::f32, DType::f16, DType::bf16, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1,
        DType::q8_0, DType::q4_k, DType::q5_k, DType::q6_k, DType::mxfp4}) {
    const auto w = test::random_weights(type, kEnds.back(), 256, 1);
    const WeightForm plain{type, Layout::plain};
    const WeightForm preferred = preferred_form(context(), {w.rows, w.columns}, type);
    for (const std::int64_t rows : {1, 5, 40}) {
      if (!test::affords(rows * w.rows * w.columns)) continue;
      expect_products(w, plain, kEnds, rows, DType::f32);
      if (preferred != plain) expect_products(w, preferred, kEnds, rows, DType::f32);
    }
  }
}

// Widths that are no multiple of a vector, and a part of one row.
TEST_P(WeightInParts, MayEndAtAnyRow) {
  const auto w = test::random_weights(DType::f32, 138, 35, 1);
  const WeightForm plain{};
  for (const std::int64_t rows : {1, 40}) {
    expect_products(w, plain, std::array<std::int64_t, 3>{64, 137, 138}, rows, DType::f32);
  }
}

TEST_P(WeightInParts, TakesAndGivesBf16AndF16) {
  const auto w = test::random_weights(DType::f32, 160, 64, 1);
  for (const DType type : {DType::bf16, DType::f16}) {
    for (const std::int64_t rows : {1, 40}) {
      expect_products(w, {}, std::array<std::int64_t, 2>{64, 160}, rows, type);
    }
  }
}

// Kernels for CPUs sum the terms of an element in an order that does not depend on N: not even the
// last bit differs. Others may split K among more work-groups if N is small.
TEST_P(WeightInParts, HasTheForwardOfTheWholeBitForBit) {
  const auto w = test::random_weights(DType::f32, 256, 64, 1);
  const WeightForm form = preferred_form(context(), {w.rows, w.columns}, w.type);
  const Weight parts = in_parts(context(), w, form, std::array<std::int64_t, 2>{128, 256});
  for (const std::int64_t rows : {1, 40}) {
    const Results got = forward(parts, rows, DType::f32);
    const Results want = forward(w.upload(context(), form), rows, DType::f32);
    if (is_for_cpus(GetParam())) {
      EXPECT_EQ(got, want) << rows;
    }
    expect_same(got, want, 64, DType::f32, fmt::format("{} rows", rows));
  }
}

TEST_P(WeightInParts, MayBeOneOfSeveralWithTheSameInput) {
  const auto w = test::random_weights(DType::f32, 128, 64, 1);
  const Weight whole = w.upload(context());
  const Weight parts = in_parts(context(), w, {}, std::array<std::int64_t, 2>{64, 128});
  const Tensor x = up({40, 64}, 2), dy = up({40, 128}, 3);
  std::vector<std::vector<float>> ys, dxs;
  for (const Weight& first : {parts, whole}) {
    const Output y(context(), {40, 128}), other(context(), {40, 128}), dx(context(), {40, 64});
    run([&](Batch& batch) {
      record_gemms(batch, x, std::vector<GemmOutput>{{y.tensor(), first}, {other.tensor(), whole}});
      record_gemm_backward_sum(batch, dx.tensor(), std::vector<GemmTerm>{{dy, first}, {dy, whole}},
                               Accumulate::no);
    });
    ys.push_back(y.values());
    ys.push_back(other.values());
    dxs.push_back(dx.values());
  }
  const double allowed = 2 * test::product_tolerance_of(GetParam(), 256);
  for (const auto& y : ys) test::expect_close(y, test::to_double(ys.back()), allowed, "y");
  test::expect_close(dxs[0], test::to_double(dxs[1]), allowed, "dx");
}

TEST_P(WeightInParts, HasTheLayerOfTheWholeWithAnAdapter) {
  const auto w = test::random_weights(DType::f32, 160, 64, 1);
  const Weight parts = in_parts(context(), w, {}, std::array<std::int64_t, 2>{64, 160});
  const Tensor x = up({40, 64}, 2), dy = up({40, 160}, 3);
  const LoraWeights lora{.a = up({kRank, 64}, 4), .bt = up({kRank, 160}, 5), .scale = 0.5F};
  std::vector<std::vector<std::vector<float>>> results;
  for (const Weight& weight : {parts, Weight(w.upload(context()))}) {
    const LinearWeights weights{weight, up({160}, 6)};
    const Output y(context(), {40, 160}), s(context(), {40, kRank}), dx(context(), {40, 64});
    const Tensor da = up({kRank, 64}, 7), dbt = up({kRank, 160}, 8);
    run([&](Batch& batch) {
      record_lora_linear(batch, y.tensor(), s.tensor(), x, weights, lora);
      record_lora_linear_backward(batch, dx.tensor(), {da, dbt}, dy, {x, s.tensor()}, weights, lora,
                                  Accumulate::no);
    });
    results.push_back(
        {y.values(), dx.values(), context().read<float>(da), context().read<float>(dbt)});
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    test::expect_close(results[0][i], test::to_double(results[1][i]),
                       2 * test::product_tolerance_of(GetParam(), 224), fmt::format("{}", i));
  }
}

TEST_P(WeightInParts, HasTheRowsOfTheWholeTable) {
  const std::vector<std::int32_t> ids{3,   64,  63, 127, 128, 159, 160,        -1,
                                      100, 100, 0,  158, -64, 191, 2147483647, 96};
  const auto tokens = std::ssize(ids);
  for (const auto& [type, columns] :
       std::vector<std::pair<DType, std::int64_t>>{{DType::f32, 40},
                                                   {DType::f32, 33},
                                                   {DType::bf16, 64},
                                                   {DType::q4_1, 192},
                                                   {DType::q8_0, 192},
                                                   {DType::q6_k, 256}}) {
    const auto w = test::random_weights(type, 160, columns, 1);
    const WeightForm preferred = preferred_form(context(), {w.rows, w.columns}, type);
    for (const WeightForm form : {WeightForm{type, Layout::plain}, preferred}) {
      const Output parts(context(), {tokens, columns}), whole(context(), {tokens, columns});
      const Tensor which = test::upload(context(), {tokens}, ids);
      run([&](Batch& batch) {
        record_embedding(batch, parts.tensor(), which,
                         in_parts(context(), w, form, std::array<std::int64_t, 3>{64, 128, 160}));
        record_embedding(batch, whole.tensor(), which, w.upload(context(), form));
      });
      EXPECT_EQ(parts.values(), whole.values()) << name_of(type) << " " << columns;
    }
  }
}

TEST_P(WeightInParts, HasTheLossOfTheWholeHead) {
  const auto w = test::random_weights(DType::f32, 300, 64, 1);
  const Weight parts = in_parts(context(), w, {}, std::array<std::int64_t, 3>{128, 256, 300});
  std::vector<std::int32_t> targets(70);
  for (std::size_t t = 0; t < targets.size(); ++t) {
    targets[t] = t % 9 == 0 ? -1 : static_cast<std::int32_t>(t * 37 % 300);
  }
  for (const bool gradient : {true, false}) {
    std::vector<Results> results;
    for (const Weight& head : {parts, Weight(w.upload(context()))}) {
      const Output loss(context(), {70}), dx(context(), {70, 64});
      run([&](Batch& batch) {
        record_head_loss(batch, loss.tensor(), gradient ? dx.tensor() : Tensor(),
                         {.x = up({70, 64}, 2),
                          .head = head,
                          .targets = test::upload(context(), {70}, targets),
                          .weight = test::upload(context(), {1}, std::vector{0.01F}),
                          .rows_per_chunk = 32});
      });
      results.emplace_back(loss.values(), gradient ? dx.values() : std::vector<float>());
    }
    const double allowed = 2 * test::product_tolerance_of(GetParam(), 512);
    test::expect_close(results[0].first, test::to_double(results[1].first), allowed, "loss");
    test::expect_close(results[0].second, test::to_double(results[1].second), allowed, "dx");
  }
}

TEST_P(WeightInParts, IsDescribedAsOneMatrix) {
  const auto w = test::random_weights(DType::q8_0, 160, 64, 1);
  const Weight parts =
      in_parts(context(), w, {DType::q8_0, Layout::plain}, std::array<std::int64_t, 2>{64, 160});
  EXPECT_TRUE(parts.is_split());
  EXPECT_EQ(parts.shape(), Shape({160, 64}));
  EXPECT_EQ(parts.bytes(), w.bytes.size());
  EXPECT_EQ(parts.text(), "q8_0 [160, 64] in 2 parts");
  EXPECT_THAT(test::error_of([&] { (void)parts.whole(); }), HasSubstr("one tensor is required"));
  const Weight whole = w.upload(context());
  EXPECT_FALSE(whole.is_split());
  EXPECT_EQ(whole.text(), "q8_0 [160, 64]");
  EXPECT_TRUE(Weight(Tensor()).empty());
}

TEST_P(WeightInParts, RefusesPartsThatDoNotMatch) {
  const auto make = [&](Shape shape, DType type) {
    return context().allocate(shape, type, MemoryTag::scratch);
  };
  const Tensor part = make({64, 32}, DType::f32);
  const auto error = [&](const Tensor& other) {
    return test::error_of([&] { Weight({part, other}); });
  };
  EXPECT_THAT(error(make({64, 33}, DType::f32)), HasSubstr("got f32 [64, 33]"));
  EXPECT_THAT(error(make({64, 32}, DType::bf16)), HasSubstr("got bf16 [64, 32]"));
  EXPECT_THAT(error({}), HasSubstr("got nothing"));
  EXPECT_THAT(test::error_of([] { Weight(std::vector<Tensor>()); }), HasSubstr("got none"));
  Batch batch(context());
  EXPECT_THAT(test::error_of([&] {
                record_gemm(batch, make({2, 127}, DType::f32), make({2, 32}, DType::f32),
                            Weight({part, part}));
              }),
              HasSubstr("y must be f32 [2, 128]"));
}

}  // namespace
}  // namespace clora

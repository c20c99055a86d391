#include "clora/ops/rowwise/embedding.hpp"

#include <gmock/gmock.h>

#include <limits>

#include "tests/reference/quant_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

// y[t] = table[ids[t]]; zeros if there is no such row.
std::vector<double> embedding_reference(const test::WeightMatrix& table,
                                        std::span<const std::int32_t> ids) {
  std::vector<double> y;
  for (const std::int32_t id : ids) {
    for (std::int64_t d = 0; d < table.columns; ++d) {
      const bool inside = id >= 0 && id < table.rows;
      y.push_back(inside ? table.values[static_cast<std::size_t>(id * table.columns + d)] : 0);
    }
  }
  return y;
}

class Embedding : public test::OpTest {
 protected:
  void expect_rows(const test::WeightMatrix& table, std::span<const std::int32_t> ids,
                   Layout layout = Layout::plain, float factor = 1) {
    const auto tokens = static_cast<std::int64_t>(ids.size());
    test::Output y(context(), {tokens, table.columns});
    run([&](Batch& batch) {
      record_embedding(batch, y.tensor(), test::upload(context(), {tokens}, ids),
                       table.upload(context(), layout), factor);
    });
    std::vector<double> want = embedding_reference(table, ids);
    for (double& value : want) value *= double{factor};
    test::expect_close(y.values(), want, 2e-7, std::string(name_of(table.type)));
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Embedding, test::all_variants(), test::variant_name);

// One type of each kind of block. quant_test tests the elements of the others.
TEST_P(Embedding, TakesRowsOfPlainAndQuantisedTables) {
  const std::vector<std::int32_t> ids{3, 0, 6, 6, 1, 2, 5, 4, 0, 3, 3};
  for (const DType type :
       {DType::f32, DType::bf16, DType::f16, DType::q4_1, DType::q8_0, DType::q6_k}) {
    expect_rows(test::random_weights(type, 7, 512, 1), ids);
  }
}

TEST_P(Embedding, TakesRowsOfPackedTables) {
  const std::vector<std::int32_t> ids{3, 0, 31, 16, 15, -1, 32, 17};
  for (const DType type : {DType::q4_0, DType::q4_1, DType::q8_0}) {
    expect_rows(test::random_weights(type, 32, 192, 1), ids, Layout::packed);
  }
}

TEST_P(Embedding, MultipliesRowsByAFactor) {
  const std::vector<std::int32_t> ids{3, 0, -1, 6, 6, 1, 7};
  for (const DType type : {DType::f32, DType::bf16, DType::q8_0, DType::q6_k}) {
    expect_rows(test::random_weights(type, 7, 512, 1), ids, Layout::plain, 22.627F);
  }
  expect_rows(test::random_weights(DType::q4_1, 32, 192, 1), ids, Layout::packed, 0.3F);
  for (const std::int64_t width : {1, 31, 33, 64}) {
    expect_rows(test::random_weights(DType::f32, 7, width, 1), ids, Layout::plain, -1.5F);
  }
}

TEST_P(Embedding, TakesPlainRowsOfAnyWidth) {
  for (const std::int64_t width : {1, 31, 33, 65}) {
    expect_rows(test::random_weights(DType::f32, 5, width, 1), std::vector<std::int32_t>{4, 0, 2});
  }
  expect_rows(test::random_weights(DType::f16, 1, 37, 1), std::vector<std::int32_t>{0});
}

// More rows than work-groups along the grid's second dimension.
TEST_P(Embedding, TakesMoreRowsThanAGridHas) {
  std::vector<std::int32_t> ids(4 * (1 << 15) + 5);
  CLORA_SKIP_UNLESS_AFFORDED(static_cast<double>(ids.size()));
  for (std::size_t t = 0; t < ids.size(); ++t) ids[t] = static_cast<std::int32_t>(t % 7);
  for (const std::int64_t width : {3, 4}) {
    expect_rows(test::random_weights(DType::f32, 7, width, 1), ids);
  }
}

TEST_P(Embedding, GivesZerosForIdsOutsideOfTheTable) {
  const std::vector<std::int32_t> ids{-1, 0, 7, 2147483647, -2147483647 - 1, 6};
  expect_rows(test::random_weights(DType::f32, 7, 40, 1), ids);
}

TEST_P(Embedding, RefusesTensorsThatDoNotFit) {
  using testing::HasSubstr;
  const Tensor table = context().allocate({7, 32}, DType::q8_0, MemoryTag::scratch);
  const Tensor ids = context().allocate({3}, DType::i32, MemoryTag::scratch);
  const Tensor floats = context().allocate({3}, DType::f32, MemoryTag::scratch);
  const Tensor y = context().allocate({3, 32}, DType::f32, MemoryTag::scratch);
  const auto error = [&](const Tensor& out, const Tensor& which, const Tensor& from) {
    Batch batch(context());
    return test::error_of([&] { record_embedding(batch, out, which, from); });
  };
  EXPECT_THAT(error(floats, ids, table), HasSubstr("y must be f32 [3, 32]"));
  EXPECT_THAT(error(y, floats, table), HasSubstr("ids must be i32 [3]"));
  EXPECT_THAT(error(y, Tensor(), table), HasSubstr("ids must be i32 [T]"));
  EXPECT_THAT(error(y, ids, ids), HasSubstr("table must be a matrix"));
  EXPECT_THAT(test::error_of([&] {
                Batch batch(context());
                record_embedding(batch, y, ids, table, std::numeric_limits<float>::infinity());
              }),
              HasSubstr("the factor must be finite"));
}

}  // namespace
}  // namespace clora

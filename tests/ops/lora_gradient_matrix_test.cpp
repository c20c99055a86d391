// lora_gradient_matrix.cl on the emulated matrix unit, against loops in double. On GPUs with such a
// unit lora_linear_test runs it on the hardware.
#include "ops/lora_linear/lora_gradient_matrix.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/op_test.hpp"

namespace clora {
namespace {

constexpr MatrixUnitChoice kEmulated{MatrixUnit::mma, true};
constexpr LoraGradientTiles kSmallest{.ranks = 16, .strip = 64, .subgroups = 2};
constexpr float kScale = 0.5F, kSharedScale = 2, kShrinkScale = 0.25F;

struct Size {
  std::int64_t columns;
  bool shrinks;
};

// One problem: operands that bf16 represents exactly, and the expected results in double.
struct Problem {
  std::int64_t rows, rank, columns;
  bool shrinks;
  std::vector<double> s, x, b, before;

  Problem(std::int64_t t, std::int64_t r, const Size& size, std::uint32_t seed)
      : rows(t), rank(r), columns(size.columns), shrinks(size.shrinks) {
    const auto values = [&](std::int64_t count) {
      const auto random = test::random_values(static_cast<std::size_t>(count), ++seed);
      return test::rounded_to_bf16(test::to_double(random));
    };
    s = values(rows * rank);
    x = values(rows * columns);
    b = values(rank * columns);
    before = values(rank * columns);
  }

  static double at(const std::vector<double>& m, std::int64_t row, std::int64_t stride,
                   std::int64_t column) {
    return m[static_cast<std::size_t>(row * stride + column)];
  }
  std::vector<double> out() const {
    std::vector<double> result = before;
    const double scale = shrinks ? kSharedScale : kScale;
    for (std::int64_t r = 0; r < rank; ++r) {
      for (std::int64_t k = 0; k < columns; ++k) {
        double sum = 0;
        for (std::int64_t t = 0; t < rows; ++t) sum += at(s, t, rank, r) * at(x, t, columns, k);
        result[static_cast<std::size_t>(r * columns + k)] += scale * sum;
      }
    }
    return result;
  }
  std::vector<double> shrunk() const {
    std::vector<double> result;
    for (std::int64_t t = 0; t < rows; ++t) {
      for (std::int64_t r = 0; r < rank; ++r) {
        double sum = 0;
        for (std::int64_t k = 0; k < columns; ++k) {
          sum += at(x, t, columns, k) * at(b, r, columns, k);
        }
        result.push_back(kShrinkScale * sum);
      }
    }
    return result;
  }
};

Context& context() { return test::context_of(Variant::portable); }

Tensor up(Shape shape, const std::vector<double>& values, DType type) {
  std::vector<float> floats(values.begin(), values.end());
  return test::upload_as(context(), type, shape, floats);
}

// All problems in one launch. type: of s and x.
void expect_gradients(std::int64_t rows, std::int64_t rank, const std::vector<Size>& sizes,
                      const LoraGradientTiles& tiles, MatrixUnitChoice unit = kEmulated,
                      DType type = DType::bf16) {
  std::uint32_t seed = 0;
  std::vector<Problem> problems;
  std::vector<LoraGradientProduct> products;
  std::vector<test::Output> shrunk;
  for (const Size& size : sizes) {
    const Problem& p = problems.emplace_back(rows, rank, size, seed += 10);
    LoraGradientProduct product{.out = up({rank, p.columns}, p.before, DType::f32),
                                .s = up({rows, rank}, p.s, type),
                                .x = up({rows, p.columns}, p.x, type),
                                .scale = p.shrinks ? kSharedScale : kScale};
    shrunk.emplace_back(context(), Shape{rows, rank}, DType::bf16);
    if (p.shrinks) {
      product.shrunk = shrunk.back().tensor();
      product.b = up({rank, p.columns}, p.b, DType::f32);
      product.shrink_scale = kShrinkScale;
    }
    products.push_back(product);
  }
  Batch batch(context());
  record_gradients_matrix_with(batch, products, unit, tiles);
  batch.submit().wait();
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const Problem& p = problems[i];
    const std::string what = fmt::format(" [{}, {}] of {} rows", rank, p.columns, rows);
    test::expect_close(context().read<float>(products[i].out), p.out(),
                       test::tolerance_of(static_cast<std::size_t>(rows)), "out" + what);
    if (!p.shrinks) continue;
    test::expect_close(shrunk[i].values(), p.shrunk(), test::rounding_of(DType::bf16),
                       "shrunk" + what);
  }
}

// Tiles that the emulation multiplies in seconds.
constexpr LoraGradientTiles kFewRanks{.ranks = 16, .strip = 64, .subgroups = 4};
constexpr LoraGradientTiles kManyRanks{.ranks = 32, .strip = 64, .subgroups = 4};

TEST(LoraGradientMatrix, SumsProblemsOfDifferentWidthsWithAndWithoutAShrink) {
  expect_gradients(300, 7, {{130, true}, {64, false}, {37, true}, {5, false}}, kFewRanks);
  expect_gradients(1, 1, {{1, true}}, kFewRanks);
  expect_gradients(33, 16, {{65, true}, {8, false}}, kFewRanks);
}

TEST(LoraGradientMatrix, TakesRanksInBlocks) {
  expect_gradients(70, 17, {{72, true}, {20, false}}, kManyRanks);
  expect_gradients(97, 70, {{40, true}}, kManyRanks);
  expect_gradients(40, 32, {{64, true}}, kManyRanks);
}

TEST(LoraGradientMatrix, TakesF16) {
  expect_gradients(75, 5, {{72, true}, {20, false}}, kSmallest, kEmulated, DType::f16);
}

TEST(LoraGradientMatrix, IsRightWithTheLanesOfEveryUnit) {
  for (const MatrixUnit unit :
       {MatrixUnit::mfma, MatrixUnit::wmma_gfx11, MatrixUnit::wmma_gfx12, MatrixUnit::xmx}) {
    SCOPED_TRACE(name_of(unit));
    expect_gradients(75, 5, {{72, true}, {20, false}}, kSmallest, {unit, true});
  }
}

TEST(LoraGradientMatrix, KeepsANaNInItsColumnOfTheGradientAndItsRowOfTheShrink) {
  constexpr std::int64_t kRows = 50, kRank = 3, kColumns = 70, kRow = 41, kColumn = 66;
  Problem p(kRows, kRank, {kColumns, true}, 1);
  p.x[kRow * kColumns + kColumn] = std::numeric_limits<double>::quiet_NaN();
  const test::Output shrunk(context(), {kRows, kRank}, DType::bf16);
  const Tensor out = up({kRank, kColumns}, p.before, DType::f32);
  const LoraGradientProduct product{.out = out,
                                    .s = up({kRows, kRank}, p.s, DType::bf16),
                                    .x = up({kRows, kColumns}, p.x, DType::f32),
                                    .shrunk = shrunk.tensor(),
                                    .b = up({kRank, kColumns}, p.b, DType::f32)};
  Batch batch(context());
  record_gradients_matrix_with(batch, {&product, 1}, kEmulated, kFewRanks);
  batch.submit().wait();
  const std::vector<float> gradient = context().read<float>(out), rows = shrunk.values();
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    EXPECT_EQ(std::isnan(gradient[i]), i % kColumns == kColumn) << i;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(std::isnan(rows[i]), i / kRank == kRow) << i;
  }
}

TEST(LoraGradientMatrix, ChunksFillTheGpuAndAreNotTooSmall) {
  for (const std::uint32_t stages : {1U, 3U, 32U, 256U}) {
    for (const std::uint32_t strips : {1U, 19U, 57U, 500U}) {
      const auto [chunks, each] = lora_matrix_chunks(stages, strips, 132);
      EXPECT_GE(chunks * each, stages);
      EXPECT_LT((chunks - 1) * each, stages);
      EXPECT_TRUE(chunks == 1 || each >= 4) << stages << " stages, " << strips << " strips";
      EXPECT_TRUE(chunks == 1 || chunks * strips <= 264) << stages << " " << strips;
    }
  }
  EXPECT_EQ(lora_matrix_chunks(256, 19, 132).chunks, 13U);
}

}  // namespace
}  // namespace clora

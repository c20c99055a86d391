// bf16 copies of a model's weights: what they hold, how much memory they may take, and that a
// model with them computes the same bits as without.
#include "model/weights/bf16_copies.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "clora/model/transformer/language_model.hpp"
#include "runtime/memory/half.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_models.hpp"
#include "tests/support/tiny_training.hpp"

namespace clora {
namespace {

constexpr std::int64_t kRows = 64, kColumns = 20, kPaddedColumns = 24;
constexpr std::size_t kMebibyte = std::size_t{1} << 20U;
constexpr std::size_t kCopyBytes = std::size_t{kRows * kPaddedColumns} * 2;

class Bf16CopiesTest : public test::OpTest {
 protected:
  Weight weight(std::int64_t rows, std::uint32_t seed) {
    return test::upload(context(), {rows, kColumns},
                        test::random_values(static_cast<std::size_t>(rows * kColumns), seed));
  }
};

TEST_P(Bf16CopiesTest, HoldTheRoundedRowsPaddedToVectors) {
  Bf16Copies copies(context(), kCopyBytes);
  const Weight w = copies.with_copy(weight(kRows, 1));
  ASSERT_NE(w.whole().bf16_copy(), nullptr);
  ASSERT_EQ(w.whole().bf16_copy()->shape(), (Shape{kRows, kPaddedColumns}));
  const auto got = context().read<std::uint16_t>(*w.whole().bf16_copy());
  const auto values = context().read<float>(w.whole());
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t column = 0; column < kColumns; ++column) {
      ASSERT_EQ(got[row * kPaddedColumns + column], float_to_bf16(values[row * kColumns + column]))
          << row << ", " << column;
    }
  }
}

TEST_P(Bf16CopiesTest, OfAWeightInPartsBelongToEachPart) {
  const std::int64_t rows = part_row_step(context().device());
  const Tensor first = weight(rows, 1).whole(), second = weight(rows, 2).whole();
  Bf16Copies copies(context(), kMebibyte);
  const Weight w = copies.with_copy(Weight({first, second}));
  for (const Tensor& part : w.parts()) {
    ASSERT_NE(part.bf16_copy(), nullptr);
    EXPECT_EQ(part.bf16_copy()->shape(), (Shape{rows, kPaddedColumns}));
  }
}

TEST_P(Bf16CopiesTest, AreMadeUntilTheBudgetIsSpent) {
  Bf16Copies copies(context(), 2 * kCopyBytes + 1);
  EXPECT_NE(copies.with_copy(weight(kRows, 1)).whole().bf16_copy(), nullptr);
  EXPECT_NE(copies.with_copy(weight(kRows, 2)).whole().bf16_copy(), nullptr);
  EXPECT_EQ(copies.with_copy(weight(kRows, 3)).whole().bf16_copy(), nullptr);
  EXPECT_EQ(copies.bytes(), 2 * kCopyBytes);
}

INSTANTIATE_TEST_SUITE_P(Variants, Bf16CopiesTest, test::all_variants(), test::variant_name);

// A model on a Context of its own, whose bf16 copies may take `share` of the free memory.
struct LoadedModel {
  LoadedModel(const std::filesystem::path& folder, double share)
      : files(WeightFiles::open(folder)), context(config_of(share)), model(context, files) {}

  static ContextConfig config_of(double share) {
    ContextConfig config = config_from_environment();
    config.precision = Precision::automatic;
    config.weight_copy_share = share;
    return config;
  }

  WeightFiles files;
  Context context;
  LanguageModel model;
};

bool has_copy(const LanguageModel& model) {
  return model.linear("model.layers.0.mlp.up_proj").weights.w.whole().bf16_copy() != nullptr;
}

TEST(ModelWithBf16Copies, ComputesTheSameBitsAsWithout) {
  const test::TemporaryFolder folder;
  test::write_tiny_model(folder.path(), test::tiny_models().front().config);
  LoadedModel with(folder.path(), 0.25), without(folder.path(), 0);
  EXPECT_EQ(has_copy(with.model), with.context.capabilities().has_gpu_matrices());
  EXPECT_FALSE(has_copy(without.model));
  EXPECT_EQ(with.model.weight_bytes() > without.model.weight_bytes(), has_copy(with.model));
  EXPECT_EQ(test::train_tiny(with.model, folder / "with"),
            test::train_tiny(without.model, folder / "without"));
  EXPECT_EQ(test::generate_tiny(with.model, nullptr), test::generate_tiny(without.model, nullptr));
}

TEST(ModelWithBf16Copies, RefusesAShareAboveOneByName) {
  EXPECT_EQ(test::error_of([] { Context context(LoadedModel::config_of(1.5)); }),
            "context: weight_copy_share must be in [0, 1], got 1.5");
}

}  // namespace
}  // namespace clora

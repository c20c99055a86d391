#include "clora/ops/quant/quant.hpp"

#include <gmock/gmock.h>

#include "runtime/memory/half.hpp"
#include "tests/reference/quant_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

class Quant : public test::OpTest {};
INSTANTIATE_TEST_SUITE_P(Variants, Quant, test::all_variants(), test::variant_name);

TEST_P(Quant, EveryStorageTypeBecomesItsFloats) {
  for (const DType type : test::kWeightTypes) {
    for (const std::int64_t rows : {1, 3, 17}) {
      for (const std::int64_t columns : {256, 768}) {
        const auto w = test::random_weights(type, rows, columns, 7);
        test::Output y(context(), {rows, columns});
        run([&](Batch& batch) { record_dequantise(batch, y.tensor(), w.upload(context())); });
        test::expect_close(y.values(), w.values, 2e-7, std::string(name_of(type)));
      }
    }
  }
}

TEST_P(Quant, PlainRowsMayHaveAnyLengthAndBlocksAnyNumber) {
  for (const std::int64_t columns : {1, 31, 33, 47}) {
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      const auto w = test::random_weights(type, 5, columns, 11);
      test::Output y(context(), {5, columns});
      run([&](Batch& batch) { record_dequantise(batch, y.tensor(), w.upload(context())); });
      test::expect_close(y.values(), w.values, 0, std::string(name_of(type)));
    }
  }
  const auto w = test::random_weights(DType::q8_0, 5, 96, 12);
  test::Output y(context(), {5, 96});
  run([&](Batch& batch) { record_dequantise(batch, y.tensor(), w.upload(context())); });
  test::expect_close(y.values(), w.values, 1e-7, "q8_0");
}

// More rows than work-groups along the grid's second dimension.
TEST_P(Quant, MoreRowsThanAGridHasBecomeTheirFloats) {
  constexpr std::int64_t kRows = (1 << 15) + 3;
  CLORA_SKIP_UNLESS_AFFORDED(double{kRows});
  const auto w = test::random_weights(DType::bf16, kRows, 2, 13);
  test::Output y(context(), {kRows, 2});
  run([&](Batch& batch) { record_dequantise(batch, y.tensor(), w.upload(context())); });
  test::expect_close(y.values(), w.values, 0, "bf16");
}

TEST_P(Quant, PackedPanelsHoldTheSameElements) {
  for (const DType type : {DType::f32, DType::bf16, DType::q4_0, DType::q4_1, DType::q8_0}) {
    for (const std::int64_t columns : {64, 192}) {
      const auto w = test::random_weights(type, 48, columns, 7);
      std::vector<std::vector<float>> got;
      for (const Layout layout : {Layout::plain, Layout::packed}) {
        test::Output y(context(), {48, columns});
        run([&](Batch& batch) {
          record_dequantise(batch, y.tensor(), w.upload(context(), layout));
        });
        got.push_back(y.values());
      }
      EXPECT_EQ(got[0], got[1]) << name_of(type);
    }
  }
}

TEST_P(Quant, PackedPanelsOfRoundedFloatsHoldTheNearestBf16) {
  const auto w = test::random_weights(DType::f32, 32, 192, 7);
  test::Output y(context(), {32, 192});
  const Tensor bf16 = w.upload(context(), WeightForm{DType::bf16, Layout::packed});
  EXPECT_EQ(bf16.text(), "bf16 packed [32, 192]");
  run([&](Batch& batch) { record_dequantise(batch, y.tensor(), bf16); });
  const std::vector<float> got = y.values();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const float want = bf16_to_float(float_to_bf16(static_cast<float>(w.values[i])));
    ASSERT_EQ(got[i], want) << i;
  }
}

TEST(PackedPanels, AreRefusedIfBlocksOrRowsDoNotFillThem) {
  std::vector<std::byte> rows(16 * 60);
  std::vector<std::byte> out(rows.size());
  const auto error = [&](std::size_t bytes, std::int64_t columns, DType type) {
    return test::error_of([&] {
      pack_panels(std::span(out).first(bytes), std::span(rows).first(bytes), columns, type, type);
    });
  };
  using testing::HasSubstr;
  EXPECT_THAT(error(16 * 60, 96, DType::q4_1), HasSubstr("a multiple of 64 elements"));
  EXPECT_THAT(error(15 * 40, 64, DType::q4_1), HasSubstr("got 600 bytes"));
  EXPECT_THAT(error(16 * 44, 64, DType::q5_0), HasSubstr("q5_0"));
  EXPECT_THAT(test::error_of([&] {
                pack_panels(std::span(out).first(640), std::span(rows).first(640), 64, DType::q4_1,
                            DType::bf16);
              }),
              HasSubstr("640 bytes of bf16 for 640 of q4_1"));
  EXPECT_NO_THROW(pack_panels(std::span(out).first(640), std::span(rows).first(640), 64,
                              DType::q4_1, DType::q4_1));
}

TEST(PackedPanels, AreATensorsLayoutAndOpsThatDoNotReadThemRefuse) {
  Context& context = test::context_of(Variant::portable);
  const Tensor packed =
      context.allocate({32, 64}, DType::q4_1, MemoryTag::scratch).in_layout(Layout::packed);
  EXPECT_EQ(packed.text(), "q4_1 packed [32, 64]");
  EXPECT_EQ(packed.rows(16, 16).layout(), Layout::packed);
  using testing::HasSubstr;
  EXPECT_THAT(test::error_of([&] { (void)packed.rows(8, 16); }), HasSubstr("split a packed panel"));
  EXPECT_THAT(test::error_of([&] {
                (void)packed.reshape({64, 32});
              }),
              HasSubstr("cannot be reshaped"));
  EXPECT_THAT(test::error_of([&] {
                (void)packed.slice(0, {16, 64}, DType::q4_1);
              }),
              HasSubstr("has no"));
  EXPECT_THAT(test::error_of([&] {
                require_tensor("op", "t", packed, {32, 64}, DType::q4_1);
              }),
              HasSubstr("got q4_1 packed"));
}

TEST(PackedPanels, ArePreferredIfProductsRunInIntegersAndWeightsFillThem) {
  Context& f32 = test::context_of(Variant::cpu);
  const WeightForm plain_q4_1{DType::q4_1, Layout::plain}, packed_q4_1{DType::q4_1, Layout::packed};
  const WeightForm packed_bf16{DType::bf16, Layout::packed};
  EXPECT_EQ(preferred_form(f32, {64, 64}, DType::q4_1), plain_q4_1);
  EXPECT_EQ(preferred_form(f32, {64, 64}, DType::f32), (WeightForm{DType::f32, Layout::packed}));
  EXPECT_EQ(preferred_form(f32, {64, 64}, DType::bf16), (WeightForm{DType::bf16, Layout::plain}));
  if (f32.device().integer_dots == IntegerDots::none) {
    GTEST_SKIP() << "this device has no dot products of bytes";
  }
  Context& int8 = test::context_of(Variant::cpu_int8);
  EXPECT_EQ(preferred_form(int8, {64, 64}, DType::q4_1), packed_q4_1);
  EXPECT_EQ(preferred_form(int8, {64, 64}, DType::f32), (WeightForm{DType::f32, Layout::packed}));
  if (f32.device().matrix_unit == MatrixUnit::none) return;
  Context& fast = test::context_of(Variant::avx512_bf16);
  EXPECT_EQ(preferred_form(fast, {64, 64}, DType::q4_1), packed_q4_1);
  EXPECT_EQ(preferred_form(fast, {64, 64}, DType::f32), packed_bf16);
  EXPECT_EQ(preferred_form(fast, {64, 64}, DType::bf16), packed_bf16);
  EXPECT_EQ(preferred_form(fast, {64, 64}, DType::q4_k), (WeightForm{DType::q4_k, Layout::plain}));
  EXPECT_EQ(preferred_form(fast, {60, 64}, DType::q4_1), plain_q4_1);
  EXPECT_EQ(preferred_form(fast, {64, 96}, DType::q4_1), plain_q4_1);
}

TEST_P(Quant, EveryFiniteHalfIsExact) {
  CLORA_SKIP_UNLESS_AFFORDED(62 * 1024);
  test::WeightMatrix w{DType::f16, 62, 1024, {}, {}};
  for (unsigned bits = 0; bits < 65536; ++bits) {
    if (((bits >> 10U) & 31U) == 31) continue;  // infinities and NaN
    w.bytes.push_back(static_cast<std::uint8_t>(bits));
    w.bytes.push_back(static_cast<std::uint8_t>(bits >> 8U));
  }
  const std::vector<double> want = test::dequantised(DType::f16, w.bytes);
  test::Output y(context(), {62, 1024});
  run([&](Batch& batch) { record_dequantise(batch, y.tensor(), w.upload(context())); });
  const std::vector<float> got = y.values();
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got[i], want[i]) << i;
}

TEST_P(Quant, HalfInfinitiesStayInfinite) {
  test::WeightMatrix w{DType::f16, 1, 2, {0x00, 0x7c, 0x00, 0xfc}, {}};
  test::Output y(context(), {1, 2});
  run([&](Batch& batch) { record_dequantise(batch, y.tensor(), w.upload(context())); });
  EXPECT_EQ(y.values()[0], INFINITY);
  EXPECT_EQ(y.values()[1], -INFINITY);
}

TEST_P(Quant, RefusesNonWeightsAndOutputsOfAnotherShape) {
  Batch batch(context());
  const Tensor integers = context().allocate({4, 4}, DType::i32, MemoryTag::scratch);
  const Tensor y = context().allocate({4, 4}, DType::f32, MemoryTag::scratch);
  EXPECT_THAT(test::error_of([&] { record_dequantise(batch, y, integers); }),
              testing::HasSubstr("w must be a matrix"));
  const Tensor w = context().allocate({4, 8}, DType::f32, MemoryTag::scratch);
  EXPECT_THAT(test::error_of([&] { record_dequantise(batch, y, w); }),
              testing::HasSubstr("y must be f32 [4, 8]"));
  EXPECT_THAT(test::error_of([&] { record_dequantise(batch, w, w); }),
              testing::HasSubstr("must not alias"));
  EXPECT_THAT(test::error_of([&] { record_dequantise(batch, y, Tensor()); }),
              testing::HasSubstr("w must be a weight matrix"));
  Defines defines;
  EXPECT_THAT(test::error_of([&] { set_weight_type(defines, DType::u8); }),
              testing::HasSubstr("u8"));
}

}  // namespace
}  // namespace clora

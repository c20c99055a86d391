// The contents of a tensor table in device memory. gemm_test.cpp tests that kernels find tensors by
// it.
#include "ops/hopper/tensor_maps.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/op_test.hpp"

namespace clora {
namespace {

constexpr std::size_t kMapWords = 16;

std::vector<std::uint64_t> words_of(Context& context, const Tensor& table) {
  const std::vector<std::uint8_t> bytes = context.read<std::uint8_t>(table);
  std::vector<std::uint64_t> words((bytes.size() + 7) / 8);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

TEST(TensorTable, HoldsMapsThenAddressesThenZeros) {
  Context& context = test::context_of(Variant::portable);
  Batch batch(context);
  const Tensor allocated = context.allocate({4, 64}, DType::bf16, MemoryTag::scratch);
  const Tensor planned = batch.temporary({8, 64}, DType::bf16, "planned");
  TensorTable table{.matrices = {{{allocated, 4, 64, 64}, 4}, {{planned, 8, 64, 64}, 8}},
                    .tensors = {planned, {}, allocated},
                    .counters = 5};
  table.tensors.resize(11, allocated);  // more tensors than one launch writes
  const Tensor written = prepare_tensor_table(batch, table, "table");
  batch.copy(planned.rows(0, 4), allocated);
  batch.submit().wait();
  const auto words = words_of(context, written);
  ASSERT_EQ(written.bytes(), 2 * 8 * kMapWords + 11 * 8 + 5 * 4);
  const std::uint64_t allocated_at = words[0], planned_at = words[kMapWords];
  EXPECT_NE(allocated_at, planned_at);
  const std::size_t addresses = 2 * kMapWords;
  EXPECT_EQ(words[addresses], planned_at);
  EXPECT_EQ(words[addresses + 1], 0U);  // an empty tensor
  for (std::size_t i = 2; i < 11; ++i) EXPECT_EQ(words[addresses + i], allocated_at);
  for (std::size_t i = addresses + 11; i < words.size(); ++i) EXPECT_EQ(words[i], 0U);
}

TEST(TensorTable, IsUsedWithAllThatItLeadsTo) {
  Context& context = test::context_of(Variant::portable);
  const Tensor matrix = context.allocate({4, 64}, DType::bf16, MemoryTag::scratch);
  const Tensor result = context.allocate({4}, DType::f32, MemoryTag::scratch);
  const TensorTable table{.matrices = {{{matrix, 4, 64, 64}, 4}}, .tensors = {{}, result}};
  const std::vector<Tensor> uses = table.uses();
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_EQ(uses[0].storage(), result.storage());
  EXPECT_EQ(uses[1].storage(), matrix.storage());
}

}  // namespace
}  // namespace clora

#include "clora/runtime/memory/transfer.hpp"
#include "runtime/fail.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "clora/ops/quant/quant.hpp"
#include "clora/runtime/files/file.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;

std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> values(bytes);
  std::uint32_t state = 7;
  for (std::byte& value : values) {
    state = state * 1'664'525U + 1'013'904'223U;
    value = static_cast<std::byte>(state >> 24U);
  }
  return values;
}

Shape bytes_shape(std::size_t bytes) { return {static_cast<std::int64_t>(bytes)}; }

// Both ways of moving large tensors, on any device: in place, and through staging.
class Streaming : public testing::TestWithParam<DeviceKind> {
 protected:
  Tensor allocate(std::size_t bytes) {
    return context_.allocate(bytes_shape(bytes), DType::u8, MemoryTag::scratch);
  }
  std::vector<std::byte> contents(const Tensor& tensor) {
    std::vector<std::byte> bytes(tensor.bytes());
    context_.read_async(tensor, bytes).wait();
    return bytes;
  }
  static Device device_as(Device device, DeviceKind kind) {
    device.kind = kind;
    return device;
  }

  Context& context_ = test::context_of(Variant::automatic);
  Transfer transfer_{context_.opencl_context(), context_.opencl_queue(),
                     device_as(context_.device(), GetParam()), context_.pool(), context_.health()};
};
INSTANTIATE_TEST_SUITE_P(Ways, Streaming, testing::Values(DeviceKind::cpu, DeviceKind::gpu),
                         [](const auto& way) { return std::string(name_of(way.param)); });

TEST_P(Streaming, WritesAndReadsWhatItWasGiven) {
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{4097}, kMiB - 1, 4 * kMiB, 4 * kMiB + 1, 9 * kMiB + 77}) {
    const std::vector<std::byte> values = pattern(bytes);
    const Tensor tensor = allocate(bytes);
    transfer_.write(tensor, values);
    EXPECT_TRUE(contents(tensor) == values) << bytes;
    std::vector<std::byte> back(bytes);
    transfer_.read(tensor, back);
    EXPECT_TRUE(back == values) << bytes;
  }
}

TEST_P(Streaming, TouchesNothingOutsideAView) {
  const std::size_t step = context_.device().base_alignment_bytes;
  const std::size_t inside = 5 * kMiB;
  const Tensor all = allocate(inside + 2 * step);
  const std::vector<std::byte> before = pattern(all.bytes());
  transfer_.write(all, before);
  const Tensor view = all.slice(step, bytes_shape(inside), DType::u8);
  transfer_.stream(view, 1, [](std::span<std::byte> chunk, std::size_t) {
    std::ranges::fill(chunk, std::byte{9});
  });
  const std::vector<std::byte> after = contents(all);
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + static_cast<long>(step), after.begin()));
  EXPECT_TRUE(std::equal(before.end() - static_cast<long>(step), before.end(),
                         after.end() - static_cast<long>(step)));
  EXPECT_TRUE(std::all_of(after.begin() + static_cast<long>(step),
                          after.end() - static_cast<long>(step),
                          [](std::byte b) { return b == std::byte{9}; }));
}

TEST_P(Streaming, PacksInWholeGrainsAndInOrder) {
  const std::size_t grain = 3000;  // does not divide a chunk
  const std::size_t grains = 5000;
  const Tensor tensor = allocate(grain * grains);
  const std::vector<std::byte> source = pattern(tensor.bytes());
  std::size_t next = 0;
  std::size_t chunks = 0;
  // Rows in reverse order, as a permutation would write them.
  transfer_.stream(tensor, grain, [&](std::span<std::byte> chunk, std::size_t offset) {
    EXPECT_EQ(offset, next);
    EXPECT_EQ(chunk.size() % grain, 0U);
    EXPECT_LE(chunk.size(), Transfer::kChunkBytes);
    for (std::size_t at = 0; at < chunk.size(); at += grain) {
      const std::size_t row = grains - 1 - (offset + at) / grain;
      std::memcpy(&chunk[at], &source[row * grain], grain);
    }
    next += chunk.size();
    ++chunks;
  });
  EXPECT_EQ(next, tensor.bytes());
  EXPECT_GE(chunks, 3U);
  const std::vector<std::byte> got = contents(tensor);
  for (std::size_t row = 0; row < grains; ++row) {
    ASSERT_EQ(std::memcmp(&got[row * grain], &source[(grains - 1 - row) * grain], grain), 0) << row;
  }
}

TEST_P(Streaming, TakesAGrainLargerThanAChunk) {
  const std::size_t grain = Transfer::kChunkBytes + 12;
  const Tensor tensor = allocate(3 * grain);
  std::vector<std::size_t> sizes;
  transfer_.stream(tensor, grain, [&](std::span<std::byte> chunk, std::size_t offset) {
    sizes.push_back(chunk.size());
    std::ranges::fill(chunk, static_cast<std::byte>(offset / grain));
  });
  EXPECT_EQ(sizes, std::vector<std::size_t>(3, grain));
  EXPECT_EQ(contents(tensor)[2 * grain], std::byte{2});
  EXPECT_EQ(contents(tensor)[2 * grain - 1], std::byte{1});
}

TEST_P(Streaming, LetsThePackersErrorThroughAndContinues) {
  const Tensor tensor = allocate(10 * kMiB);
  std::size_t calls = 0;
  EXPECT_THAT(test::error_of([&] {
                transfer_.stream(tensor, 1, [&](std::span<std::byte>, std::size_t) {
                  if (++calls == 2) fail(ErrorCode::cancelled, "stopped by the caller");
                });
              }),
              testing::HasSubstr("stopped by the caller"));
  EXPECT_EQ(calls, 2U);
  const std::vector<std::byte> values = pattern(tensor.bytes());
  transfer_.write(tensor, values);
  EXPECT_TRUE(contents(tensor) == values);
}

TEST_P(Streaming, RefusesGrainsThatDoNotFit) {
  const Tensor tensor = allocate(1000);
  const auto nothing = [](std::span<std::byte>, std::size_t) {};
  EXPECT_THAT(test::error_of([&] { transfer_.stream(tensor, 300, nothing); }),
              testing::HasSubstr("must be a multiple of the grain size"));
  EXPECT_THAT(test::error_of([&] { transfer_.stream(tensor, 0, nothing); }),
              testing::HasSubstr("must be a multiple of the grain size"));
  EXPECT_THAT(test::error_of([&] { transfer_.stream({}, 1, nothing); }),
              testing::HasSubstr("needs a tensor with memory"));
}

TEST_P(Streaming, HoldsTwoStagingBuffersAtMost) {
  const Tensor tensor = allocate(20 * kMiB);
  const std::vector<std::byte> values = pattern(tensor.bytes());
  EXPECT_EQ(transfer_.staging_bytes(), 0U);
  for (int i = 0; i < 3; ++i) transfer_.write(tensor, values);
  const std::size_t wanted = GetParam() == DeviceKind::cpu ? 0 : 2 * Transfer::kChunkBytes;
  EXPECT_EQ(transfer_.staging_bytes(), wanted);
  transfer_.trim();
  EXPECT_EQ(transfer_.staging_bytes(), 0U);
  transfer_.write(tensor, values);
  EXPECT_TRUE(contents(tensor) == values);
}

class Wrapping : public testing::Test {
 protected:
  void SetUp() override {
    if (context_.device().kind != DeviceKind::cpu) GTEST_SKIP() << "the device is not a CPU";
  }
  // The values of f(tensor), read through a kernel and upcast to f32.
  std::vector<float> through_a_kernel(const Tensor& tensor) {
    const Tensor out = context_.allocate(tensor.shape(), DType::f32, MemoryTag::scratch);
    Batch batch(context_);
    record_dequantise(batch, out, tensor);
    batch.submit().wait();
    return context_.read<float>(out);
  }

  Context& context_ = test::context_of(Variant::automatic);
  test::TemporaryFolder folder_;
};

TEST_F(Wrapping, LetsAKernelReadAMappedFileWithoutACopy) {
  const std::vector<float> values = test::random_values(64 * 1024, 3);
  // The tensor begins 36 bytes into the file: aligned for its scalars only.
  std::vector<std::byte> bytes(36);
  const auto tail = std::as_bytes(std::span(values));
  bytes.insert(bytes.end(), tail.begin(), tail.end());
  write_file_atomically(folder_.path() / "weights", bytes);
  std::optional<MappedFile> file = MappedFile::open(folder_.path() / "weights");
  const std::weak_ptr<const void> mapping = file->owner();
  const std::size_t pool_before = context_.pool().statistics().in_use_bytes;
  Tensor tensor =
      context_.transfers().wrap(file->bytes().subspan(36), {64, 1024}, DType::f32, file->owner());
  ASSERT_FALSE(tensor.empty());
  EXPECT_EQ(context_.pool().statistics().in_use_bytes, pool_before);
  EXPECT_EQ(context_.pool().statistics().wrapped_bytes, tail.size());
  file.reset();  // the tensor keeps the mapping alive
  ASSERT_FALSE(mapping.expired());
  EXPECT_EQ(through_a_kernel(tensor), values);
  EXPECT_EQ(context_.read<float>(tensor), values);
  tensor = {};
  context_.finish();
  // The driver's threads may release their references a little later.
  for (int i = 0; i < 200 && !mapping.expired(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(mapping.expired());
  EXPECT_EQ(context_.pool().statistics().wrapped_bytes, 0U);
}

TEST_F(Wrapping, RefusesWhatKernelsCouldNotReadAligned) {
  const std::vector<std::byte> bytes(128 * 1024);
  const std::span<const std::byte> all(bytes);
  Transfer& transfer = context_.transfers();
  EXPECT_TRUE(transfer.can_wrap(all.subspan(4), DType::f32));
  EXPECT_FALSE(transfer.can_wrap(all.subspan(2), DType::f32));
  EXPECT_TRUE(transfer.can_wrap(all.subspan(2), DType::bf16));
  EXPECT_TRUE(transfer.can_wrap(all.subspan(2), DType::q4_1));
  EXPECT_FALSE(transfer.can_wrap(all.subspan(1), DType::q4_1));
  EXPECT_FALSE(transfer.can_wrap(all.first(1024), DType::f32));  // too small for a memory object
  EXPECT_TRUE(
      transfer.wrap(all.subspan(1).first(64 * 1024), {32, 1024}, DType::f16, nullptr).empty());
}

TEST(Commit, ForcesMemoryAndSparesABlockThatWasForced) {
  Context& context = test::context_of(Variant::automatic);
  for (const std::size_t bytes : {std::size_t{5000}, 40 * kMiB}) {
    const Tensor tensor = context.allocate(bytes_shape(bytes), DType::u8, MemoryTag::cache);
    const Tensor other = context.allocate({64}, DType::u8, MemoryTag::cache);
    const std::vector<std::uint8_t> ones(64, 1);
    context.write(other, std::as_bytes(std::span(ones)));
    context.write(tensor, pattern(bytes));
    context.commit(tensor, MemoryTag::cache);
    const auto seen = context.read<std::uint8_t>(tensor);
    EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), std::size_t{0}), 0U);
    EXPECT_EQ(context.read<std::uint8_t>(other), ones);
    EXPECT_EQ(tensor.storage()->buffer->is_committed(), bytes > kMiB);  // in its own block
  }
}

}  // namespace
}  // namespace clora

// Transfers while the device is blocked, or if a driver refuses a call.
#include <CL/cl.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "clora/runtime/memory/transfer.hpp"
#include "tests/support/at_a_wait.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/opencl_faults.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using test::CallKind;

constexpr std::size_t kBytes = 5 * Transfer::kChunkBytes;

// One value for each chunk, so a misplaced chunk is detected.
std::vector<std::byte> numbered_chunks() {
  std::vector<std::byte> bytes(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) {
    bytes[i] = static_cast<std::byte>(1 + i / Transfer::kChunkBytes);
  }
  return bytes;
}

// Calls that query, or wait for, the completion of a command.
const std::vector<CallKind> kQuestions = {CallKind::wait, CallKind::event_status,
                                          CallKind::event_callback};

// Transfers through the two staging buffers on any device.
class Staged : public testing::Test {
 protected:
  Staged() {
    test::clear_faults();
    transfer_.write(tensor_, std::vector<std::byte>(kBytes));  // creates the staging buffers
  }
  static Device device_as_gpu(Device device) {
    device.kind = DeviceKind::gpu;
    return device;
  }

  Context context_{config_from_environment()};
  Tensor tensor_ = context_.allocate({kBytes}, DType::u8, MemoryTag::scratch);
  Transfer transfer_{context_.opencl_context(), context_.opencl_queue(),
                     device_as_gpu(context_.device()), context_.pool(), context_.health()};
};

TEST_F(Staged, RefillsABufferOnlyOnceTheDeviceHasReadIt) {
  const std::vector<std::byte> values = numbered_chunks();
  test::Gate gate(context_);
  context_.wait_for({&gate.event(), 1});  // blocks all later commands
  const test::AtAWait opener(kQuestions, [&] { gate.open(); });
  std::size_t turn = 0;
  transfer_.stream(tensor_, 1, [&](std::span<std::byte> chunk, std::size_t offset) {
    EXPECT_TRUE(++turn <= 2 || opener.ran()) << "chunk " << turn << " fills a buffer in use";
    std::ranges::copy(std::span(values).subspan(offset, chunk.size()), chunk.begin());
  });
  EXPECT_EQ(turn, 5U);
  EXPECT_TRUE(context_.read<std::byte>(tensor_) == values);
}

TEST_F(Staged, EmptiesABufferOnlyOnceTheDeviceHasFilledIt) {
  const std::vector<std::byte> values = numbered_chunks();
  context_.write(tensor_, values);
  std::vector<std::byte> seen(kBytes);
  test::Gate gate(context_);
  context_.wait_for({&gate.event(), 1});
  const test::AtAWait opener(kQuestions, [&] { gate.open(); });
  transfer_.read(tensor_, seen);
  EXPECT_TRUE(opener.ran());
  EXPECT_TRUE(seen == values);
}

// A driver that refuses to create a buffer on host memory with a status.
class WrappingWithFaults : public testing::Test {
 protected:
  void SetUp() override {
    if (context_.device().kind != DeviceKind::cpu) GTEST_SKIP() << "the device is not a CPU";
    context_.allocate({64}, DType::f32, MemoryTag::scratch);  // creates a slab
    test::clear_faults();
  }
  void TearDown() override { test::clear_faults(); }

  Tensor wrap() {
    const auto bytes = std::as_bytes(std::span(*values_));
    return context_.transfers().wrap(bytes, {1024, 16}, DType::f32, values_);
  }

  Context context_{config_from_environment()};
  std::shared_ptr<std::vector<float>> values_ = std::make_shared<std::vector<float>>(1024 * 16, 1);
};

TEST_F(WrappingWithFaults, ReturnsNothingIfTheDriverRefusesTheMemory) {
  for (const int status : {CL_INVALID_HOST_PTR, CL_INVALID_VALUE, CL_INVALID_BUFFER_SIZE,
                           CL_INVALID_OPERATION, CL_MEM_OBJECT_ALLOCATION_FAILURE}) {
    test::clear_faults();
    test::inject({.kind = CallKind::allocation, .status = status});
    EXPECT_TRUE(wrap().empty()) << status;
    EXPECT_EQ(test::failed_calls(), 1);
    EXPECT_EQ(values_.use_count(), 1) << "the owner is kept";
  }
  EXPECT_FALSE(context_.health()->lost());
  EXPECT_FALSE(wrap().empty());
}

TEST_F(WrappingWithFaults, ReportsThatMemoryIsExhausted) {
  for (const int status : {CL_OUT_OF_HOST_MEMORY, CL_OUT_OF_RESOURCES}) {
    test::clear_faults();
    test::inject({.kind = CallKind::allocation, .status = status});
    CLORA_EXPECT_ERROR(wrap(), ErrorCode::out_of_memory, "wanted for weights");
  }
  EXPECT_FALSE(context_.health()->lost());
  EXPECT_EQ(values_.use_count(), 1);
}

TEST_F(WrappingWithFaults, LosesTheContextIfTheDeviceIsGone) {
  test::inject({.kind = CallKind::allocation, .status = CL_DEVICE_NOT_AVAILABLE});
  CLORA_EXPECT_ERROR(wrap(), ErrorCode::device_lost, "CL_DEVICE_NOT_AVAILABLE");
  EXPECT_TRUE(context_.health()->lost());
  CLORA_EXPECT_ERROR(context_.flush(), ErrorCode::device_lost, "create a new Context");
  EXPECT_EQ(values_.use_count(), 1);
}

TEST_F(WrappingWithFaults, LetsOtherErrorsThrough) {
  test::inject({.kind = CallKind::allocation, .status = -9999});
  CLORA_EXPECT_ERROR(wrap(), ErrorCode::device, "host memory: OpenCL status -9999");
  EXPECT_FALSE(context_.health()->lost());
}

}  // namespace
}  // namespace clora

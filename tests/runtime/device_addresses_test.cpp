// Parts of device memory passed to kernels by address, on devices that are not known to support it,
// because the test's configuration requests it.
#include "runtime/device/device_addresses.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "clora/ops/rowwise/rms_norm.hpp"
#include "clora/runtime/commands/batch.hpp"
#include "tests/support/at_a_wait.hpp"
#include "tests/support/copied_kernels.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/opencl_faults.hpp"

namespace clora {
namespace {

using test::CallKind;

constexpr std::int64_t kRows = 3;
constexpr std::int64_t kWidth = 64;

ContextConfig config_with(bool addresses) {
  ContextConfig config = config_from_environment();
  config.addresses = addresses;
  config.sub_allocate = true;
  return config;
}

// A chain of norms through temporaries: every tensor except one begins inside a block.
struct TwoNorms {
  explicit TwoNorms(Context& its_context)
      : context(its_context),
        x(test::upload(context, {kRows, kWidth}, test::random_values(kRows * kWidth, 1))),
        w(test::upload(context, {kWidth}, test::random_values(kWidth, 2))),
        y(context.allocate({kRows, kWidth}, DType::f32, MemoryTag::scratch)),
        batch(context) {
    const Tensor first = batch.temporary({kRows, kWidth}, DType::f32, "before");
    const Tensor between = batch.temporary({kRows, kWidth}, DType::f32, "between");
    record_rms_norm(batch, first, x, w, 1e-5F);
    record_rms_norm(batch, between, first, w, 1e-5F);
    record_rms_norm(batch, y, between, w, 1e-5F);
  }
  std::vector<float> run() {
    batch.submit().wait();
    return context.read<float>(y);
  }

  Context& context;
  Tensor x, w, y;
  Batch batch;
};

std::vector<float> with_sub_buffers() {
  Context context(config_with(false));
  return TwoNorms(context).run();
}

bool takes_addresses(Context& context) {
  const Tensor t = context.allocate({1}, DType::f32, MemoryTag::scratch);
  return context.addresses().of(*t.storage()->buffer).has_value();
}

class DeviceAddressesTest : public testing::Test {
 protected:
  void SetUp() override {
    Context context(config_with(true));
    if (!takes_addresses(context)) GTEST_SKIP() << "this device does not use addresses";
    test::clear_faults();
  }
  void TearDown() override { test::clear_faults(); }
};

TEST_F(DeviceAddressesTest, StandForPartsOfBlocksAndNoSubBufferIsCreated) {
  const std::vector<float> wanted = with_sub_buffers();
  Context context(config_with(true));
  test::clear_faults();
  EXPECT_EQ(TwoNorms(context).run(), wanted);
  EXPECT_EQ(test::calls(CallKind::sub_buffer), 0);
}

TEST_F(DeviceAddressesTest, AreQueriedOncePerBlock) {
  Context context(config_with(true));
  TwoNorms once(context);
  static_cast<void>(once.run());
  test::clear_faults();
  TwoNorms again(context);
  static_cast<void>(again.run());
  EXPECT_EQ(test::calls(CallKind::launch), 3);
}

TEST_F(DeviceAddressesTest, AreNotUsedIfTheDriverRefusesOne) {
  const std::vector<float> wanted = with_sub_buffers();
  Context context(config_with(true));
  TwoNorms norms(context);
  test::clear_faults();
  test::inject({.kind = CallKind::argument, .nth = 3});
  norms.batch.seal();
  EXPECT_EQ(test::failed_calls(), 1);
  EXPECT_GT(test::calls(CallKind::sub_buffer), 0);
  EXPECT_FALSE(takes_addresses(context));
  EXPECT_EQ(norms.run(), wanted);
}

TEST_F(DeviceAddressesTest, AreNotUsedIfTheyLeadElsewhere) {
  const test::Folders folders;
  folders.replace("device_address.cl", "(ulong)memory", "(ulong)memory - 8");
  ContextConfig config = config_with(true);
  config.kernel_folders = {folders.kernels()};
  config.cache_folder = folders.cache();
  Context context(config);
  EXPECT_FALSE(takes_addresses(context));
  EXPECT_EQ(TwoNorms(context).run(), with_sub_buffers());
}

// The driver does not track the memory as in use and would free it under the kernel.
TEST_F(DeviceAddressesTest, KeepTheirMemoryUntilTheDeviceIsAtRest) {
  Context context(config_with(true));
  static_cast<void>(TwoNorms(context).run());
  auto norms = std::make_unique<TwoNorms>(context);
  norms->batch.seal();
  const int before = test::live_objects().buffers;
  test::clear_faults();
  test::hold_launch(1);
  static_cast<void>(norms->batch.submit());
  norms.reset();
  std::atomic<int> at_release = 0;
  test::AtAWait watch({CallKind::marker}, [&] {
    at_release = test::live_objects().buffers;
    test::release_held_launch();
  });
  context.pool().trim();
  watch.stop();
  EXPECT_EQ(at_release, before);
  EXPECT_LT(test::live_objects().buffers, before);
}

TEST(DeviceAddresses, AreNotUsedForACallersMemoryOrWithoutParts) {
  Context context(config_with(true));
  cl_int status = CL_SUCCESS;
  const OwnedMem theirs(
      clCreateBuffer(context.opencl_context(), CL_MEM_READ_WRITE, 4096, nullptr, &status));
  const Tensor view = context.adopt(theirs.get(), {64}, DType::f32);
  EXPECT_FALSE(context.addresses().of(*view.storage()->buffer).has_value());
  ContextConfig exact = config_with(true);
  exact.sub_allocate = false;
  Context apart(exact);
  EXPECT_FALSE(takes_addresses(apart));
}

}  // namespace
}  // namespace clora

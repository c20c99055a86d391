// Ceilings: sensible numbers from this device; kept, read back, and measured anew when damaged.
#include "ops/ceilings.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

class CeilingsMeasured : public testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Variants, CeilingsMeasured, test::all_variants(), test::variant_name);

TEST_P(CeilingsMeasured, ArePositiveAndFinite) {
  ContextConfig config = config_from_environment();
  config.variant = GetParam();
  config.memory_limit_bytes = std::size_t{64} << 20;  // it takes what there is
  Context context(config);
  const Ceilings ceilings = measure_ceilings(context);
  EXPECT_TRUE(ceilings.known());
  for (const double value :
       {ceilings.copy_bytes_per_second, ceilings.read_bytes_per_second,
        ceilings.f32_flops_per_second, ceilings.barrier_seconds, ceilings.launch_seconds,
        ceilings.wake_seconds}) {
    EXPECT_GT(value, 0);
    EXPECT_TRUE(std::isfinite(value));
  }
  if (context.device().matrix_unit == MatrixUnit::none || GetParam() == Variant::portable) {
    EXPECT_EQ(ceilings.matrix_flops_per_second, 0);
  } else {  // more than f32's, unless other programs took the cores meanwhile
    EXPECT_GT(ceilings.matrix_flops_per_second, 0.3 * ceilings.f32_flops_per_second);
    EXPECT_LT(ceilings.matrix_flops_per_second, 100 * ceilings.f32_flops_per_second);
  }
  EXPECT_EQ(context.pool().statistics().in_use_bytes, 0U);
}

class KeptCeilings : public testing::Test {
 protected:
  std::filesystem::path file() const {
    const std::filesystem::directory_iterator files(folder / "ceilings");
    EXPECT_EQ(std::distance(begin(files), end(files)), 1);
    return std::filesystem::directory_iterator(folder / "ceilings")->path();
  }
  static void expect_equal(const Ceilings& a, const Ceilings& b) {
    EXPECT_EQ(a.copy_bytes_per_second, b.copy_bytes_per_second);
    EXPECT_EQ(a.read_bytes_per_second, b.read_bytes_per_second);
    EXPECT_EQ(a.f32_flops_per_second, b.f32_flops_per_second);
    EXPECT_EQ(a.matrix_flops_per_second, b.matrix_flops_per_second);
    EXPECT_EQ(a.barrier_seconds, b.barrier_seconds);
    EXPECT_EQ(a.launch_seconds, b.launch_seconds);
    EXPECT_EQ(a.wake_seconds, b.wake_seconds);
  }

  KeptCeilings() {
    device.name = "a device";
    device.driver = "1.0";
    device.opencl_version = "OpenCL 3.0";
  }

  test::TemporaryFolder folder;
  Device device;
  const Ceilings ceilings{1.0 / 3 * 1e11, 4.5e10, 2.2e11, 0, 1.1e-7, 1.7e-6, 3.14159265358979e-5};
};

TEST_F(KeptCeilings, AreReadBackToTheLastBit) {
  EXPECT_FALSE(kept_ceilings(folder.path(), device));
  keep_ceilings(folder.path(), device, ceilings);
  const auto kept = kept_ceilings(folder.path(), device);
  ASSERT_TRUE(kept);
  expect_equal(*kept, ceilings);
}

TEST_F(KeptCeilings, AreOfOneDeviceAndDriver) {
  keep_ceilings(folder.path(), device, ceilings);
  Device other = device;
  other.driver = "1.1";
  EXPECT_FALSE(kept_ceilings(folder.path(), other));
  other = device;
  other.name = "another device";
  EXPECT_FALSE(kept_ceilings(folder.path(), other));
}

TEST_F(KeptCeilings, AreRefusedWithAnyByteFlipped) {
  keep_ceilings(folder.path(), device, ceilings);
  const std::string whole = test::read_whole_file(file());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    test::write_whole_file(file(), damaged);
    EXPECT_FALSE(kept_ceilings(folder.path(), device)) << i;
  }
}

TEST_F(KeptCeilings, AreRefusedWhenCutAnywhere) {
  keep_ceilings(folder.path(), device, ceilings);
  const std::string whole = test::read_whole_file(file());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    test::write_whole_file(file(), whole.substr(0, size));
    EXPECT_FALSE(kept_ceilings(folder.path(), device)) << size;
  }
}

TEST_F(KeptCeilings, AreRefusedWhenTheyMakeNoSense) {
  Ceilings wrong = ceilings;
  wrong.launch_seconds = 0;
  keep_ceilings(folder.path(), device, wrong);
  EXPECT_FALSE(kept_ceilings(folder.path(), device));
  wrong.launch_seconds = INFINITY;
  keep_ceilings(folder.path(), device, wrong);
  EXPECT_FALSE(kept_ceilings(folder.path(), device));
}

class CeilingsOf : public KeptCeilings {
 protected:
  CeilingsOf() {
    config.cache_folder = folder.path();
    config.memory_limit_bytes = std::size_t{64} << 20;
    config.hooks.log = [this](LogLevel, std::string_view text) { told += text; };
  }
  ContextConfig config = config_from_environment();
  std::string told;
};

TEST_F(CeilingsOf, AreMeasuredOnceThenReadAndMeasuredAnewWhenDamaged) {
  const Ceilings first = ceilings_of(config);
  const std::string written = test::read_whole_file(file());
  expect_equal(ceilings_of(config), first);
  EXPECT_EQ(test::read_whole_file(file()), written);
  test::write_whole_file(file(), written.substr(0, written.size() / 2));
  EXPECT_TRUE(ceilings_of(config).known());
  EXPECT_TRUE(kept_ceilings(folder.path(), select_device(config.device)));
  EXPECT_EQ(told, "");
}

TEST_F(CeilingsOf, LeaveOutAMatrixUnitThatTheConfigurationDoesNotUse) {
  const Device taken = select_device(config.device);
  if (taken.matrix_unit == MatrixUnit::none) GTEST_SKIP() << "'" << taken.name << "' has none";
  Ceilings all = ceilings;
  all.matrix_flops_per_second = 5e11;
  keep_ceilings(folder.path(), taken, all);
  config.variant = Variant::automatic;
  config.precision = Precision::f32;
  EXPECT_EQ(ceilings_of(config).matrix_flops_per_second, 0);
  config.precision = Precision::automatic;
  expect_equal(ceilings_of(config), all);
}

TEST_F(CeilingsOf, AreStillMeasuredWhereTheyCannotBeKept) {
  test::write_whole_file(folder / "a_file", "in the way");
  config.cache_folder = folder / "a_file";
  EXPECT_TRUE(ceilings_of(config).known());
  EXPECT_NE(told.find("ceilings: the folder"), std::string::npos) << told;
}

}  // namespace
}  // namespace clora

// Roofline peaks: plausible numbers from this device; stored, read back, and measured again if
// damaged.
#include "clora/ops/roofline_peaks/roofline_peaks.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

class PeaksMeasured : public testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Variants, PeaksMeasured, test::all_variants(), test::variant_name);

TEST_P(PeaksMeasured, ArePositiveAndFinite) {
  ContextConfig config = config_from_environment();
  config.variant = GetParam();
  config.memory_limit_bytes = std::size_t{64} << 20;  // the measurement uses what is available
  Context context(config);
  const RooflinePeaks peaks = measure_peaks(context);
  EXPECT_TRUE(peaks.known());
  for (const double value :
       {peaks.copy_bytes_per_second, peaks.read_bytes_per_second, peaks.f32_flops_per_second,
        peaks.barrier_seconds, peaks.launch_seconds, peaks.wake_seconds}) {
    EXPECT_GT(value, 0);
    EXPECT_TRUE(std::isfinite(value));
  }
  if (context.device().matrix_unit == MatrixUnit::none || GetParam() == Variant::portable) {
    EXPECT_EQ(peaks.matrix_flops_per_second, 0);
  } else {  // above the f32 peak, unless other programs used the cores at the same time
    EXPECT_GT(peaks.matrix_flops_per_second, 0.3 * peaks.f32_flops_per_second);
    EXPECT_LT(peaks.matrix_flops_per_second, 100 * peaks.f32_flops_per_second);
  }
  EXPECT_EQ(context.pool().statistics().in_use_bytes, 0U);
}

class StoredPeaks : public testing::Test {
 protected:
  std::filesystem::path file() const {
    const std::filesystem::directory_iterator files(folder / "peaks");
    EXPECT_EQ(std::distance(begin(files), end(files)), 1);
    return std::filesystem::directory_iterator(folder / "peaks")->path();
  }
  static void expect_equal(const RooflinePeaks& a, const RooflinePeaks& b) {
    EXPECT_EQ(a.copy_bytes_per_second, b.copy_bytes_per_second);
    EXPECT_EQ(a.read_bytes_per_second, b.read_bytes_per_second);
    EXPECT_EQ(a.f32_flops_per_second, b.f32_flops_per_second);
    EXPECT_EQ(a.matrix_flops_per_second, b.matrix_flops_per_second);
    EXPECT_EQ(a.barrier_seconds, b.barrier_seconds);
    EXPECT_EQ(a.launch_seconds, b.launch_seconds);
    EXPECT_EQ(a.wake_seconds, b.wake_seconds);
  }

  StoredPeaks() {
    device.name = "a device";
    device.driver = "1.0";
    device.opencl_version = "OpenCL 3.0";
  }

  test::TemporaryFolder folder;
  Device device;
  const RooflinePeaks peaks{1.0 / 3 * 1e11, 4.5e10, 2.2e11, 0, 1.1e-7, 1.7e-6, 3.14159265358979e-5};
};

TEST_F(StoredPeaks, AreReadBackToTheLastBit) {
  EXPECT_FALSE(stored_peaks(folder.path(), device));
  store_peaks(folder.path(), device, peaks);
  const auto stored = stored_peaks(folder.path(), device);
  ASSERT_TRUE(stored);
  expect_equal(*stored, peaks);
}

TEST_F(StoredPeaks, AreOfOneDeviceAndDriver) {
  store_peaks(folder.path(), device, peaks);
  Device other = device;
  other.driver = "1.1";
  EXPECT_FALSE(stored_peaks(folder.path(), other));
  other = device;
  other.name = "another device";
  EXPECT_FALSE(stored_peaks(folder.path(), other));
}

TEST_F(StoredPeaks, AreRefusedWithAnyByteFlipped) {
  store_peaks(folder.path(), device, peaks);
  const std::string intact = test::read_file(file());
  for (std::size_t i = 0; i < intact.size(); ++i) {
    std::string damaged = intact;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    test::write_file(file(), damaged);
    EXPECT_FALSE(stored_peaks(folder.path(), device)) << i;
  }
}

TEST_F(StoredPeaks, AreRefusedWhenCutAnywhere) {
  store_peaks(folder.path(), device, peaks);
  const std::string intact = test::read_file(file());
  for (std::size_t size = 0; size < intact.size(); ++size) {
    test::write_file(file(), intact.substr(0, size));
    EXPECT_FALSE(stored_peaks(folder.path(), device)) << size;
  }
}

TEST_F(StoredPeaks, AreRefusedWhenTheyMakeNoSense) {
  RooflinePeaks wrong = peaks;
  wrong.launch_seconds = 0;
  store_peaks(folder.path(), device, wrong);
  EXPECT_FALSE(stored_peaks(folder.path(), device));
  wrong.launch_seconds = INFINITY;
  store_peaks(folder.path(), device, wrong);
  EXPECT_FALSE(stored_peaks(folder.path(), device));
}

class PeaksOf : public StoredPeaks {
 protected:
  PeaksOf() {
    config.cache_folder = folder.path();
    config.memory_limit_bytes = std::size_t{64} << 20;
    config.hooks.log = [this](LogLevel, std::string_view text) { messages += text; };
  }
  ContextConfig config = config_from_environment();
  std::string messages;
};

TEST_F(PeaksOf, AreMeasuredOnceThenReadAndMeasuredAgainIfDamaged) {
  const RooflinePeaks first = peaks_of(config);
  const std::string written = test::read_file(file());
  expect_equal(peaks_of(config), first);
  EXPECT_EQ(test::read_file(file()), written);
  test::write_file(file(), written.substr(0, written.size() / 2));
  EXPECT_TRUE(peaks_of(config).known());
  EXPECT_TRUE(stored_peaks(folder.path(), select_device(config.device)));
  EXPECT_EQ(messages, "");
}

TEST_F(PeaksOf, LeaveOutAMatrixUnitThatTheConfigurationDoesNotUse) {
  const Device selected = select_device(config.device);
  if (selected.matrix_unit == MatrixUnit::none)
    GTEST_SKIP() << "'" << selected.name << "' has no matrix unit";
  RooflinePeaks all = peaks;
  all.matrix_flops_per_second = 5e11;
  store_peaks(folder.path(), selected, all);
  config.variant = Variant::automatic;
  config.precision = Precision::f32;
  EXPECT_EQ(peaks_of(config).matrix_flops_per_second, 0);
  config.precision = Precision::automatic;
  expect_equal(peaks_of(config), all);
}

TEST_F(PeaksOf, AreStillMeasuredIfTheyCannotBeStored) {
  test::write_file(folder / "a_file", "in the way");
  config.cache_folder = folder / "a_file";
  EXPECT_TRUE(peaks_of(config).known());
  EXPECT_NE(messages.find("roofline peaks: folder '"), std::string::npos) << messages;
}

}  // namespace
}  // namespace clora

// A GPU that reports a matrix unit, with a driver that cannot build its instructions: the ops use
// portable kernels, with one warning. The test runs itself on a simulated GPU of AMD
// (tests/simulator/unproven_gpu.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "clora/ops/gemm/gemm.hpp"
#include "ops/dispatch/matrix_unit_self_test.hpp"
#include "runtime/device/gpu_matrix_unit.hpp"
#include "tests/reference/gemm_reference.hpp"
#include "tests/support/copied_kernels.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/program.hpp"

namespace clora {
namespace {

constexpr const char* kIsSimulated = "CLORA_TEST_AMD_GPU";

TEST(AmdGpu, HasTheMatrixUnitOfItsProcessor) {
  EXPECT_EQ(amd_matrix_unit_of("gfx90a:sramecc+:xnack-"), MatrixUnit::mfma);
  EXPECT_EQ(amd_matrix_unit_of("gfx942"), MatrixUnit::mfma);
  EXPECT_EQ(amd_matrix_unit_of("gfx1100"), MatrixUnit::wmma_gfx11);
  EXPECT_EQ(amd_matrix_unit_of("gfx1151"), MatrixUnit::wmma_gfx11);
  EXPECT_EQ(amd_matrix_unit_of("gfx1201"), MatrixUnit::wmma_gfx12);
  for (const char* without :
       {"gfx906", "gfx908", "gfx1030", "gfx11", "gfx1250", "AMD Radeon", ""}) {
    EXPECT_EQ(amd_matrix_unit_of(without), MatrixUnit::none) << without;
  }
}

TEST(AmdGpu, TakesItsUnitInPrecisionAutoAlone) {
  Device device;
  device.kind = DeviceKind::gpu;
  device.matrix_unit = MatrixUnit::mfma;
  EXPECT_EQ(resolve(Variant::automatic, Precision::automatic, device), Variant::matrix);
  EXPECT_EQ(resolve(Variant::automatic, Precision::f32, device), Variant::portable);
  EXPECT_FALSE(can_take(Variant::mma, device));
  device.matrix_unit = MatrixUnit::mma;
  EXPECT_FALSE(can_take(Variant::matrix, device));
}

// Runs a test of this program on a simulated GPU.
void expect_passed(const std::string& test, const std::string& sub_group = "") {
  const std::filesystem::path library = test::built_program("tests/libclora_unproven_gpu.so");
  const test::TemporaryFolder cache;
  std::vector<std::string> environment{"LD_PRELOAD=" + library.string(),
                                       "CLORA_SELF_TEST=1",
                                       "CLORA_VARIANT=automatic",
                                       "CLORA_DEVICE=gpu",
                                       "CLORA_CACHE_DIR=" + cache.path().string(),
                                       std::string(kIsSimulated) + "=1"};
  if (!sub_group.empty()) environment.push_back("SIMULATED_SUB_GROUP=" + sub_group);
  const test::ProgramResult result = test::run_program(
      "/proc/self/exe",
      {.arguments = {"--gtest_filter=" + test}, .environment = std::move(environment)});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, testing::HasSubstr("[  PASSED  ] 1 test."));
}

TEST(AmdGpu, RunsTheTestsOfASimulatedOne) { expect_passed("SimulatedAmdGpu.*"); }

TEST(IntelGpu, HasAUnitIfItsSubGroupsHaveSixteenItems) {
  expect_passed("SimulatedIntelGpu.HasAUnit", "16");
  expect_passed("SimulatedIntelGpu.HasNone", "8");
}

TEST(SimulatedIntelGpu, HasAUnit) {
  if (std::getenv(kIsSimulated) == nullptr) GTEST_SKIP() << "only on a simulated GPU";
  EXPECT_EQ(select_device("gpu").matrix_unit, MatrixUnit::xmx);
}
TEST(SimulatedIntelGpu, HasNone) {
  if (std::getenv(kIsSimulated) == nullptr) GTEST_SKIP() << "only on a simulated GPU";
  EXPECT_EQ(select_device("gpu").matrix_unit, MatrixUnit::none);
}

TEST(SimulatedAmdGpu, ComputesWithPortableKernelsAndOneWarning) {
  if (std::getenv(kIsSimulated) == nullptr) GTEST_SKIP() << "RunsTheTestsOfASimulatedOne runs it";
  std::vector<std::string> warnings;
  ContextConfig config = config_from_environment();
  config.precision = Precision::automatic;
  config.hooks.log = [&](LogLevel level, std::string_view message) {
    if (level == LogLevel::warning) warnings.emplace_back(message);
  };
  Context context(config);
  EXPECT_EQ(context.device().matrix_unit, MatrixUnit::mfma);
  EXPECT_EQ(context.variant(), Variant::matrix);
  constexpr std::int64_t kRows = 40, kInputs = 96, kOutputs = 48;
  const std::vector<float> x = test::random_values(kRows * kInputs, 1);
  const std::vector<float> w = test::random_values(kOutputs * kInputs, 2);
  const test::Output y(context, {kRows, kOutputs});
  Batch batch(context);
  record_gemm(batch, y.tensor(), test::upload(context, {kRows, kInputs}, x),
              test::upload(context, {kOutputs, kInputs}, w));
  batch.submit().wait();
  const auto want =
      test::gemm_reference(test::to_double(x), test::to_double(w), {kRows, kOutputs, kInputs});
  test::expect_close(y.values(), want, test::product_tolerance_of(context.variant(), kInputs), "y");
  EXPECT_FALSE(matrix_unit_passed(context));
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], testing::HasSubstr("matrix_unit (matrix_unit_check.cl"));
  EXPECT_THAT(warnings[0], testing::HasSubstr("`device_report`"));
}

}  // namespace
}  // namespace clora

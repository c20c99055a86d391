// The program's message if there is no OpenCL device (the reason, and what to do about it), and its
// report of an emulated CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <sys/platform/x86.h>
#endif
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/support/driver_folder.hpp"
#include "tests/support/program.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;
using test::ProgramResult;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class WithoutADevice : public test::DriverFolder {
 protected:
  ProgramResult devices(std::vector<std::string> environment = {},
                        std::vector<std::string> arguments = {"devices"}) {
    environment.insert(environment.begin(),
                       {"OCL_ICD_VENDORS=" + vendors().string(), "CLORA_DEVICE="});
    return test::run_clora(test::ProgramCall{.arguments = std::move(arguments),
                                             .environment = std::move(environment)});
  }
};

TEST_F(WithoutADevice, ReportsThatNoDriverIsInstalled) {
  const ProgramResult result = devices();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("no driver is installed"), HasSubstr("OCL_ICD_VENDORS"),
                                HasSubstr(vendors().string()), HasSubstr("pocl-opencl-icd"),
                                HasSubstr("nvidia-opencl-icd"),
                                HasSubstr("; 'clora doctor' checks this machine\n")));
}

TEST_F(WithoutADevice, ReportsThatTheFolderOfDriversIsMissing) {
  fs::remove(vendors());
  const ProgramResult result = devices();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("no .icd file in"), HasSubstr(vendors().string())));
}

TEST_F(WithoutADevice, NamesTheDriverThatDoesNotLoadAndWhy) {
  add_driver("other.icd", "libno-such-driver.so.1\n");
  const ProgramResult result = devices();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr((vendors() / "other.icd").string() +
                                          " names libno-such-driver.so.1, which does not load"),
                                HasSubstr("cannot open shared object file"),
                                HasSubstr("pocl-opencl-icd"), Not(HasSubstr("no driver is"))));
}

TEST_F(WithoutADevice, NamesEachDriverThatDoesNotLoad) {
  add_driver("a.icd", "");
  add_driver("b.icd", "libno-such-driver.so.1");
  add_driver("c.txt", "libanother.so");
  const ProgramResult result = devices();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("a.icd: the file names no library"), HasSubstr("b.icd"),
                                Not(HasSubstr("libanother"))));
}

TEST_F(WithoutADevice, ReportsADriverWithoutADevice) {
  add_driver("m.icd", "libm.so.6\n");  // loads, but is not an OpenCL driver
  const ProgramResult result = devices();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("libm.so.6"), HasSubstr("loads but finds no device")));
}

TEST_F(WithoutADevice, ReportsThatPoclCannotWriteItsCache) {
  if (!add_pocl()) GTEST_SKIP() << "pocl is not installed";
  test::write_file(folder_ / "file", "not a folder");
  const std::string nowhere = (folder_ / "file").string();
  const ProgramResult refused =
      devices({"HOME=" + nowhere, "XDG_CACHE_HOME=", "CLORA_CACHE_DIR=" + nowhere + "/cache"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("pocl cannot write its cache folder " + nowhere + "/.cache/pocl"),
                    HasSubstr("set CLORA_CACHE_DIR")));
  const ProgramResult helped = devices(
      {"HOME=" + nowhere, "XDG_CACHE_HOME=", "CLORA_CACHE_DIR=" + (folder_ / "cache").string()});
  EXPECT_EQ(helped.exit_code, 0) << helped.err;
}

TEST_F(WithoutADevice, ReportsThatPoclIsConfiguredWithoutADevice) {
  if (!add_pocl()) GTEST_SKIP() << "pocl is not installed";
  const ProgramResult result = devices({"POCL_DEVICES=nonsense"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("POCL_DEVICES='nonsense'"));
}

TEST_F(WithoutADevice, OfTheWantedKindNamesTheDriverThatDoesNotLoad) {
  if (!add_pocl()) GTEST_SKIP() << "pocl is not installed";
  add_driver("other.icd", "libno-such-driver.so.1\n");
  EXPECT_EQ(devices().exit_code, 0);
  const ProgramResult result = devices({"CLORA_DEVICE=gpu"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("no device matches 'gpu'"), HasSubstr("other.icd")));
}

// Of any device that is selected.
ProgramResult verbose_devices(std::vector<std::string> environment) {
  return test::run_clora(
      {.arguments = {"devices", "--verbose", "--json"}, .environment = std::move(environment)});
}

TEST(DevicesVerbose, ReportCapabilitiesAndTheImplementationsOfOps) {
  const ProgramResult result = verbose_devices({"CLORA_VARIANT=portable"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("matrix instruction: none"),
                                HasSubstr("implementations in the variant portable:"),
                                HasSubstr("attention (512 rows, heads of 64): flash "
                                          "(attention_flash.cl)\n"),
                                HasSubstr("  not wgmma: it needs wgmma"),
                                HasSubstr("  not matrix: it needs a matrix unit"),
                                HasSubstr("rms_norm: portable")));
  const auto devices = result.json_lines().at(0).at("devices");
  const auto selected = std::ranges::find_if(devices, [](const auto& d) { return d.at("taken"); });
  EXPECT_EQ(selected->at("capabilities").at("matrix instruction"), "none");
  EXPECT_EQ(selected->at("implementations").at(0).at("family"), "gemm");
}

TEST(DevicesVerbose, ReportTheForcedImplementation) {
  const ProgramResult result =
      verbose_devices({"CLORA_VARIANT=portable", "CLORA_IMPL=attention_backward:portable"});
  EXPECT_THAT(result.err, HasSubstr("attention_backward (512 rows, heads of 64): portable "
                                    "(attention_backward.cl)\n"));
  const ProgramResult refused = verbose_devices({"CLORA_IMPL=gemm:fastest"});
  EXPECT_THAT(refused.err, HasSubstr("none: implementations: gemm:fastest does not exist; those"));
}

#if defined(__x86_64__)
TEST_F(WithoutADevice, HasOneWithoutAvx512WhereSuchACpuIsEmulated) {
  if (!add_pocl()) GTEST_SKIP() << "pocl is not installed";
  const fs::path library = test::built_program("tests/libclora_cpu_without_avx512.so");
  ASSERT_TRUE(fs::exists(library)) << library;
  const std::string preload = "LD_PRELOAD=" + library.string();
  const ProgramResult result = devices({preload, "CPU_WITHOUT_AVX_VNNI=1"}, {"devices", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("\"matrix_unit\":\"none\""),
                                HasSubstr("\"integer_dots\":\"avx2\""), Not(HasSubstr("avx512"))));
  if (!CPU_FEATURE_ACTIVE(AVX_VNNI)) GTEST_SKIP() << "this CPU has no AVX-VNNI";
  EXPECT_THAT(devices({preload}, {"devices", "--json"}).out,
              HasSubstr("\"integer_dots\":\"avx_vnni\""));
}
#endif

}  // namespace
}  // namespace clora

// clora doctor: its report, exit code and JSON on machines with other drivers, caches and
// variables. command_line_health_test.cpp covers the single checks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "clora/runtime/programs/program_store.hpp"
#include "runtime/programs/program_entry.hpp"
#include "tests/support/driver_folder.hpp"
#include "tests/support/program.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;
using test::ProgramResult;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class Doctor : public test::DriverFolder {
 protected:
  fs::path cache() const { return folder_ / "cache"; }
  // Stores a program of the device in cache() and returns its file.
  fs::path add_program(const Device& device) {
    const ProgramKey key = program_key(device, "any.cl", "", "text");
    DiskProgramStore(cache() / "programs", 1 << 20).save(key.name(), encode_program_entry(key, {}));
    return cache() / "programs" / (key.name() + ".program");
  }
  // The program on a machine with the drivers of vendors().
  ProgramResult clora(std::vector<std::string> arguments,
                      const std::vector<std::string>& environment = {}) {
    std::vector<std::string> all{"OCL_ICD_VENDORS=" + vendors().string(), "CLORA_DEVICE=",
                                 "CLORA_VARIANT=", "CLORA_CACHE_DIR=" + cache().string()};
    all.insert(all.end(), environment.begin(), environment.end());
    return test::run_clora(
        test::ProgramCall{.arguments = std::move(arguments), .environment = std::move(all)});
  }
  ProgramResult doctor(const std::vector<std::string>& environment = {}) {
    return clora({"doctor"}, environment);
  }
};

TEST_F(Doctor, ReportsThatNoDriverIsRegistered) {
  const ProgramResult result = doctor();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("bad   no OpenCL driver is registered: there is no .icd file in " +
                              vendors().string() + " (named by OCL_ICD_VENDORS)\n"),
                    HasSubstr("      -> apt install pocl-opencl-icd, or unset OCL_ICD_VENDORS\n")));
}

TEST_F(Doctor, ReportsWhyTheOnlyDriverDoesNotLoad) {
  add_driver("other.icd", "libno-such-driver.so.1\n");
  const ProgramResult result = doctor();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, AllOf(HasSubstr("bad   " + (vendors() / "other.icd").string() +
                                          " names libno-such-driver.so.1, which does not load"),
                                HasSubstr("cannot open shared object file"),
                                HasSubstr("-> reinstall the package that provides the library"),
                                HasSubstr("bad   there is no OpenCL device\n")));
}

TEST_F(Doctor, OnlyNotesADriverThatDoesNotLoadNextToOneThatDoes) {
  if (!add_pocl()) GTEST_SKIP() << "pocl is not installed";
  add_driver("other.icd", "libno-such-driver.so.1\n");
  const ProgramResult result = doctor();
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_THAT(result.out, AllOf(HasSubstr("note  " + (vendors() / "other.icd").string()),
                                HasSubstr("pocl.icd loads\n"), HasSubstr("good  device 0: ")));
}

TEST_F(Doctor, ReportsWhyADriverThatLoadsHasNoDevice) {
  add_driver("m.icd", "libm.so.6\n");  // loads, but is not an OpenCL driver
  const ProgramResult result = doctor();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("good  driver libm.so.6 of "), HasSubstr("bad   no OpenCL device: "),
                    HasSubstr("-> check that its device is visible")));
}

TEST_F(Doctor, FindsAMachineThatWorksGoodAsJson) {
  if (!add_pocl()) GTEST_SKIP() << "pocl is not installed";
  const ProgramResult result = clora({"doctor", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.out;
  const auto lines = result.json_lines();
  ASSERT_THAT(lines, SizeIs(1));
  std::string all;
  for (const auto& finding : lines[0].at("findings")) {
    EXPECT_NE(finding.at("state"), "bad") << finding;
    EXPECT_TRUE(finding.at("fix").is_string());
    all += finding.at("what").get<std::string>() + '\n';
  }
  EXPECT_THAT(all, AllOf(HasSubstr("pocl.icd loads"), HasSubstr("device 0 is used by default"),
                         HasSubstr("matrix unit: "), HasSubstr("host memory are available"),
                         HasSubstr(cache().string()), HasSubstr("pocl caches machine code in ")));
}

TEST_F(Doctor, ReportsWhetherKernelsAreCompiledAndWhichAreDamaged) {
  if (!add_pocl()) GTEST_SKIP() << "pocl is not installed";
  EXPECT_THAT(doctor().out, AllOf(HasSubstr("note  no kernels are compiled for this device"),
                                  HasSubstr("-> clc cache warm")));
  const std::vector<Device> devices = list_devices();
  const auto pocl = std::ranges::find_if(devices, is_pocl);
  if (pocl == devices.end()) GTEST_SKIP() << "pocl is not among the devices";
  const fs::path entry = add_program(*pocl);
  EXPECT_THAT(
      doctor().out,
      AllOf(HasSubstr("good  compiled programs of this device and driver in the cache: 1\n"),
            Not(HasSubstr("no kernels are compiled"))));
  Device updated = *pocl;
  updated.driver = "another one";
  add_program(updated);
  EXPECT_THAT(
      doctor().out,
      AllOf(HasSubstr("good  compiled programs of this device and driver in the cache: 1\n"),
            HasSubstr(": 2 programs, ")));
  test::write_file(entry, "damaged");
  EXPECT_THAT(doctor().out, AllOf(HasSubstr("note  1 of the cached programs cannot be used"),
                                  HasSubstr("'clc cache verify' lists them"),
                                  HasSubstr("no kernels are compiled")));
}

TEST_F(Doctor, NotesACacheFolderThatCannotBeWritten) {
  if (!add_pocl()) GTEST_SKIP() << "pocl is not installed";
  test::write_file(folder_ / "file", "not a folder");
  const std::string nowhere = (folder_ / "file/cache").string();
  const ProgramResult result = doctor({"CLORA_CACHE_DIR=" + nowhere});
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("note  " + nowhere + " cannot be written: kernels are compiled"),
                    HasSubstr("-> chown -R $USER " + nowhere + ", or set CLORA_CACHE_DIR")));
  EXPECT_THAT(doctor({"CLORA_CACHE_DIR=", "XDG_CACHE_HOME=", "HOME="}).out,
              AllOf(HasSubstr("note  there is no cache folder"),
                    HasSubstr("-> set CLORA_CACHE_DIR, XDG_CACHE_HOME or HOME")));
}

TEST_F(Doctor, NotesAFolderOfCodeThatOthersMayWrite) {
  if (!add_pocl()) GTEST_SKIP() << "pocl is not installed";
  fs::create_directories(cache() / "programs");
  ASSERT_EQ(::chmod((cache() / "programs").c_str(), 0777), 0);
  const ProgramResult result = doctor();
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_THAT(result.out, AllOf(HasSubstr("note  " + (cache() / "programs").string()),
                                HasSubstr("-> remove it or choose another cache folder")));
}

TEST_F(Doctor, NotesVariablesThatChangeTheKernelsAndMisspeltOnes) {
  if (!add_pocl()) GTEST_SKIP() << "pocl is not installed";
  const ProgramResult result =
      doctor({"CLORA_VARIANT=portable", "CLORA_SELF_TEST=0", "CLORA_VARIAN=cpu"});
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("note  CLORA_VARIANT=portable: the specialised kernels for this kind"),
            HasSubstr("note  CLORA_SELF_TEST=0: fast kernels are used without"),
            HasSubstr("note  CLORA_VARIAN is set, but clora reads no such variable\n"
                      "      -> did you mean CLORA_VARIANT?"),
            HasSubstr("good  kernels: portable"),
            HasSubstr("note  no measured tile sizes of the portable product"),
            Not(HasSubstr("CLORA_SOURCE_DIR"))));
}

TEST_F(Doctor, FindsSettingsBadThatEveryCommandRefuses) {
  if (!add_pocl()) GTEST_SKIP() << "pocl is not installed";
  const std::pair<const char*, const char*> cases[] = {
      {"CLORA_VARIANT=fastest", "bad   CLORA_VARIANT: variant: 'fastest' is not one of"},
      {"CLORA_VARIANT=wgmma", "bad   variant: wgmma needs a device with that matrix unit"},
      {"CLORA_IMPL=gem:portable", "bad   CLORA_IMPL: implementations: there is no family 'gem'"},
      {"CLORA_CAPTURE=gemm/forward:x", "bad   CLORA_CAPTURE: "},
      {"CLORA_KERNEL_DIR=/no/such/folder", "bad   CLORA_KERNEL_DIR=/no/such/folder: there is no"},
      {"CLORA_DEVICE=no-such-thing", "bad   no device matches 'no-such-thing'"}};
  for (const auto& [setting, line] : cases) {
    const ProgramResult result = doctor({setting});
    EXPECT_EQ(result.exit_code, 1) << result.out;
    EXPECT_THAT(result.out, HasSubstr(line));
  }
}

}  // namespace
}  // namespace clora

// The checks of `clora doctor` and `clc doctor` on machines that the tests describe.
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

#include "tests/support/test_files.hpp"
#include "tools/command_line/health/driver_checks.hpp"
#include "tools/command_line/health/environment_checks.hpp"
#include "tools/command_line/health/hardware_checks.hpp"
#include "tools/command_line/health/memory_checks.hpp"

namespace clora {

// Shown by failed expectations.
std::ostream& operator<<(std::ostream& stream, const HealthFinding& finding) {
  return stream << name_of(finding.health) << ": " << finding.what << " -> " << finding.fix;
}

namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// A finding of this state that contains both texts.
auto is(Health health, const std::string& what, const std::string& fix = "") {
  return AllOf(Field("health", &HealthFinding::health, health),
               Field("what", &HealthFinding::what, HasSubstr(what)),
               Field("fix", &HealthFinding::fix, HasSubstr(fix)));
}

Device pocl_device(std::string driver) {
  Device device;
  device.platform = "Portable Computing Language";
  device.kind = DeviceKind::cpu;
  device.driver = std::move(driver);
  return device;
}

TEST(DriverChecks, FindVersionsOfPoclBeforeTheTestedOnes) {
  EXPECT_THAT(check_devices({pocl_device("1.8")}),
              Contains(is(Health::bad, "pocl 1.8 is too old")));
  EXPECT_THAT(check_devices({pocl_device("3.0-rc2")}),
              Contains(is(Health::note, "3.1 and later", "apt install pocl-opencl-icd")));
  for (const char* tested : {"3.1+debian", "5.0", "10.0"}) {
    EXPECT_THAT(check_devices({pocl_device(tested)}), Not(Contains(is(Health::note, ""))));
  }
}

TEST(DriverChecks, RecogniseTheDriversThatCloraRegistersForItself) {
  const test::TemporaryFolder cache;
  fs::create_directory(cache / "vendors");
  test::write_file(cache / "vendors/m.icd", "libm.so.6\n");
  const char* before = std::getenv("OCL_ICD_VENDORS");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("OCL_ICD_VENDORS", (cache / "vendors").c_str(), 1);
  EXPECT_THAT(check_drivers({}, cache.path()),
              ElementsAre(is(Health::good, "clora registers it in " + (cache / "vendors").string()),
                          is(Health::good, "driver libm.so.6")));
  EXPECT_THAT(check_drivers({}, "/elsewhere"),
              Contains(is(Health::good, "registered in " + (cache / "vendors").string())));
  ::setenv("OCL_ICD_VENDORS", kept.c_str(), 1);  // an empty value counts as unset
}

TEST(DriverChecks, NoteThatOtherDriversOfTheCpuLackItsFastKernels) {
  Device other = pocl_device("2023.16");
  other.platform = "Intel(R) OpenCL";
  EXPECT_THAT(check_devices({other}), Contains(is(Health::note, "no CPU device of pocl")));
  EXPECT_THAT(check_devices({other, pocl_device("5.0")}), Not(Contains(is(Health::note, ""))));
}

// A machine with device files and graphics nodes of its own.
class Hardware : public testing::Test {
 protected:
  Hardware() {
    fs::permissions(folder_.path(), fs::perms(0755));
    fs::create_directories(folders_.devices / "dri");
  }
  // Until the end of the scope this process has no rights of root.
  class AsNobody {
   public:
    AsNobody() {
      if (!is_root_) return;
      groups_.resize(static_cast<std::size_t>(::getgroups(0, nullptr)));
      ::getgroups(static_cast<int>(groups_.size()), groups_.data());
      ok_ = ::setgroups(0, nullptr) == 0 && ::setegid(65534) == 0 && ::seteuid(65534) == 0;
    }
    ~AsNobody() {
      if (!is_root_) return;
      EXPECT_TRUE(::seteuid(0) == 0 && ::setegid(0) == 0 &&
                  ::setgroups(groups_.size(), groups_.data()) == 0);
    }
    AsNobody(const AsNobody&) = delete;
    AsNobody& operator=(const AsNobody&) = delete;
    bool ok() const { return ok_; }

   private:
    bool is_root_ = ::geteuid() == 0;
    std::vector<gid_t> groups_;
    bool ok_ = true;
  };

  void add_file(const std::string& name, mode_t mode) const {
    test::write_file(folders_.devices / name, "");
    ASSERT_EQ(::chmod((folders_.devices / name).c_str(), mode), 0);
  }
  void add_gpu(const std::string& node, const std::string& vendor) const {
    fs::create_directories(folders_.graphics / node / "device");
    test::write_file(folders_.graphics / node / "device/vendor", vendor + "\n");
    add_file("dri/" + node, 0666);
  }
  static Device gpu(std::string vendor) {
    Device device;
    device.kind = DeviceKind::gpu;
    device.vendor = std::move(vendor);
    return device;
  }

  test::TemporaryFolder folder_;
  HardwareFolders folders_{folder_ / "dev", folder_ / "drm"};
};

TEST_F(Hardware, InaccessibleDeviceFilesAreNotedWithTheFix) {
  for (const char* name : {"nvidiactl", "nvidia0", "dri/renderD128", "nvidia-modeset", "null"}) {
    add_file(name, 0);
  }
  HealthFindings found;
  {
    const AsNobody nobody;
    ASSERT_TRUE(nobody.ok());
    found = check_device_files(folders_);
  }
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0], is(Health::note, "may not open", "chmod a+rw FILE"));
  EXPECT_THAT(found[0].what, AllOf(HasSubstr("dev/nvidia0, "), HasSubstr("dev/nvidiactl, "),
                                   HasSubstr("dri/renderD128"), Not(HasSubstr("modeset"))));
}

TEST_F(Hardware, FilesOfAGroupNameTheGroupToJoin) {
  const struct group* video = ::getgrnam("video");
  if (::geteuid() != 0 || video == nullptr) GTEST_SKIP() << "needs root and the group video";
  add_file("dri/renderD128", 0660);
  ASSERT_EQ(::chown((folders_.devices / "dri/renderD128").c_str(), 0, video->gr_gid), 0);
  const AsNobody nobody;
  ASSERT_TRUE(nobody.ok());
  EXPECT_THAT(check_device_files(folders_),
              ElementsAre(is(Health::note, "dri/renderD128",
                             "join group video: sudo usermod -aG video $USER")));
}

TEST_F(Hardware, AccessibleFilesAreNotFindings) {
  add_file("nvidia0", 0666);
  add_gpu("renderD128", "0x8086");
  EXPECT_THAT(check_device_files(folders_), IsEmpty());
}

TEST_F(Hardware, GpusWithoutADriverAreNotedWithThePackage) {
  add_gpu("renderD128", "0x1002");
  add_gpu("renderD129", "0x8086");
  add_gpu("renderD130", "0x1af4");  // a virtual display
  EXPECT_THAT(
      check_unused_gpus({pocl_device("3.1")}, folders_),
      ElementsAre(is(Health::note, "a GPU of AMD is present", "apt install mesa-opencl-icd"),
                  is(Health::note, "a GPU of Intel", "apt install intel-opencl-icd")));
  EXPECT_THAT(check_unused_gpus({gpu("Advanced Micro Devices, Inc."), gpu("Intel(R) Corporation")},
                                folders_),
              IsEmpty());
}

TEST_F(Hardware, AnNvidiaGpuIsRecognisedByItsControlFile) {
  EXPECT_THAT(check_unused_gpus({}, folders_), IsEmpty());
  add_file("nvidiactl", 0666);
  EXPECT_THAT(check_unused_gpus({pocl_device("3.1")}, folders_),
              ElementsAre(is(Health::note, "a GPU of NVIDIA is present")));
  EXPECT_THAT(check_unused_gpus({gpu("NVIDIA Corporation")}, folders_), IsEmpty());
}

TEST_F(Hardware, AGpuThatAContainerDoesNotPassOnIsNoted) {
  add_gpu("renderD128", "0x1002");
  fs::remove(folders_.devices / "dri/renderD128");
  EXPECT_THAT(check_unused_gpus({}, folders_),
              ElementsAre(is(Health::note, "not visible to this process", "--device /dev/dri")));
}

HealthFindings findings_of(const std::string& variable) {
  return check_environment(std::vector<std::string>{variable});
}

TEST(EnvironmentChecks, NoteValuesWithAnEffectAndThoseWithoutOne) {
  EXPECT_THAT(findings_of("CLORA_POOL=exact"),
              ElementsAre(is(Health::note, "its own memory object", "unset CLORA_POOL")));
  EXPECT_THAT(findings_of("CLORA_WEIGHT_COPIES=0"),
              ElementsAre(is(Health::note, "convert weights to bf16")));
  EXPECT_THAT(findings_of("CLORA_WRAP_FILES=0"), ElementsAre(is(Health::note, "copy the weights")));
  EXPECT_THAT(findings_of("CLORA_SELF_TEST=off"),
              ElementsAre(is(Health::note, "CLORA_SELF_TEST='off' has no effect; only 0 has")));
  EXPECT_THAT(findings_of("CLORA_CAPTURE=gemm/forward:2"), ElementsAre(is(Health::note, "launch")));
  EXPECT_THAT(findings_of("CLORA_IMPL=gemm:portable"),
              ElementsAre(is(Health::note, "instead of the best", "unset CLORA_IMPL")));
  EXPECT_THAT(findings_of("CLORA_IMPL=gemm"), ElementsAre(is(Health::bad, "FAMILY:NAME")));
  EXPECT_THAT(findings_of("CLORA_TUNED=/no/such"), ElementsAre(is(Health::note, "no such table")));
  for (const char* harmless :
       {"CLORA_VARIANT=automatic", "CLORA_DEVICE=cpu", "CLORA_POOL=", "CLORA_UNKNOWN=", "PATH=/bin",
        "XCLORA_POOL=exact", "CLORA_BROKEN"}) {
    EXPECT_THAT(findings_of(harmless), IsEmpty()) << harmless;
  }
}

TEST(EnvironmentChecks, NoteUnknownNamesWithTheNearestOne) {
  EXPECT_THAT(findings_of("CLORA_CACHE=/x"),
              ElementsAre(is(Health::note, "CLORA_CACHE is set", "did you mean CLORA_CACHE_DIR?")));
  EXPECT_THAT(findings_of("CLORA_BANANAS=1"),
              ElementsAre(is(Health::note, "no such variable", "unset CLORA_BANANAS")));
}

bool is_of_a_name(char c) { return (c >= 'A' && c <= 'Z') || c == '_'; }

// Adds the names that calls and scripts read from the environment.
void find_variables(const std::string& text, std::set<std::string>& found) {
  for (std::size_t at = 0; (at = text.find("CLORA_", at)) != std::string::npos;) {
    const auto end =
        std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), is_of_a_name);
    const std::string name(text.begin() + static_cast<std::ptrdiff_t>(at), end);
    const std::string before =
        text.substr(at - std::min<std::size_t>(at, 22), std::min<std::size_t>(at, 22));
    const bool is_read =
        std::ranges::any_of(std::array{"getenv(\"", "environment_variable(\"", "envname(\"",
                                       "path(\"", "folder(\"", "${"},
                            [&](std::string_view call) { return before.ends_with(call); });
    if (is_read) found.insert(name);
    at += name.size();
  }
}

TEST(EnvironmentChecks, KnowEveryVariableThatTheSourcesRead) {
  const fs::path source = std::getenv("CLORA_SOURCE_DIR");
  std::set<std::string> found;
  for (const char* module : {"runtime", "ops", "lora", "model", "tools", "tests", "bench"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source / module)) {
      const std::string end = entry.path().extension();
      if (entry.is_regular_file() && (end.empty() || end == ".cpp" || end == ".hpp")) {
        find_variables(test::read_file(entry.path()), found);
      }
    }
  }
  EXPECT_GT(found.size(), 20U);
  const std::vector<std::string> known = known_variables();
  for (const std::string& name : found) EXPECT_THAT(known, Contains(name));
}

TEST(MemoryChecks, ReadWhatLinuxReports) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "meminfo",
                   "MemTotal:       24000000 kB\nMemFree:  1 kB\nMemAvailable:   2048 kB\n"
                   "HugePages_Total:       0\nHugetlb: 0 kB\n");
  const auto memory = host_memory(folder / "meminfo");
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->total_bytes, 24000000ULL * 1024);
  EXPECT_EQ(memory->available_bytes, 2048ULL * 1024);
  test::write_file(folder / "meminfo", "nonsense");
  EXPECT_FALSE(host_memory(folder / "meminfo"));
  EXPECT_FALSE(host_memory(folder / "missing"));
}

TEST(MemoryChecks, ReadTheLimitOfAContainer) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(container_limit_bytes(folder.path()));
  fs::create_directory(folder / "memory");
  test::write_file(folder / "memory/memory.limit_in_bytes", "1000\n");
  EXPECT_EQ(container_limit_bytes(folder.path()), 1000U);
  test::write_file(folder / "memory.max", "4294967296\n");
  EXPECT_EQ(container_limit_bytes(folder.path()), std::uint64_t{1} << 32U);
  test::write_file(folder / "memory.max", "max\n");
  fs::remove_all(folder / "memory");
  EXPECT_FALSE(container_limit_bytes(folder.path()));
}

TEST(HealthReport, SplitsAMessageIntoWhatAndFix) {
  const HealthFinding finding = finding_of_message(Health::bad, "a is b; c is d; do e");
  EXPECT_EQ(finding.what, "a is b; c is d");
  EXPECT_EQ(finding.fix, "do e");
  EXPECT_EQ(finding_of_message(Health::note, "a is b").what, "a is b");
  EXPECT_EQ(finding_of_message(Health::note, "a is b").fix, "");
}

}  // namespace
}  // namespace clora

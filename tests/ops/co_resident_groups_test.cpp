// When launches may rely on co-resident work-groups, and that no other kernel has a grid barrier.
#include "ops/dispatch/co_resident_groups.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/device/device_capabilities.hpp"
#include "runtime/programs/kernel_text.hpp"
#include "tests/support/host_program.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

Device device_of(std::string_view platform, DeviceKind kind, std::uint32_t units) {
  Device device;
  device.platform = platform;
  device.kind = kind;
  device.compute_units = units;
  return device;
}
Device gpu(MatrixUnit unit) {
  Device device = device_of("NVIDIA CUDA", DeviceKind::gpu, 132);
  device.matrix_unit = unit;
  return device;
}
Device pocl(std::string_view name) {
  Device device = device_of("Portable Computing Language", DeviceKind::cpu, 2);
  device.name = name;
  return device;
}

CoResidencyFacts facts(const Device& device, Variant variant) {
  return {.capabilities = capped(all_capabilities(device), variant),
          .compute_units = device.compute_units};
}
std::uint32_t groups_of(const Device& device, Variant variant) {
  return co_resident_groups(facts(device, variant));
}

TEST(CoResidentGroups, AreOnePerUnitIfTheSchedulerIsKnown) {
  for (const Variant variant : {Variant::mma, Variant::wgmma}) {
    EXPECT_EQ(groups_of(gpu(MatrixUnit::wgmma), variant), 132U);
  }
  EXPECT_EQ(groups_of(pocl("pthread-znver3"), Variant::cpu), 2U);
}

TEST(CoResidentGroups, AreNoneIfAnyConditionFails) {
  EXPECT_EQ(groups_of(gpu(MatrixUnit::wgmma), Variant::portable), 0U);
  EXPECT_EQ(groups_of(pocl("pthread-znver3"), Variant::portable), 0U);
  for (CoResidencyFacts each :
       {facts(gpu(MatrixUnit::wgmma), Variant::wgmma), facts(pocl("pthread"), Variant::cpu)}) {
    EXPECT_GT(co_resident_groups(each), 0U);
    each.adopted = true;
    EXPECT_EQ(co_resident_groups(each), 0U);
  }
  CoResidencyFacts shared = facts(gpu(MatrixUnit::mma), Variant::mma);
  shared.shares_units = true;
  EXPECT_EQ(co_resident_groups(shared), 0U);
  EXPECT_EQ(groups_of(gpu(MatrixUnit::none), Variant::wgmma), 0U);
  EXPECT_EQ(groups_of(pocl("basic"), Variant::cpu), 0U);
  EXPECT_EQ(groups_of(device_of("rusticl", DeviceKind::gpu, 8), Variant::cpu), 0U);
}

ContextConfig for_cpus() {
  ContextConfig config = config_from_environment();
  config.variant = Variant::cpu;
  return config;
}

class CoResidentGroupsOnPocl : public testing::Test {
 protected:
  void SetUp() override {
    const Device device = select_device(config_from_environment().device);
    if (groups_of(device, Variant::cpu) == 0 || device.kind != DeviceKind::cpu) {
      GTEST_SKIP() << "not pocl's threaded device";
    }
  }
};

// Two launches with a grid barrier could each hold some of the threads and wait indefinitely.
TEST_F(CoResidentGroupsOnPocl, AreThoseOfOneContextAtATime) {
  auto first = std::make_unique<Context>(for_cpus());
  Context second(for_cpus());
  EXPECT_EQ(co_resident_groups(*first), first->device().compute_units);
  EXPECT_EQ(co_resident_groups(second), 0U);
  EXPECT_EQ(co_resident_groups(*first), first->device().compute_units) << "it keeps them";
  first.reset();
  EXPECT_EQ(co_resident_groups(second), second.device().compute_units);
}

TEST_F(CoResidentGroupsOnPocl, AnIneligibleContextDoesNotReserveThem) {
  const test::HostProgram host;
  Context adopted(host.adopted(), for_cpus());
  EXPECT_EQ(co_resident_groups(adopted), 0U);
  ContextConfig config = for_cpus();
  config.variant = Variant::portable;
  Context portable(config);
  EXPECT_EQ(co_resident_groups(portable), 0U);
  Context context(for_cpus());
  EXPECT_EQ(co_resident_groups(context), context.device().compute_units);
}

// Sets an environment variable for the duration of a test.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Environment() { ::unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

TEST(SharedUnits, AreSeenByTheControlPipeOfMpsAndByItsLimit) {
  const fs::path folder = fs::path(testing::TempDir()) / "clora_mps";
  fs::create_directories(folder);
  const Environment pipes("CUDA_MPS_PIPE_DIRECTORY", folder.c_str());
  EXPECT_FALSE(processes_share_units(gpu(MatrixUnit::wgmma)));
  std::ofstream(folder / "control") << "";
  EXPECT_TRUE(processes_share_units(gpu(MatrixUnit::wgmma)));
  EXPECT_FALSE(processes_share_units(pocl("pthread")));
  fs::remove_all(folder);
  const Environment limit("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50");
  EXPECT_TRUE(processes_share_units(gpu(MatrixUnit::wgmma)));
}

// A new kernel with a grid barrier must follow the policy above and have a flag.
TEST(GridBarriers, AreInTheKernelsThatDecodeInOneLaunchAlone) {
  std::vector<std::string> with_barrier;
  const char* source = std::getenv("CLORA_SOURCE_DIR");
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(source == nullptr ? "." : source) / "cl")) {
    if (entry.path().extension() != ".cl") continue;
    const std::string file = entry.path().filename().string();
    const std::string text = kernel_text(file, {});
    for (const char* wait : {"void wait_for(", "int grid_sync("}) {
      if (text.find(wait) != std::string::npos) with_barrier.push_back(file);
    }
  }
  EXPECT_THAT(with_barrier,
              testing::UnorderedElementsAre("decode_layers_cpu.cl", "decode_layers_gpu.cl"));
}

}  // namespace
}  // namespace clora

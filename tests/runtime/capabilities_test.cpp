// What kernels may use on described devices, and what each variant leaves of it.
#include "clora/runtime/device/capabilities.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace clora {
namespace {

Device hopper() {
  Device device;
  device.name = "NVIDIA H200";
  device.platform = kNvidiaPlatform;
  device.kind = DeviceKind::gpu;
  device.matrix_unit = MatrixUnit::wgmma;
  device.max_allocation_bytes = 1 << 30;
  device.local_memory_bytes = 48 << 10;
  device.sub_group_size = 32;
  return device;
}
Device sapphire_rapids() {
  Device device;
  device.name = "pthread-sapphirerapids";
  device.platform = kPoclPlatform;
  device.kind = DeviceKind::cpu;
  device.matrix_unit = MatrixUnit::amx;
  device.integer_dots = IntegerDots::avx512_vnni;
  device.vectors = kAvx512Vectors;
  return device;
}
Device gpu(std::string name, std::string extensions) {
  Device device;
  device.name = std::move(name);
  device.kind = DeviceKind::gpu;
  device.extensions = std::move(extensions);
  return device;
}
Capabilities of(const Device& device, Variant variant = Variant::automatic) {
  return capped(all_capabilities(device), variant);
}

TEST(Capabilities, OfAHopperGpu) {
  const Capabilities c = of(hopper());
  EXPECT_EQ(c.matrix, MatrixInstruction::wgmma);
  EXPECT_TRUE(c.ptx && c.asynchronous_copy && c.grid_barrier && c.sub_group_shuffle);
  EXPECT_EQ(c.sub_group_size, 32U);
  EXPECT_FALSE(c.cpu || c.bf16_dots || c.amx || c.fp16);
  EXPECT_EQ(of(hopper(), Variant::wgmma), c);
}

TEST(Capabilities, OfTheVariantMmaLackOnlyWgmma) {
  Capabilities c = of(hopper(), Variant::mma);
  EXPECT_EQ(c.matrix, MatrixInstruction::mma_sync);
  c.matrix = MatrixInstruction::wgmma;
  EXPECT_EQ(c, of(hopper()));
}

TEST(Capabilities, OfTheVariantPortableAreMemoryAndRegistersAlone) {
  for (const Device& device :
       {hopper(), sapphire_rapids(), gpu("Arc", "cl_khr_fp16 cl_intel_subgroups")}) {
    const Capabilities c = of(device, Variant::portable);
    EXPECT_EQ(c, (Capabilities{.vectors = device.vectors,
                               .max_allocation_bytes = device.max_allocation_bytes,
                               .local_memory_bytes = device.local_memory_bytes}));
  }
}

TEST(Capabilities, OfTheVariantsForCpusGrowInTheirOrder) {
  const Capabilities f32 = of(sapphire_rapids(), Variant::cpu);
  EXPECT_TRUE(f32.cpu && f32.grid_barrier);
  EXPECT_EQ(f32.integer_dots, IntegerDots::none);
  const Capabilities int8 = of(sapphire_rapids(), Variant::cpu_int8);
  EXPECT_EQ(int8.integer_dots, IntegerDots::avx512_vnni);
  EXPECT_FALSE(int8.bf16_dots);
  const Capabilities bf16 = of(sapphire_rapids(), Variant::avx512_bf16);
  EXPECT_TRUE(bf16.bf16_dots);
  EXPECT_FALSE(bf16.amx);
  EXPECT_TRUE(of(sapphire_rapids(), Variant::amx).amx);
}

TEST(Capabilities, OfOtherGpusNameTheirMatrixInstructionAndExtensions) {
  Device device = gpu("gfx942", "");
  const std::pair<MatrixUnit, MatrixInstruction> units[] = {
      {MatrixUnit::mfma, MatrixInstruction::mfma},
      {MatrixUnit::wmma_gfx11, MatrixInstruction::wmma},
      {MatrixUnit::wmma_gfx12, MatrixInstruction::wmma},
      {MatrixUnit::xmx, MatrixInstruction::xmx}};
  for (const auto& [unit, instruction] : units) {
    device.matrix_unit = unit;
    EXPECT_EQ(of(device, Variant::matrix).matrix, instruction);
    EXPECT_FALSE(of(device, Variant::matrix).ptx || of(device, Variant::matrix).grid_barrier);
    EXPECT_EQ(of(device, Variant::portable).matrix, MatrixInstruction::none);
  }
  const Capabilities arc = of(gpu("Arc", "cl_khr_fp16 cl_intel_subgroups"));
  EXPECT_TRUE(arc.fp16 && arc.sub_group_shuffle);
  EXPECT_FALSE(of(gpu("Arc", "cl_khr_fp16_of_another_kind")).fp16);
}

TEST(Capabilities, AreDescribedByNameAndValue) {
  const auto all = described(of(hopper()));
  EXPECT_NE(
      std::ranges::find(all, std::pair<std::string, std::string>{"matrix instruction", "wgmma"}),
      all.end());
}

}  // namespace
}  // namespace clora

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

struct Answers {
  bool rounds = false, hands_on = false, unproven = false, plain = false;
  bool operator==(const Answers&) const = default;
};
Answers answers_of(const Capabilities& c) {
  return {c.rounds_products(), c.hands_on_bf16(), c.has_unproven_matrices(), c.is_plain()};
}

TEST(Capabilities, AnswerWhatProductsRoundAndWhichKernelsAreUsed) {
  EXPECT_EQ(answers_of(of(hopper(), Variant::portable)), (Answers{.plain = true}));
  EXPECT_EQ(answers_of(of(gpu("Mali", ""))), (Answers{.plain = true}));
  EXPECT_EQ(answers_of(of(sapphire_rapids(), Variant::cpu)), Answers{});
  EXPECT_EQ(answers_of(of(sapphire_rapids(), Variant::cpu_int8)), Answers{});
  for (const Variant variant : {Variant::avx512_bf16, Variant::amx}) {
    EXPECT_EQ(answers_of(of(sapphire_rapids(), variant)), (Answers{.rounds = true}));
  }
  for (const Variant variant : {Variant::mma, Variant::wgmma}) {
    EXPECT_EQ(answers_of(of(hopper(), variant)), (Answers{.rounds = true, .hands_on = true}));
  }
  for (const MatrixUnit unit : {MatrixUnit::mfma, MatrixUnit::wmma_gfx11, MatrixUnit::xmx}) {
    Device device = gpu("gfx942", "");
    device.matrix_unit = unit;
    EXPECT_EQ(answers_of(of(device, Variant::matrix)),
              (Answers{.rounds = true, .hands_on = true, .unproven = true}));
  }
}

TEST(Capabilities, OfAConfigurationAreThoseOfTheVariantThatItResolvesTo) {
  EXPECT_EQ(capabilities_of(hopper(), Variant::automatic, Precision::automatic),
            of(hopper(), Variant::wgmma));
  EXPECT_EQ(capabilities_of(hopper(), Variant::automatic, Precision::f32),
            of(hopper(), Variant::portable));
  EXPECT_EQ(capabilities_of(hopper(), Variant::mma, Precision::f32), of(hopper(), Variant::mma));
}

TEST(Capabilities, AreDescribedByNameAndValue) {
  const auto all = described(of(hopper()));
  EXPECT_NE(
      std::ranges::find(all, std::pair<std::string, std::string>{"matrix instruction", "wgmma"}),
      all.end());
}

}  // namespace
}  // namespace clora

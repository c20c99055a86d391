// PTX in kernels that also have plain OpenCL C: the variant portable never uses it. `--precision
// f32` and CLORA_VARIANT=portable select that variant.
#include <gtest/gtest.h>

#include "clora/ops/decode/decode_layers.hpp"
#include "clora/ops/gemm/gemm.hpp"
#include "clora/ops/rowwise/layer_norm.hpp"
#include "clora/ops/rowwise/rms_norm.hpp"
#include "clora/ops/rowwise/softmax.hpp"
#include "tests/support/copied_kernels.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/random_layers.hpp"

namespace clora {
namespace {

constexpr std::array kVariants{Variant::portable,    Variant::cpu,   Variant::cpu_int8,
                               Variant::avx512_bf16, Variant::amx,   Variant::mma,
                               Variant::wgmma,       Variant::matrix};

Device gpu(MatrixUnit unit) {
  Device device;
  device.platform = "NVIDIA CUDA";
  device.kind = DeviceKind::gpu;
  device.matrix_unit = unit;
  return device;
}

bool has_ptx(const Device& device, Variant variant) {
  return capped(all_capabilities(device), variant).ptx;
}

TEST(Ptx, IsInNoPortableKernelWhateverTheDevice) {
  for (const MatrixUnit unit :
       {MatrixUnit::none, MatrixUnit::avx512_bf16, MatrixUnit::amx, MatrixUnit::mma,
        MatrixUnit::wgmma, MatrixUnit::mfma, MatrixUnit::wmma_gfx11, MatrixUnit::xmx}) {
    for (const char* platform : {"NVIDIA CUDA", "Portable Computing Language", "rusticl"}) {
      Device device = gpu(unit);
      device.platform = platform;
      EXPECT_FALSE(has_ptx(device, Variant::portable)) << name_of(unit) << " on " << platform;
      EXPECT_FALSE(capabilities_of(device, Variant::automatic, Precision::f32).ptx);
    }
  }
}

TEST(Ptx, IsForNvidiaGpusAlone) {
  for (const Variant variant : kVariants) {
    for (const MatrixUnit unit : {MatrixUnit::none, MatrixUnit::avx512_bf16, MatrixUnit::amx,
                                  MatrixUnit::mfma, MatrixUnit::wmma_gfx12, MatrixUnit::xmx}) {
      EXPECT_FALSE(has_ptx(gpu(unit), variant));
    }
  }
  EXPECT_TRUE(has_ptx(gpu(MatrixUnit::wgmma), Variant::wgmma));
  EXPECT_TRUE(has_ptx(gpu(MatrixUnit::wgmma), Variant::mma));
}

// Kernels for CPU devices may be forced on a GPU; those next to them are then plain, too.
TEST(Ptx, IsNotUsedByKernelsForCpus) {
  EXPECT_FALSE(has_ptx(gpu(MatrixUnit::wgmma), Variant::cpu));
}

// Every kernel that would use PTX fails to build in this test.
TEST(Ptx, IsInNoProgramThatAPortableContextBuilds) {
  const test::Folders folders;
  for (const char* file :
       {"activations.clh", "row_vecs.clh", "team_sums.clh", "softmax.cl", "grid_barrier.clh"}) {
    folders.replace(file, "#ifdef USE_PTX\n", "#ifdef USE_PTX\n#error \"PTX\"\n");
  }
  const test::Observed portable(folders, Variant::portable);
  const auto results = portable.run([](SelfTest& t) {
    for (const DType type : {DType::f32, DType::bf16}) {
      const auto x = [&] { return t.input({9, 264}, 1, type); };
      record_softmax(t.batch(), t.output({9, 264}, type), x());
      record_rms_norm(t.batch(), t.output({9, 264}, type), x(), t.input({264}), 1e-5F);
      record_rms_norm_backward(t.batch(), t.output({9, 264}, type), x(), x(), t.input({264}), {},
                               1e-5F);
      record_layer_norm(t.batch(), t.output({9, 264}, type), x(), t.input({264}), t.input({264}),
                        1e-5F);
      record_gemm(t.batch(), t.output({2, 40}, type), t.input({2, 64}, 1, type),
                  t.weights({40, 64}, DType::f32));
    }
  });
  EXPECT_FALSE(results.empty());
}

// A portable context does not decode in one launch either, with or without a self-test.
TEST(Ptx, APortableContextHasNoGridBarrier) {
  const test::Folders folders;
  for (const bool self_test : {false, true}) {
    const test::Observed portable(folders, Variant::portable, self_test);
    const test::RandomLayers layers(*portable.context, {2, 128, 192, 4, 2, 32, 40}, DType::bf16,
                                    {3, 0}, Layout::plain);
    EXPECT_FALSE(decodes_in_one_launch(*portable.context, layers.decode));
  }
}

// If the kernel with PTX gives wrong results, the plain one is used.
TEST(Ptx, IsNotUsedIfItsSelfTestFails) {
  if (!test::is_for_this_device(Variant::mma)) GTEST_SKIP() << "for NVIDIA GPUs";
  const test::Folders folders;
  folders.replace("warp_lanes.clh", "shfl.sync.bfly", "shfl.sync.up");
  const auto softmax = [](SelfTest& t) {
    record_softmax(t.batch(), t.output({9, 1000}), t.input({9, 1000}));
  };
  const auto want = test::Observed(folders, Variant::portable).run(softmax);
  EXPECT_FALSE(test::same(test::Observed(folders, Variant::mma, false).run(softmax), want))
      << "the break does no harm here";
  const test::Observed tested(folders, Variant::mma);
  EXPECT_TRUE(test::same(tested.run(softmax), want));
  EXPECT_THAT(*tested.warnings,
              testing::ElementsAre(testing::HasSubstr("self-test: softmax_forward ptx")));
}

}  // namespace
}  // namespace clora

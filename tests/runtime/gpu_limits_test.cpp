// The limits of a real GPU, without injected faults: allocations beyond its memory, consecutive
// runs near its full memory, and a kernel that corrupts its context. The last test leaves the
// process without a working driver.

#include <gmock/gmock.h>

#include "clora/model/training/trainer.hpp"
#include "tests/support/copied_kernels.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_models.hpp"
#include "tests/support/tiny_training.hpp"

namespace clora {
namespace {

// Few weights and wide activations, so a row of a training step takes much memory, while each
// tensor stays within the largest size of swiglu.
ModelConfig wide_model() {
  ModelConfig config = test::tiny_models().front().config;
  config.intermediate_size = 1 << 15;
  config.layers = 16;
  return config;
}

// Documents of 64 rows. Each row predicts the id of the next one.
PackedRows documents(std::int64_t rows) {
  PackedRows packed;
  for (std::int32_t row = 0; row < rows; ++row) {
    packed.ids.push_back(row % 61);
    packed.targets.push_back((row + 1) % 61);
    packed.positions.push_back(row % 64);
    packed.first.push_back(row - row % 64);
    packed.last.push_back(row);
  }
  packed.target_count = static_cast<int>(rows);
  return packed;
}

class GpuLimits : public testing::Test {
 protected:
  void SetUp() override {
    const Device device = select_device(config_from_environment().device);
    if (device.kind != DeviceKind::gpu) GTEST_SKIP() << "for GPUs";
    memory_bytes_ = device.memory_bytes;
    element_bytes_ =
        static_cast<double>(bytes_of(Context(config_from_environment()).activation_type(), 1));
    test::write_tiny_model(folder_.path(), wide_model());
  }

  // The number of rows for which gate and up alone, saved for the backward, take this share of the
  // memory.
  std::int64_t rows_for(double share) const {
    const ModelConfig config = wide_model();
    const auto row_elements = static_cast<double>(2 * config.intermediate_size * config.layers);
    return static_cast<std::int64_t>(share * static_cast<double>(memory_bytes_) /
                                     (row_elements * element_bytes_));
  }

  struct Run {
    Context context;
    WeightFiles files;
    LanguageModel model;
    Adapter adapter;
    Trainer trainer;

    Run(const std::filesystem::path& folder, const ContextConfig& config)
        : context(config),
          files(WeightFiles::open(folder)),
          model(context, files),
          adapter(test::tiny_adapter(model)),
          trainer(model, adapter, {}) {}
    double step(std::int64_t rows) {
      const PackedRows packed = documents(rows);
      trainer.step({&packed, 1}, 1e-3);
      return trainer.drain()->loss;
    }
  };

  // Expects an error from a batch that cannot fit, and the same results as before from small
  // batches afterwards.
  void expect_refused(const ContextConfig& config) const {
    Run run(folder_.path(), config), other(folder_.path(), config_from_environment());
    const double before = run.step(640);
    EXPECT_EQ(before, other.step(640));
    CLORA_EXPECT_ERROR(run.step(rows_for(3)), ErrorCode::out_of_memory, "");
    EXPECT_FALSE(run.context.health()->lost());
    EXPECT_EQ(run.step(640), other.step(640));
  }

  test::TemporaryFolder folder_;
  std::uint64_t memory_bytes_ = 0;
  double element_bytes_ = 0;  // of an activation
};

TEST_F(GpuLimits, ABatchAboveThePoolsLimitIsAnErrorAndTheNextOneRuns) {
  expect_refused(config_from_environment());
}

TEST_F(GpuLimits, ABatchThatTheDriverRefusesIsAnErrorAndTheNextOneRuns) {
  ContextConfig config = config_from_environment();
  config.memory_limit_bytes = 8 * memory_bytes_;
  expect_refused(config);
}

TEST_F(GpuLimits, LargeRunsFollowOneAnotherInOneProcess) {
  std::vector<double> losses;
  for (int i = 0; i < 3; ++i) {
    losses.push_back(Run(folder_.path(), config_from_environment()).step(rows_for(0.4)));
  }
  EXPECT_THAT(losses, testing::Each(losses.front()));
}

TEST_F(GpuLimits, AnOutOfBoundsKernelLosesTheContextWithAMessage) {
  const test::Folders folders;
  std::ofstream(folders.kernels() / "astray.cl")
      << "__kernel void astray(ulong address) { *(__global volatile int*)address = 1; }\n";
  ContextConfig config = config_from_environment();
  config.kernel_folders = {folders.kernels()};
  Context context(config);
  Batch batch(context);
  Launch launch;
  launch.kernel = context.kernel("astray.cl", "astray");
  launch.label = "astray";
  batch.launch(std::move(launch), std::uint64_t{0x10});
  const auto run = [&] {
    batch.submit().wait();
    context.finish();
  };
  CLORA_EXPECT_ERROR(run(), ErrorCode::device_lost, "");
  EXPECT_TRUE(context.health()->lost());
  CLORA_EXPECT_ERROR(context.flush(), ErrorCode::device_lost, "create a new Context");
}

}  // namespace
}  // namespace clora

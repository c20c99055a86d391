// Creating a Context, loading a model, and complete runs from nothing, with OpenCL calls that fail.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "clora/lora/peft_files.hpp"
#include "tests/support/fault_walk.hpp"
#include "tests/support/tiny_training.hpp"

namespace clora {
namespace {

using test::CallKind;
using test::FaultyModel;

TEST(LoadingWithFaults, EndsInOneErrorWithoutLeaks) {
  FaultyModel open;
  const auto load = [&] {
    Context context(test::faulty_config());
    const WeightFiles files = WeightFiles::open(open.folder());
    LanguageModel model(context, files);
    const Adapter adapter = test::tiny_adapter(model);
    return fmt::format("{}", fmt::join(context.read<float>(model.final_norm().w), " "));
  };
  report(walk_faults(open.work_from_nothing("load", load), {.dense = 1000}));
}

// Training, loading the trained adapter, and generation, each in a new Context without built
// programs.
class ACompleteRunWithFaults : public testing::Test {
 protected:
  // `cache` is a folder of programs that outlives the Context, or empty for none.
  test::FaultyWork run_with(const std::filesystem::path& cache) {
    return open_.work_from_nothing("whole run", [this, cache] {
      const std::filesystem::path out = open_.fresh_out();
      Context context(test::faulty_config(cache));
      const WeightFiles files = WeightFiles::open(open_.folder());
      LanguageModel model(context, files);
      const std::string losses = test::train_tiny(model, out);
      const Adapter adapter = load_adapter(context, out, adapter_sites(model.config()));
      return losses + test::generate_tiny(model, &adapter);
    });
  }

  FaultyModel open_;
  test::TemporaryFolder cache_;
};

TEST_F(ACompleteRunWithFaults, EndsInOneErrorWithoutLeaks) {
  report(walk_faults(
      run_with({}),
      {.dense = 2, .later = 3, .lasting = false, .kinds = {CallKind::program, CallKind::build}}));
}

// With binaries from an earlier run, a failure to load one only costs a build.
TEST_F(ACompleteRunWithFaults, EndsAlikeWithAWarmCacheOfPrograms) {
  report(walk_faults(run_with(cache_.path()),
                     {.dense = 2,
                      .later = 3,
                      .lasting = false,
                      .kinds = {CallKind::binary, CallKind::build, CallKind::kernel}}));
}

}  // namespace
}  // namespace clora

// Making a Context, loading a model, and whole runs from nothing, with OpenCL calls that fail.

#include <gtest/gtest.h>

#include "lora/peft_files.hpp"
#include "tests/support/fault_walk.hpp"
#include "tests/support/tiny_training.hpp"

namespace clora {
namespace {

using test::CallKind;
using test::FaultyModel;

TEST(LoadingWithFaults, EndsInOneErrorAndLeavesNothingBehind) {
  FaultyModel open;
  const auto load = [&] {
    Context context(test::faulty_config());
    const WeightFiles files = WeightFiles::open(open.folder());
    LanguageModel model(context, files);
    Adapter adapter = test::tiny_adapter(model);
    return fmt::format("{}", fmt::join(context.read<float>(model.final_norm()), " "));
  };
  report(walk_faults(open.work_from_nothing("load", load), {.dense = 1000}));
}

// Programs are built here and nowhere else in these walks, since each Context is new.
TEST(AWholeRunWithFaults, EndsInOneErrorAndLeavesNothingBehind) {
  FaultyModel open;
  const auto run = [&] {
    const std::filesystem::path out = open.fresh_out();
    Context context(test::faulty_config());
    const WeightFiles files = WeightFiles::open(open.folder());
    LanguageModel model(context, files);
    const std::string losses = test::train_tiny(model, out);
    const Adapter adapter = load_adapter(context, out, adapter_sites(model.config()));
    return losses + test::generate_tiny(model, &adapter);
  };
  report(walk_faults(open.work_from_nothing("whole run", run),
                     {.dense = 2,
                      .later = 4,
                      .lasting = false,
                      .kinds = {CallKind::program, CallKind::build, CallKind::binary}}));
}

}  // namespace
}  // namespace clora

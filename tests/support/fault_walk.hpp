// Walks through faults: repeats a piece of work, each time with another OpenCL call failing, and
// checks the required conditions after each failure.
//
// Link note: a program that includes this header links the layer of
// tests/support/opencl_faults.hpp.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clora/model/transformer/language_model.hpp"
#include "tests/support/opencl_faults.hpp"
#include "tests/support/test_files.hpp"

namespace clora::test {

// One piece of work. `run` returns a text that is the same whenever the work succeeds (losses,
// parameters, file contents). `context` returns the Context that it works on, or null if it creates
// one.
struct FaultyWork {
  std::string name;
  std::function<std::string()> run;
  std::function<Context*()> context;
  std::function<void()> prepare;      // before each run: a new Context if the last one is lost
  std::function<void()> check_files;  // after each failure
};

struct FaultCount {
  int tried = 0;
  int errors = 0;     // ended in one Error
  int tolerated = 0;  // succeeded nevertheless, with the same result
  int lost = 0;       // errors after which the Context was lost
  FaultCount& operator+=(const FaultCount& other);
  std::string text() const;
};

// Which calls to fail. CLORA_FAULTS=all in the environment overrides the limits: every call.
struct WalkPlan {
  int dense = 20;                    // of each kind: the first N calls
  int later = 5;                     // and N of the later calls
  bool lasting = true;               // also fail that call and all later ones of the kind
  std::vector<CallKind> kinds = {};  // empty: all
};

// Fails calls as the plan says, one per run. Fails the test if a failure does not end in one clear
// Error, leaks an object, or leaves the Context neither usable nor lost.
FaultCount walk_faults(const FaultyWork& work, const WalkPlan& plan = {});

// The same for a device that vanishes at a call of any kind and does not come back.
FaultCount walk_losses(const FaultyWork& work, const WalkPlan& plan = {});

// Prints the count and adds it to the test's report. Fails the test if there was no error.
void report(const FaultCount& count);

// The environment's configuration, without a program cache unless a folder is given.
ContextConfig faulty_config(const std::filesystem::path& cache_folder = {});

// A Llama of two blocks, opened on a Context that renew() replaces.
class FaultyModel {
 public:
  explicit FaultyModel(ContextConfig config = faulty_config());
  // Creates Context and model again if the Context is lost or does not exist.
  void renew();
  void close();

  // Work on this model, whose Context is reused from one run to the next.
  FaultyWork work(const std::string& name, std::function<std::string()> run);
  // Work that creates its own Context and may write to out().
  FaultyWork work_from_nothing(const std::string& name, std::function<std::string()> run);

  Context& context() { return *context_; }
  LanguageModel& model() { return *model_; }
  std::filesystem::path folder() const { return folder_.path() / "model"; }
  // An empty folder for the files that the work writes.
  std::filesystem::path fresh_out() const;
  std::filesystem::path out() const { return folder_.path() / "out"; }

 private:
  TemporaryFolder folder_;
  ContextConfig config_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<WeightFiles> files_;
  std::unique_ptr<LanguageModel> model_;
};

// Fails the test unless every file under `folder` is complete: there is no temporary file, and each
// is a readable safetensors or JSON file.
void expect_complete_files(const std::filesystem::path& folder);

// Fails the test unless a small sum on the Context is correct.
void expect_usable(Context& context);

}  // namespace clora::test

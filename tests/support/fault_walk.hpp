// Walking through faults: a piece of work is done again and again, each time with another call of
// OpenCL made to fail, and what must hold after each failure is checked.
//
// Link note: a program that includes this header has tests/support/opencl_faults.hpp's layer.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/families/language_model.hpp"
#include "tests/support/opencl_faults.hpp"
#include "tests/support/test_files.hpp"

namespace clora::test {

// One piece of work. `run` returns a text that is the same whenever the work succeeds (losses,
// parameters, file contents); `context` is the Context that it works on, null where it makes one.
struct FaultyWork {
  std::string name;
  std::function<std::string()> run;
  std::function<Context*()> context;
  std::function<void()> prepare;      // before each run: a new Context where the last one was lost
  std::function<void()> check_files;  // after each failure
};

struct FaultCount {
  int tried = 0;
  int errors = 0;     // ended in one Error
  int tolerated = 0;  // the work succeeded all the same, with the same result
  int lost = 0;       // of the errors: the Context was marked lost
  FaultCount& operator+=(const FaultCount& other);
  std::string text() const;
};

// Which calls to make fail. CLORA_FAULTS=all in the environment overrides the limits: every call.
struct WalkPlan {
  int dense = 20;                    // of each kind, the first so many one by one
  int later = 5;                     // and so many of those after them
  bool lasting = true;               // besides the one call, it and all later ones of the kind
  std::vector<CallKind> kinds = {};  // empty: all
};

// Makes calls fail as the plan says, one a run. Fails the test where a failure does not end in one
// clear Error, leaves an object behind, or leaves the Context neither usable nor lost.
FaultCount walk_faults(const FaultyWork& work, const WalkPlan& plan = {});

// The same for a device that vanishes at a call, whatever its kind, and does not come back.
FaultCount walk_losses(const FaultyWork& work, const WalkPlan& plan = {});

// Prints the count and leaves it in the test's report. Fails the test where no error came.
void report(const FaultCount& count);

// The environment's configuration, without a cache of programs unless a folder is given.
ContextConfig faulty_config(const std::filesystem::path& cache_folder = {});

// A Llama of two blocks, opened on a Context of its own that renew() replaces.
class FaultyModel {
 public:
  explicit FaultyModel(ContextConfig config = faulty_config());
  // Makes Context and model anew where the Context is lost, or not there.
  void renew();
  void close();

  // Work on this model, whose Context goes from one run to the next.
  FaultyWork work(const std::string& name, std::function<std::string()> run);
  // Work that makes a Context of its own and may write to out().
  FaultyWork work_from_nothing(const std::string& name, std::function<std::string()> run);

  Context& context() { return *context_; }
  LanguageModel& model() { return *model_; }
  std::filesystem::path folder() const { return folder_.path() / "model"; }
  // A folder for what the work writes, emptied.
  std::filesystem::path fresh_out() const;
  std::filesystem::path out() const { return folder_.path() / "out"; }

 private:
  TemporaryFolder folder_;
  ContextConfig config_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<WeightFiles> files_;
  std::unique_ptr<LanguageModel> model_;
};

// Fails the test unless every file under `folder` is whole: no temporary left, and each a
// safetensors or JSON file that can be read.
void expect_whole_files(const std::filesystem::path& folder);

// Fails the test unless a small sum on the Context comes out right.
void expect_usable(Context& context);

}  // namespace clora::test

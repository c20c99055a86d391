// clc new: the files that it writes build, pass lint and pass their own test; it never overwrites a
// file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tools/command_line/process.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;
using test::ProgramResult;
using testing::AllOf;
using testing::HasSubstr;

const std::vector<std::string> kFiles{"cl/scaled_shift.cl",
                                      "ops/scaled_shift.hpp",
                                      "ops/scaled_shift.cpp",
                                      "tests/reference/scaled_shift_reference.hpp",
                                      "tests/ops/scaled_shift_test.cpp",
                                      "bench/scaled_shift_bench.cpp"};

fs::path source_folder() {
  const char* source = std::getenv("CLORA_SOURCE_DIR");
  return source == nullptr ? "." : source;
}

// A source tree with the parts of clora's modules that a family needs.
class ClcNew : public testing::Test {
 protected:
  ClcNew() {
    for (const char* top_folder : {"cl", "ops", "tests/ops", "tests/reference", "bench"}) {
      fs::create_directories(folder_ / top_folder);
    }
    test::write_file(folder_ / "CMakeLists.txt", "");
  }

  static ProgramResult clc(std::vector<std::string> arguments) { return test::run_clc(arguments); }
  ProgramResult make(const std::string& name, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"new", name, "--folder", folder_.path().string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return clc(arguments);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // Every file in the tree, by its path from the root.
  std::vector<std::string> files() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file()) all.push_back(fs::relative(entry, folder_.path()).string());
    }
    return all;
  }

  // Copies the sources that the new files include, transitively.
  void copy_sources() const {
    for (const char* top_folder : {"cl", "cmake", "runtime", "ops", "lora", "model",
                                   "tests/support", "tests/reference", "bench/support"}) {
      fs::copy(source_folder() / top_folder, folder_ / top_folder, fs::copy_options::recursive);
    }
  }
  // Compiles as CMake does, against the libraries of this build (tests/CMakeLists.txt).
  ProgramResult compile(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(),
                     {"-I", folder_.path().string(), "-I", source_folder().string()});
    return test::run_program(test::built_program("tests/compile_op_test"),
                             {.arguments = std::move(arguments)});
  }

  test::TemporaryFolder folder_;
};

TEST_F(ClcNew, WritesAndListsTheSixFilesOfAFamily) {
  const ProgramResult result = make("scaled_shift", {"--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto object = result.json_lines().at(0);
  std::vector<std::string> listed = object["files"];
  for (std::string& file : listed) file = fs::relative(file, folder_.path()).string();
  EXPECT_EQ(listed, kFiles);
  std::vector<std::string> wanted = kFiles;
  wanted.emplace_back("CMakeLists.txt");
  EXPECT_THAT(files(), testing::UnorderedElementsAreArray(wanted));
  for (const std::string& file : kFiles) {
    const std::string text = test::read_file(path(file));
    EXPECT_EQ(text.find('@'), std::string::npos) << file;
    EXPECT_THAT(text, HasSubstr("scaled_shift")) << file;
  }
}

TEST_F(ClcNew, ItsKernelBuildsIsFreeOfFindingsAndComputesWhatItsHeadSays) {
  ASSERT_EQ(make("scaled_shift").exit_code, 0);
  const std::string kernel = path("cl/scaled_shift.cl");
  const ProgramResult built = clc({"build", kernel});
  EXPECT_EQ(built.exit_code, 0) << built.out << built.err;
  const ProgramResult ran =
      clc({"run", kernel, "--arg", "x=range(f32,5)", "--arg", "y=out(f32,5)", "--arg", "alpha=2",
           "--arg", "beta=1", "--arg", "n=5", "--print", "y"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("[1 3 5 7 9]"));
  if (!has_program("clang-14")) GTEST_SKIP() << "clang-14 is not installed";
  const ProgramResult linted = clc({"lint", "--house", kernel});
  EXPECT_EQ(linted.exit_code, 0) << linted.out;
  EXPECT_THAT(linted.out, HasSubstr("errors and warnings: 0"));
  const ProgramResult budget = clc({"stats", "--target", "gfx90a", kernel});
  EXPECT_EQ(budget.exit_code, 0) << budget.out;
}

TEST_F(ClcNew, ItsOpPassesItsOwnTestAsItIsAndItsBenchCompiles) {
  copy_sources();
  ASSERT_EQ(make("scaled_shift").exit_code, 0);
  const std::string program = path("scaled_shift_test");
  const ProgramResult compiled = compile(
      {path("ops/scaled_shift.cpp"), path("tests/ops/scaled_shift_test.cpp"), "-o", program});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  const ProgramResult bench = compile({"-fsyntax-only", path("bench/scaled_shift_bench.cpp")});
  EXPECT_EQ(bench.exit_code, 0) << bench.err;
  const std::string kernels = "CLORA_KERNEL_DIR=" + path("cl");
  const ProgramResult passed =
      test::run_program(program, {.arguments = {}, .environment = {kernels}});
  EXPECT_EQ(passed.exit_code, 0) << passed.out;
  // The test checks the kernel: a kernel that computes something else fails it.
  std::string text = test::read_file(path("cl/scaled_shift.cl"));
  const std::size_t at = text.find("fma(alpha, x[i], beta)");
  ASSERT_NE(at, std::string::npos);
  test::write_file(path("cl/scaled_shift.cl"), text.replace(at + 17, 4, "0.0f"));
  const ProgramResult broken =
      test::run_program(program, {.arguments = {}, .environment = {kernels}});
  EXPECT_EQ(broken.exit_code, 1) << broken.out;
}

TEST_F(ClcNew, ItsFilesKeepToTheLayers) {
  copy_sources();
  ASSERT_EQ(make("scaled_shift").exit_code, 0);
  const auto faults = [&] {
    return test::run_program(source_folder() / "tools/check_layers",
                             {.arguments = {folder_.path().string()}})
        .err;
  };
  EXPECT_THAT(faults(), testing::Not(HasSubstr("scaled_shift")));
  const std::string op = test::read_file(path("ops/scaled_shift.cpp"));
  test::write_file(path("ops/scaled_shift.cpp"),
                   "#include \"clora/model/data/records.hpp\"\n" + op);
  EXPECT_THAT(faults(), HasSubstr("ops/scaled_shift.cpp"));
}

TEST_F(ClcNew, OverwritesNothingAndWritesAllOrNothing) {
  test::write_file(path("tests/ops/scaled_shift_test.cpp"), "mine");
  const ProgramResult result = make("scaled_shift");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("'scaled_shift' is taken by"),
                                HasSubstr("tests/ops/scaled_shift_test.cpp; nothing was written")));
  EXPECT_EQ(test::read_file(path("tests/ops/scaled_shift_test.cpp")), "mine");
  EXPECT_EQ(files().size(), 2U);
}

TEST_F(ClcNew, LeavesNoFilesIfOneCannotBeWritten) {
  fs::remove(folder_ / "bench");
  test::write_file(path("bench"), "a file where the last folder should be");
  const ProgramResult result = make("scaled_shift");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("bench/"));
  EXPECT_EQ(files().size(), 2U);
}

TEST_F(ClcNew, RefusesInvalidNamesAndThoseOfOtherModules) {
  for (const std::string name : {"ScaledShift", "3x", "a__b", "a_", "_a", "../x", "a-b", ""}) {
    const ProgramResult result = make(name);
    EXPECT_EQ(result.exit_code, 2) << name;
    EXPECT_THAT(result.err, HasSubstr("lowercase letters, digits and single underscores")) << name;
  }
  EXPECT_THAT(make("double").err, HasSubstr("'double' cannot name a family: it is a keyword"));
  fs::create_directories(path("runtime/commands"));
  test::write_file(path("runtime/commands/batch.hpp"), "");
  EXPECT_THAT(make("batch").err, HasSubstr("runtime/commands/batch.hpp; nothing was written"));
  EXPECT_EQ(files().size(), 2U);
}

TEST_F(ClcNew, NamesWhatIsMissingOutsideTheSourcesAndCanWriteOnlyAKernel) {
  fs::remove(folder_ / "cl");
  fs::remove(folder_ / "CMakeLists.txt");
  const ProgramResult refused = make("scaled_shift");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("it lacks CMakeLists.txt, cl;"), HasSubstr("--kernel-only")));
  const ProgramResult result = make("scaled_shift", {"--kernel-only"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("clc build " + path("scaled_shift.cl")));
  EXPECT_EQ(files(), std::vector<std::string>{"scaled_shift.cl"});
  EXPECT_EQ(clc({"build", path("scaled_shift.cl")}).exit_code, 0);
  EXPECT_EQ(make("scaled_shift", {"--kernel-only"}).exit_code, 2);
}

}  // namespace
}  // namespace clora

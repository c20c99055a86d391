// Portable kernels are plain OpenCL C 1.2: their sources, preprocessed as the compilers of several
// devices do, contain no assembly, builtins of a compiler or vendor, sub-groups, OpenCL extensions
// or grid barriers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>

#include "ops/dispatch/implementation_report.hpp"
#include "tests/support/clang_folder.hpp"
#include "tests/support/op_test.hpp"
#include "tools/clc/compile/offline_build.hpp"
#include "tools/clc/kernel_file/kernel_file.hpp"

namespace clora {
namespace {

using testing::IsEmpty;

// The options of clang that define the macros of a device's compiler; the first one also those of
// extensions that kernels could use.
const std::vector<std::vector<std::string>> kCompilers{
    {"-target", "spir64", "-w", "-Dcl_khr_subgroups=1", "-Dcl_khr_subgroup_shuffle=1",
     "-Dcl_khr_fp16=1", "-Dcl_khr_integer_dot_product=1", "-Dcl_intel_subgroups=1"},
    {"-target", "x86_64-linux-gnu", "-march=cascadelake"},
    {"-target", "aarch64-linux-gnu"},
    {"-target", "nvptx64-nvidia-nvcl"},
    {"-target", "amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-nogpulib"}};

constexpr std::array<std::string_view, 4> kForeignWords{"asm", "__asm", "__asm__", "grid_barrier"};
constexpr std::array<std::string_view, 13> kForeignBegins{
    "__builtin_", "__nv",  "__spirv_", "__imma_", "intel_",      "arm_",         "amd_",
    "nv_",        "qcom_", "cl_",      "double",  "work_group_", "grid_barrier_"};

bool is_foreign(std::string_view word) {
  return std::ranges::find(kForeignWords, word) != kForeignWords.end() ||
         std::ranges::any_of(kForeignBegins,
                             [&](std::string_view begin) { return word.starts_with(begin); }) ||
         word.find("sub_group") != std::string_view::npos;
}

bool is_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The first word in preprocessed text that is not OpenCL C 1.2; empty if there is none.
std::string foreign_construct(std::string_view text) {
  if (text.find("#pragma OPENCL EXTENSION") != std::string_view::npos)
    return "#pragma OPENCL EXTENSION";
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_of_word(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    if (is_foreign(word)) return std::string(word);
    at = end + 1;
  }
  return {};
}

class PortableSources : public test::ClangFolder {
 protected:
  std::string preprocessed(const std::string& text, const std::string& options,
                           const std::vector<std::string>& compiler) const {
    std::vector<std::string> command{"clang-14", "-E", "-P", "-x", "cl", "-cl-no-stdinc"};
    command.insert(command.end(), compiler.begin(), compiler.end());
    for (const std::string& word : option_words(options)) command.push_back(word);
    if (options.find("-cl-std=") == std::string::npos) command.emplace_back("-cl-std=CL1.2");
    command.push_back(write("kernel.cl", text));
    const ProcessResult done = run_process(command, 60);
    EXPECT_TRUE(done.succeeded()) << options << '\n' << done.err;
    return done.out;
  }

  // What is foreign in a kernel file that has a set of options for all devices.
  std::string foreign_in(const std::string& text, const std::string& options) const {
    for (const std::vector<std::string>& compiler : kCompilers) {
      const std::string found = foreign_construct(preprocessed(text, options, compiler));
      if (!found.empty()) return found;
    }
    return {};
  }
};

// The files with a set of options for all devices, which are those of the portable variant.
std::set<std::string> portable_files() {
  std::set<std::string> files;
  for (const std::string& name : built_in_kernel_files()) {
    const std::vector<BuildSet> builds = open_kernel_file(name).head.builds;
    const auto is_for_all = [](const BuildSet& set) { return set.devices.empty(); };
    if (std::ranges::any_of(builds, is_for_all)) files.insert(name);
  }
  return files;
}

TEST_F(PortableSources, ArePlainOpenClC) {
  int searched = 0;
  for (const std::string& name : portable_files()) {
    const KernelFile file = open_kernel_file(name);
    for (const BuildSet& set : file.head.builds) {
      if (!set.devices.empty()) continue;
      EXPECT_THAT(foreign_in(file.text, set.options), IsEmpty()) << name << ' ' << set.options;
      ++searched;
    }
  }
  EXPECT_GT(searched, 50);
}

TEST_F(PortableSources, IncludeThoseThatThePortableVariantTakes) {
  const std::set<std::string> files = portable_files();
  for (const ReportedChoice& choice : implementation_report(test::context_of(Variant::portable))) {
    ASSERT_FALSE(choice.considered.empty()) << choice.family << ": " << choice.error;
    const std::string& file = choice.considered.back().file;
    EXPECT_TRUE(file.empty() || files.contains(file)) << choice.family << " takes " << file;
  }
}

// Each construct is put into a portable kernel.
TEST_F(PortableSources, WouldBeFoundWithAnyForeignConstruct) {
  const KernelFile file = open_kernel_file("softmax.cl");
  const std::string& options = file.head.builds.front().options;
  EXPECT_THAT(foreign_in(file.text, options), IsEmpty());
  for (const std::string line :
       {"asm volatile(\"membar.gl;\");", "__builtin_prefetch(x);", "x = sub_group_shuffle(x, 1);",
        "x = get_sub_group_size();", "x = intel_sub_group_shuffle(x, 1);", "double y = 0;",
        "x = work_group_reduce_add(x);", "grid_barrier_wait(x);", "x = arm_dot(x, y);",
        "_Pragma(\"OPENCL EXTENSION cl_khr_fp16 : enable\")", "x = __nvvm_read_ptx_sreg_tid_x();",
        "#ifdef __NVPTX__\nasm(\"bar.sync 1;\");\n#endif",
        "#ifdef __AMDGCN__\nx = __builtin_amdgcn_mov_dpp(x);\n#endif",
        "#ifdef __F16C__\nx = __builtin_ia32_vcvtph2ps(x);\n#endif",
        "#ifdef cl_khr_subgroups\nx = sub_group_reduce_add(x);\n#endif"}) {
    EXPECT_FALSE(foreign_in(file.text + "\nvoid f() {\n" + line + "\n}\n", options).empty())
        << line;
  }
}

}  // namespace
}  // namespace clora

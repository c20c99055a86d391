// The directives in the head of a kernel file, and the diagnostics of compilers.
#include "tools/clc/kernel_file/file_head.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clora/runtime/error.hpp"
#include "tools/clc/compile/diagnostics.hpp"
#include "tools/clc/kernel_file/kernel_file.hpp"

namespace clora {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> options_of(const FileHead& head) {
  std::vector<std::string> options;
  for (const BuildSet& set : head.builds) options.push_back(set.options);
  return options;
}

std::string message_of(std::string_view text) {
  try {
    read_file_head(text, "k.cl");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_file);
    return error.what();
  }
  return "no error";
}

TEST(ClcFileHead, GivesASetOfOptionsForEachChoiceInBraces) {
  const FileHead head = read_file_head(
      "// k: doubles\n//! clc: build T={f32,bf16} N=4 FULL_ROWS -cl-mad-enable\n", "k.cl");
  EXPECT_THAT(options_of(head), ElementsAre("-D T=f32 -D N=4 -D FULL_ROWS -cl-mad-enable",
                                            "-D T=bf16 -D N=4 -D FULL_ROWS -cl-mad-enable"));
}

TEST(ClcFileHead, JoinsLinesThatContinue) {
  const FileHead head = read_file_head("//! clc: build A={1,2}\n//!     B={3,4}\n", "k.cl");
  EXPECT_THAT(options_of(head),
              ElementsAre("-D A=1 -D B=3", "-D A=1 -D B=4", "-D A=2 -D B=3", "-D A=2 -D B=4"));
}

TEST(ClcFileHead, EndsAtTheFirstLineThatIsNotAComment) {
  const FileHead head = read_file_head("//! clc: build A\n#define X\n//! clc: build B\n", "k.cl");
  EXPECT_THAT(options_of(head), ElementsAre("-D A"));
}

TEST(ClcFileHead, ReadsForWhichDevicesASetIsMeant) {
  const FileHead head =
      read_file_head("//! clc: build on cpu,wgmma: A\n//! clc: build on mma:\n", "k.cl");
  ASSERT_THAT(head.builds, SizeIs(2));
  Device cpu, gpu, hopper;
  cpu.kind = DeviceKind::cpu;
  gpu.kind = hopper.kind = DeviceKind::gpu;
  hopper.matrix_unit = MatrixUnit::wgmma;
  EXPECT_TRUE(is_meant_for(head.builds[0], cpu));
  EXPECT_FALSE(is_meant_for(head.builds[0], gpu));
  EXPECT_TRUE(is_meant_for(head.builds[0], hopper));
  EXPECT_TRUE(is_meant_for(head.builds[1], hopper)) << "which has what Ampere has, too";
  EXPECT_FALSE(is_meant_for(head.builds[1], cpu));
  EXPECT_EQ(head.builds[1].options, "");
}

TEST(ClcFileHead, BuildsSetsOfIntegerDotsOnlyIfTheProcessorHasThem) {
  const FileHead head = read_file_head("//! clc: build on avx512_vnni: A\n", "k.cl");
  ASSERT_THAT(head.builds, SizeIs(1));
  Device avx2, vnni;
  avx2.kind = vnni.kind = DeviceKind::cpu;
  vnni.integer_dots = IntegerDots::avx512_vnni;
  EXPECT_FALSE(is_meant_for(head.builds[0], avx2));
  EXPECT_TRUE(is_meant_for(head.builds[0], vnni));
}

TEST(ClcFileHead, ReadsBudgetsSpacesAndWhatIsAllowed) {
  const FileHead head = read_file_head(
      "//! clc: budget of f on gfx90a spills=0 registers<=128\n"
      "//! clc: tune WG={64,128} TILE={1,2} where TILE % WG == 0\n"
      "//! clc: allow no-restrict both may be one buffer\n",
      "k.cl");
  ASSERT_THAT(head.budgets, SizeIs(1));
  EXPECT_EQ(head.budgets[0].kernel, "f");
  EXPECT_EQ(head.budgets[0].target, "gfx90a");
  ASSERT_THAT(head.budgets[0].limits, SizeIs(2));
  EXPECT_TRUE(head.budgets[0].limits[0].exact);
  EXPECT_EQ(head.budgets[0].limits[1].value, 128);
  ASSERT_THAT(head.tunes, SizeIs(1));
  EXPECT_THAT(head.tunes[0].parameters[0].values, ElementsAre("64", "128"));
  EXPECT_EQ(head.tunes[0].where, "TILE % WG == 0");
  ASSERT_THAT(head.allowed, SizeIs(1));
  EXPECT_EQ(head.allowed[0].reason, "both may be one buffer");
}

TEST(ClcFileHead, NamesTheLineOfAMistakeAndWhatMayStandThere) {
  EXPECT_THAT(message_of("// k\n//! clc: biuld A\n"),
              HasSubstr("k.cl:2: clc: 'biuld' is not a directive"));
  EXPECT_THAT(message_of("//! clc: build on gpus: A\n"),
              HasSubstr("the kinds are cpu, gpu, nvidia"));
  EXPECT_THAT(message_of("//! clc: build on gpu A\n"), HasSubstr("must end with a colon"));
  EXPECT_THAT(message_of("//! clc: build A={1, 2}\n"),
              HasSubstr("blanks are not allowed between braces"));
  EXPECT_THAT(message_of("//! clc: budget registers>128\n"), HasSubstr("is not a limit"));
  EXPECT_THAT(message_of("//! clc: budget speed<=1\n"),
              HasSubstr("the limits are registers, spills"));
  EXPECT_THAT(message_of("//! clc: tune WG=64\n"), HasSubstr("is not a choice"));
  EXPECT_THAT(message_of("//! clc: allow no-restrict\n"), HasSubstr("the reason"));
}

TEST(ClcFileHead, IsRightInEveryBuiltInFileAndReportsHowItIsBuilt) {
  for (const std::string& file : built_in_kernel_files()) {
    EXPECT_FALSE(open_kernel_file(file).head.builds.empty()) << file;
  }
}

TEST(ClcDiagnostics, AreReadInEachDriversForm) {
  const Diagnostic wanted{"k.cl", 4, 10, "error", "use of undeclared identifier 'y'"};
  EXPECT_THAT(
      diagnostics_of("1 error generated.\nerror: k.cl:4:10: use of undeclared identifier 'y'\n"),
      ElementsAre(wanted));
  EXPECT_THAT(
      diagnostics_of("k.cl:4:10: error: use of undeclared identifier 'y'\n    4 |   x[0] = y;\n"),
      ElementsAre(wanted));
  EXPECT_THAT(diagnostics_of("k.cl:4:10: fatal error: use of undeclared identifier 'y'"),
              ElementsAre(wanted));
  EXPECT_THAT(diagnostics_of("Compilation failed\n"), IsEmpty());
}

}  // namespace
}  // namespace clora

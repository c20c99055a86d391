// The completion script and the manual pages of clc, which are made as those of clora.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/manual.hpp"
#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ClcManual, BashCompletesCommandsOptionsAndWords) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "bash", test::run_clc({"completion", "bash"}).out);
  EXPECT_THAT(test::bash_offers(folder / "bash", {"clc", "ma"}), ElementsAre("matrix"));
  EXPECT_THAT(test::bash_offers(folder / "bash", {"clc", "cache", "wa"}), ElementsAre("warm"));
  EXPECT_THAT(test::bash_offers(folder / "bash", {"clc", "cache", "warm", "--for", "t"}),
              ElementsAre("train"));
  EXPECT_THAT(test::bash_offers(folder / "bash", {"clc", "lint", ""}),
              ElementsAre("compopt default"));
}

TEST(ClcManual, PagesHaveEveryOptionAndNoFaultsOfForm) {
  const test::TemporaryFolder share;
  ASSERT_EQ(test::run_clc({"manual", "--out", share.path().string()}).exit_code, 0);
  const std::string build = test::read_file(share / "man/man1/clc-build.1");
  for (const std::string& option : test::options_in_help(test::run_clc({"build", "--help"}).out)) {
    const std::string last = option.substr(option.rfind('-') + 1);
    EXPECT_THAT(build, HasSubstr(last + "\\fR")) << option;
  }
  EXPECT_THAT(build, HasSubstr("\\fB\\-D\\fR \\fINAME[=VALUE]\\fR"));
  if (!test::is_installed("mandoc") && !test::is_installed("man")) {
    GTEST_SKIP() << "neither mandoc nor man is installed";
  }
  for (const auto& entry : std::filesystem::directory_iterator(share / "man/man1")) {
    EXPECT_THAT(test::complaints_about_page(entry.path()), IsEmpty()) << entry.path();
  }
}

}  // namespace
}  // namespace clora

// The manual pages of clora: every command has one, with every option of its help.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <set>

#include "tests/support/manual.hpp"
#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/command_line/manual/command_facts.hpp"
#include "tools/command_line/manual/help_text.hpp"
#include "tools/command_line/manual/man_page.hpp"
#include "tools/command_line/replace_all.hpp"

namespace clora {
namespace {

using test::run_clora;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The name as it is written in a page.
std::string in_page(std::string name) {
  replace_all(name, "-", "\\-");
  return "\\fB" + name + "\\fR";
}

class Manual : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    share = new test::TemporaryFolder;
    const test::ProgramResult result = run_clora({"manual", "--out", share->path().string()});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    Action action;
    program.name("clora");
    add_all_commands(program, action);
  }
  static void TearDownTestSuite() { delete share; }

  static std::filesystem::path page_file(const std::string& name) {
    return share->path() / "man/man1" / (name + ".1");
  }
  static std::string page(const std::string& name) { return test::read_file(page_file(name)); }

  static inline test::TemporaryFolder* share = nullptr;
  static inline CLI::App program{"clora: a program"};
};

TEST_F(Manual, EveryOptionOfEveryCommandIsInItsPageAndInTheCompletions) {
  const std::string bash = test::read_file(*share / "bash-completion/completions/clora");
  const std::string zsh = test::read_file(*share / "zsh/site-functions/_clora");
  const std::string fish = test::read_file(*share / "fish/vendor_completions.d/clora.fish");
  const CommandFacts facts = command_facts(program);
  std::size_t count = 0;
  for (const CommandFacts* command : all_commands(facts)) {
    std::string name = command->full_name;
    replace_all(name, " ", "-");
    const std::string text = page(name);
    std::vector<std::string> arguments;
    std::istringstream words(command->full_name.substr(std::string("clora").size()));
    for (std::string word; words >> word;) arguments.push_back(word);
    arguments.emplace_back("--help");
    for (const std::string& option : test::options_in_help(run_clora(arguments).out)) {
      EXPECT_THAT(text, HasSubstr(in_page(option))) << command->full_name;
      EXPECT_THAT(bash, HasSubstr(option)) << command->full_name;
      EXPECT_THAT(zsh, HasSubstr(option)) << command->full_name;
      EXPECT_THAT(fish, HasSubstr((option.starts_with("--") ? " -l " : " -s ") +
                                  option.substr(option.find_first_not_of('-'))));
      ++count;
    }
  }
  EXPECT_GT(count, 300U);
}

TEST_F(Manual, ThePageOfTheProgramListsCommandsAndVariables) {
  const std::string text = page("clora");
  EXPECT_THAT(text, AllOf(HasSubstr("clora\\-train"), HasSubstr("clora\\-adapters\\-add"),
                          HasSubstr("clora\\-completion"), HasSubstr("CLORA_DEVICE"),
                          HasSubstr("CLORA_CACHE_DIR"), HasSubstr("CLORA_SELF_TEST=0")));
  EXPECT_FALSE(std::filesystem::exists(page_file("clora-manual")));  // the help does not list it
}

TEST_F(Manual, APageStatesValuesDefaultsAndExitCodes) {
  const std::string text = page("clora-train");
  EXPECT_THAT(text, HasSubstr("Range: >0..1000000. Default: 16.\n"));
  EXPECT_THAT(text, HasSubstr("One of auto, f32, bf16."));
  EXPECT_THAT(text, HasSubstr("Environment: CLORA_DEVICE."));
  EXPECT_THAT(text, HasSubstr("\\fB\\-\\-find\\-lr\\fR [\\fISVG\\fR]"));
  EXPECT_THAT(text, HasSubstr("\\fBclora train\\fR \\fB\\-\\-data\\fR \\fIPATH[=WEIGHT]\\fR"));
  EXPECT_THAT(text, HasSubstr(".SH EXIT STATUS\n0 success, 2 usage error, 1 any other error.\n"));
}

TEST_F(Manual, PagesHaveNoFaultsOfForm) {
  if (!test::is_installed("mandoc") && !test::is_installed("man")) {
    GTEST_SKIP() << "neither mandoc nor man is installed";
  }
  for (const auto& entry : std::filesystem::directory_iterator(*share / "man/man1")) {
    EXPECT_THAT(test::complaints_about_page(entry.path()), IsEmpty()) << entry.path();
  }
}

TEST(HelpText, IsTakenApartIntoExamplesTextAndExitCodes) {
  const HelpText text = help_text(
      "Examples:\n  a b\n  c d\nSome text\nof two lines.\nMore text.\n  code\nMore.\nExit codes: 0 "
      "good,\n1 "
      "bad.");
  ASSERT_EQ(text.examples.size(), 1U);
  EXPECT_THAT(text.examples[0].lines, ElementsAre("a b", "c d"));
  ASSERT_EQ(text.description.size(), 4U);
  EXPECT_THAT(text.description[0].lines, ElementsAre("Some text", "of two lines."));
  EXPECT_THAT(text.description[1].lines, ElementsAre("More text."));
  EXPECT_TRUE(text.description[2].code);
  EXPECT_EQ(text.exit_codes, "0 good, 1 bad.");
}

TEST(ManPage, EscapesWhatRoffReadsAsCommands) {
  CommandFacts facts;
  facts.word = facts.full_name = "demo";
  facts.description = ".dot \\back 'quote' \xC2\xB1";
  facts.footer = ".begins with a dot";
  const std::vector<ManPage> pages = man_pages(facts, "1", {});
  ASSERT_EQ(pages.size(), 1U);
  EXPECT_EQ(pages[0].file, "demo.1");
  EXPECT_THAT(pages[0].text, HasSubstr("\\eback \\(aqquote\\(aq \\[u00B1]"));
  EXPECT_THAT(pages[0].text, HasSubstr("\n\\&.begins with a dot\n"));
}

}  // namespace
}  // namespace clora

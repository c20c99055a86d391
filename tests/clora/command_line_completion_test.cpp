// The completion scripts of clora in the shells that read them, and the facts that they are made
// of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include "tests/support/manual.hpp"
#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tools/command_line/manual/command_facts.hpp"

namespace clora {
namespace {

using test::bash_offers;
using test::fish_offers;
using test::run_clora;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class Completion : public testing::Test {
 protected:
  // The script that the program prints for the shell, in a file.
  std::filesystem::path script(const std::string& shell) const {
    const test::ProgramResult result = run_clora({"completion", shell});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, IsEmpty());
    test::write_file(folder_ / shell, result.out);
    return folder_ / shell;
  }
  test::TemporaryFolder folder_;
};

TEST_F(Completion, BashOffersCommandsAndTheCommandsOfAGroup) {
  const auto bash = script("bash");
  EXPECT_THAT(bash_offers(bash, {"clora", "tr"}), ElementsAre("train"));
  EXPECT_THAT(bash_offers(bash, {"clora", ""}), Contains("serve"));
  EXPECT_THAT(bash_offers(bash, {"clora", ""}), Not(Contains("manual")));  // not in the help either
  EXPECT_THAT(bash_offers(bash, {"clora", "adapters", "ex"}), ElementsAre("extract"));
  EXPECT_THAT(bash_offers(bash, {"clora", "--ver"}), ElementsAre("--version"));
}

TEST_F(Completion, BashOffersTheOptionsOfTheCommandOnly) {
  const auto bash = script("bash");
  EXPECT_THAT(bash_offers(bash, {"clora", "train", "--preci"}), ElementsAre("--precision"));
  EXPECT_THAT(bash_offers(bash, {"clora", "train", "--model", "m", "--no-shuf"}),
              ElementsAre("--no-shuffle"));
  EXPECT_THAT(bash_offers(bash, {"clora", "info", "--preci"}), IsEmpty());
  EXPECT_THAT(bash_offers(bash, {"clora", "adapters", "extract", "--ener"}),
              ElementsAre("--energy"));
}

TEST_F(Completion, BashOffersTheWordsOfAnOption) {
  const auto bash = script("bash");
  EXPECT_THAT(bash_offers(bash, {"clora", "train", "--precision", ""}),
              ElementsAre("auto", "f32", "bf16"));
  EXPECT_THAT(bash_offers(bash, {"clora", "train", "--precision", "=", "b"}), ElementsAre("bf16"));
  EXPECT_THAT(bash_offers(bash, {"clora", "train", "--precision", "="}),
              ElementsAre("auto", "f32", "bf16"));
  EXPECT_THAT(bash_offers(bash, {"clora", "train", "--profile", "=", "s"}), ElementsAre("shapes"));
  EXPECT_THAT(bash_offers(bash, {"clora", "completion", "z"}), ElementsAre("zsh"));
}

TEST_F(Completion, BashOffersFilesAndFoldersWhereTheyAreMeant) {
  const auto bash = script("bash");
  EXPECT_THAT(bash_offers(bash, {"clora", "train", "--model", ""}), ElementsAre("compopt default"));
  EXPECT_THAT(bash_offers(bash, {"clora", "train", "--adapter-out", ""}),
              ElementsAre("compopt dirnames"));
  EXPECT_THAT(bash_offers(bash, {"clora", "serve", "--adapter", "sql", "=", ""}),
              ElementsAre("compopt default"));
  EXPECT_THAT(bash_offers(bash, {"clora", "serve", "--adapters-dir", ""}),
              ElementsAre("compopt dirnames"));
  EXPECT_THAT(bash_offers(bash, {"clora", "info", ""}), ElementsAre("compopt default"));
  EXPECT_THAT(bash_offers(bash, {"clora", "train", "--rank", ""}), IsEmpty());
}

TEST_F(Completion, FishOffersCommandsOptionsAndWords) {
  if (!test::is_installed("fish")) GTEST_SKIP() << "fish is not installed (Debian: fish)";
  const auto fish = script("fish");
  EXPECT_THAT(fish_offers(fish, "clora tr"), ElementsAre("train"));
  EXPECT_THAT(fish_offers(fish, "clora adapters ex"), ElementsAre("extract"));
  EXPECT_THAT(fish_offers(fish, "clora train --preci"), ElementsAre("--precision"));
  EXPECT_THAT(fish_offers(fish, "clora info --preci"), IsEmpty());
  EXPECT_THAT(fish_offers(fish, "clora train --precision "), ElementsAre("auto", "bf16", "f32"));
  EXPECT_THAT(fish_offers(fish, "clora train --profile=s"), ElementsAre("--profile=shapes"));
  EXPECT_THAT(fish_offers(fish, "clora completion z"), ElementsAre("zsh"));
  test::write_file(folder_ / "some.gguf", "");
  const std::string beginning = (folder_ / "so").string();
  EXPECT_THAT(fish_offers(fish, "clora train --model " + beginning),
              ElementsAre((folder_ / "some.gguf").string()));
}

TEST_F(Completion, ZshGetsTheOptionsOfTheCommandWithTheirValues) {
  if (!test::is_installed("zsh")) GTEST_SKIP() << "zsh is not installed (Debian: zsh)";
  const auto zsh = script("zsh");
  EXPECT_THAT(test::zsh_specifications(zsh, {"clora", ""}), Contains(StartsWith("train:Fine")));
  const auto train = test::zsh_specifications(zsh, {"clora", "train", ""});
  EXPECT_THAT(train,
              Contains(testing::MatchesRegex("--precision=\\[.*\\]:WORD:\\(auto f32 bf16\\)")));
  EXPECT_THAT(train, Contains(testing::MatchesRegex("--model=\\[.*\\]:PATH:_files")));
  EXPECT_THAT(train, Contains(testing::MatchesRegex("--adapter-out=\\[.*\\]:DIR:_files -/")));
  EXPECT_THAT(train, Contains(testing::MatchesRegex("--profile=-\\[.*\\]::WORD:\\(ops shapes\\)")));
  EXPECT_THAT(test::zsh_specifications(zsh, {"clora", "adapters", "extract", ""}),
              Contains(StartsWith("--energy=[")));
}

TEST_F(Completion, AnUnknownShellIsAUsageError) {
  const test::ProgramResult result = run_clora({"completion", "ksh"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("ksh"));
}

TEST(CommandFacts, DescribeOptionsByTheirChecksAndNames) {
  CLI::App program{"tells nothing"};
  program.name("demo");
  CLI::App* command = program.add_subcommand("do", "Do it");
  std::string word, file, folder, text, hidden;
  std::vector<std::string> many;
  int number = 3;
  command->add_option("--word", word, "Words")->check(CLI::IsMember({"one", "two"}))->required();
  command->add_option("-f,--file", file, "File")->type_name("FILE.npy");
  command->add_option("--folder", folder, "Folder")->type_name("DIR[=WEIGHT]");
  command->add_option("--number", number, "Number")->capture_default_str()->envname("NUMBER");
  command->add_option("--hidden", hidden)->group("");
  command->add_option("INPUT", many, "Inputs");
  program.add_subcommand("secret", "Not listed")->group("");

  const CommandFacts facts = command_facts(program);
  ASSERT_EQ(facts.commands.size(), 1U);
  const CommandFacts& found = facts.commands.front();
  EXPECT_EQ(found.full_name, "demo do");
  ASSERT_EQ(found.options.size(), 5U);
  EXPECT_THAT(found.options[0].names, ElementsAre("-h", "--help"));
  EXPECT_EQ(found.options[0].kind, ValueKind::none);
  EXPECT_EQ(found.options[1].kind, ValueKind::word);
  EXPECT_THAT(found.options[1].words, ElementsAre("one", "two"));
  EXPECT_TRUE(found.options[1].required);
  EXPECT_THAT(found.options[2].names, ElementsAre("-f", "--file"));
  EXPECT_EQ(found.options[2].kind, ValueKind::file);
  EXPECT_EQ(found.options[3].kind, ValueKind::folder);
  EXPECT_EQ(found.options[4].kind, ValueKind::text);
  EXPECT_EQ(found.options[4].default_value, "3");
  EXPECT_EQ(found.options[4].variable, "NUMBER");
  ASSERT_EQ(found.arguments.size(), 1U);
  EXPECT_EQ(found.arguments[0].value, "INPUT");
  EXPECT_EQ(found.arguments[0].kind, ValueKind::path);
  EXPECT_TRUE(found.arguments[0].repeats);
}

}  // namespace
}  // namespace clora

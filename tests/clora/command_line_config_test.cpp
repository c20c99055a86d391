// Configuration files: a run can read the file that it writes, and errors name the fault.
#include "tools/command_line/config_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include "tests/support/test_files.hpp"
#include "tools/command_line/toml_options.hpp"

namespace clora {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ConfigFile : public testing::Test {
 protected:
  ConfigFile() {
    program.name("clora");
    program.option_defaults()->take_last();
    command = program.add_subcommand("train", "");
    program.add_subcommand("eval", "");
    command->add_option("--name", name);
    command->add_option("--rank", rank)->capture_default_str();
    command->add_option("--stop", stops)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    command->add_flag("--shuffle,!--no-shuffle", shuffle)->default_str("true");
  }

  std::vector<std::string> arguments(const std::string& toml) const {
    return arguments_from_config_text(toml, "run.toml", *command, {});
  }
  std::string error(const std::string& toml) const {
    try {
      arguments(toml);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  }

  CLI::App program;
  CLI::App* command = nullptr;
  std::string name;
  std::int64_t rank = 8;
  std::vector<std::string> stops;
  bool shuffle = true;
};

TEST_F(ConfigFile, GivesBackEveryTextThatItWrote) {
  const std::vector<std::string> texts{
      "a # b",    "say \"hi\"", "C:\\dir\\new", "two\nlines", "a,b", "[x]", " spaces ", "tab\there",
      "\x1b[31m", "\x7f",       "Grüße €",      "true",       "1e3", "=",   "'"};
  for (const std::string& text : texts) {
    program.parse(
        std::vector<std::string>{"--stop=y" + text, "--stop=x" + text, "--name=" + text, "train"});
    ASSERT_EQ(name, text);
    EXPECT_THAT(arguments(config_text(*command, {"help"})),
                testing::UnorderedElementsAre("--name=" + text, "--rank=8", "--shuffle=true",
                                              "--stop=x" + text, "--stop=y" + text));
  }
}

TEST_F(ConfigFile, TakesTheTopAndTheCommandsOwnSection) {
  EXPECT_THAT(arguments("name = 'x'\nrank = 0x10 # sixteen\n[train]\nshuffle = false\n"
                        "[eval]\nanything = 1\n"),
              ElementsAre("--name=x", "--rank=16", "--shuffle=false"));
  EXPECT_THAT(arguments(""), IsEmpty());
}

TEST_F(ConfigFile, NamesFileLineAndColumnOfInvalidToml) {
  for (const char* text : {"name = x\n", "name = \"x\n", "rank =\n", "rank 4\n", "= 4\n",
                           "stop = [\"a\"\n", "rank = 4\nrank = 5\n", "\xff\xfe"}) {
    EXPECT_THAT(error(text), AllOf(HasSubstr("'run.toml': line "), HasSubstr("column "),
                                   HasSubstr("not valid TOML")))
        << text;
  }
}

TEST_F(ConfigFile, RefusesWhatNoOptionTakes) {
  EXPECT_EQ(error("rnak = 4"), "'run.toml': unknown option --rnak; did you mean --rank?");
  EXPECT_EQ(error("[trian]\nrank = 4"),
            "'run.toml': [trian] is not a command; did you mean [train]?");
  EXPECT_EQ(error("[trian]"), "'run.toml': [trian] is not a command; did you mean [train]?");
  EXPECT_EQ(error("rank = [2, 4]"), "'run.toml': rank must be one value, got an array of 2");
  EXPECT_THAT(error("rank = 2020-01-01"), HasSubstr("rank must be text, a number, true or false"));
  EXPECT_THAT(error("stop = [[1]]"), HasSubstr("stop must be text, a number"));
  EXPECT_THAT(error("[train.x]\nrank = 1"), HasSubstr("line 1, column "));
}

TEST_F(ConfigFile, IsLimitedInSizeAndDepth) {
  EXPECT_THAT(error(std::string(100000, '#')), HasSubstr("at most 65536 bytes"));
  std::string deep = "a";
  for (int i = 0; i < 30000; ++i) deep += ".a";
  EXPECT_THAT(error(deep + " = 1"), HasSubstr("line 1: a line must have at most 1000 dots"));
  EXPECT_THAT(error("name = " + std::string(50000, '[')), HasSubstr("not valid TOML"));
}

TEST_F(ConfigFile, ThatIsAbsentIsNamed) {
  const test::TemporaryFolder folder;
  for (const auto& path : {folder / "none.toml", folder.path()}) {
    try {
      arguments_from_config(path, *command, {});
      ADD_FAILURE();
    } catch (const UsageError& error) {
      EXPECT_EQ(error.what(), "--config: file '" + path.string() + "' does not exist");
    }
  }
}

TEST(TomlOptions, HaveOtherAlphabetsInStringsAndCommentsAlone) {
  const auto options = parse_toml_options(
      "\xef\xbb\xbf# \xc3\xa9\n[train]\nmodel = \"\xc3\xa9 # no comment\"  # \xc3\xa9\n"
      "data = '''\xc3\xa9\n\xc3\xa9'''\n",
      "run.toml");
  ASSERT_EQ(options.size(), 2U);
  for (const TomlOption& option : options) {
    EXPECT_THAT(option.values, ElementsAre(HasSubstr("\xc3\xa9"))) << option.name;
  }
  for (const std::string text :
       {"a = 1\n\xc3\xa9 = 2\n", "a = \"\" \xef\xbb\x84", "\x12 = 1", "a = 9\"\xef\xbb\xb7\"",
        "a = ['''''''\xef\xba\xbf", "a = \"b\"c\"\xcf\x8b\"",
        "l=0.\"0\xd2\x93r.lr=\"quoted0.1odel=\"", "j=0.\"0\".l\nr=trainm_\xcd\x8d=\"\""}) {
    try {
      parse_toml_options(text, "run.toml");
      ADD_FAILURE() << text << " was read";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("not valid TOML")) << text;
    }
  }
}

TEST(TomlOptions, GiveBackTheMarkThatTheyAreEncodedBy) {
  const auto options = parse_toml_options(
      "a = \"~\"\nb = '~7e \xc3\xa9~'\n\"~k\xc3\xa9\" = '\\u00e9'\n", "run.toml");
  ASSERT_EQ(options.size(), 3U);
  EXPECT_THAT(options[0].values, ElementsAre("~"));
  EXPECT_THAT(options[1].values, ElementsAre("~7e \xc3\xa9~"));
  EXPECT_EQ(options[2].name, "~k\xc3\xa9");
  EXPECT_THAT(options[2].values, ElementsAre("\\u00e9"));
  for (const char* text : {"a = \"\\u007E\"", "a = \"\\U0000007e\""}) {
    EXPECT_THROW(parse_toml_options(text, "run.toml"), UsageError) << text;
  }
}

TEST(TomlOptions, NameTheColumnOfALineWithOtherAlphabets) {
  try {
    parse_toml_options("# \xc3\xa9\na = \"~\xc3\xa9\" x\n", "run.toml");
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("line 2, column 11: "));
  }
}

}  // namespace
}  // namespace clora

// Numeric options: every numeric option of every command refuses values outside its range, names
// the range, and accepts its bounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <regex>

#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using test::run_clora;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// The accepted value, or the refusal in brackets.
std::string validated(const CLI::Validator& validator, std::string value) {
  const std::string refusal = validator(value);
  return refusal.empty() ? value : "[" + refusal + "]";
}

TEST(NumberOptions, AcceptAnIntegerInItsRangeAndRewriteIt) {
  const Integer number(1, 64);
  EXPECT_EQ(validated(number, "1"), "1");
  EXPECT_EQ(validated(number, "64"), "64");
  EXPECT_EQ(validated(number, "+5"), "5");
  EXPECT_EQ(validated(number, "010"), "10");  // decimal, not octal
}

TEST(NumberOptions, RefuseAllButIntegersInTheRange) {
  for (const std::string value :
       {"0", "65", "-1", "2.5", "1e1", "nan", "inf", "", " 3", "3 ", "0x10", "+-5",
        "18446744073709551617", "99999999999999999999", "1,000"}) {
    const std::string got = value.empty() ? "nothing" : value;
    EXPECT_EQ(validated(Integer(1, 64), value),
              "[must be a whole number from 1 to 64, got " + got + "]");
  }
}

TEST(NumberOptions, RefuseAllButFiniteNumbersInTheRange) {
  for (const std::string value : {"0", "-1e-9", "10.1", "nan", "-nan", "inf", "-inf", "infinity",
                                  "1e400", "1e-400", "1.5x", "0x1p3", "1,5"}) {
    EXPECT_EQ(validated(NumberAbove(0, 10), value),
              "[must be a number above 0 and at most 10, got " + value + "]");
  }
  EXPECT_EQ(validated(NumberAbove(0, 10), "+2e-4"), "2e-4");
  EXPECT_EQ(validated(NumberAbove(0, 10), "10"), "10");
  EXPECT_EQ(validated(Number(0, 0.99), "0"), "0");
  EXPECT_EQ(validated(Number(0, 0.99), "1"), "[must be a number from 0 to 0.99, got 1]");
}

TEST(NumberOptions, TakeTheWordOrANumber) {
  const WordOrInteger layers("all", 1, 100);
  EXPECT_EQ(validated(layers, "all"), "all");
  EXPECT_EQ(validated(layers, "7"), "7");
  EXPECT_EQ(validated(layers, "1.5"), "[must be all or a whole number from 1 to 100, got 1.5]");
}

TEST(NumberOptions, CutALongValueInTheMessage) {
  EXPECT_THAT(validated(Integer(1, 2), std::string(10000, '9')).size(), testing::Lt(120U));
}

// The options of a command that take numbers, by their validators' ranges.
std::vector<std::string> numeric_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    const std::string type = option->get_type_name();
    if (std::regex_search(type, std::regex("[0-9]\\.\\.[0-9]"))) {
      names.push_back(option->get_name());
    }
  }
  return names;
}

// Options that hold numbers, by their C++ type. CLI11 shows that type in the help if an option has
// no validator.
std::vector<std::string> unchecked_numbers(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    const std::string type = option->get_type_name();
    if (type == "INT" || type == "UINT" || type == "FLOAT") names.push_back(option->get_name());
    if (type.find("POSITIVE") != std::string::npos || type.find("NONNEGATIVE") != std::string::npos)
      names.push_back(option->get_name());
  }
  return names;
}

TEST(NumberOptions, OfEveryCommandHaveARange) {
  CLI::App program;
  Action action;
  add_all_commands(program, action);
  for (const CLI::App* command : program.get_subcommands({})) {
    EXPECT_THAT(unchecked_numbers(*command), IsEmpty()) << command->get_name();
  }
  const auto count = [&](const char* name) {
    return numeric_options(*program.get_subcommand(name)).size();
  };
  EXPECT_GE(count("train"), 17U);  // the loop below is not empty
  EXPECT_GE(count("generate"), 9U);
}

// A call that is complete except for the option under test.
std::vector<std::string> call_of(const std::string& command) {
  std::vector<std::string> call{command};
  if (command != "bench" && command != "devices") call.insert(call.end(), {"--model", "m"});
  if (command == "train" || command == "eval") call.insert(call.end(), {"--data", "d"});
  if (command == "train") call.insert(call.end(), {"--adapter-out", "o"});
  if (command == "generate") call.insert(call.end(), {"--prompt", "x"});
  return call;
}

bool may_be_negative(const std::string& option) {
  return option == "--presence-penalty" || option == "--frequency-penalty";
}

TEST(NumberOptions, OfEveryCommandRefuseEveryWrongNumberWithTheirRange) {
  CLI::App program;
  Action action;
  add_all_commands(program, action);
  int refused = 0;
  for (const CLI::App* command : program.get_subcommands({})) {
    for (const std::string& option : numeric_options(*command)) {
      if (option == "--prompt-ids") continue;  // conflicts with --prompt; tested below
      for (const char* value :
           {"nan", "inf", "-inf", "1e999", "-1", "18446744073709551617", "1x"}) {
        if (may_be_negative(option) && value == std::string("-1")) continue;
        auto call = call_of(command->get_name());
        call.push_back(option + "=" + value);
        testing::internal::CaptureStderr();
        const int code = run_program({.name = "clora",
                                      .version = "",
                                      .description = "",
                                      .footer = "",
                                      .add_commands = add_all_commands},
                                     call);
        const std::string err = testing::internal::GetCapturedStderr();
        EXPECT_EQ(code, 2) << command->get_name() << option << value;
        EXPECT_THAT(err, AllOf(HasSubstr("clora: error: " + option + " must be "),
                               HasSubstr(std::string(", got ") + value)));
        EXPECT_LT(err.size(), 160U) << err;
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 250);
}

TEST(NumberOptions, FractionsForWholeNumbersAreRefused) {
  for (const char* option :
       {"--rank", "--steps", "--batch-size", "--grad-accumulation", "--seed", "--warmup-steps",
        "--eval-every", "--save-every", "--layers", "--max-seq-length", "--limit"}) {
    auto call = call_of("train");
    call.push_back(option + std::string("=2.5"));
    const ProgramResult result = run_clora(call);
    EXPECT_EQ(result.exit_code, 2) << option;
    EXPECT_THAT(result.err, HasSubstr("a whole number from ")) << option;
    EXPECT_THAT(result.err, HasSubstr("got 2.5")) << option;
  }
}

TEST(NumberOptions, ARunOfTooManyStepsIsRefusedAtOnce) {
  auto call = call_of("train");
  call.insert(call.end(), {"--steps", "100000000000000000000"});
  const ProgramResult result = run_clora(call);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--steps must be a whole number from 1 to 1000000000, got "
                                    "100000000000000000000"));
}

TEST(NumberOptions, PromptIdsAreWholeNumbersThatAnIdHolds) {
  for (const char* ids : {"1,2.5", "1,-2", "1,2147483648", "nan"}) {
    const ProgramResult result = run_clora({"generate", "--model", "m", "--prompt-ids", ids});
    EXPECT_EQ(result.exit_code, 2) << ids;
    EXPECT_THAT(result.err, HasSubstr("--prompt-ids must be a whole number from 0 to ")) << ids;
  }
}

TEST(NumberOptions, AreCheckedInARunsConfigurationAndTheFileIsNamed) {
  const test::TemporaryFolder folder;
  for (const auto& [line, words] :
       {std::pair{"lr = nan", "--lr must be a number above 0 and at most 10, got nan"},
        {"lr = -inf", "got -inf"},
        {"rank = 2.5", "--rank must be a whole number from 1 to"},
        {"rank = \"010x\"", "got 010x"},
        {"seed = -1", "--seed must be a whole number from 0 to 4294967295, got -1"},
        {"steps = 1000000001", "--steps must be a whole number from 1 to 1000000000"}}) {
    test::write_file(folder / "run.toml", std::string(line) + "\n");
    auto call = call_of("train");
    call.insert(call.end(), {"--config", (folder / "run.toml").string()});
    const ProgramResult result = run_clora(call);
    EXPECT_EQ(result.exit_code, 2) << line;
    EXPECT_THAT(result.err, AllOf(HasSubstr("run.toml': "), HasSubstr(words))) << line;
  }
}

}  // namespace
}  // namespace clora

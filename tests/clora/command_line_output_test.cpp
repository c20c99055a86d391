// Text from files, models and other programs cannot control the terminal through the programs'
// output.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "clora/runtime/files/json.hpp"
#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_chat_model.hpp"
#include "tools/command_line/output.hpp"
#include "tools/command_line/printable.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using test::run_clora;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Printable, KeepsTextAndItsBreaks) {
  for (const std::string text :
       {"", "plain", "two\nlines\tand a tab", "äöü €", "日本語", "🙂", "\u00a0"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, WritesControlCharactersAsTheirBytes) {
  EXPECT_EQ(printable("\x1b[31mred"), "\\x1b[31mred");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("over\rwritten\b\a\x7f"), "over\\x0dwritten\\x08\\x07\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");  // CSI as UTF-8
  EXPECT_EQ(printable("\xc2\x85"), "\\xc2\\x85");
}

TEST(Printable, WritesBytesThatAreNotUtf8AsTheyAre) {
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");                                    // CSI as an 8-bit character
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");           // never a lead byte
  EXPECT_EQ(printable("\xc3"), "\\xc3");                    // truncated
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");           // ESC in two bytes (overlong)
  EXPECT_EQ(printable("\xe0\x82\x9b"), "\\xe0\\x82\\x9b");  // CSI in three bytes (overlong)
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
}

// Checks every pair of bytes before a letter.
TEST(Printable, LetsNoByteThroughThatCouldSteerATerminal) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text{static_cast<char>(first), static_cast<char>(second), 'm'};
      const std::string shown = printable(text);
      EXPECT_EQ(printable(shown), shown);
      for (std::size_t i = 0; i < shown.size(); ++i) {
        const auto byte = static_cast<unsigned char>(shown[i]);
        ASSERT_TRUE(byte >= 0x20 || byte == '\n' || byte == '\t') << first << ' ' << second;
        ASSERT_NE(byte, 0x7f);
        const bool c1 = byte >= 0x80 && byte < 0xa0;
        const bool alone = i == 0 || static_cast<unsigned char>(shown[i - 1]) < 0xc3;
        ASSERT_FALSE(c1 && alone) << first << ' ' << second;
      }
    }
  }
}

TEST(Output, EscapesItsLinesAndKeepsJsonExact) {
  Output output({.json = true});
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  output.warning("the name is {}", "a\x1b[2Jb");
  output.object({{"name", "a\x1b[2Jb"}, {"bad", "\xff"}, {"number", NAN}});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "clora: warning: the name is a\\x1b[2Jb\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "{\"name\":\"a\\u001b[2Jb\",\"bad\":\"\xef\xbf\xbd\",\"number\":null}\n");
}

TEST(Output, LeavesGeneratedTextExactIfItGoesToAFile) {
  Output output(OutputOptions{});
  testing::internal::CaptureStdout();
  output.text("a\x1b[31m\xff\r\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "a\x1b[31m\xff\r\n");
}

// The bytes that a terminal receives for `text`.
std::string on_a_terminal(const std::string& text) {
  int ours = -1;
  const pid_t child = ::forkpty(&ours, nullptr, nullptr, nullptr);
  if (child == 0) {
    Output(OutputOptions{}).text(text);
    ::_exit(0);
  }
  std::string got;
  std::array<char, 256> buffer;
  for (ssize_t bytes; (bytes = ::read(ours, buffer.data(), buffer.size())) > 0;) {
    got.append(buffer.data(), static_cast<std::size_t>(bytes));
  }
  ::close(ours);
  ::waitpid(child, nullptr, 0);
  return got;
}

TEST(Output, EscapesGeneratedTextOnATerminal) {
  EXPECT_EQ(on_a_terminal("a\x1b[31m\xff\n"), "a\\x1b[31m\\xff\r\n");
}

TEST(Messages, OfTheProgramEscapeNamesOfFilesAndOptions) {
  for (const std::vector<std::string>& call :
       {std::vector<std::string>{"info", "/nonexistent/\x1b]0;title\x07"},
        {"info",
         "/nonexistent/\xc2\x9b"
         "31m"},
        {"gen\x1b[31merate"},
        {"generate", "--\x1b[31m"},
        {"train", "--model", "m", "--data", "d", "--adapter-out", "o", "--lr", "\x1b[31m"}}) {
    const ProgramResult result = run_clora(call);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.err, AllOf(HasSubstr("clora: error: "), HasSubstr("\\x"),
                                  Not(HasSubstr("\x1b")), Not(HasSubstr("\xc2\x9b"))));
  }
}

TEST(Messages, OfRecordsAreEscaped) {
  const test::TemporaryFolder folder;
  test::write_tiny_chat_model(folder / "model");
  test::write_file(folder / "data.jsonl", "{\"\x1b[31m\": \"\x1b[2J\"}\n{\"te\\u001b[2Jxt\": 1}\n");
  const ProgramResult result = run_clora(
      {"eval", "--model", (folder / "model").string(), "--data", (folder / "data.jsonl").string()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace clora

// Parts of the command line that can be tested without running it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>

#include "clora/model/generation/stop_filter.hpp"
#include "clora/runtime/device/driver_diagnosis.hpp"
#include "tests/support/test_files.hpp"
#include "tools/clora/commands/common_options.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/training/loss_picture.hpp"
#include "tools/command_line/driver_registry.hpp"
#include "tools/command_line/output.hpp"
#include "tools/command_line/setting_names.hpp"
#include "tools/command_line/suggestion.hpp"

namespace clora {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Suggestion, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("rank", "rnak"), 1U);
  EXPECT_EQ(edit_distance("steps", "step"), 1U);
  EXPECT_EQ(edit_distance("seed", "speed"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(Suggestion, FindsTheNearestNameOrNone) {
  const std::vector<std::string> names{"lr", "rank", "batch-size", "steps", "max-seq-length"};
  EXPECT_EQ(suggestion_for("rnak", names), "rank");
  EXPECT_EQ(suggestion_for("batch", names), "batch-size");
  EXPECT_EQ(suggestion_for("learning_rate", names), "lr");
  EXPECT_EQ(suggestion_for("max-length", names), "max-seq-length");
  EXPECT_EQ(suggestion_for("bananas", names), "");
}

TEST(Suggestion, NamesOnlyCandidates) {
  EXPECT_EQ(suggestion_for("learning-rate", {"rank", "alpha"}), "");
}

// Stands for an installed driver: any library that loads.
class DriverRegistry : public testing::Test {
 protected:
  DriverRegistry() { ::unsetenv("OCL_ICD_VENDORS"); }
  ~DriverRegistry() override { ::unsetenv("OCL_ICD_VENDORS"); }
  InstalledDriver driver() const { return {folder / "device", "libutf8proc.so.2"}; }
  test::TemporaryFolder folder;
};

TEST_F(DriverRegistry, AddsAnInstalledDriverToTheRegisteredOnes) {
  test::write_file(folder / "device", "");
  const auto before = registered_drivers();
  ASSERT_TRUE(register_installed_driver(driver(), folder / "cache"));
  EXPECT_EQ(std::getenv("OCL_ICD_VENDORS"), (folder / "cache/vendors").string());
  std::vector<std::string> libraries;
  for (const RegisteredDriver& each : registered_drivers()) libraries.push_back(each.library);
  EXPECT_THAT(libraries, testing::SizeIs(before.size() + 1));
  EXPECT_THAT(libraries, testing::Contains("libutf8proc.so.2"));
}

TEST_F(DriverRegistry, LeavesTheLoaderAloneWithoutHardwareOrLibraryOrWhereTheUserChose) {
  EXPECT_FALSE(register_installed_driver(driver(), folder / "cache"));  // no device
  test::write_file(folder / "device", "");
  EXPECT_FALSE(register_installed_driver({folder / "device", "libno-such.so"}, folder / "cache"));
  EXPECT_FALSE(register_installed_driver(driver(), ""));
  ::setenv("OCL_ICD_VENDORS", "/etc/OpenCL/vendors", 1);
  EXPECT_FALSE(register_installed_driver(driver(), folder / "cache"));
  EXPECT_STREQ(std::getenv("OCL_ICD_VENDORS"), "/etc/OpenCL/vendors");
}

TEST(SettingNames, BecomeOptionsInMessages) {
  EXPECT_EQ(with_option_names("lower `batch_size` or `max_seq_length`, or `batch_size` again"),
            "lower --batch-size or --max-seq-length, or --batch-size again");
  EXPECT_EQ(with_option_names("the file `a` is not there"), "the file `a` is not there");
}

TEST(SettingNames, AllOccurInMessagesOfTheLibrary) {
  std::string library;
  for (const char* module : {"runtime", "ops", "lora", "model"}) {
    const auto folder = std::filesystem::path(std::getenv("CLORA_SOURCE_DIR")) / module;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".cpp") library += test::read_file(entry.path());
    }
  }
  // A literal that continues on the next line is one text.
  for (std::size_t at = 0; (at = library.find("\"\n", at)) != std::string::npos;) {
    library.erase(at, library.find('"', at + 1) - at + 1);
  }
  for (const SettingName& name : setting_names()) {
    EXPECT_NE(library.find(name.setting), std::string::npos) << name.setting;
  }
}

TEST(StopFilter, HoldsBackWhatMayBeginAStop) {
  StopFilter filter({"END"});
  EXPECT_EQ(filter.push("abE"), "ab");
  EXPECT_EQ(filter.push("N"), "");
  EXPECT_EQ(filter.push("x"), "ENx");
  EXPECT_FALSE(filter.stopped());
  EXPECT_EQ(filter.push("E"), "");
  EXPECT_EQ(filter.finish(), "E");
}

TEST(StopFilter, CutsTheStopAndAllAfterIt) {
  StopFilter filter({"stop", "top"});
  EXPECT_EQ(filter.push("a s"), "a ");
  EXPECT_EQ(filter.push("top it"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.push("more"), "");
  EXPECT_EQ(filter.finish(), "");
}

TEST(StopFilter, WithoutStopsPassesEverythingAtOnce) {
  StopFilter filter({""});
  EXPECT_EQ(filter.push("anything"), "anything");
  EXPECT_FALSE(filter.stopped());
}

TEST(Output, WritesNumbersForPeople) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(readable_bytes(1023), "1023 B");
  EXPECT_EQ(readable_bytes(1.5 * 1024 * 1024 * 1024), "1.5 GiB");
  EXPECT_EQ(clock_time(59.6), "1:00");
  EXPECT_EQ(clock_time(3723), "1:02:03");
}

TEST(LossPicture, MarksAxesAtRoundNumbers) {
  EXPECT_THAT(axis_marks(0, 3.4, 6), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(axis_marks(0, 0.35, 6),
              ElementsAre(DoubleEq(0), DoubleEq(0.1), DoubleEq(0.2), DoubleEq(0.1 * 3)));
  EXPECT_THAT(axis_marks(0, 200, 8), ElementsAre(0, 50, 100, 150, 200));
}

TEST(LossPicture, PutsPointsWhereTheAxesSay) {
  // The last step is at the right end of its axis: x = 720 - 24. Loss 0 would be at y = 348.
  const std::string picture = loss_picture({"run", {{0, 2.0}, {10, 1.0}}, {{10, 1.5}}});
  EXPECT_THAT(picture, HasSubstr("64.0,62.3 696.0,205.1"));
  EXPECT_THAT(picture, HasSubstr("<circle class=\"valid\" cx=\"696.0\""));
}

TEST(LossPicture, EscapesItsTitleAndOmitsNonFiniteValues) {
  const std::string picture = loss_picture({"a < b & c", {{1, 2.0}, {2, NAN}, {3, INFINITY}}, {}});
  EXPECT_THAT(picture, HasSubstr("a &lt; b &amp; c"));
  EXPECT_THAT(picture, Not(HasSubstr("nan")));
  EXPECT_THAT(picture, Not(HasSubstr("inf")));
}

TEST(CommonOptions, PrintTheLibrarysRemarksAndWarningsButNoDebugMessages) {
  const ContextConfig config = context_config({});
  testing::internal::CaptureStderr();
  config.hooks.log_message(LogLevel::debug, "all is well");
  config.hooks.log_message(LogLevel::info, "capture: it is there");
  config.hooks.log_message(LogLevel::warning, "program cache: damaged");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "capture: it is there\nclora: warning: program cache: damaged\n");
}

TEST(Interrupt, CountsAClosedTerminalAsCtrlCUnlessItIsIgnored) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Interrupt interrupt("");
    EXPECT_FALSE(interrupt.requested());
    ::raise(signal);
    EXPECT_TRUE(interrupt.requested()) << signal;
  }
  const auto former = std::signal(SIGHUP, SIG_IGN);  // as nohup does
  {
    const Interrupt interrupt("");
    ::raise(SIGHUP);
    EXPECT_FALSE(interrupt.requested());
  }
  std::signal(SIGHUP, former);
}

TEST(LossPicture, OfNothingIsStillAPicture) { EXPECT_THAT(loss_picture({}), HasSubstr("</svg>")); }

}  // namespace
}  // namespace clora

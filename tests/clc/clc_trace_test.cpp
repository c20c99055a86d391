// clc trace on traces with known sums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "clora/runtime/profiling/trace.hpp"
#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tools/clc/bench/trace_summary.hpp"

namespace clora {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::string_view kBegin =
    R"([{"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"host"}},
{"ph":"M","name":"process_name","pid":2,"tid":0,"args":{"name":"device"}},
{"ph":"M","name":"thread_name","pid":2,"tid":7,"args":{"name":"a GPU"}},
)";

class ClcTrace : public ::testing::Test {
 protected:
  std::filesystem::path trace(const std::string& name, std::string_view events) const {
    test::write_file(folder_ / name, std::string(kBegin) + std::string(events) + "]");
    return folder_ / name;
  }
  test::ProgramResult clc(std::vector<std::string> arguments) const {
    return test::run_clc(arguments);
  }
  test::TemporaryFolder folder_;
};

constexpr std::string_view kTwoKernels =
    R"({"ph":"X","name":"step","pid":1,"tid":1,"ts":0,"dur":100},
{"ph":"X","name":"write","pid":1,"tid":1,"ts":10,"dur":20},
{"ph":"X","name":"gemm","pid":2,"tid":7,"ts":10,"dur":40},
{"ph":"X","name":"softmax","pid":2,"tid":7,"ts":55,"dur":10},
{"ph":"X","name":"gemm","pid":2,"tid":7,"ts":70,"dur":30})";

TEST_F(ClcTrace, SumsUpWhatRanAndWhatWasWaitedFor) {
  const auto tracks = read_trace(trace("t.json", kTwoKernels));
  ASSERT_THAT(tracks, SizeIs(2));
  const TraceTrack& device = tracks[0];
  EXPECT_TRUE(device.is_device);
  EXPECT_EQ(device.name, "a GPU");
  EXPECT_EQ(device.events.at("gemm").count, 2U);
  EXPECT_DOUBLE_EQ(device.events.at("gemm").us, 70);
  EXPECT_DOUBLE_EQ(device.events.at("gemm").longest_us, 40);
  EXPECT_DOUBLE_EQ(device.busy_us, 80);
  EXPECT_DOUBLE_EQ(device.span_us, 90);
  EXPECT_DOUBLE_EQ(device.waits.at({"gemm", "softmax"}).us, 5);
  EXPECT_DOUBLE_EQ(device.waits.at({"softmax", "gemm"}).us, 5);
}

TEST_F(ClcTrace, CountsTimeUnderNestedEventsOnce) {
  const auto tracks = read_trace(trace("t.json", kTwoKernels));
  const TraceTrack& host = tracks[1];
  EXPECT_FALSE(host.is_device);
  EXPECT_DOUBLE_EQ(host.busy_us, 100);
  EXPECT_EQ(host.events.at("write").count, 1U);
  EXPECT_TRUE(host.waits.empty());
}

TEST_F(ClcTrace, PrintsTheLongestFirst) {
  const auto done = clc({"trace", trace("t.json", kTwoKernels).string()});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("device a GPU: busy 0.08 of 0.09 ms (88.9 %)"));
  EXPECT_LT(done.out.find("gemm "), done.out.find("softmax "));
  EXPECT_THAT(done.out, HasSubstr("waits between them: 2, 0.01 ms in all, mean 5.0 us"));
}

TEST_F(ClcTrace, ComparesTwoByTheTimeOfALaunch) {
  const auto before = trace("before.json", kTwoKernels);
  const auto after =
      trace("after.json", R"({"ph":"X","name":"gemm","pid":2,"tid":7,"ts":10,"dur":70},
{"ph":"X","name":"rope","pid":2,"tid":7,"ts":90,"dur":5})");
  const auto done = clc({"trace", after.string(), "--against", before.string()});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, ::testing::ContainsRegex("gemm +2 +1 +35.0 +70.0 +2.00"));
  EXPECT_THAT(done.out, ::testing::ContainsRegex("rope +0 +1 +0.0 +5.0 *\n"));
}

TEST_F(ClcTrace, ReadsWhatCloraWrites) {
  Trace own;
  const auto begin = Trace::Clock::now();
  own.add(own.device_track("a device"), own.kind("rope", "[4, 8]", {.flops = 8, .bytes = 64}),
          begin, begin + std::chrono::microseconds(3));
  own.write(folder_ / "own.json");
  const auto tracks = read_trace(folder_ / "own.json");
  ASSERT_THAT(tracks, SizeIs(1));
  EXPECT_TRUE(tracks[0].is_device);
  EXPECT_NEAR(tracks[0].events.at("rope").us, 3, 1e-6);
}

TEST_F(ClcTrace, NamesTheFaultOfAFileThatIsNotATrace) {
  test::write_file(folder_ / "broken.json", "{\"traceEvents\": [");
  EXPECT_THAT(clc({"trace", (folder_ / "absent.json").string()}).err, HasSubstr("does not exist"));
  EXPECT_THAT(clc({"trace", (folder_ / "broken.json").string()}).err,
              HasSubstr("broken.json: line 1, column 18: not valid JSON: unexpected end of text"));
  const auto words_about = [&](std::string_view text) {
    test::write_file(folder_ / "other.json", text);
    return clc({"trace", (folder_ / "other.json").string()}).err;
  };
  EXPECT_THAT(words_about("{}"), HasSubstr("has no list of events"));
  EXPECT_THAT(words_about("7"), HasSubstr("has no list of events"));
  EXPECT_THAT(words_about("[]"), HasSubstr("has no complete events"));
  EXPECT_THAT(words_about(R"([{"ph":"X","ts":"now"}])"),
              HasSubstr("event.ts must be a number, got \"now\""));
  EXPECT_THAT(words_about(R"([{"ph":7}])"), HasSubstr("event.ph must be a string, got 7"));
}

}  // namespace
}  // namespace clora

// Trace and TraceSpan: the file that viewers open, its order and its limit; and the device's
// commands in it, on the host's clock.
#include "clora/runtime/profiling/trace.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "clora/runtime/commands/batch.hpp"
#include "clora/runtime/context.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using nlohmann::json;

std::vector<json> spans_of(const Trace& trace) {
  std::vector<json> spans;
  const json all = json::parse(trace.json());
  for (const json& event : all.at("traceEvents")) {
    if (event.at("ph") == "X") spans.push_back(event);
  }
  return spans;
}

double begin_of(const json& span) { return span.at("ts").get<double>(); }
double end_of(const json& span) { return begin_of(span) + span.at("dur").get<double>(); }

// The file rounds to nanoseconds.
constexpr double kRoundingUs = 0.0021;

// Within a track, every span is inside its parent span or after the preceding one.
void expect_nested(const std::vector<json>& spans) {
  std::vector<const json*> open;
  for (const json& span : spans) {
    if (!open.empty() && open.back()->at("tid") != span.at("tid")) open.clear();
    while (!open.empty() && end_of(*open.back()) <= begin_of(span) + kRoundingUs) open.pop_back();
    if (!open.empty()) {
      EXPECT_GE(begin_of(span) + kRoundingUs, begin_of(*open.back())) << span << *open.back();
      EXPECT_LE(end_of(span), end_of(*open.back()) + kRoundingUs) << span << *open.back();
    }
    open.push_back(&span);
  }
}

std::vector<std::string> names_of(const std::vector<json>& spans) {
  std::vector<std::string> names;
  for (const json& span : spans) names.push_back(span.at("name"));
  return names;
}

TEST(Trace, WritesSpansThatNestInTheOrderOfTheirBeginnings) {
  Trace trace;
  {
    const TraceSpan outer(&trace, "outer", "a \"quoted\"\nfile\\");
    { const TraceSpan first(&trace, "first"); }
    { const TraceSpan second(&trace, "second"); }
  }
  const std::vector<json> spans = spans_of(trace);
  EXPECT_EQ(names_of(spans), (std::vector<std::string>{"outer", "first", "second"}));
  EXPECT_EQ(spans.at(0).at("args").at("detail"), "a \"quoted\"\nfile\\");
  EXPECT_LE(begin_of(spans.at(0)), begin_of(spans.at(1)));
  EXPECT_GE(end_of(spans.at(0)) + kRoundingUs, end_of(spans.at(2)));
  expect_nested(spans);
}

TEST(Trace, GivesEveryThreadATrackOfItsOwn) {
  Trace trace;
  {
    const TraceSpan here(&trace, "here");
    std::thread([&] { const TraceSpan there(&trace, "there"); }).join();
  }
  const std::vector<json> spans = spans_of(trace);
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_NE(spans[0].at("tid"), spans[1].at("tid"));
}

TEST(Trace, NamesEveryTrackThatItsSpansLieOn) {
  Trace trace;
  { const TraceSpan span(&trace, "span"); }
  const auto now = Trace::Clock::now();
  trace.add(trace.device_track("a device"), trace.kind("op"), now, now);
  std::map<std::pair<int, int>, std::string> tracks;
  const json all = json::parse(trace.json());
  for (const json& event : all.at("traceEvents")) {
    const std::pair<int, int> place{event.at("pid"), event.at("tid")};
    if (event.at("name") == "thread_name") tracks[place] = event.at("args").at("name");
    if (event.at("ph") == "X") {
      EXPECT_TRUE(tracks.contains(place)) << event;
    }
  }
  EXPECT_EQ(tracks.size(), 2U);
}

TEST(Trace, ReportsBytesAndFlopsWithTheirRates) {
  Trace trace;
  const auto now = Trace::Clock::now();
  trace.add(trace.device_track("device"),
            trace.kind("op", "[2, 3]", {.flops = 6000, .bytes = 4000}), now,
            now + std::chrono::microseconds(2));
  const json arguments = spans_of(trace).at(0).at("args");
  EXPECT_EQ(arguments.at("detail"), "[2, 3]");
  EXPECT_EQ(arguments.at("bytes"), 4000);
  EXPECT_EQ(arguments.at("flops"), 6000);
  EXPECT_DOUBLE_EQ(arguments.at("GB/s"), 2);
  EXPECT_DOUBLE_EQ(arguments.at("GFLOP/s"), 3);
}

TEST(Trace, KeepsTheFirstEventsAndCountsTheRest) {
  Trace trace(3);
  for (int i = 0; i < 5; ++i) const TraceSpan span(&trace, "span");
  EXPECT_EQ(trace.events(), 3U);
  EXPECT_EQ(trace.dropped(), 2U);
  EXPECT_EQ(spans_of(trace).size(), 3U);
  EXPECT_EQ(json::parse(trace.json()).at("otherData").at("dropped_events"), 2);
}

TEST(Trace, IsACompleteJsonFileWithoutAnyEvent) {
  const test::TemporaryFolder folder;
  Trace().write(folder / "trace.json");
  const json read = json::parse(test::read_file(folder / "trace.json"));
  EXPECT_TRUE(read.at("traceEvents").is_array());
}

TEST(Trace, ReportsThatItCannotWrite) {
  const test::TemporaryFolder folder;
  EXPECT_THROW(Trace().write(folder / "missing" / "trace.json"), Error);
}

TEST(TraceSpan, DoesNothingWithoutATrace) { EXPECT_NO_THROW(TraceSpan(nullptr, "nothing")); }

class TracedContext : public testing::Test {
 protected:
  static ContextConfig config(const std::shared_ptr<Trace>& trace) {
    ContextConfig config = config_from_environment();
    config.profile = true;
    config.trace = trace;
    return config;
  }
  std::shared_ptr<Trace> trace = std::make_shared<Trace>();
};

TEST_F(TracedContext, ShowsCommandsInTheirOrderWithinTheHostsWait) {
  Context context(config(trace));
  const Tensor a = context.allocate({1 << 20}, DType::f32, MemoryTag::scratch);
  const Tensor b = context.allocate({1 << 20}, DType::f32, MemoryTag::scratch);
  Batch batch(context);
  batch.fill_zero(a);
  batch.copy(b, a);
  for (int i = 0; i < 3; ++i) {
    const TraceSpan whole(trace.get(), "whole");
    batch.submit();
    context.finish();
  }
  context.profiler().collect();

  std::vector<json> host, device, whole;
  for (const json& span : spans_of(*trace)) (span.at("pid") == 1 ? host : device).push_back(span);
  for (const json& span : host) {
    if (span.at("name") == "whole") whole.push_back(span);
  }
  expect_nested(host);
  EXPECT_EQ(names_of(device),
            (std::vector<std::string>{"fill", "copy", "fill", "copy", "fill", "copy"}));
  ASSERT_EQ(whole.size(), 3U);
  for (std::size_t i = 0; i < device.size(); ++i) {
    if (i > 0) {
      EXPECT_GE(begin_of(device[i]) + kRoundingUs, end_of(device[i - 1]));
    }
    // Device and host share one clock: the host waited for the command between the start and the
    // end of its span. The margin of a millisecond allows for a host that is preempted while it
    // reads its clock.
    EXPECT_GE(begin_of(device[i]) + 1000, begin_of(whole[i / 2]));
    EXPECT_LE(end_of(device[i]), end_of(whole[i / 2]) + 1000);
  }
}

TEST_F(TracedContext, HasAHostsPartWithoutProfilingToo) {
  ContextConfig quiet = config(trace);
  quiet.profile = false;
  Context context(quiet);
  context.finish();
  EXPECT_EQ(names_of(spans_of(*trace)), (std::vector<std::string>{"wait"}));
}

}  // namespace
}  // namespace clora

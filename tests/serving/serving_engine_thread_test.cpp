// The thread that owns an engine, with an engine of the test.
#include "clora/serving/engine_thread.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clora/serving/request_error.hpp"
#include "tests/support/scripted_backend.hpp"

namespace clora {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

GenerationRequest request(std::int64_t max_tokens = 100) {
  GenerationRequest request{.prompt = {1, 2, 3}};
  request.max_tokens = max_tokens;
  return request;
}

struct Ended {
  std::vector<std::string> texts = std::vector<std::string>(8);
  std::optional<FinishReason> reason = {};
  std::string error = {};
};

// All events until `replies` replies have ended.
Ended read(Submission& submission, std::size_t replies = 1) {
  Ended ended;
  for (std::size_t last = 0; last < replies;) {
    const auto event = submission.next(10s);
    if (!event) {
      ADD_FAILURE() << "no event";
      return ended;
    }
    ended.texts[event->choice] += event->event.text;
    if (event->event.finish_reason) ended.reason = event->event.finish_reason;
    if (!event->event.error.empty()) ended.error = event->event.error;
    last += event->event.finish_reason || !event->event.error.empty() ? 1 : 0;
  }
  return ended;
}

template <class F>
RequestError refusal(const F& f) {
  try {
    f();
  } catch (const RequestError& error) {
    return error;
  }
  ADD_FAILURE() << "it was not refused";
  return RequestError({}, "");
}

bool becomes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(10ms);
  return condition();
}

class EngineThreads : public testing::Test {
 protected:
  test::ScriptedBackend backend_;
  ServerMetrics metrics_{"clora", "m"};
};

TEST_F(EngineThreads, EachRequestGetsItsOwnEvents) {
  backend_.script = [](const GenerationRequest& r) {
    return std::string(r.max_tokens == 5 ? "abc" : "xyzzy");
  };
  EngineThread thread(backend_, metrics_);
  const auto first = thread.submit({request(5), request(6)});
  const auto second = thread.submit({request(6)});
  const Ended both = read(*first, 2);
  EXPECT_EQ(both.texts[0], "abc");
  EXPECT_EQ(both.texts[1], "xyzzy");
  EXPECT_EQ(read(*second).texts[0], "xyzzy");
  EXPECT_TRUE(becomes_true([&] { return thread.is_idle(); }));
}

TEST_F(EngineThreads, WorkBeyondTheLimitIsRefusedUntilSomeIsDone) {
  backend_.endless = true;
  EngineThread thread(backend_, metrics_, {.max_replies = 2});
  auto running = thread.submit({request(1 << 30), request(1 << 30)});
  const RequestError error = refusal([&] { thread.submit({request()}); });
  EXPECT_EQ(error.reason().status, 429);
  EXPECT_THAT(error.what(), HasSubstr("takes at most 2"));
  running.reset();
  ASSERT_TRUE(becomes_true([&] { return thread.is_idle(); }));
  backend_.endless = false;
  EXPECT_EQ(read(*thread.submit({request()})).reason, FinishReason::stop);
}

TEST_F(EngineThreads, ARequestWhoseClientIsGoneIsCancelled) {
  backend_.endless = true;
  backend_.step_ms = 1;
  EngineThread thread(backend_, metrics_);
  auto submission = thread.submit({request(1 << 30)});
  ASSERT_TRUE(submission->next(10s).has_value());
  submission.reset();
  EXPECT_TRUE(becomes_true([&] { return thread.is_idle(); }));
  EXPECT_GE(backend_.cancelled, 1U);
}

TEST_F(EngineThreads, EventsThatNobodyTakesEndTheirRequestAndNoOther) {
  backend_.endless = true;
  EngineThread thread(backend_, metrics_, {.queue_bytes = 20000});
  const auto unread = thread.submit({request(1 << 30)});
  EXPECT_TRUE(becomes_true([&] { return unread->was_dropped(); }));
  EXPECT_FALSE(unread->next(0ms).has_value());
  EXPECT_TRUE(becomes_true([&] { return thread.is_idle(); }));
  backend_.endless = false;
  EXPECT_EQ(read(*thread.submit({request()})).texts[0], "hello world");
}

TEST_F(EngineThreads, IfOneReplyIsRefusedNoneIsGenerated) {
  EngineThread thread(backend_, metrics_);
  GenerationRequest empty = request();
  empty.prompt.clear();
  EXPECT_THROW(thread.submit({request(), empty}), Error);
  EXPECT_TRUE(becomes_true([&] { return thread.is_idle(); }));
  EXPECT_EQ(backend_.cancelled, 1U);
}

TEST_F(EngineThreads, TasksRunBetweenStepsAndTheirErrorsComeBack) {
  backend_.endless = true;
  EngineThread thread(backend_, metrics_);
  std::thread::id first, second;
  thread.run([&] { first = std::this_thread::get_id(); });
  const auto running = thread.submit({request(1 << 30)});
  thread.run([&] { second = std::this_thread::get_id(); });
  EXPECT_EQ(first, second);
  EXPECT_NE(first, std::this_thread::get_id());
  EXPECT_THROW(thread.run([] { throw Error(ErrorCode::not_found, "no adapter"); }), Error);
}

TEST_F(EngineThreads, ALostDeviceFailsWhatRunsAndAllThatFollows) {
  backend_.before_step = [] { throw Error(ErrorCode::device_lost, "the bus is gone"); };
  EngineThread thread(backend_, metrics_);
  EXPECT_EQ(thread.loss(), "");
  EXPECT_EQ(read(*thread.submit({request()})).error, "the bus is gone");
  EXPECT_EQ(thread.loss(), "the bus is gone");
  const RequestError error = refusal([&] { thread.submit({request()}); });
  EXPECT_EQ(error.reason().status, 503);
  EXPECT_EQ(error.reason().code, "device_lost");
  EXPECT_EQ(refusal([&] { thread.run([] {}); }).reason().status, 503);
  EXPECT_THAT(metrics_.text({}), HasSubstr("clora:request_failure_total{model_name=\"m\"} 1\n"));
  EXPECT_EQ(backend_.statistics().running, 1) << "the engine makes no step that would drop it";
  EXPECT_EQ(thread.statistics().running, 0);
  EXPECT_EQ(thread.statistics().used_pages, 0);
}

TEST_F(EngineThreads, AStepWithoutMemoryFailsItsRequestsButNotTheServer) {
  std::atomic<bool> full = true;
  backend_.before_step = [&] {
    if (full.exchange(false)) throw Error(ErrorCode::out_of_memory, "no space");
  };
  EngineThread thread(backend_, metrics_);
  const auto failed = thread.submit({request()});
  EXPECT_EQ(read(*failed).error, "no space");
  EXPECT_EQ(thread.loss(), "");
  EXPECT_EQ(read(*thread.submit({request()})).texts[0], "hello world");
}

TEST_F(EngineThreads, AnEngineThatAlwaysFailsIsTakenForLost) {
  backend_.before_step = [] { throw std::runtime_error("odd"); };
  EngineThread thread(backend_, metrics_);
  const auto failed = thread.submit({request()});
  EXPECT_EQ(read(*failed).error, "odd");
  EXPECT_TRUE(becomes_true([&] { return thread.loss() == "odd"; }));
}

TEST_F(EngineThreads, CancellingAllEndsEveryReply) {
  backend_.endless = true;
  backend_.step_ms = 1;
  EngineThread thread(backend_, metrics_);
  const auto one = thread.submit({request(1 << 30)});
  thread.cancel_all();
  EXPECT_EQ(read(*one).reason, FinishReason::cancelled);
}

TEST_F(EngineThreads, TheEndClosesWhatStillRuns) {
  backend_.endless = true;
  auto thread = std::make_unique<EngineThread>(backend_, metrics_);
  const auto started = std::chrono::steady_clock::now();
  {
    const auto running = thread->submit({request(1 << 30)});
    ASSERT_TRUE(running->next(10s).has_value());
  }
  thread.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - started, 5s);
}

TEST_F(EngineThreads, TheTimeOfAReplyIsThatInTheQueueBeforeAndAfterItsFirstToken) {
  backend_.queue_seconds = 0.004;
  backend_.step_ms = 4;
  EngineThread thread(backend_, metrics_);
  read(*thread.submit({request(6)}));
  read(*thread.submit({request(0)}));  // without a token
  ASSERT_TRUE(becomes_true([&] { return thread.is_idle(); }));
  const std::string text = metrics_.text(backend_.statistics());
  const auto value = [&](const std::string& name) {
    const std::string line = "clora:" + name + "{model_name=\"m\"} ";
    const std::size_t at = text.find("\n" + line);
    EXPECT_NE(at, std::string::npos) << name;
    return std::stod(text.substr(at + 1 + line.size()));
  };
  EXPECT_EQ(value("request_queue_time_seconds_count"), 2);
  EXPECT_NEAR(value("request_queue_time_seconds_sum"), 0.008, 1e-9);
  for (const char* part : {"prefill", "decode", "inference"}) {
    EXPECT_EQ(value(std::string("request_") + part + "_time_seconds_count"), 1) << part;
  }
  EXPECT_GE(value("request_decode_time_seconds_sum"), 0.019) << "five steps";
  EXPECT_NEAR(value("time_to_first_token_seconds_sum"),
              0.004 + value("request_prefill_time_seconds_sum"), 1e-4);
  EXPECT_NEAR(value("request_inference_time_seconds_sum"),
              value("request_prefill_time_seconds_sum") + value("request_decode_time_seconds_sum"),
              1e-9);
}

TEST_F(EngineThreads, RepliesAreCountedByTheReasonOfTheirEndAndTimed) {
  EngineThread thread(backend_, metrics_);
  read(*thread.submit({request()}));
  read(*thread.submit({request(3)}));
  ASSERT_TRUE(becomes_true([&] { return thread.is_idle(); }));
  const std::string text = metrics_.text(backend_.statistics());
  const auto has = [&](const std::string& line) { EXPECT_THAT(text, HasSubstr(line + "\n")); };
  has("# TYPE clora:request_success_total counter");
  has("clora:request_success_total{model_name=\"m\",finished_reason=\"stop\"} 1");
  has("clora:request_success_total{model_name=\"m\",finished_reason=\"length\"} 1");
  has("clora:request_success_total{model_name=\"m\",finished_reason=\"abort\"} 0");
  has("clora:time_to_first_token_seconds_count{model_name=\"m\"} 2");
  has("clora:inter_token_latency_seconds_count{model_name=\"m\"} 12");
  has("clora:e2e_request_latency_seconds_count{model_name=\"m\"} 2");
  has("clora:request_generation_tokens_sum{model_name=\"m\"} 14");
  has("clora:request_generation_tokens_bucket{model_name=\"m\",le=\"5\"} 1");
  has("clora:request_generation_tokens_bucket{model_name=\"m\",le=\"+Inf\"} 2");
  has("clora:kv_cache_usage_perc{model_name=\"m\"} 0.5");
  has("clora:generation_tokens_total{model_name=\"m\"} 14");
}

TEST(ServerMetrics, PutsEachValueIntoTheFirstBucketThatHoldsIt) {
  ServerMetrics metrics("vllm", "a \"b\"\\\n");
  metrics.first_tokens(0.001);
  metrics.first_tokens(0.0011);
  metrics.first_tokens(1e9);
  metrics.next_tokens(0.04, 4);
  metrics.answered(200);
  metrics.answered(404);
  metrics.answered(404);
  const std::string text = metrics.text({});
  const std::string labels = R"({model_name="a \"b\"\\\n")";
  const auto has = [&](const std::string& name, const std::string& rest) {
    EXPECT_THAT(text, HasSubstr("vllm:" + name + labels + rest + "\n"));
  };
  has("time_to_first_token_seconds_bucket", ",le=\"0.001\"} 1");
  has("time_to_first_token_seconds_bucket", ",le=\"0.005\"} 2");
  has("time_to_first_token_seconds_bucket", ",le=\"2560\"} 2");
  has("time_to_first_token_seconds_bucket", ",le=\"+Inf\"} 3");
  has("inter_token_latency_seconds_bucket", ",le=\"0.01\"} 4");
  has("inter_token_latency_seconds_sum", "} 0.04");
  has("http_requests_total", ",status=\"404\"} 2");
  has("kv_cache_usage_perc", "} 0");
}

}  // namespace
}  // namespace clora

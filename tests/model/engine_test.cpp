// The engine: what requests that run together get, compared with each of them alone.
#include "clora/model/generation/engine.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "clora/model/generation/generator.hpp"
#include "runtime/elapsed.hpp"
#include "tests/support/engine_fixture.hpp"
#include "tests/support/engine_results.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

using test::add;
using test::Ids;
using test::request_of;
using test::Result;
using test::run;
using test::some_ids;
using testing::HasSubstr;

class EngineTest : public test::EngineFixture {
 protected:
  // The reply of a request alone.
  Ids alone(const GenerationRequest& request, const Adapter* adapter = nullptr) {
    EngineConfig one = config(1);
    one.base_adapter = adapter;
    Engine engine(model(), one);
    GenerationRequest own = request;
    own.adapters.clear();
    engine.submit(own);
    return run(engine).begin()->second.ids;
  }
  // All at once; each reply must be that of the request alone.
  EngineStatistics expect_replies_alone(const EngineConfig& config,
                                        const std::vector<GenerationRequest>& requests) {
    Engine engine(model(), config);
    std::vector<RequestId> ids;
    for (const GenerationRequest& request : requests) ids.push_back(engine.submit(request));
    std::map<RequestId, Result> results = run(engine);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Result& result = results[ids[i]];
      EXPECT_EQ(result.error, "");
      EXPECT_EQ(result.ids, alone(requests[i])) << "request " << i;
      EXPECT_EQ(result.generated_tokens, std::ssize(result.ids));
    }
    const EngineStatistics statistics = engine.statistics();
    EXPECT_EQ(statistics.used_pages, 0);
    EXPECT_EQ(statistics.running + statistics.waiting, 0);
    return statistics;
  }
};

// Prompts from one token to more than a step's budget, greedy and drawn.
std::vector<GenerationRequest> mixed_requests() {
  std::vector<GenerationRequest> requests;
  for (const std::size_t length : {5, 1, 90, 17, 33, 64, 16, 3}) {
    GenerationRequest request = request_of(some_ids(length, requests.size() + 1));
    request.max_tokens = 5 + static_cast<std::int64_t>(requests.size() * 3);
    if (requests.size() % 2 == 1) {
      request.sampling = {.temperature = 0.9, .top_k = 20, .seed = 5};
    }
    if (requests.size() % 4 == 3) {
      request.sampling.repetition_penalty = 1.3;
      request.sampling.logit_bias = {{7, 2.0F}, {9, -100.0F}};
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

class EngineOfFamily : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(Families, EngineOfFamily,
                         testing::Values("Llama", "Qwen3", "Mistral", "Gemma2", "Gemma3", "Phi3",
                                         "Qwen3Moe", "Lfm2"),
                         [](const auto& family) { return family.param; });

TEST_P(EngineOfFamily, RepliesToRequestsTogetherAsToEachAlone) {
  for (const Variant variant : {Variant::automatic, Variant::portable}) {
    open(GetParam(), variant);
    expect_replies_alone(config(), mixed_requests());
  }
}

TEST_F(EngineTest, AGeneratorComputesOnlyWhatFollowsAnEarlierTextIfItMay) {
  open("Llama");
  Ids prompt = some_ids(37, 2);
  const GenerationConfig config{.max_tokens = 20};
  Generator sharing(model(), nullptr, {.max_positions = kPositions, .shares_prefixes = true});
  const Generation first = sharing.generate(prompt, config);
  EXPECT_EQ(first.cached_tokens, 0);
  prompt.insert(prompt.end(), first.ids.begin(), first.ids.end());
  const Generation next = sharing.generate(prompt, config);
  EXPECT_EQ(next.cached_tokens, 48);  // full pages of what was computed
  Generator forgetting(model(), nullptr, kPositions);
  EXPECT_EQ(forgetting.generate(prompt, config).ids, next.ids);
  EXPECT_EQ(forgetting.generate(prompt, config).cached_tokens, 0);
}

TEST_F(EngineTest, AGeneratorThatIsStoppedSaysHowMuchOfThePromptWasCached) {
  open("Llama");
  Generator sharing(model(), nullptr, {.max_positions = kPositions, .shares_prefixes = true});
  const Ids prompt = some_ids(37, 2);
  const auto stop = [](std::int32_t) { return false; };
  EXPECT_EQ(sharing.generate(prompt, {.max_tokens = 20}, stop).cached_tokens, 0);
  EXPECT_EQ(sharing.generate(prompt, {.max_tokens = 20}, stop).cached_tokens, 32);
}

TEST_F(EngineTest, ComputesASharedPrefixOnce) {
  open("Llama");
  const Ids prefix = some_ids(50, 3);
  std::vector<GenerationRequest> requests;
  for (std::int32_t i = 0; i < 6; ++i) {
    Ids prompt = prefix;
    prompt.push_back(i);
    requests.push_back(request_of(std::move(prompt)));
  }
  const EngineStatistics statistics = expect_replies_alone(config(2), requests);
  // Each but the first finds the three full pages.
  EXPECT_EQ(statistics.cached_prompt_tokens, 5U * 48U);
}

TEST_F(EngineTest, ContinuesAConversationFromItsPages) {
  open("Llama");
  Engine engine(model(), config(1));
  engine.submit(request_of(some_ids(40, 2)));
  Ids conversation = some_ids(40, 2);
  const Result first = run(engine).begin()->second;
  EXPECT_EQ(first.cached_tokens, 0);
  conversation.insert(conversation.end(), first.ids.begin(), first.ids.end());
  conversation.push_back(3);
  const GenerationRequest next = request_of(conversation);
  engine.submit(next);
  const Result second = run(engine).begin()->second;
  EXPECT_EQ(second.cached_tokens, 48) << "of " << conversation.size();
  EXPECT_EQ(second.ids, alone(next));
}

TEST_F(EngineTest, SharesNothingIfThatIsOff) {
  open("Llama");
  EngineConfig off = config(1);
  off.shares_prefixes = false;
  const GenerationRequest request = request_of(some_ids(40, 2));
  EXPECT_EQ(expect_replies_alone(off, {request, request}).cached_prompt_tokens, 0U);
}

TEST_F(EngineTest, ComputesAgainWhatGaveItsPagesToEarlierRequests) {
  open("Llama");
  EngineConfig small = config(4);
  small.cache_positions = 128;
  std::vector<GenerationRequest> requests;
  for (std::size_t i = 0; i < 4; ++i) {
    requests.push_back(request_of(some_ids(20, i + 1), 60));
    if (i % 2 == 1)
      requests.back().sampling = {.temperature = 1, .repetition_penalty = 1.2, .seed = 9};
  }
  EXPECT_GT(expect_replies_alone(small, requests).preemptions, 0U);
}

TEST_F(EngineTest, VerifiesGuessesFromThePrompt) {
  open("Llama");
  Ids repeated = some_ids(8, 4);
  for (int i = 0; i < 3; ++i) {
    const Ids part(repeated.begin(), repeated.begin() + 8);
    repeated.insert(repeated.end(), part.begin(), part.end());
  }
  std::vector<GenerationRequest> requests{request_of(repeated, 60), request_of(repeated, 40)};
  requests[1].sampling = {.temperature = 0.7, .seed = 3};
  for (GenerationRequest& request : requests) request.draft_tokens = 4;
  const EngineStatistics statistics = expect_replies_alone(config(2), requests);
  EXPECT_GT(statistics.draft_tokens, 0U);
  EXPECT_GT(statistics.accepted_draft_tokens, 0U);
  EXPECT_LT(statistics.accepted_draft_tokens, statistics.draft_tokens);
}

// A step that leaves out a whole prompt, so that it fills a recorded one, has given it a slot.
TEST_F(EngineTest, AppliesTheBiasesOfPromptsThatWaitForTheStepAfterTheirAdmission) {
  open("Llama");
  EngineConfig large = config();
  large.step_tokens = 256;
  std::vector<GenerationRequest> requests;
  for (const std::int32_t favourite : {4, 5, 6, 7}) {
    requests.push_back(request_of(some_ids(25, static_cast<std::size_t>(favourite)), 3));
    requests.back().sampling.logit_bias = {{favourite, 100.0F}};
  }
  expect_replies_alone(large, requests);
}

TEST_F(EngineTest, ReportsLogProbabilitiesAsTheGeneratorDoes) {
  open("Llama");
  const Ids prompt = some_ids(9, 5);
  const Generation want = Generator(model(), nullptr, kPositions)
                              .generate(prompt, {.max_tokens = 4, .sampling = {.top_logprobs = 3}});
  Engine engine(model(), config());
  GenerationRequest request = request_of(prompt, 4);
  request.sampling.top_logprobs = 3;
  const RequestId id = engine.submit(request);
  engine.submit(request_of(some_ids(20, 6)));  // without
  const Result got = run(engine)[id];
  ASSERT_EQ(got.tokens.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(got.tokens[i].logprob, want.logprobs[i], 1e-4);
    ASSERT_EQ(got.tokens[i].top_logprobs.size(), 3U);
    EXPECT_EQ(got.tokens[i].top_logprobs[0].id, want.top_logprobs[i][0].id);
    EXPECT_EQ(got.tokens[i].top_logprobs[0].logprob, got.tokens[i].logprob) << "greedy";
  }
}

TEST_F(EngineTest, EndsRepliesAtTheirEndIdsAndLengths) {
  open("Llama");
  GenerationRequest request = request_of(some_ids(7, 3), 20);
  const Ids full = alone(request);
  ASSERT_EQ(full.size(), 20U);
  const auto end = std::ranges::find_if(full.begin() + 3, full.end(), [&](std::int32_t id) {
    return std::ranges::find(full.begin(), full.begin() + 3, id) == full.begin() + 3;
  });
  ASSERT_NE(end, full.end());
  request.end_ids = {*end};
  Engine engine(model(), config());
  const RequestId stopped = engine.submit(request);
  const RequestId none = engine.submit(request_of(some_ids(7, 3), 0));
  const RequestId cut = engine.submit(request_of(some_ids(100, 3), 1000));
  std::map<RequestId, Result> results = run(engine);
  EXPECT_EQ(results[stopped].ids, Ids(full.begin(), std::ranges::find(full, *end)));
  EXPECT_EQ(results[stopped].reason, FinishReason::stop);
  EXPECT_EQ(results[none].ids, Ids());
  EXPECT_EQ(results[none].reason, FinishReason::length);
  EXPECT_EQ(results[cut].ids.size(), static_cast<std::size_t>(kPositions - 100));
  EXPECT_EQ(results[cut].reason, FinishReason::length);
}

TEST_F(EngineTest, CancelsWaitingAndRunningRequestsWithoutTouchingOthers) {
  open("Llama");
  Engine engine(model(), config(2));
  const GenerationRequest kept = request_of(some_ids(10, 1), 30);
  const RequestId first = engine.submit(kept);
  const RequestId running = engine.submit(request_of(some_ids(12, 2), 30));
  const RequestId waiting = engine.submit(request_of(some_ids(12, 3), 30));
  std::map<RequestId, Result> results;
  for (int i = 0; i < 5; ++i) add(results, engine.step());
  engine.cancel(running);
  engine.cancel(waiting);
  engine.cancel(12345);  // unknown
  for (auto& [id, result] : run(engine)) {
    Result& all = results[id];
    all.ids.insert(all.ids.end(), result.ids.begin(), result.ids.end());
    all.reason = result.reason;
  }
  EXPECT_EQ(results[running].reason, FinishReason::cancelled);
  EXPECT_LT(results[running].ids.size(), 30U);
  EXPECT_EQ(results[waiting].reason, FinishReason::cancelled);
  EXPECT_EQ(results[waiting].ids, Ids());
  EXPECT_EQ(results[first].ids, alone(kept));
}

// Adapters of different ranks, targets and scales.
class EngineWithAdapters : public EngineTest {
 protected:
  void SetUp() override {
    open("Llama");
    add("small", 2, {"q_proj", "v_proj"}, 1);
    add("large", 7, {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
        2);
    add("down", 4, {"down_proj"}, 3);
    add("ends", 3, {"embed_tokens", "lm_head", "q_proj"}, 4);
  }
  void add(const std::string& name, std::int64_t rank, const std::vector<std::string>& targets,
           std::uint64_t seed) {
    const AdapterConfig config{.rank = rank, .alpha = 24, .target_modules = targets};
    Adapter& adapter = adapters_
                           .try_emplace(name, model().context(),
                                        select_sites(model().config(), targets, 0), config)
                           .first->second;
    adapter.initialise(seed);
    std::vector<float> values = model().context().read<float>(adapter.parameters());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == 0) values[i] = static_cast<float>((i * 37 + seed * 11) % 19) / 90.0F - 0.1F;
    }
    model().context().write(adapter.parameters(), std::as_bytes(std::span(values)));
  }
  EngineConfig with_adapters(std::int64_t slots) {
    EngineConfig c = config(4);
    c.device_adapters = slots;
    c.max_rank = 12;
    return c;
  }
  void add_all(Engine& engine) {
    for (const auto& [name, adapter] : adapters_) engine.add_adapter(name, adapter);
  }

  std::map<std::string, Adapter> adapters_;
};

TEST_F(EngineWithAdapters, RepliesAsEachAdapterAlone) {
  for (const std::int64_t slots : {1, 3}) {
    Engine engine(model(), with_adapters(slots));
    add_all(engine);
    std::map<RequestId, std::pair<GenerationRequest, std::string>> requests;
    for (const std::size_t length : {6, 20, 40, 9, 6, 31, 18}) {
      const std::array<std::string, 5> names{"small", "ends", "large", "down", ""};
      const std::string& name = names[requests.size() % names.size()];
      GenerationRequest request = request_of(some_ids(length, requests.size() + 2));
      if (!name.empty()) request.adapters = {{name}};
      requests[engine.submit(request)] = {request, name};
    }
    const std::map<RequestId, Result> results = run(engine);
    for (const auto& [id, request] : requests) {
      const auto adapter = adapters_.find(request.second);
      EXPECT_EQ(results.at(id).ids,
                alone(request.first, adapter == adapters_.end() ? nullptr : &adapter->second))
          << slots << " slots, request " << id << " " << request.second;
    }
  }
}

TEST_F(EngineWithAdapters, AddsTheTermsOfTwoAndScalesThem) {
  Engine engine(model(), with_adapters(2));
  add_all(engine);
  GenerationRequest plain = request_of(some_ids(12, 4)), both = plain, off = plain, one = plain;
  both.adapters = {{"small"}, {"down", 0.5}};
  off.adapters = {{"large", 0.0}};
  one.adapters = {{"small"}};
  const RequestId of_both = engine.submit(both), of_off = engine.submit(off),
                  of_one = engine.submit(one);
  std::map<RequestId, Result> results = run(engine);
  EXPECT_EQ(results[of_off].ids, alone(plain));
  EXPECT_EQ(results[of_one].ids, alone(plain, &adapters_.at("small")));
  EXPECT_NE(results[of_both].ids, results[of_one].ids);
  EXPECT_EQ(results[of_both].error, "");
}

TEST_F(EngineWithAdapters, SharesAPrefixOnlyWithTheSameAdapter) {
  Engine engine(model(), with_adapters(3));
  add_all(engine);
  const auto cached = [&](std::vector<AdapterUse> adapters) {
    GenerationRequest request = request_of(some_ids(40, 4), 2);
    request.adapters = std::move(adapters);
    engine.submit(request);
    return run(engine).begin()->second.cached_tokens;
  };
  EXPECT_EQ(cached({}), 0);
  EXPECT_EQ(cached({}), 32);
  EXPECT_EQ(cached({{"small"}}), 0);
  EXPECT_EQ(cached({{"small"}}), 32);
  EXPECT_EQ(cached({{"small", 0.5}}), 0);
  EXPECT_EQ(cached({{"large"}}), 0);
  engine.add_adapter("small", adapters_.at("down"));  // other contents by that name
  EXPECT_EQ(cached({{"small"}}), 0);
}

TEST_F(EngineWithAdapters, LetsRequestsGoOnWithAnAdapterThatIsRemoved) {
  Engine engine(model(), with_adapters(2));
  add_all(engine);
  GenerationRequest request = request_of(some_ids(12, 4));
  request.adapters = {{"large"}};
  const RequestId id = engine.submit(request);
  engine.remove_adapter("large");
  EXPECT_EQ(run(engine)[id].ids, alone(request, &adapters_.at("large")));
  EXPECT_THAT(test::error_of([&] { engine.submit(request); }), HasSubstr("large"));
}

TEST_F(EngineTest, RefusesRequestsByTheFieldThatIsWrong) {
  open("Llama");
  Engine engine(model(), config());
  const auto error = [&](auto change) {
    GenerationRequest request = request_of({1, 2, 3});
    change(request);
    return test::error_of([&] { engine.submit(request); });
  };
  EXPECT_THAT(error([](auto& r) { r.prompt.clear(); }), HasSubstr("the prompt must have"));
  EXPECT_THAT(error([](auto& r) { r.prompt = {1, -1}; }), HasSubstr("prompt ids must be in [0, "));
  EXPECT_THAT(error([](auto& r) { r.prompt.resize(kPositions); }),
              HasSubstr("shorter than the 128"));
  EXPECT_THAT(error([](auto& r) { r.max_tokens = -1; }), HasSubstr("max_tokens must be 0"));
  EXPECT_THAT(error([](auto& r) { r.sampling.temperature = -1; }),
              HasSubstr("temperature must be"));
  EXPECT_THAT(error([](auto& r) { r.sampling.top_p = 1.5; }), HasSubstr("top_p must be 0 to 1"));
  EXPECT_THAT(error([](auto& r) { r.sampling.repetition_penalty = 0; }),
              HasSubstr("repetition_penalty must be above 0"));
  EXPECT_THAT(error([](auto& r) {
                r.sampling.logit_bias = {{1000, 1.0F}};
              }),
              HasSubstr("logit_bias must have ids in [0, "));
  EXPECT_THAT(error([](auto& r) { r.sampling.top_logprobs = 33; }), HasSubstr("top_logprobs must"));
  EXPECT_THAT(error([](auto& r) { r.stop_texts = {"x"}; }), HasSubstr("require an engine with a"));
  EXPECT_THAT(error([](auto& r) { r.adapters = {{"none"}}; }), HasSubstr("none"));
  EXPECT_THAT(error([](auto& r) { r.draft_tokens = 17; }), HasSubstr("draft_tokens must be 0"));
  EXPECT_TRUE(engine.is_idle());
}

TEST_F(EngineTest, SaysHowLongARequestHasWaited) {
  open("Llama");
  Engine engine(model(), config(1));
  const auto begin = std::chrono::steady_clock::now();
  const RequestId first = engine.submit(request_of(some_ids(10, 1)));
  const RequestId second = engine.submit(request_of(some_ids(10, 2)));
  std::map<RequestId, double> waited;
  while (!engine.is_idle()) {
    for (const GenerationEvent& event : engine.step()) {
      if (event.finish_reason) waited[event.request] = event.queue_seconds;
    }
  }
  EXPECT_GT(waited[first], 0);
  EXPECT_GT(waited[second], waited[first]) << "until the first one ended";
  EXPECT_LT(waited[second], seconds_since(begin));
}

TEST_F(EngineTest, RefusesAConfigurationThatCannotRun) {
  open("Llama");
  EngineConfig few = config(8);
  few.step_tokens = 4;
  EXPECT_THAT(test::error_of([&] { Engine(model(), few); }), HasSubstr("at least max_sequences"));
}

}  // namespace
}  // namespace clora

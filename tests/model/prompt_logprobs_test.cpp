// Log-probabilities of prompts, compared with the logits after each prefix.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "clora/model/generation/engine.hpp"
#include "model/generation/step_layout.hpp"
#include "tests/support/engine_fixture.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/poisoned_file.hpp"
#include "tests/support/scheduled_step.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

using Ids = std::vector<std::int32_t>;
using testing::HasSubstr;

constexpr double kBound = 1e-4;

Ids some_ids(std::size_t count, std::size_t seed) {
  Ids ids;
  for (std::size_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>((i * i + 5 * seed + 11 * i * seed + 2) % 61));
  }
  return ids;
}

struct Result {
  std::vector<GeneratedToken> prompt;
  Ids reply;
  GenerationEvent last;
};

void step(Engine& engine, std::map<RequestId, Result>& results) {
  for (const GenerationEvent& event : engine.step()) {
    Result& result = results[event.request];
    EXPECT_TRUE(event.prompt_logprobs.empty() || result.reply.empty()) << "before the reply";
    result.prompt.insert(result.prompt.end(), event.prompt_logprobs.begin(),
                         event.prompt_logprobs.end());
    for (const GeneratedToken& token : event.tokens) result.reply.push_back(token.id);
    result.last = event;
  }
}

std::map<RequestId, Result> run(Engine& engine) {
  std::map<RequestId, Result> results;
  while (!engine.is_idle()) step(engine, results);
  return results;
}

std::vector<double> log_softmax(const std::vector<float>& logits) {
  double sum = 0;
  for (const float z : logits) sum += std::exp(static_cast<double>(z));
  std::vector<double> result;
  for (const float z : logits) result.push_back(static_cast<double>(z) - std::log(sum));
  return result;
}

class PromptLogprobs : public test::EngineFixture {
 protected:
  static GenerationRequest measured(Ids prompt, std::int64_t alternatives,
                                    std::int64_t max_tokens = 0) {
    return {.prompt = std::move(prompt), .max_tokens = max_tokens, .prompt_logprobs = alternatives};
  }
  // All tokens of the prompt but the first.
  void expect_measured(const Result& result, const GenerationRequest& request) {
    EXPECT_EQ(result.last.error, "");
    ASSERT_EQ(result.prompt.size() + 1, request.prompt.size());
    Engine engine(model(), config(1));
    for (std::size_t i = 1; i < request.prompt.size(); ++i) {
      const GeneratedToken& token = result.prompt[i - 1];
      const auto want = log_softmax(engine.logits(std::span(request.prompt).first(i)));
      ASSERT_EQ(token.id, request.prompt[i]);
      EXPECT_NEAR(token.logprob, want[static_cast<std::size_t>(token.id)], kBound) << i;
      ASSERT_EQ(std::ssize(token.top_logprobs), request.prompt_logprobs);
      auto sorted = want;
      std::ranges::sort(sorted, std::greater());
      for (std::size_t k = 0; k < token.top_logprobs.size(); ++k) {
        EXPECT_NEAR(token.top_logprobs[k].logprob, sorted[k], kBound);
        EXPECT_NEAR(want[static_cast<std::size_t>(token.top_logprobs[k].id)], sorted[k], kBound);
      }
    }
  }
  Ids alone(GenerationRequest request) {
    request.prompt_logprobs = -1;
    Engine engine(model(), config(1));
    engine.submit(std::move(request));
    return run(engine).begin()->second.reply;
  }
};

class PromptLogprobsOfFamily : public PromptLogprobs {};
INSTANTIATE_TEST_SUITE_P(Families, PromptLogprobsOfFamily,
                         testing::Values("Llama", "Gemma2", "Qwen3Moe", "Lfm2"),
                         [](const auto& family) { return family.param; });

TEST_P(PromptLogprobsOfFamily, AreThoseAfterEachPrefixBesideOtherRequests) {
  for (const Variant variant : {Variant::automatic, Variant::portable}) {
    open(GetParam(), variant);
    std::vector<GenerationRequest> requests;
    for (const std::size_t length : {9, 1, 40, 2, 21, 70}) {
      const auto i = static_cast<std::int64_t>(requests.size());
      requests.push_back(measured(some_ids(length, requests.size() + 1), i % 4, i % 3 * 4));
    }
    requests[0].max_tokens = 7;
    requests[0].sampling = {.temperature = 1, .repetition_penalty = 1.2, .seed = 3};
    requests[2].prompt_logprobs = -1;
    requests[2].max_tokens = 20;
    Engine engine(model(), config());
    std::vector<RequestId> ids;
    for (const GenerationRequest& request : requests) ids.push_back(engine.submit(request));
    std::map<RequestId, Result> results = run(engine);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Result& result = results[ids[i]];
      EXPECT_EQ(result.reply, alone(requests[i])) << "request " << i;
      EXPECT_EQ(result.last.finish_reason, FinishReason::length);
      EXPECT_EQ(result.last.prompt_tokens, std::ssize(requests[i].prompt));
      if (requests[i].prompt_logprobs >= 0) expect_measured(result, requests[i]);
    }
    EXPECT_TRUE(results[ids[2]].prompt.empty());
    EXPECT_EQ(engine.statistics().used_pages, 0);
  }
}

TEST_F(PromptLogprobs, AreComputedThoughThePrefixIsCachedAndLeaveItInTheCache) {
  open("Llama");
  Engine engine(model(), config());
  const GenerationRequest request = measured(some_ids(50, 2), 1, 3);
  for (int i = 0; i < 2; ++i) {
    engine.submit(request);
    const Result result = run(engine).begin()->second;
    EXPECT_EQ(result.last.cached_tokens, 0);
    expect_measured(result, request);
  }
  GenerationRequest plain = request;
  plain.prompt_logprobs = -1;
  engine.submit(plain);
  EXPECT_EQ(run(engine).begin()->second.last.cached_tokens, 48);
}

TEST_F(PromptLogprobs, AreReportedOnceThoughTheRequestGivesItsPagesBackMeanwhile) {
  open("Llama");
  EngineConfig small = config(3);
  small.cache_positions = 128;
  Engine engine(model(), small);
  GenerationRequest first{.prompt = some_ids(30, 1), .max_tokens = 80}, second = first;
  second.prompt = some_ids(22, 2);
  const GenerationRequest last = measured(some_ids(60, 3), 2, 4);
  engine.submit(first);
  engine.submit(second);
  const RequestId id = engine.submit(last);
  std::map<RequestId, Result> results;
  while (engine.statistics().preemptions == 0) step(engine, results);
  EXPECT_GT(results[id].prompt.size(), 8U);
  EXPECT_LT(results[id].prompt.size(), 59U) << "interrupted between two of its tokens";
  while (!engine.is_idle()) step(engine, results);
  const Result& result = results[id];
  expect_measured(result, last);
  EXPECT_EQ(result.reply, alone(last));
}

TEST_F(PromptLogprobs, AreThoseOfTheRequestsAdapter) {
  open("Llama");
  const AdapterConfig options{.rank = 4, .alpha = 16, .target_modules = {"q_proj", "down_proj"}};
  Adapter adapter(model().context(), select_sites(model().config(), options.target_modules, 0),
                  options);
  adapter.initialise(1);
  std::vector<float> values = model().context().read<float>(adapter.parameters());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 0) values[i] = static_cast<float>(i * 37 % 19) / 90.0F - 0.1F;
  }
  model().context().write(adapter.parameters(), std::as_bytes(std::span(values)));
  EngineConfig with_adapters = config();
  with_adapters.device_adapters = 1;
  with_adapters.max_rank = 4;
  Engine engine(model(), with_adapters);
  engine.add_adapter("own", adapter);
  GenerationRequest request = measured(some_ids(30, 4), 0), plain = request;
  request.adapters = {{"own"}};
  const RequestId id = engine.submit(request), plain_id = engine.submit(plain);
  std::map<RequestId, Result> results = run(engine);
  EngineConfig fixed = config(1);
  fixed.base_adapter = &adapter;
  Engine alone(model(), fixed);
  const RequestId alone_id = alone.submit(plain);
  const Result want = run(alone)[alone_id];
  ASSERT_EQ(results[id].prompt.size(), want.prompt.size());
  double difference = 0;
  for (std::size_t i = 0; i < want.prompt.size(); ++i) {
    EXPECT_NEAR(results[id].prompt[i].logprob, want.prompt[i].logprob, kBound);
    difference += std::abs(results[plain_id].prompt[i].logprob - want.prompt[i].logprob);
  }
  EXPECT_GT(difference, 0.1) << "the adapter changes them";
  expect_measured(results[plain_id], plain);
}

TEST_F(PromptLogprobs, OfARequestThatIsCancelledDoNotConcernTheNextOne) {
  open("Llama");
  Engine engine(model(), config(1));
  const RequestId cancelled = engine.submit(measured(some_ids(90, 5), 1));
  const GenerationRequest next = measured(some_ids(12, 6), 1);
  const RequestId id = engine.submit(next);
  (void)engine.step();
  engine.cancel(cancelled);
  std::map<RequestId, Result> results = run(engine);
  EXPECT_EQ(results[cancelled].last.finish_reason, FinishReason::cancelled);
  expect_measured(results[id], next);
}

TEST_F(PromptLogprobs, NumberOfAlternativesIsLimited) {
  open("Llama");
  Engine engine(model(), config());
  for (const std::int64_t wrong : {-2, 33}) {
    EXPECT_THAT(test::error_of([&] {
                  engine.submit(measured({1, 2}, wrong));
                }),
                HasSubstr("prompt_logprobs must be -1 (off) to 32, got"));
  }
  EXPECT_TRUE(engine.is_idle());
}

TEST_F(PromptLogprobs, ThatAreNotFiniteAreAnErrorThatNamesTheWeight) {
  const auto folder = folder_ / "Llama";
  test::write_tiny_model(folder, test::tiny_config("Llama"));
  test::poison(folder / "model.safetensors", "lm_head.weight", std::nanf(""));
  open_.emplace(folder);
  Engine engine(model(), config());
  const RequestId id = engine.submit(measured(some_ids(12, 1), 1));
  const Result result = run(engine)[id];
  EXPECT_THAT(result.last.error, HasSubstr("a logit of the token at position 1 is not finite: the "
                                           "weight 'lm_head.weight' of '"));
  EXPECT_EQ(result.last.error_code, ErrorCode::invalid_file);
  EXPECT_TRUE(result.prompt.empty());
  EXPECT_EQ(engine.statistics().used_pages, 0);
}

// Without a device: which rows of a step have logits.
class MeasuredPrompts : public testing::Test {
 protected:
  // The prompts have different tokens unless they are given.
  Sequence& add(std::size_t prompt, std::int64_t prompt_logprobs, std::int64_t max_tokens = 10,
                std::int32_t token = 0) {
    auto sequence = std::make_unique<Sequence>();
    sequence->request.prompt.assign(prompt, token != 0 ? token : ++last_token_);
    sequence->request.max_tokens = max_tokens;
    sequence->request.prompt_logprobs = prompt_logprobs;
    sequence->tokens = sequence->request.prompt;
    return scheduler_.add(std::move(sequence));
  }
  StepPlan step() { return test::scheduled_step(scheduler_); }

  std::int32_t last_token_ = 10;
  PagePool pages_{100, 4};
  Scheduler scheduler_{{.max_sequences = 4, .max_positions = 64, .step_tokens = 40, .outputs = 6},
                       pages_};
};

TEST_F(MeasuredPrompts, HaveNoMoreOutputsThanDrawsLeave) {
  add(5, -1);
  add(30, 0);
  add(30, 0, 0);
  Sequence& other = add(20, -1);
  EXPECT_EQ(StepLayout(step(), {}).outputs().size(), 6U);
  EXPECT_EQ(other.computed, 20) << "the prompts before it leave most of the step";
  std::size_t measured = 0;
  for (int i = 0; i < 40; ++i) {
    const StepPlan plan = step();
    const StepLayout layout(plan, {});
    EXPECT_LE(layout.outputs().size(), 6U);
    measured += static_cast<std::size_t>(std::ranges::count_if(
        layout.outputs(), [](const OutputRow& output) { return !output.draws(); }));
  }
  EXPECT_EQ(measured, 58U - 4U) << "all but those of the first step";
}

TEST_F(MeasuredPrompts, NeitherWaitForAPrefixOfOthersNorLetOthersWaitForTheirs) {
  add(17, -1, 10, 7);
  const Sequence& measured = add(17, 0, 10, 7);
  step();
  EXPECT_TRUE(measured.is_running());
  const Sequence& other = add(25, -1, 10, 7);
  step();
  EXPECT_TRUE(measured.measures());
  EXPECT_TRUE(other.is_running());
}

TEST_F(MeasuredPrompts, OfNoReplyAreComputedWithoutTheirLastPosition) {
  Sequence& sequence = add(9, 0, 0);
  for (int i = 0; i < 4; ++i) step();
  EXPECT_EQ(sequence.computed, 8);
  EXPECT_EQ(sequence.pending, 0);
  EXPECT_TRUE(step().empty());
}

TEST_F(MeasuredPrompts, TakeOnlyThePagesBeforeTheFirstTokenThatIsNotMeasured) {
  Sequence& plain = add(20, -1, 1, 5);
  step();
  scheduler_.remove(plain);
  Sequence& sequence = add(20, 0, 10, 5);
  sequence.measured = 11;  // when it gave its pages back
  const StepPlan plan = step();
  ASSERT_EQ(plan.prompts.size(), 1U);
  EXPECT_EQ(plan.prompts[0].begin, 8);
  EXPECT_EQ(plan.prompts[0].measured_begin, 10);
  EXPECT_EQ(plan.prompts[0].count, 8) << "two positions, and six with outputs";
}

}  // namespace
}  // namespace clora

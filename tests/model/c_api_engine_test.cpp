// The engine of the C interface: requests that run together, their events, and calls that are
// refused. tests/c_api/every_function.c uses it as a C program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "model/c_api/clora.h"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_chat_model.hpp"

namespace clora {
namespace {

using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

void expect_ok(clora_status status) { EXPECT_EQ(status, CLORA_OK) << clora_last_error(); }

void expect_error(clora_status got, clora_status want, const std::string& part) {
  EXPECT_EQ(got, want) << clora_last_error();
  EXPECT_THAT(clora_last_error(), HasSubstr(part));
}

// What the events of a request had.
struct Reply {
  Ids ids = {};
  std::string text = {};
  std::vector<double> logprobs = {};
  std::vector<std::int32_t> likeliest = {};  // the first of two alternatives of each token
  Ids prompt_ids = {};                       // from the second one on
  std::vector<double> prompt_logprobs = {};
  std::vector<clora_token_logprob> prompt_top_logprobs = {};  // two of each token
  int last_events = 0;
  clora_event last = {};  // without its arrays
  std::string error = {};
};

using Replies = std::map<std::uint64_t, Reply>;

void add(Replies& replies, const clora_event& event) {
  Reply& reply = replies[event.request];
  EXPECT_EQ(reply.last_events, 0) << "an event after the last one";
  for (std::size_t i = 0; i < event.id_count; ++i) {
    reply.ids.push_back(event.ids[i]);
    reply.logprobs.push_back(event.logprobs[i]);
    if (event.top_logprobs != nullptr) reply.likeliest.push_back(event.top_logprobs[i * 2].id);
  }
  for (std::size_t i = 0; i < event.prompt_id_count; ++i) {
    EXPECT_EQ(reply.ids.size(), event.id_count) << "the prompt comes before the reply";
    reply.prompt_ids.push_back(event.prompt_ids[i]);
    reply.prompt_logprobs.push_back(event.prompt_logprobs[i]);
    if (event.prompt_top_logprobs == nullptr) continue;
    const clora_token_logprob* const likeliest = event.prompt_top_logprobs + i * 2;
    reply.prompt_top_logprobs.insert(reply.prompt_top_logprobs.end(), {likeliest[0], likeliest[1]});
  }
  reply.text += std::string(event.text, event.text_bytes);
  if (event.kind == CLORA_EVENT_TOKENS) return;
  ++reply.last_events;
  reply.last = event;
  if (event.error != nullptr) reply.error = event.error;
}

class CApiEngine : public testing::Test {
 protected:
  CApiEngine() {
    test::write_tiny_chat_model(folder_ / "model");
    clora_context_options options = clora_context_options_init();
    options.device = std::getenv("CLORA_DEVICE");
    expect_ok(clora_context_create(&options, &context_));
    expect_ok(clora_model_load(context_, path().c_str(), nullptr, &model_));
    expect_ok(clora_tokenizer_load(path().c_str(), &tokenizer_));
  }
  ~CApiEngine() override {
    clora_engine_release(engine_);
    for (clora_adapter* adapter : adapters_) clora_adapter_release(adapter);
    clora_tokenizer_release(tokenizer_);
    clora_model_release(model_);
    clora_context_release(context_);
  }

  std::string path() const { return folder_ / "model"; }
  clora_engine_options options() const {
    clora_engine_options options = clora_engine_options_init();
    options.max_positions = 96;
    options.tokenizer = tokenizer_;
    return options;
  }
  void open(const clora_engine_options& options) {
    expect_ok(clora_engine_create(model_, &options, &engine_));
  }
  // Trained to repeat a token.
  clora_adapter* trained_adapter(std::int32_t token) {
    clora_adapter_options options = clora_adapter_options_init();
    options.seed = 1;
    clora_adapter* adapter = nullptr;
    clora_trainer* trainer = nullptr;
    expect_ok(clora_adapter_create(model_, &options, &adapter));
    adapters_.push_back(adapter);
    expect_ok(clora_trainer_create(adapter, nullptr, &trainer));
    const Ids ids{72, 5, 61, 30, 9, token, token, token, token};
    clora_train_batch batch = clora_train_batch_init();
    batch.ids = ids.data();
    batch.id_count = ids.size();
    for (int step = 0; step < 5; ++step) {
      expect_ok(clora_trainer_step(trainer, &batch, 0.1, nullptr));
    }
    clora_trainer_release(trainer);
    return adapter;
  }
  clora_request request() const {
    clora_request request = clora_request_init();
    request.prompt = prompt_.data();
    request.prompt_count = prompt_.size();
    request.max_tokens = 10;
    request.ignore_end = 1;
    return request;
  }
  std::uint64_t submit(const clora_request& request) {
    std::uint64_t id = 0;
    expect_ok(clora_engine_submit(engine_, &request, &id));
    EXPECT_GT(id, 0U);
    return id;
  }
  void take_events(Replies& replies) {
    clora_event event = clora_event_init();
    for (;;) {
      expect_ok(clora_engine_poll(engine_, &event));
      if (event.kind == CLORA_EVENT_NONE) return;
      add(replies, event);
    }
  }
  Replies run() {
    Replies replies;
    for (std::int32_t idle = 0; idle == 0 && !HasFailure();) {
      expect_ok(clora_engine_step(engine_, &idle));
      take_events(replies);
    }
    return replies;
  }
  Reply reply_to(const clora_request& request) {
    const std::uint64_t id = submit(request);
    return run()[id];
  }
  std::string decoded(const Ids& ids) {
    clora_decoder* decoder = nullptr;
    expect_ok(clora_decoder_create(tokenizer_, 0, &decoder));
    std::string text;
    const char* piece = nullptr;
    for (const std::int32_t id : ids) {
      expect_ok(clora_decoder_push(decoder, id, &piece));
      text += piece;
    }
    expect_ok(clora_decoder_finish(decoder, &piece));
    text += piece;
    clora_decoder_release(decoder);
    return text;
  }
  // The greedy reply of a session.
  Ids reply_of_session(clora_adapter* adapter) {
    clora_session* session = nullptr;
    expect_ok(clora_session_create(model_, nullptr, &session));
    if (adapter != nullptr) expect_ok(clora_session_attach(session, adapter));
    clora_generation_options options = clora_generation_options_init();
    options.ignore_end = 1;
    Ids ids(10);
    expect_ok(clora_generate(session, prompt_.data(), prompt_.size(), &options, ids.data(),
                             ids.size(), nullptr));
    clora_session_release(session);
    return ids;
  }
  void expect_refused(const clora_request& request, const std::string& part) {
    std::uint64_t id = 77;
    expect_error(clora_engine_submit(engine_, &request, &id), CLORA_INVALID_ARGUMENT, part);
    EXPECT_EQ(id, 77U);
  }

  const Ids prompt_{72, 5, 61, 30, 9};
  test::TemporaryFolder folder_;
  clora_context* context_ = nullptr;
  clora_model* model_ = nullptr;
  clora_tokenizer* tokenizer_ = nullptr;
  clora_engine* engine_ = nullptr;
  std::vector<clora_adapter*> adapters_;
};

// ---- Replies

TEST_F(CApiEngine, RequestsWithDifferentAdaptersRunInTheSameSteps) {
  clora_engine_options two = options();
  two.device_adapters = 2;
  open(two);
  const std::array<clora_adapter*, 3> adapters{nullptr, trained_adapter(33), trained_adapter(44)};
  expect_ok(clora_engine_add_adapter(engine_, "one", adapters[1]));
  expect_ok(clora_engine_add_adapter(engine_, "two", adapters[2]));
  const std::array<clora_adapter_use, 2> uses{{{"one", 0}, {"two", 1}}};
  std::array<std::uint64_t, 3> ids{};
  for (std::size_t i = 0; i < 3; ++i) {
    clora_request own = request();
    own.adapters = i == 0 ? nullptr : &uses.at(i - 1);
    own.adapter_count = i == 0 ? 0 : 1;
    ids.at(i) = submit(own);
  }
  Replies replies = run();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(replies[ids.at(i)].ids, reply_of_session(adapters.at(i))) << i;
    EXPECT_EQ(replies[ids.at(i)].last.kind, CLORA_EVENT_FINISHED);
    EXPECT_EQ(replies[ids.at(i)].last.finish_reason, CLORA_FINISH_LENGTH);
    EXPECT_EQ(replies[ids.at(i)].last.generated_tokens, 10);
    EXPECT_EQ(replies[ids.at(i)].last.prompt_tokens, 5);
  }
  EXPECT_NE(replies[ids[0]].ids, replies[ids[1]].ids);
  EXPECT_NE(replies[ids[1]].ids, replies[ids[2]].ids);
  clora_engine_statistics statistics = clora_engine_statistics_init();
  expect_ok(clora_engine_get_statistics(engine_, &statistics));
  EXPECT_LE(statistics.steps, 11U);
}

TEST_F(CApiEngine, TheTermsOfTwoAdaptersAreAddedWithTheirScales) {
  clora_engine_options one = options();
  one.device_adapters = 1;
  open(one);
  clora_adapter* const adapter = trained_adapter(33);
  expect_ok(clora_engine_add_adapter(engine_, "a", adapter));
  expect_ok(clora_engine_add_adapter(engine_, "b", adapter));
  const std::array<clora_adapter_use, 2> cancelling{{{"a", 2}, {"b", -2}}};
  clora_request both = request();
  both.adapters = cancelling.data();
  both.adapter_count = 2;
  EXPECT_EQ(reply_to(both).ids, reply_of_session(nullptr));
}

TEST_F(CApiEngine, TheBaseAdapterIsPartOfEveryRequest) {
  clora_adapter* const adapter = trained_adapter(33);
  clora_engine_options with = options();
  with.base_adapter = adapter;
  open(with);
  EXPECT_EQ(reply_to(request()).ids, reply_of_session(adapter));
}

TEST_F(CApiEngine, TextAndProbabilitiesComeWithTheTokens) {
  open(options());
  clora_request asked = request();
  asked.logprobs = 1;
  asked.top_logprobs = 2;
  const Reply reply = reply_to(asked);
  EXPECT_EQ(reply.likeliest, reply.ids);  // greedy
  for (const double logprob : reply.logprobs) {
    EXPECT_LT(logprob, 0);
    EXPECT_TRUE(std::isfinite(logprob));
  }
  EXPECT_EQ(reply.text, decoded(reply.ids));
}

// The log-softmax of the logits of each position but the last, by clora_forward().
std::vector<std::vector<double>> log_softmax_of(clora_model* model, const Ids& ids) {
  clora_session* session = nullptr;
  clora_model_info info = clora_model_info_init();
  expect_ok(clora_model_get_info(model, &info));
  expect_ok(clora_session_create(model, nullptr, &session));
  const auto width = static_cast<std::size_t>(info.vocabulary);
  std::vector<float> logits(ids.size() * width);
  expect_ok(clora_forward(session, ids.data(), ids.size(), CLORA_LOGITS_ALL, logits.data(),
                          logits.size()));
  clora_session_release(session);
  std::vector<std::vector<double>> rows;
  for (std::size_t t = 0; t + 1 < ids.size(); ++t) {
    rows.emplace_back(logits.begin() + static_cast<std::ptrdiff_t>(t * width),
                      logits.begin() + static_cast<std::ptrdiff_t>((t + 1) * width));
    double sum = 0;
    for (const double z : rows.back()) sum += std::exp(z);
    for (double& z : rows.back()) z -= std::log(sum);
  }
  return rows;
}

TEST_F(CApiEngine, ProbabilitiesOfThePromptAreThoseOfItsForward) {
  open(options());
  const auto want = log_softmax_of(model_, prompt_);
  clora_request measured = request();
  measured.prompt_logprobs = 1;
  measured.prompt_top_logprobs = 2;
  const Reply reply = reply_to(measured);
  EXPECT_EQ(reply.ids, reply_of_session(nullptr));
  ASSERT_EQ(reply.prompt_ids, Ids(prompt_.begin() + 1, prompt_.end()));
  ASSERT_EQ(reply.prompt_top_logprobs.size(), 2 * want.size());
  for (std::size_t t = 0; t < want.size(); ++t) {
    const auto logprob = [&](std::int32_t id) { return want[t].at(static_cast<std::size_t>(id)); };
    EXPECT_NEAR(reply.prompt_logprobs[t], logprob(prompt_[t + 1]), 1e-4) << t;
    const auto [first, second] =
        std::pair(reply.prompt_top_logprobs[2 * t], reply.prompt_top_logprobs[2 * t + 1]);
    EXPECT_NEAR(first.logprob, *std::ranges::max_element(want[t]), 1e-4) << t;
    EXPECT_NEAR(second.logprob, logprob(second.id), 1e-4) << t;
    EXPECT_GE(first.logprob, second.logprob) << t;
  }
  measured.prompt_top_logprobs = 0;
  measured.prompt_only = 1;
  measured.max_tokens = 0;
  const Reply only = reply_to(measured);
  EXPECT_EQ(only.ids, Ids());
  EXPECT_EQ(only.last.finish_reason, CLORA_FINISH_LENGTH);
  EXPECT_EQ(only.prompt_logprobs, reply.prompt_logprobs);
  EXPECT_EQ(only.prompt_top_logprobs.size(), 0U);
  EXPECT_EQ(reply_to(request()).prompt_ids, Ids()) << "not requested";
}

TEST_F(CApiEngine, ARequestThatWaitsHasItsTimeInTheQueue) {
  clora_engine_options one = options();
  one.max_sequences = 1;
  open(one);
  const std::uint64_t first = submit(request()), second = submit(request());
  Replies replies = run();
  EXPECT_GE(replies[first].last.queue_seconds, 0);
  EXPECT_GT(replies[second].last.queue_seconds, replies[first].last.queue_seconds);
  clora_engine_statistics statistics = clora_engine_statistics_init();
  expect_ok(clora_engine_get_statistics(engine_, &statistics));
  EXPECT_GT(statistics.memory_bytes, 0U);
}

TEST_F(CApiEngine, SamplingFieldsReachTheSampler) {
  open(options());
  const Ids greedy = reply_to(request()).ids;
  clora_request biased = request();
  const clora_logit_bias never{greedy[0], -INFINITY};
  biased.logit_biases = &never;
  biased.logit_bias_count = 1;
  const Ids without = reply_to(biased).ids;
  EXPECT_THAT(without, testing::Not(testing::Contains(greedy[0])));
  clora_request drawn = request();
  drawn.temperature = 3;
  drawn.seed = 1;
  const Ids first = reply_to(drawn).ids;
  EXPECT_EQ(reply_to(drawn).ids, first);
  drawn.seed = 2;
  EXPECT_NE(reply_to(drawn).ids, first);
  drawn.top_k = 1;
  EXPECT_EQ(reply_to(drawn).ids, greedy);
  drawn.top_k = 0;
  drawn.top_p = 1e-6;
  EXPECT_EQ(reply_to(drawn).ids, greedy);
  drawn.top_p = 0;
  drawn.min_p = 1;
  EXPECT_EQ(reply_to(drawn).ids, greedy);
}

// Every token of a reply is another one if those of the reply are penalised enough.
TEST_F(CApiEngine, PenaltiesReachTheSampler) {
  open(options());
  const auto distinct = [&](double clora_request::*field, double value) {
    clora_request penalised = request();
    penalised.max_tokens = 60;
    penalised.*field = value;
    const Ids ids = reply_to(penalised).ids;
    return std::set<std::int32_t>(ids.begin(), ids.end()).size();
  };
  EXPECT_LT(distinct(&clora_request::temperature, 0), 60U);
  EXPECT_EQ(distinct(&clora_request::presence_penalty, 100), 60U);
  EXPECT_EQ(distinct(&clora_request::frequency_penalty, 100), 60U);
  EXPECT_EQ(distinct(&clora_request::repetition_penalty, 1000), 60U);
}

TEST_F(CApiEngine, ATypicalReplyIsNotTheGreedyOne) {
  open(options());
  clora_request drawn = request();
  drawn.temperature = 1;
  drawn.seed = 4;
  const Ids all = reply_to(drawn).ids;
  drawn.typical_p = 0.01;
  EXPECT_NE(reply_to(drawn).ids, all);
}

TEST_F(CApiEngine, AReplyEndsAtItsEndIdsAndStopTexts) {
  open(options());
  const Reply whole = reply_to(request());
  clora_request ending = request();
  ending.ignore_end = 0;
  ending.end_ids = &whole.ids[4];
  ending.end_id_count = 1;
  const auto first = std::ranges::find(whole.ids, whole.ids[4]);
  EXPECT_EQ(reply_to(ending).ids, Ids(whole.ids.begin(), first));
  EXPECT_EQ(reply_to(ending).last.finish_reason, CLORA_FINISH_STOP);
  const std::string stop = whole.text.substr(0, 1);
  const std::array<const char*, 2> stops{"no such text", stop.c_str()};
  clora_request stopping = request();
  stopping.stop_texts = stops.data();
  stopping.stop_text_count = 2;
  const Reply stopped = reply_to(stopping);
  EXPECT_EQ(stopped.text, "");
  EXPECT_EQ(stopped.last.finish_reason, CLORA_FINISH_STOP);
}

TEST_F(CApiEngine, ARequestWithoutEndIdsHasThoseOfTheTokenizer) {
  open(options());
  std::int32_t end = 0;
  std::size_t count = 0;
  expect_ok(clora_tokenizer_end_ids(tokenizer_, &end, 1, &count));
  const clora_logit_bias always{end, 1000};
  clora_request ending = request();
  ending.ignore_end = 0;
  ending.logit_biases = &always;
  ending.logit_bias_count = 1;
  const Reply reply = reply_to(ending);
  EXPECT_EQ(reply.last.finish_reason, CLORA_FINISH_STOP);
  EXPECT_EQ(reply.ids, Ids());
}

TEST_F(CApiEngine, AReplyMatchesItsGrammar) {
  open(options());
  clora_request bound = request();
  bound.ignore_end = 0;
  bound.max_tokens = 80;
  bound.grammar_kind = CLORA_GRAMMAR_JSON_SCHEMA;
  bound.grammar = R"({"type": "object", "properties": {"yes": {"type": "boolean"}},
                      "required": ["yes"], "additionalProperties": false})";
  const auto object = nlohmann::json::parse(reply_to(bound).text);
  EXPECT_TRUE(object.at("yes").is_boolean());
  bound.grammar_kind = CLORA_GRAMMAR_GBNF;
  bound.grammar = R"(root ::= "abc" [0-9] [0-9])";
  EXPECT_THAT(reply_to(bound).text, testing::MatchesRegex("abc[0-9][0-9]"));
  bound.grammar_kind = CLORA_GRAMMAR_JSON_OBJECT;
  bound.grammar = nullptr;
  bound.max_tokens = 8;
  EXPECT_EQ(reply_to(bound).text.front(), '{');
}

TEST_F(CApiEngine, GuessedTokensChangeNoReply) {
  open(options());
  clora_request guessed = request();
  guessed.max_tokens = 60;
  const Ids want = reply_to(guessed).ids;
  guessed.draft_tokens = 4;
  EXPECT_EQ(reply_to(guessed).ids, want);
  clora_engine_statistics statistics = clora_engine_statistics_init();
  expect_ok(clora_engine_get_statistics(engine_, &statistics));
  EXPECT_GT(statistics.draft_tokens, 0U);
  EXPECT_LE(statistics.accepted_draft_tokens, statistics.draft_tokens);
}

TEST_F(CApiEngine, TheSameFirstTokensAreComputedOnceUnlessSharingIsOff) {
  const Ids prompt(40, 7);
  clora_request long_one = request();
  long_one.prompt = prompt.data();
  long_one.prompt_count = prompt.size();
  open(options());
  EXPECT_EQ(reply_to(long_one).last.cached_tokens, 0);
  EXPECT_EQ(reply_to(long_one).last.cached_tokens, 32);
  clora_engine_release(engine_);
  clora_engine_options off = options();
  off.no_prefix_sharing = 1;
  open(off);
  reply_to(long_one);
  EXPECT_EQ(reply_to(long_one).last.cached_tokens, 0);
}

TEST_F(CApiEngine, APrefixIsLoadedByAnotherEngineThatThenComputesOnlyWhatFollows) {
  const std::string file = folder_ / "prefix.safetensors";
  const Ids prompt(40, 7);
  clora_request long_one = request();
  long_one.prompt = prompt.data();
  long_one.prompt_count = prompt.size();
  open(options());
  const Ids before = reply_to(long_one).ids;
  clora_prefix prefix = clora_prefix_init();
  prefix.ids = prompt.data();
  prefix.id_count = prompt.size();
  std::size_t count = 0;
  expect_ok(clora_engine_save_prefix(engine_, file.c_str(), &prefix, &count));
  EXPECT_EQ(count, 32U);
  clora_engine_release(engine_);
  open(options());
  expect_ok(clora_engine_load_prefix(engine_, file.c_str(), nullptr, 0, nullptr));
  const Reply after = reply_to(long_one);
  EXPECT_EQ(after.last.cached_tokens, 32);
  EXPECT_EQ(after.ids, before);
  clora_engine_release(engine_);
  clora_engine_options narrow = options();
  narrow.kv_cache_type = "f16";
  open(narrow);
  expect_error(clora_engine_load_prefix(engine_, file.c_str(), nullptr, 0, &count),
               CLORA_INVALID_ARGUMENT, "type of the KV cache was f32 and is f16");
  EXPECT_EQ(reply_to(long_one).last.cached_tokens, 0);
}

TEST_F(CApiEngine, APrefixIsOfAnAdapterWithItsScale) {
  const std::string file = folder_ / "prefix.safetensors";
  const Ids prompt(20, 7);
  clora_engine_options with = options();
  with.device_adapters = 1;
  open(with);
  expect_ok(clora_engine_add_adapter(engine_, "x", trained_adapter(33)));
  const clora_adapter_use half{"x", 0.5}, whole{"x", 1};
  clora_request adapted = request();
  adapted.prompt = prompt.data();
  adapted.prompt_count = prompt.size();
  adapted.adapters = &half;
  adapted.adapter_count = 1;
  reply_to(adapted);
  clora_prefix prefix = clora_prefix_init();
  prefix.ids = prompt.data();
  prefix.id_count = prompt.size();
  expect_error(clora_engine_save_prefix(engine_, file.c_str(), &prefix, nullptr), CLORA_NOT_FOUND,
               "for the same adapters");
  prefix.adapters = &half;
  prefix.adapter_count = 1;
  expect_ok(clora_engine_save_prefix(engine_, file.c_str(), &prefix, nullptr));
  expect_ok(clora_engine_load_prefix(engine_, file.c_str(), &half, 1, nullptr));
  expect_error(clora_engine_load_prefix(engine_, file.c_str(), &whole, 1, nullptr),
               CLORA_INVALID_ARGUMENT, "adapters was");
}

TEST_F(CApiEngine, APrefixMustBeGiven) {
  open(options());
  clora_prefix prefix = clora_prefix_init();
  const auto save = [&](const char* path, const clora_prefix* given) {
    return clora_engine_save_prefix(engine_, path, given, nullptr);
  };
  expect_error(save(nullptr, &prefix), CLORA_INVALID_ARGUMENT, "path must not be NULL");
  expect_error(save("x", nullptr), CLORA_INVALID_ARGUMENT, "prefix must not be NULL");
  prefix.id_count = 1;
  expect_error(save("x", &prefix), CLORA_INVALID_ARGUMENT, "ids must not be NULL");
  prefix.id_count = 0;
  prefix.adapter_count = 1;
  expect_error(save("x", &prefix), CLORA_INVALID_ARGUMENT,
               "clora_engine_save_prefix: adapters must not be NULL");
  expect_error(clora_engine_load_prefix(engine_, nullptr, nullptr, 0, nullptr),
               CLORA_INVALID_ARGUMENT, "path must not be NULL");
  expect_error(clora_engine_load_prefix(nullptr, "x", nullptr, 0, nullptr), CLORA_INVALID_ARGUMENT,
               "engine must not be NULL");
}

// ---- The loop

TEST_F(CApiEngine, WithoutRequestsAStepReturnsAtOnceAndThereIsNoEvent) {
  open(options());
  std::int32_t idle = 0;
  expect_ok(clora_engine_step(engine_, &idle));
  EXPECT_EQ(idle, 1);
  expect_ok(clora_engine_step(engine_, nullptr));
  clora_event event = clora_event_init();
  event.kind = CLORA_EVENT_TOKENS;
  event.request = 5;
  expect_ok(clora_engine_poll(engine_, &event));
  EXPECT_EQ(event.kind, CLORA_EVENT_NONE);
  EXPECT_EQ(event.request, 0U);
}

TEST_F(CApiEngine, EventsWaitUntilTheyAreTaken) {
  open(options());
  const std::uint64_t id = submit(request());
  for (std::int32_t idle = 0; idle == 0;) expect_ok(clora_engine_step(engine_, &idle));
  Replies replies;
  take_events(replies);
  EXPECT_EQ(replies[id].ids, reply_of_session(nullptr));
  EXPECT_EQ(replies[id].last_events, 1);
}

TEST_F(CApiEngine, ACancelledRequestEndsAtTheNextStepAndOthersGoOn) {
  open(options());
  clora_request long_one = request();
  long_one.max_tokens = 80;
  const std::uint64_t cancelled = submit(long_one);
  const std::uint64_t other = submit(request());
  expect_ok(clora_engine_step(engine_, nullptr));
  expect_ok(clora_engine_step(engine_, nullptr));
  expect_ok(clora_engine_cancel(engine_, cancelled));
  expect_ok(clora_engine_cancel(engine_, 12345));
  Replies replies = run();
  EXPECT_EQ(replies[cancelled].last.finish_reason, CLORA_FINISH_CANCELLED);
  EXPECT_LT(replies[cancelled].ids.size(), 4U);
  EXPECT_EQ(replies[other].ids, reply_of_session(nullptr));
}

TEST_F(CApiEngine, OtherThreadsSubmitAndCancelWhileTheLoopRuns) {
  open(options());
  const Ids want = reply_of_session(nullptr);
  std::atomic<int> submitting{3};
  std::array<std::vector<std::uint64_t>, 3> kept;
  std::vector<std::thread> threads;
  for (std::vector<std::uint64_t>& own : kept) {
    threads.emplace_back([&] {
      for (int i = 0; i < 8; ++i) {
        own.push_back(submit(request()));
        expect_ok(clora_engine_cancel(engine_, submit(request())));
      }
      --submitting;
    });
  }
  Replies replies;
  for (std::int32_t idle = 0; idle == 0 || submitting > 0;) {
    const bool submitted_all = submitting == 0;
    expect_ok(clora_engine_step(engine_, &idle));
    take_events(replies);
    if (!submitted_all) idle = 0;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(replies.size(), 48U);
  for (const auto& own : kept) {
    for (const std::uint64_t id : own) EXPECT_EQ(replies[id].ids, want);
  }
}

TEST_F(CApiEngine, OneRequestFailsWithItsErrorAndOthersGoOn) {
  open(options());
  clora_model_info info = clora_model_info_init();
  expect_ok(clora_model_get_info(model_, &info));
  ASSERT_LE(info.vocabulary, 1024);
  std::vector<clora_logit_bias> none;
  for (std::int32_t id = 0; id < info.vocabulary; ++id) none.push_back({id, -INFINITY});
  clora_request failing = request();
  failing.logit_biases = none.data();
  failing.logit_bias_count = none.size();
  const std::uint64_t failed = submit(failing);
  const std::uint64_t other = submit(request());
  Replies replies = run();
  EXPECT_EQ(replies[failed].last.kind, CLORA_EVENT_FAILED);
  EXPECT_EQ(replies[failed].last.status, CLORA_INVALID_ARGUMENT);
  EXPECT_THAT(replies[failed].error, HasSubstr("biases and grammar allow no token"));
  EXPECT_EQ(replies[other].ids, reply_of_session(nullptr));
}

TEST_F(CApiEngine, TheContextCountsTheTokensOfItsEngines) {
  open(options());
  reply_to(request());
  clora_statistics statistics = clora_statistics_init();
  expect_ok(clora_context_get_statistics(context_, &statistics));
  EXPECT_EQ(statistics.prompt_tokens, prompt_.size());
  EXPECT_EQ(statistics.generated_tokens, 10U);
}

TEST_F(CApiEngine, AnEngineLivesOnWhenWhatItWasCreatedFromIsReleased) {
  const Ids want = reply_of_session(nullptr);
  clora_engine_options with = options();
  with.base_adapter = trained_adapter(33);
  with.device_adapters = 1;
  open(with);
  clora_adapter_release(std::exchange(adapters_.front(), nullptr));
  clora_tokenizer_release(std::exchange(tokenizer_, nullptr));
  clora_model_release(std::exchange(model_, nullptr));
  clora_context_release(std::exchange(context_, nullptr));
  const Reply reply = reply_to(request());
  EXPECT_EQ(reply.ids.size(), 10U);
  EXPECT_NE(reply.ids, want);
  EXPECT_NE(reply.text, "");
}

// ---- Refused

TEST_F(CApiEngine, RefusesOptionsThatDoNotFit) {
  clora_engine* engine = nullptr;
  const auto refused = [&](auto set, const std::string& part) {
    clora_engine_options wrong = options();
    set(wrong);
    expect_error(clora_engine_create(model_, &wrong, &engine), CLORA_INVALID_ARGUMENT, part);
    EXPECT_EQ(engine, nullptr);
  };
  refused([](auto& o) { o.max_positions = 257; }, "the model supports 256 positions");
  refused([](auto& o) { o.max_sequences = -1; }, "max_sequences must not be negative, got -1");
  refused([](auto& o) { o.device_adapters = -1; }, "device_adapters must not be negative");
  refused([](auto& o) { o.step_tokens = 3; }, "step_tokens must be at least max_sequences");
  refused([](auto& o) { o.kv_cache_type = "q4_0"; }, "bf16, f16 or q8_0, got 'q4_0'");
  clora_model* other = nullptr;
  expect_ok(clora_model_load(context_, path().c_str(), nullptr, &other));
  clora_adapter* foreign = nullptr;
  expect_ok(clora_adapter_create(other, nullptr, &foreign));
  refused([&](auto& o) { o.base_adapter = foreign; }, "must belong to the engine's model");
  open(options());
  expect_error(clora_engine_add_adapter(engine_, "x", foreign), CLORA_INVALID_ARGUMENT,
               "must belong to the engine's model");
  clora_adapter_release(foreign);
  clora_model_release(other);
}

TEST_F(CApiEngine, RefusesAdaptersThatItDoesNotHaveOrHold) {
  open(options());
  clora_adapter* const adapter = trained_adapter(33);
  expect_error(clora_engine_add_adapter(engine_, "x", adapter), CLORA_INVALID_ARGUMENT,
               "need at least one slot on the device");
  clora_engine_release(engine_);
  clora_engine_options small = options();
  small.device_adapters = 1;
  small.max_rank = 4;
  open(small);
  expect_error(clora_engine_add_adapter(engine_, "x", adapter), CLORA_INVALID_ARGUMENT,
               "ranks up to 4 are configured");
  expect_error(clora_engine_add_adapter(engine_, nullptr, adapter), CLORA_INVALID_ARGUMENT,
               "name must not be NULL");
  expect_error(clora_engine_add_adapter(engine_, "x", nullptr), CLORA_INVALID_ARGUMENT,
               "adapter must not be NULL");
  expect_error(clora_engine_remove_adapter(engine_, "x"), CLORA_INVALID_ARGUMENT, "'x'");
  const clora_adapter_use unknown{"x", 1};
  clora_request with = request();
  with.adapters = &unknown;
  with.adapter_count = 1;
  expect_refused(with, "there is none of the name 'x'");
}

TEST_F(CApiEngine, RefusesRequestsByTheirFields) {
  open(options());
  const auto refused = [&](auto set, const std::string& part) {
    clora_request wrong = request();
    set(wrong);
    expect_refused(wrong, part);
  };
  refused([](auto& r) { r.prompt = nullptr; }, "prompt must not be NULL");
  refused([](auto& r) { r.prompt_count = 0; }, "at least one token");
  refused([](auto& r) { r.max_tokens = -1; }, "max_tokens must be 0 or more");
  refused([](auto& r) { r.temperature = NAN; }, "temperature must be 0 or more");
  refused([](auto& r) { r.typical_p = 2; }, "typical_p must be 0 to 1");
  refused([](auto& r) { r.top_logprobs = 33; }, "top_logprobs must be 0 to 32");
  refused([](auto& r) { r.prompt_top_logprobs = 2; }, "prompt_top_logprobs requires prompt_log");
  refused([](auto& r) { r.prompt_logprobs = 1, r.prompt_top_logprobs = -1; }, "must not be neg");
  refused([](auto& r) { r.prompt_logprobs = 1, r.prompt_top_logprobs = 33; }, "(off) to 32, got");
  refused([](auto& r) { r.prompt_logprobs = 1, r.prompt_only = 1; }, "requires max_tokens 0");
  refused([](auto& r) { r.max_tokens = 0, r.prompt_only = 1; }, "and prompt_logprobs 1, got 0");
  refused([](auto& r) { r.draft_tokens = 17; }, "draft_tokens must be 0 (off) to 16");
  refused([](auto& r) { r.logit_bias_count = 1; }, "logit_biases must not be NULL");
  refused([](auto& r) { r.adapter_count = 1; }, "adapters must not be NULL");
  refused([](auto& r) { r.stop_text_count = 1; }, "stop_texts must not be NULL");
  const char* none = nullptr;
  refused([&](auto& r) { r.stop_texts = &none, r.stop_text_count = 1; }, "a stop text must not");
  const clora_adapter_use nameless{nullptr, 1};
  refused([&](auto& r) { r.adapters = &nameless, r.adapter_count = 1; }, "an adapter's name must");
  refused([&](auto& r) { r.ignore_end = 0, r.end_id_count = 1; }, "end_ids must not be NULL");
  refused([&](auto& r) { r.end_ids = prompt_.data(); }, "end_ids must be NULL with ignore_end");
  refused([](auto& r) { r.grammar_kind = 4; }, "grammar_kind must be a value");
  refused([](auto& r) { r.grammar_kind = CLORA_GRAMMAR_GBNF; }, "grammar must not be NULL");
  refused([](auto& r) { r.grammar = "root ::= \"a\""; }, "grammar must be NULL unless");
  refused([](auto& r) { r.grammar_kind = CLORA_GRAMMAR_GBNF, r.grammar = "root ::= ("; },
          "grammar: line 1");
  EXPECT_EQ(run().size(), 0U);
}

TEST_F(CApiEngine, WithoutATokenizerStopTextsAndGrammarsAreRefusedAndTextsAreEmpty) {
  clora_engine_options without = options();
  without.tokenizer = nullptr;
  open(without);
  const Reply reply = reply_to(request());
  EXPECT_EQ(reply.ids, reply_of_session(nullptr));
  EXPECT_EQ(reply.text, "");
  const char* stop = "a";
  clora_request stopping = request();
  stopping.stop_texts = &stop;
  stopping.stop_text_count = 1;
  expect_refused(stopping, "stop texts require an engine with a tokenizer");
  clora_request bound = request();
  bound.grammar_kind = CLORA_GRAMMAR_JSON_OBJECT;
  expect_refused(bound, "grammars require an engine with a tokenizer");
}

TEST_F(CApiEngine, ResultsAndStructsMustBeGivenWithTheirSize) {
  open(options());
  std::uint64_t id = 0;
  expect_error(clora_engine_submit(engine_, nullptr, &id), CLORA_INVALID_ARGUMENT,
               "request must not be NULL");
  const clora_request good = request();
  expect_error(clora_engine_submit(engine_, &good, nullptr), CLORA_INVALID_ARGUMENT,
               "id must not be NULL");
  expect_refused(clora_request{}, "size must be set by its _init function");
  submit(request());
  for (std::int32_t idle = 0; idle == 0;) expect_ok(clora_engine_step(engine_, &idle));
  clora_event sizeless{};
  expect_error(clora_engine_poll(engine_, &sizeless), CLORA_INVALID_ARGUMENT, "size must be set");
  Replies replies;
  take_events(replies);  // no event was lost by the failed call
  EXPECT_EQ(replies.begin()->second.ids.size(), 10U);
  clora_engine_statistics statistics{};
  expect_error(clora_engine_get_statistics(engine_, &statistics), CLORA_INVALID_ARGUMENT,
               "size must be set");
}

}  // namespace
}  // namespace clora

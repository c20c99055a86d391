// Sessions of the C interface: log-probabilities, stop texts, grammars, scaled adapters, hidden
// states and vectors of texts give what the C++ library gives.
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

#include "clora/lora/peft_files.hpp"
#include "clora/model/embedding/embedder.hpp"
#include "clora/model/generation/generator.hpp"
#include "clora/model/transformer/forward_pass.hpp"
#include "tests/support/c_api_model.hpp"

namespace clora {
namespace {

using test::expect_error;
using test::expect_ok;
using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

struct Reply {
  Ids ids = {};
  clora_generation generation = {};
  std::string text = {};
};

class CApiSession : public test::CApiModel {
 protected:
  static clora_generation_options options() {
    clora_generation_options options = clora_generation_options_init();
    options.max_tokens = 12;
    options.ignore_end = 1;
    return options;
  }
  Reply reply_with(const clora_generation_options& options) {
    Reply reply{.ids = Ids(64), .generation = clora_generation_init()};
    expect_ok(clora_generate(session_, first_.data(), first_.size(), &options, reply.ids.data(),
                             reply.ids.size(), &reply.generation));
    reply.ids.resize(reply.generation.token_count);
    if (reply.generation.text != nullptr) {
      reply.text.assign(reply.generation.text, reply.generation.text_bytes);
    }
    return reply;
  }
  void refuses(const clora_generation_options& options, const std::string& part) {
    expect_error(
        clora_generate(session_, first_.data(), first_.size(), &options, nullptr, 0, nullptr),
        CLORA_INVALID_ARGUMENT, part);
  }
};

// ---- Generation

TEST_F(CApiSession, LogProbabilitiesAreThoseOfTheGenerator) {
  clora_generation_options with = options();
  with.logprobs = 1;
  with.top_logprobs = 3;
  const Reply reply = reply_with(with);
  test::SameModel same(path());
  GenerationConfig config{.max_tokens = 12};
  config.sampling.logprobs = true;
  config.sampling.top_logprobs = 3;
  const Generation want = Generator(same.model, nullptr, 256).generate(first_, config);
  ASSERT_EQ(reply.ids, want.ids);
  for (std::size_t i = 0; i < reply.ids.size(); ++i) {
    EXPECT_EQ(reply.generation.logprobs[i], want.logprobs[i]);
    for (std::size_t j = 0; j < 3; ++j) {
      EXPECT_EQ(reply.generation.top_logprobs[i * 3 + j].id, want.top_logprobs[i][j].id);
      EXPECT_EQ(reply.generation.top_logprobs[i * 3 + j].logprob, want.top_logprobs[i][j].logprob);
    }
    EXPECT_EQ(reply.generation.top_logprobs[i * 3].id, reply.ids[i]) << "greedy";
  }
}

TEST_F(CApiSession, WithoutARequestThereAreNoLogProbabilitiesAndNoText) {
  const Reply reply = reply_with(options());
  EXPECT_EQ(reply.generation.logprobs, nullptr);
  EXPECT_EQ(reply.generation.top_logprobs, nullptr);
  EXPECT_EQ(reply.generation.text, nullptr);
}

TEST_F(CApiSession, TheReplyEndsBeforeAStopText) {
  clora_generation_options with = options();
  with.tokenizer = tokenizer_;
  const Reply whole = reply_with(with);
  ASSERT_GT(whole.text.size(), 6U);
  const std::string stop = whole.text.substr(4, 2);
  const std::vector<const char*> stops{"never in it", stop.c_str()};
  with.stop_texts = stops.data();
  with.stop_text_count = stops.size();
  const Reply cut = reply_with(with);
  EXPECT_EQ(cut.generation.finish_reason, CLORA_FINISH_STOP);
  EXPECT_EQ(cut.text, whole.text.substr(0, whole.text.find(stop)));
  EXPECT_LT(cut.ids.size(), whole.ids.size());
  EXPECT_TRUE(std::equal(cut.ids.begin(), cut.ids.end(), whole.ids.begin()));
}

TEST_F(CApiSession, TheReplyMatchesItsGrammar) {
  clora_generation_options bound = options();
  bound.tokenizer = tokenizer_;
  bound.ignore_end = 0;
  bound.max_tokens = 60;
  bound.grammar_kind = CLORA_GRAMMAR_JSON_SCHEMA;
  bound.grammar = R"({"type": "object", "properties": {"yes": {"type": "boolean"}},
                      "required": ["yes"], "additionalProperties": false})";
  EXPECT_TRUE(nlohmann::json::parse(reply_with(bound).text).at("yes").is_boolean());
  bound.grammar_kind = CLORA_GRAMMAR_GBNF;
  bound.grammar = R"(root ::= "abc" [0-9] [0-9])";
  EXPECT_THAT(reply_with(bound).text, testing::MatchesRegex("abc[0-9][0-9]"));
}

TEST_F(CApiSession, SamplingFieldsReachTheSampler) {
  const Reply greedy = reply_with(options());
  clora_generation_options biased = options();
  const clora_logit_bias bias{42, 1e6F};
  biased.logit_biases = &bias;
  biased.logit_bias_count = 1;
  EXPECT_EQ(reply_with(biased).ids, Ids(12, 42));
  clora_generation_options penalised = biased;
  penalised.frequency_penalty = 1e9;
  EXPECT_NE(reply_with(penalised).ids, Ids(12, 42));
  penalised = biased;
  penalised.presence_penalty = 1e9;
  EXPECT_NE(reply_with(penalised).ids, Ids(12, 42));
  clora_generation_options typical = options();
  typical.temperature = 1;
  const Reply sampled = reply_with(typical);
  typical.typical_p = 0.01;
  EXPECT_NE(reply_with(typical).ids, sampled.ids);
  clora_generation_options guessed = options();
  guessed.draft_tokens = 4;
  EXPECT_EQ(reply_with(guessed).ids, greedy.ids);
}

TEST_F(CApiSession, RefusesGenerationOptionsByTheirFields) {
  const auto refused = [&](auto set, const std::string& part) {
    clora_generation_options wrong = options();
    set(wrong);
    refuses(wrong, part);
  };
  const char* stop = "a";
  const char* none = nullptr;
  refused([&](auto& o) { o.stop_texts = &stop, o.stop_text_count = 1; }, "require a tokenizer");
  refused([&](auto& o) { o.tokenizer = tokenizer_, o.stop_text_count = 1; }, "stop_texts must not");
  refused([&](auto& o) { o.tokenizer = tokenizer_, o.stop_texts = &none, o.stop_text_count = 1; },
          "a stop text must not be NULL");
  refused([](auto& o) { o.grammar_kind = CLORA_GRAMMAR_JSON_OBJECT; }, "grammars require a token");
  refused([](auto& o) { o.grammar_kind = 9; }, "clora_generate: grammar_kind must be a value");
  refused([](auto& o) { o.grammar = "x"; }, "clora_generate: grammar must be NULL unless");
  refused([](auto& o) { o.logit_bias_count = 1; }, "logit_biases must not be NULL");
  refused([](auto& o) { o.top_logprobs = 33; }, "top_logprobs must be 0 to 32");
  refused([](auto& o) { o.draft_tokens = 17; }, "draft_tokens must be 0 (off) to 16");
}

TEST_F(CApiSession, FieldsOfNewerHeadersAreDefaultsForOlderOnes) {
  clora_generation_options old = options();
  old.size = offsetof(clora_generation_options, typical_p);
  old.grammar_kind = 9;  // beyond the size, so not read
  clora_generation result = clora_generation_init();
  result.size = offsetof(clora_generation, logprobs);
  const double canary = 0;
  result.logprobs = &canary;
  old.logprobs = 1;
  expect_ok(clora_generate(session_, first_.data(), first_.size(), &old, nullptr, 0, &result));
  EXPECT_EQ(result.token_count, 12U);
  EXPECT_EQ(result.logprobs, &canary);
}

// ---- Scaled adapters

TEST_F(CApiSession, AScaledAdapterIsThatOfAnEnginesRequest) {
  clora_adapter* const adapter = trained_adapter();
  const std::vector<float> base = logits();
  expect_ok(clora_session_attach(session_, adapter));
  const std::vector<float> whole = logits();
  expect_ok(clora_session_attach_scaled(session_, adapter, 1));
  EXPECT_EQ(logits(), whole);
  expect_ok(clora_session_attach_scaled(session_, adapter, 0));
  EXPECT_EQ(logits(), base);
  expect_ok(clora_session_attach_scaled(session_, adapter, 0.5));
  EXPECT_NE(logits(), base);
  EXPECT_NE(logits(), whole);
  const Ids halved = reply_with(options()).ids;

  clora_engine* engine = nullptr;
  clora_engine_options settings = clora_engine_options_init();
  settings.max_positions = 64;
  settings.device_adapters = 1;
  expect_ok(clora_engine_create(model_, &settings, &engine));
  expect_ok(clora_engine_add_adapter(engine, "x", adapter));
  const clora_adapter_use half{"x", 0.5};
  clora_request request = clora_request_init();
  request.prompt = first_.data();
  request.prompt_count = first_.size();
  request.max_tokens = 12;
  request.ignore_end = 1;
  request.adapters = &half;
  request.adapter_count = 1;
  std::uint64_t id = 0;
  expect_ok(clora_engine_submit(engine, &request, &id));
  Ids ids;
  for (std::int32_t idle = 0; idle == 0 && !HasFailure();) {
    expect_ok(clora_engine_step(engine, &idle));
    clora_event event = clora_event_init();
    for (expect_ok(clora_engine_poll(engine, &event)); event.kind != CLORA_EVENT_NONE;
         expect_ok(clora_engine_poll(engine, &event))) {
      ids.insert(ids.end(), event.ids, event.ids + event.id_count);
    }
  }
  clora_engine_release(engine);
  EXPECT_EQ(ids, halved);
}

TEST_F(CApiSession, AScaledAdapterIsACopyThatTrainingDoesNotChange) {
  clora_adapter* const adapter = trained_adapter();
  expect_ok(clora_session_attach_scaled(session_, adapter, 0.5));
  const std::vector<float> before = logits();
  clora_trainer* trainer = nullptr;
  expect_ok(clora_trainer_create(adapter, nullptr, &trainer));
  const clora_train_batch batch = batch_of(second_);
  expect_ok(clora_trainer_step(trainer, &batch, 0.1, nullptr));
  clora_trainer_release(trainer);
  EXPECT_EQ(logits(), before);
  expect_error(clora_session_attach_scaled(session_, adapter, std::nan("")), CLORA_INVALID_ARGUMENT,
               "the scale must be finite, got nan");
  expect_error(clora_session_attach_scaled(session_, nullptr, 2), CLORA_INVALID_ARGUMENT,
               "adapter must not be NULL");
}

// ---- Hidden states

TEST_F(CApiSession, HiddenStatesAreThoseOfTheForwardPass) {
  clora_adapter* const adapter = trained_adapter();
  expect_ok(clora_adapter_save(adapter, at("adapter").c_str()));
  expect_ok(clora_session_attach(session_, adapter));
  test::SameModel same(path());
  const Adapter loaded =
      load_adapter(same.context, folder_ / "adapter", adapter_sites(same.model.config()));
  ForwardPass forward(same.model, &loaded);
  clora_model_info info = clora_model_info_init();
  expect_ok(clora_model_get_info(model_, &info));
  std::vector<float> hidden(first_.size() * static_cast<std::size_t>(info.hidden_size));
  for (std::int64_t layer = 0; layer <= info.layers; ++layer) {
    expect_ok(clora_forward_hidden(session_, first_.data(), first_.size(), layer, hidden.data(),
                                   hidden.size()));
    EXPECT_EQ(hidden, forward.hidden_states(first_, layer)) << layer;
  }
  const auto refused = [&](std::int64_t layer, std::size_t capacity, const std::string& part) {
    expect_error(clora_forward_hidden(session_, first_.data(), first_.size(), layer, hidden.data(),
                                      capacity),
                 CLORA_INVALID_ARGUMENT, part);
  };
  refused(3, hidden.size(), "those after 0 to 2 blocks, got 3");
  refused(-1, hidden.size(), "got -1");
  refused(0, hidden.size() - 1, "the array must have space for");
  expect_error(clora_forward_hidden(session_, nullptr, 1, 0, hidden.data(), hidden.size()),
               CLORA_INVALID_ARGUMENT, "ids must not be NULL");
}

// ---- Vectors of texts

class CApiEmbedding : public CApiSession {
 protected:
  CApiEmbedding() {
    ids_ = first_;
    ids_.insert(ids_.end(), second_.begin(), second_.end());
    texts_.ids = ids_.data();
    texts_.id_count = ids_.size();
    texts_.lengths = lengths_.data();
    texts_.text_count = 2;
  }
  std::vector<float> embedded() {
    std::vector<float> vectors(128, -7);
    expect_ok(clora_embed(session_, &texts_, vectors.data(), vectors.size()));
    return vectors;
  }
  Ids ids_;
  const std::vector<std::size_t> lengths_{first_.size(), second_.size()};
  clora_texts texts_ = clora_texts_init();
};

TEST_F(CApiEmbedding, GivesTheVectorsOfTheEmbedder) {
  test::SameModel same(path());
  const std::vector<Ids> all{first_, second_};
  const auto expect = [&](const char* pooling, std::int32_t normalise,
                          const EmbedderOptions& options) {
    texts_.pooling = pooling;
    texts_.normalise = normalise;
    std::vector<float> got = embedded();
    const std::vector<float> want = Embedder(same.model, nullptr, options).embed(all);
    got.resize(want.size());
    EXPECT_EQ(got, want) << (pooling == nullptr ? "default" : pooling);
  };
  expect(nullptr, 0, {});
  expect("mean", -1, {.pooling = Pooling::mean, .normalises = false});
  expect("first", 1, {.pooling = Pooling::first_token});
  expect("last", 0, {.pooling = Pooling::last_token});
}

TEST_F(CApiEmbedding, UsesTheSessionsAdapter) {
  const std::vector<float> base = embedded();
  expect_ok(clora_session_attach(session_, trained_adapter()));
  EXPECT_NE(embedded(), base);
  expect_ok(clora_session_detach(session_));
  EXPECT_EQ(embedded(), base);
}

TEST_F(CApiEmbedding, RefusesTextsThatDoNotFit) {
  std::vector<float> vectors(128);
  const auto refused = [&](auto set, const std::string& part, std::size_t capacity = 128) {
    clora_texts wrong = texts_;
    set(wrong);
    expect_error(clora_embed(session_, &wrong, vectors.data(), capacity), CLORA_INVALID_ARGUMENT,
                 part);
  };
  refused([](auto& t) { t.ids = nullptr; }, "ids must not be NULL");
  refused([](auto& t) { t.lengths = nullptr; }, "lengths must not be NULL");
  refused([](auto& t) { t.id_count -= 1; }, "the lengths must sum to the 10 ids, got more");
  refused([](auto& t) { t.id_count += 1; }, "the lengths must sum to the 12 ids, got 11");
  refused([](auto& t) { t.pooling = "cls"; }, "pooling must be mean, first or last, got 'cls'");
  refused([](auto& t) { t.normalise = 2; }, "normalise must be -1, 0 or 1, got 2");
  refused([](auto& t) { t.size = 0; }, "size must be set by its _init function");
  refused([](auto&) {}, "the array must have space for 2 vectors", 10);
}

}  // namespace
}  // namespace clora

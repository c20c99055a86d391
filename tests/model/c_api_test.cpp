// The C interface from C++: its errors, structs of other sizes, lifetimes and list of symbols.
// tests/c_api/every_function.c, which this test runs, uses all of it as a C program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <regex>
#include <set>
#include <span>
#include <sstream>
#include <thread>

#include "model/c_api/boundary.hpp"
#include "model/c_api/clora.h"
#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_chat_model.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::StrEq;

// ---- The list of symbols

std::filesystem::path source(std::string_view relative) {
  const char* folder = std::getenv("CLORA_SOURCE_DIR");
  return std::filesystem::path(folder == nullptr ? "." : folder) / relative;
}

// The matches of `pattern`'s first group, sorted and unique.
std::vector<std::string> found_in(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator i(text.begin(), text.end(), regex), end; i != end; ++i) {
    found.insert((*i)[1]);
  }
  return {found.begin(), found.end()};
}

std::vector<std::string> symbol_list() {
  std::istringstream lines(test::read_file(source("model/c_api/symbols.txt")));
  std::vector<std::string> symbols;
  for (std::string line; std::getline(lines, line);) symbols.push_back(line);
  return symbols;
}

TEST(CApiSymbols, TheListIsSortedAndHasWhatTheHeaderDeclares) {
  const std::string header = test::read_file(source("model/c_api/clora.h"));
  const std::vector<std::string> symbols = symbol_list();
  ASSERT_GT(symbols.size(), 40U);
  EXPECT_THAT(found_in(header, R"(CLORA_API [^;{]*?\b(clora_\w+)\()"), ElementsAreArray(symbols));
}

TEST(CApiSymbols, TheLibraryDefinesThemAndNoOther) {
  const std::string library =
      test::built_program(std::filesystem::path(CLORA_LIBRARY).filename().string()).string();
  const bool shared = library.find(".so") != std::string::npos;
  std::vector<std::string> arguments{"-g", "--defined-only", library};
  if (shared) arguments.insert(arguments.begin(), "-D");
  const test::ProgramResult nm = test::run_program("/usr/bin/nm", {.arguments = arguments});
  ASSERT_EQ(nm.exit_code, 0) << nm.err;
  EXPECT_THAT(found_in(nm.out, R"( T (clora_\w+))"), ElementsAreArray(symbol_list()));
  if (shared) {  // only the C interface is exported
    EXPECT_THAT(found_in(nm.out, R"( [TDBW] (\w+))"), ElementsAreArray(symbol_list()));
  }
}

TEST(CApiSymbols, TheCProgramUsesEachOfThem) {
  const std::string program = test::read_file(source("tests/c_api/every_function.c"));
  EXPECT_THAT(found_in(program, R"(\b(clora_\w+?)\()"), testing::IsSupersetOf(symbol_list()));
}

// ---- The C program

class CApi : public testing::Test {
 protected:
  CApi() { test::write_tiny_chat_model(model_folder()); }
  std::string model_folder() const { return folder_ / "model"; }
  test::TemporaryFolder folder_;
};

TEST_F(CApi, ACProgramThatUsesEveryFunctionRunsToItsEnd) {
  const std::string leaks = source("tests/support/leaks_of_drivers.txt");
  const test::ProgramResult result = test::run_program(
      test::built_program("tests/every_function"),
      {.arguments = {model_folder(), folder_ / "adapter"},
       .environment = {"LSAN_OPTIONS=print_suppressions=0:suppressions=" + leaks}});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "every function was used\n");
  EXPECT_EQ(result.err, "");  // the library never prints
}

// ---- Errors

// Expects the status, and `part` in the thread's last error.
void expect_error(clora_status got, clora_status want, const std::string& part) {
  EXPECT_EQ(got, want) << clora_last_error();
  EXPECT_THAT(clora_last_error(), HasSubstr(part));
}

class OpenCApi : public CApi {
 protected:
  OpenCApi() {
    clora_context_options options = clora_context_options_init();
    options.device = std::getenv("CLORA_DEVICE");
    EXPECT_EQ(clora_context_create(&options, &context_), CLORA_OK) << clora_last_error();
    EXPECT_EQ(clora_model_load(context_, model_folder().c_str(), nullptr, &model_), CLORA_OK)
        << clora_last_error();
    EXPECT_EQ(clora_session_create(model_, nullptr, &session_), CLORA_OK) << clora_last_error();
  }
  ~OpenCApi() override {
    clora_session_release(session_);
    clora_model_release(model_);
    clora_context_release(context_);
  }

  std::vector<float> last_logits(clora_session* session) {
    clora_model_info info = clora_model_info_init();
    EXPECT_EQ(clora_model_get_info(model_, &info), CLORA_OK);
    std::vector<float> logits(static_cast<std::size_t>(info.vocabulary));
    EXPECT_EQ(clora_forward(session, ids_.data(), ids_.size(), CLORA_LOGITS_LAST, logits.data(),
                            logits.size()),
              CLORA_OK)
        << clora_last_error();
    return logits;
  }

  // log softmax of the session's logits after the text, at the next token.
  double logprob_after(const std::vector<std::int32_t>& text, std::int32_t next) {
    clora_model_info info = clora_model_info_init();
    EXPECT_EQ(clora_model_get_info(model_, &info), CLORA_OK);
    std::vector<float> logits(static_cast<std::size_t>(info.vocabulary));
    EXPECT_EQ(clora_forward(session_, text.data(), text.size(), CLORA_LOGITS_LAST, logits.data(),
                            logits.size()),
              CLORA_OK);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit});
    return double{logits[static_cast<std::size_t>(next)]} - std::log(sum);
  }

  const std::array<std::int32_t, 4> ids_{72, 5, 61, 30};
  clora_context* context_ = nullptr;
  clora_model* model_ = nullptr;
  clora_session* session_ = nullptr;
};

TEST_F(CApi, NullHandlesAreRefusedByName) {
  clora_model* model = nullptr;
  clora_session* session = nullptr;
  clora_adapter* adapter = nullptr;
  clora_trainer* trainer = nullptr;
  clora_engine* engine = nullptr;
  clora_records* records = nullptr;
  std::int32_t number = 0;
  std::size_t count = 0;
  const auto refused = [](clora_status status, const char* part) {
    expect_error(status, CLORA_INVALID_ARGUMENT, std::string(part) + " must not be NULL");
  };
  refused(clora_context_create(nullptr, nullptr), "clora_context_create: the result pointer");
  refused(clora_context_adopt(nullptr, nullptr, nullptr, nullptr, nullptr),
          "clora_context_adopt: the result pointer");
  refused(clora_context_finish(nullptr), "clora_context_finish: context");
  refused(clora_context_is_lost(nullptr, &number), "clora_context_is_lost: context");
  refused(clora_context_trim(nullptr), "clora_context_trim: context");
  refused(clora_context_wait_for(nullptr, 0, nullptr), "clora_context_wait_for: context");
  refused(clora_model_load(nullptr, "x", nullptr, &model), "clora_model_load: context");
  refused(clora_session_create(nullptr, nullptr, &session), "clora_session_create: model");
  refused(clora_session_attach(nullptr, nullptr), "clora_session_attach: session");
  refused(clora_session_detach(nullptr), "clora_session_detach: session");
  refused(clora_generate(nullptr, &number, 1, nullptr, nullptr, 0, nullptr),
          "clora_generate: session");
  refused(clora_forward(nullptr, &number, 1, CLORA_LOGITS_ALL, nullptr, 0),
          "clora_forward: session");
  refused(clora_score_choices(nullptr, nullptr, nullptr, nullptr), "clora_score_choices: session");
  refused(clora_forward_enqueue(nullptr, &number, 1, nullptr, nullptr),
          "clora_forward_enqueue: session");
  refused(clora_adapter_create(nullptr, nullptr, &adapter), "clora_adapter_create: model");
  refused(clora_adapter_load(nullptr, "x", &adapter), "clora_adapter_load: model");
  refused(clora_adapter_save(nullptr, "x"), "clora_adapter_save: adapter");
  refused(clora_trainer_create(nullptr, nullptr, &trainer), "clora_trainer_create: adapter");
  refused(clora_trainer_step(nullptr, nullptr, 1, nullptr), "clora_trainer_step: trainer");
  refused(clora_trainer_step_accumulated(nullptr, nullptr, 0, 1, nullptr),
          "clora_trainer_step_accumulated: batches");
  refused(clora_trainer_finish(nullptr, nullptr), "clora_trainer_finish: trainer");
  refused(clora_trainer_save_checkpoint(nullptr, "x"), "clora_trainer_save_checkpoint: trainer");
  refused(clora_trainer_load_checkpoint(nullptr, "x", nullptr),
          "clora_trainer_load_checkpoint: trainer");
  refused(clora_records_create(nullptr), "clora_records_create: the result pointer");
  refused(clora_records_load(nullptr, nullptr, 0, nullptr, &records),
          "clora_records_load: tokenizer");
  refused(clora_records_add(nullptr, nullptr), "clora_records_add: records");
  refused(clora_records_get_info(nullptr, nullptr), "clora_records_get_info: records");
  refused(clora_evaluate(nullptr, nullptr, nullptr), "clora_evaluate: session");
  refused(clora_train(nullptr, nullptr, nullptr), "clora_train: adapter");
  refused(clora_adapter_tensor_count(nullptr, &count), "clora_adapter_tensor_count: adapter");
  refused(clora_adapter_get_tensor(nullptr, 0, nullptr), "clora_adapter_get_tensor: adapter");
  refused(clora_adapter_read_tensor(nullptr, 0, nullptr, 0), "clora_adapter_read_tensor: adapter");
  refused(clora_adapter_write_tensor(nullptr, 0, nullptr, 0),
          "clora_adapter_write_tensor: adapter");
  refused(clora_adapter_save_as(nullptr, "x", "gguf"), "clora_adapter_save_as: adapter");
  refused(clora_fuse(nullptr, "x", nullptr), "clora_fuse: adapter");
  refused(clora_session_attach_scaled(nullptr, nullptr, 1), "clora_session_attach_scaled: session");
  refused(clora_forward_hidden(nullptr, &number, 1, 0, nullptr, 0),
          "clora_forward_hidden: session");
  refused(clora_embed(nullptr, nullptr, nullptr, 0), "clora_embed: session");
  refused(clora_engine_create(nullptr, nullptr, &engine), "clora_engine_create: model");
  refused(clora_engine_add_adapter(nullptr, "x", nullptr), "clora_engine_add_adapter: engine");
  refused(clora_engine_remove_adapter(nullptr, "x"), "clora_engine_remove_adapter: engine");
  refused(clora_engine_submit(nullptr, nullptr, nullptr), "clora_engine_submit: engine");
  refused(clora_engine_cancel(nullptr, 1), "clora_engine_cancel: engine");
  refused(clora_engine_step(nullptr, &number), "clora_engine_step: engine");
  refused(clora_engine_poll(nullptr, nullptr), "clora_engine_poll: engine");
  refused(clora_engine_get_statistics(nullptr, nullptr), "clora_engine_get_statistics: engine");
  refused(clora_tokenizer_load(nullptr, nullptr), "clora_tokenizer_load: the result pointer");
  refused(clora_tokenizer_encode(nullptr, "x", 1, 0, nullptr, 0, &count),
          "clora_tokenizer_encode: tokenizer");
  refused(clora_decoder_push(nullptr, 1, nullptr), "clora_decoder_push: decoder");
}

TEST(CApiRelease, TakesNull) {
  const std::string error = clora_last_error();
  clora_context_release(nullptr);
  clora_model_release(nullptr);
  clora_adapter_release(nullptr);
  clora_session_release(nullptr);
  clora_engine_release(nullptr);
  clora_trainer_release(nullptr);
  clora_records_release(nullptr);
  clora_tokenizer_release(nullptr);
  clora_decoder_release(nullptr);
  EXPECT_EQ(clora_last_error(), error);
}

TEST_F(OpenCApi, BadPathsGiveTheirStatusAndNoHandle) {
  auto* model = reinterpret_cast<clora_model*>(1);
  expect_error(clora_model_load(context_, "/no/such/model", nullptr, &model), CLORA_NOT_FOUND,
               "/no/such/model");
  EXPECT_EQ(model, nullptr);
  test::write_file(folder_ / "not.gguf", "this is no model");
  const std::string damaged = folder_ / "not.gguf";
  expect_error(clora_model_load(context_, damaged.c_str(), nullptr, &model), CLORA_INVALID_FILE,
               "not.gguf");
  clora_adapter* adapter = nullptr;
  expect_error(clora_adapter_load(model_, "/no/such/adapter", &adapter), CLORA_NOT_FOUND,
               "/no/such/adapter");
  clora_tokenizer* tokenizer = nullptr;
  expect_error(clora_tokenizer_load("/no/such/model", &tokenizer), CLORA_NOT_FOUND,
               "/no/such/model");
  ASSERT_EQ(clora_adapter_create(model_, nullptr, &adapter), CLORA_OK);
  expect_error(clora_adapter_save(adapter, "/proc/no/adapter"), CLORA_IO, "/proc/no/adapter");
  clora_adapter_release(adapter);
}

TEST_F(OpenCApi, NoSuchDeviceIsItsOwnStatus) {
  clora_context_options options = clora_context_options_init();
  options.device = "a device that nobody has";
  clora_context* context = nullptr;
  expect_error(clora_context_create(&options, &context), CLORA_NO_DEVICE, "nobody has");
}

TEST_F(OpenCApi, ALimitTooLowForTheModelIsOutOfMemory) {
  clora_context_options options = clora_context_options_init();
  options.device = std::getenv("CLORA_DEVICE");
  options.memory_limit_bytes = 10000;
  clora_context* context = nullptr;
  clora_model* model = nullptr;
  ASSERT_EQ(clora_context_create(&options, &context), CLORA_OK) << clora_last_error();
  expect_error(clora_model_load(context, model_folder().c_str(), nullptr, &model),
               CLORA_OUT_OF_MEMORY, "weights need");
  clora_context_release(context);
}

TEST_F(OpenCApi, ALoadStopsWhenItsCallbackRequestsIt) {
  clora_model_options options = clora_model_options_init();
  options.progress = [](void*, double fraction) { return std::int32_t{fraction > 0.3}; };
  clora_statistics before = clora_statistics_init();
  clora_statistics after = clora_statistics_init();
  ASSERT_EQ(clora_context_get_statistics(context_, &before), CLORA_OK);
  clora_model* model = nullptr;
  expect_error(clora_model_load(context_, model_folder().c_str(), &options, &model),
               CLORA_CANCELLED, "model");
  EXPECT_EQ(model, nullptr);
  ASSERT_EQ(clora_context_get_statistics(context_, &after), CLORA_OK);
  EXPECT_EQ(after.weights_bytes, before.weights_bytes);
  EXPECT_EQ(clora_model_load(context_, model_folder().c_str(), nullptr, &model), CLORA_OK);
  clora_model_release(model);
}

TEST_F(OpenCApi, GenerationGivesTheTokensUpToTheOneThatStoppedIt) {
  clora_generation_options options = clora_generation_options_init();
  options.ignore_end = 1;
  options.on_token = [](void* user, std::int32_t) -> std::int32_t {
    return ++*static_cast<int*>(user) == 2;
  };
  int seen = 0;
  options.user = &seen;
  std::array<std::int32_t, 8> ids{};
  ids.fill(-7);
  clora_generation generation = clora_generation_init();
  ASSERT_EQ(clora_generate(session_, ids_.data(), ids_.size(), &options, ids.data(), ids.size(),
                           &generation),
            CLORA_OK);
  EXPECT_EQ(generation.finish_reason, CLORA_FINISH_CANCELLED);
  EXPECT_EQ(generation.token_count, 2U);
  EXPECT_GE(ids[1], 0);
  EXPECT_EQ(ids[2], -7);
}

TEST_F(OpenCApi, ALongPromptStopsBetweenItsParts) {
  clora_generation_options options = clora_generation_options_init();
  options.on_prompt = [](void*, std::int64_t) { return std::int32_t{1}; };
  const std::vector<std::int32_t> prompt(120, 7);
  clora_generation generation = clora_generation_init();
  ASSERT_EQ(
      clora_generate(session_, prompt.data(), prompt.size(), &options, nullptr, 0, &generation),
      CLORA_OK)
      << clora_last_error();
  EXPECT_EQ(generation.finish_reason, CLORA_FINISH_CANCELLED);
  EXPECT_EQ(generation.token_count, 0U);
}

TEST_F(OpenCApi, AnEndIdStopsAndIsNotGiven) {
  clora_generation_options options = clora_generation_options_init();
  options.ignore_end = 1;
  std::array<std::int32_t, 6> free_run{};
  ASSERT_EQ(
      clora_generate(session_, ids_.data(), ids_.size(), &options, free_run.data(), 6, nullptr),
      CLORA_OK);
  options.ignore_end = 0;
  options.end_ids = &free_run[3];
  options.end_id_count = 1;
  const auto first = std::ranges::find(free_run, free_run[3]) - free_run.begin();
  clora_generation generation = clora_generation_init();
  ASSERT_EQ(clora_generate(session_, ids_.data(), ids_.size(), &options, nullptr, 0, &generation),
            CLORA_OK);
  EXPECT_EQ(generation.finish_reason, CLORA_FINISH_STOP);
  EXPECT_EQ(generation.token_count, static_cast<std::uint64_t>(first));
}

TEST_F(OpenCApi, RefusesIdsBuffersAndParametersThatDoNotFit) {
  const std::int32_t outside = 1 << 20;
  std::array<float, 4> small{};
  expect_error(clora_forward(session_, &outside, 1, CLORA_LOGITS_LAST, small.data(), 4),
               CLORA_INVALID_ARGUMENT, "the array must have space for");
  expect_error(clora_generate(session_, &outside, 1, nullptr, nullptr, 0, nullptr),
               CLORA_INVALID_ARGUMENT, "prompt ids must be in");
  expect_error(clora_generate(session_, nullptr, 0, nullptr, nullptr, 0, nullptr),
               CLORA_INVALID_ARGUMENT, "ids must not be NULL");
  expect_error(clora_forward(session_, ids_.data(), 4, 7, small.data(), 4), CLORA_INVALID_ARGUMENT,
               "rows must be CLORA_LOGITS_ALL");
  clora_generation_options options = clora_generation_options_init();
  options.temperature = std::numeric_limits<double>::quiet_NaN();
  expect_error(clora_generate(session_, ids_.data(), 4, &options, nullptr, 0, nullptr),
               CLORA_INVALID_ARGUMENT, "temperature must be in [0, 1000]");
  clora_session_options large = clora_session_options_init();
  large.max_positions = 1 << 20;
  clora_session* session = nullptr;
  expect_error(clora_session_create(model_, &large, &session), CLORA_INVALID_ARGUMENT,
               "the model supports 256 positions");
  clora_session_options named = clora_session_options_init();
  named.kv_cache_type = "q4_0";
  expect_error(clora_session_create(model_, &named, &session), CLORA_INVALID_ARGUMENT,
               "KV cache: the type must be auto, f32, bf16, f16 or q8_0, got 'q4_0'");
}

// Of arrays that outlive it.
clora_choices choices_of(std::span<const std::int32_t> prompt, std::span<const std::int32_t> ids,
                         std::span<const std::size_t> lengths) {
  clora_choices choices = clora_choices_init();
  choices.prompt = prompt.data();
  choices.prompt_count = prompt.size();
  choices.ids = ids.data();
  choices.id_count = ids.size();
  choices.lengths = lengths.data();
  choices.choice_count = lengths.size();
  return choices;
}

TEST_F(OpenCApi, ChoicesHaveTheSumsOfTheirTokensLogProbabilities) {
  const std::array<std::int32_t, 3> prompt{72, 5, 61};
  const std::array<std::int32_t, 4> ids{30, 9, 30, 12};
  const std::array<std::size_t, 3> lengths{1, 2, 1};
  const clora_choices choices = choices_of(prompt, ids, lengths);
  clora_adapter* adapter = nullptr;
  ASSERT_EQ(clora_adapter_create(model_, nullptr, &adapter), CLORA_OK);
  clora_trainer* trainer = nullptr;
  ASSERT_EQ(clora_trainer_create(adapter, nullptr, &trainer), CLORA_OK);
  clora_train_batch batch = clora_train_batch_init();
  batch.ids = ids_.data();
  batch.id_count = ids_.size();
  for (const bool adapted : {false, true}) {
    if (adapted) {
      ASSERT_EQ(clora_session_attach(session_, adapter), CLORA_OK);
    }
    std::array<double, 3> got{};
    std::size_t likeliest = 7;
    // Once more after the adapter has been trained.
    for (int steps = 0; steps < (adapted ? 2 : 1); ++steps) {
      if (steps > 0) {
        ASSERT_EQ(clora_trainer_step(trainer, &batch, 0.05, nullptr), CLORA_OK);
      }
      ASSERT_EQ(clora_score_choices(session_, &choices, got.data(), &likeliest), CLORA_OK)
          << clora_last_error();
      std::array<double, 3> want{};
      std::size_t begin = 0;
      for (std::size_t c = 0; c < lengths.size(); ++c) {
        std::vector<std::int32_t> text(prompt.begin(), prompt.end());
        for (std::size_t i = begin; i < begin + lengths[c]; ++i) {
          want[c] += logprob_after(text, ids[i]);
          text.push_back(ids[i]);
        }
        begin += lengths[c];
        EXPECT_NEAR(got[c], want[c], 1e-4) << c;
      }
      EXPECT_EQ(likeliest, static_cast<std::size_t>(std::ranges::max_element(want) - want.begin()));
    }
  }
  clora_trainer_release(trainer);
  clora_adapter_release(adapter);
}

TEST_F(OpenCApi, RefusesChoicesThatDoNotFit) {
  const std::array<std::int32_t, 2> prompt{72, 5};
  std::array<std::int32_t, 3> ids{30, 9, 30};
  std::array<std::size_t, 2> lengths{1, 2};
  std::array<double, 2> got{};
  clora_choices good = choices_of(prompt, ids, lengths);
  const auto refuses = [&](auto change, const char* part) {
    clora_choices choices = good;
    change(choices);
    expect_error(clora_score_choices(session_, &choices, got.data(), nullptr),
                 CLORA_INVALID_ARGUMENT, part);
  };
  ASSERT_EQ(clora_score_choices(session_, &good, got.data(), nullptr), CLORA_OK);
  refuses([](clora_choices& c) { c.prompt = nullptr; }, "prompt must not be NULL");
  refuses([](clora_choices& c) { c.ids = nullptr; }, "ids must not be NULL");
  refuses([](clora_choices& c) { c.lengths = nullptr; }, "lengths must not be NULL");
  refuses([](clora_choices& c) { c.prompt_count = 0; }, "got 0 and 2");
  refuses([](clora_choices& c) { c.choice_count = 0; }, "got 2 and 0");
  refuses([](clora_choices& c) { c.choice_count = 1; }, "must sum to the 3 ids, got 1");
  refuses([](clora_choices& c) { c.id_count = 2; }, "must sum to the 2 ids, got more");
  refuses([](clora_choices& c) { c.size = 3; }, "size");
  lengths = {0, 3};
  refuses([](clora_choices&) {}, "at least one token, got an empty one");
  lengths = {1, 2};
  ids[1] = -1;
  refuses([](clora_choices&) {}, "ids must be in [0, ");
  ids[1] = 9;
  clora_session_options options = clora_session_options_init();
  options.max_positions = 3;
  clora_session* small = nullptr;
  ASSERT_EQ(clora_session_create(model_, &options, &small), CLORA_OK);
  expect_error(clora_score_choices(small, &good, got.data(), nullptr), CLORA_INVALID_ARGUMENT,
               "space for 3 tokens, got a prompt of 2 with a choice of 2");
  clora_session_release(small);
}

TEST(CApiText, IsCutBetweenCharacters) {
  char four[4];
  c_api::write_text(four, "ab\xc3\xa9");
  EXPECT_STREQ(four, "ab");
  c_api::write_text(four, "a\xc3\xa9");
  EXPECT_STREQ(four, "a\xc3\xa9");
}

TEST_F(OpenCApi, RefusesTrainingBatchesThatDoNotFit) {
  clora_adapter* adapter = nullptr;
  clora_trainer* trainer = nullptr;
  ASSERT_EQ(clora_adapter_create(model_, nullptr, &adapter), CLORA_OK) << clora_last_error();
  ASSERT_EQ(clora_trainer_create(adapter, nullptr, &trainer), CLORA_OK) << clora_last_error();
  clora_train_batch batch = clora_train_batch_init();
  batch.ids = ids_.data();
  batch.id_count = ids_.size();
  const std::size_t length = 3;
  batch.lengths = &length;
  batch.document_count = 1;
  expect_error(clora_trainer_step(trainer, &batch, 1e-3, nullptr), CLORA_INVALID_ARGUMENT,
               "lengths must sum to the 4 ids, got 3");
  const std::array<std::size_t, 2> overflowing{1004, std::numeric_limits<std::size_t>::max() - 999};
  batch.lengths = overflowing.data();
  batch.document_count = 2;
  expect_error(clora_trainer_step(trainer, &batch, 1e-3, nullptr), CLORA_INVALID_ARGUMENT,
               "lengths must sum to the 4 ids, got more");
  batch.lengths = nullptr;
  const float negative = -1;
  batch.weights = &negative;
  expect_error(clora_trainer_step(trainer, &batch, 1e-3, nullptr), CLORA_INVALID_ARGUMENT,
               "weight of a record must be finite and above 0, got -1");
  batch.weights = nullptr;
  const std::array<std::uint8_t, 4> nowhere{};
  batch.is_target = nowhere.data();
  expect_error(clora_trainer_step(trainer, &batch, 1e-3, nullptr), CLORA_INVALID_ARGUMENT,
               "at least one labelled token");
  expect_error(clora_trainer_step(trainer, &batch, -1, nullptr), CLORA_INVALID_ARGUMENT,
               "learning rate");
  clora_trainer_release(trainer);
  clora_adapter_release(adapter);
}

// The result of one step with the coefficient, which changes nothing (the learning rate is 0).
clora_step_result balanced_step(clora_adapter* adapter, std::span<const std::int32_t> ids,
                                double coefficient) {
  clora_trainer* trainer = nullptr;
  clora_trainer_options options = clora_trainer_options_init();
  options.router_aux_loss_coef = coefficient;
  clora_train_batch batch = clora_train_batch_init();
  batch.ids = ids.data();
  batch.id_count = ids.size();
  clora_step_result result = clora_step_result_init();
  EXPECT_EQ(clora_trainer_create(adapter, &options, &trainer), CLORA_OK) << clora_last_error();
  EXPECT_EQ(clora_trainer_step(trainer, &batch, 0, &result), CLORA_OK) << clora_last_error();
  clora_trainer_release(trainer);
  return result;
}

TEST_F(OpenCApi, TrainingBalancesTheLoadOfExpertsWithTheWeightThatIsSet) {
  test::write_tiny_model(folder_ / "mixtral", test::tiny_config("Mixtral"));
  clora_model* model = nullptr;
  clora_adapter* adapter = nullptr;
  ASSERT_EQ(clora_model_load(context_, (folder_ / "mixtral").string().c_str(), nullptr, &model),
            CLORA_OK)
      << clora_last_error();
  ASSERT_EQ(clora_adapter_create(model, nullptr, &adapter), CLORA_OK) << clora_last_error();
  const std::array<std::int32_t, 7> ids{1, 5, 9, 33, 2, 60, 11};
  const clora_step_result without = balanced_step(adapter, ids, 0);
  const clora_step_result with = balanced_step(adapter, ids, 0.5);
  EXPECT_EQ(without.balance_loss, 0);
  EXPECT_GT(with.balance_loss, 1);
  EXPECT_NEAR(with.loss, without.loss + 0.5 * with.balance_loss, 1e-6 * with.loss);
  clora_adapter_release(adapter);
  clora_model_release(model);
}

// A step on two documents of the same tokens; the learning rate is 0.
clora_step_result supervised_step(clora_adapter* adapter, const clora_trainer_options& options,
                                  const std::vector<float>& weights = {}) {
  clora_trainer* trainer = nullptr;
  const std::array<std::int32_t, 7> ids{1, 5, 9, 33, 2, 60, 11};
  const std::array<std::size_t, 2> lengths{3, 4};
  clora_train_batch batch = clora_train_batch_init();
  batch.ids = ids.data();
  batch.id_count = ids.size();
  batch.lengths = lengths.data();
  batch.document_count = lengths.size();
  batch.weights = weights.empty() ? nullptr : weights.data();
  clora_step_result result = clora_step_result_init();
  EXPECT_EQ(clora_trainer_create(adapter, &options, &trainer), CLORA_OK) << clora_last_error();
  EXPECT_EQ(clora_trainer_step(trainer, &batch, 0, &result), CLORA_OK) << clora_last_error();
  clora_trainer_release(trainer);
  return result;
}

TEST_F(OpenCApi, TrainsWithWeightsOfDocumentsAndOtherTermsOfTheLoss) {
  clora_adapter* adapter = nullptr;
  clora_trainer* trainer = nullptr;
  ASSERT_EQ(clora_adapter_create(model_, nullptr, &adapter), CLORA_OK) << clora_last_error();
  clora_trainer_options options = clora_trainer_options_init();
  const double plain = supervised_step(adapter, options).loss;  // of 2 and of 3 labelled tokens
  const double first = supervised_step(adapter, options, {1e6F, 1e-6F}).loss;
  const double second = supervised_step(adapter, options, {1e-6F, 1e6F}).loss;
  EXPECT_NEAR(plain, (2 * first + 3 * second) / 5, 1e-5);
  EXPECT_NEAR(supervised_step(adapter, options, {3, 1}).loss, (6 * first + 3 * second) / 9, 1e-5);
  options.label_smoothing = 0.1;
  options.z_loss = 0.01;
  const clora_step_result smoothed = supervised_step(adapter, options);
  EXPECT_NEAR(smoothed.nll, plain, 1e-5);
  EXPECT_GT(smoothed.loss, plain);
  options = clora_trainer_options_init();
  EXPECT_EQ(supervised_step(adapter, options).nll, 0);
  options.neftune_alpha = 5;
  EXPECT_NE(supervised_step(adapter, options).loss, plain);
  options.neftune_alpha = -1;
  expect_error(clora_trainer_create(adapter, &options, &trainer), CLORA_INVALID_ARGUMENT,
               "alpha of NEFTune must be finite and at least 0, got -1");
  clora_adapter_release(adapter);
}

TEST_F(OpenCApi, TrainingWithoutExpertsBalancesNothing) {
  clora_adapter* adapter = nullptr;
  clora_trainer* trainer = nullptr;
  clora_trainer_options options = clora_trainer_options_init();
  options.router_aux_loss_coef = 0.01;
  ASSERT_EQ(clora_adapter_create(model_, nullptr, &adapter), CLORA_OK) << clora_last_error();
  expect_error(clora_trainer_create(adapter, &options, &trainer), CLORA_INVALID_ARGUMENT,
               "`router_aux_loss_coef` balances the load of experts, but the model has none");
  EXPECT_EQ(trainer, nullptr);
  clora_adapter_release(adapter);
}

// A step on seven tokens. Returns its gradient norm.
double grad_norm_of_a_step(clora_trainer* trainer, double learning_rate) {
  const std::array<std::int32_t, 7> ids{1, 5, 9, 33, 2, 60, 11};
  clora_train_batch batch = clora_train_batch_init();
  batch.ids = ids.data();
  batch.id_count = ids.size();
  clora_step_result result = clora_step_result_init();
  EXPECT_EQ(clora_trainer_step(trainer, &batch, learning_rate, &result), CLORA_OK)
      << clora_last_error();
  return result.grad_norm;
}

TEST_F(OpenCApi, TrainsWithEveryOptimizerAndRefusesSettingsThatItLacks) {
  clora_adapter* adapter = nullptr;
  clora_trainer* trainer = nullptr;
  ASSERT_EQ(clora_adapter_create(model_, nullptr, &adapter), CLORA_OK) << clora_last_error();
  clora_trainer_options options = clora_trainer_options_init();
  options.optimizer = "adam";
  expect_error(clora_trainer_create(adapter, &options, &trainer), CLORA_INVALID_ARGUMENT,
               "must be one of adamw, adamw-8bit, lion, sgd, muon, got 'adam'");
  options.optimizer = "sgd";
  options.beta1 = 0.9;
  expect_error(clora_trainer_create(adapter, &options, &trainer), CLORA_INVALID_ARGUMENT,
               "sgd has no beta1");
  options.beta1 = 0;
  options.loraplus_lr_ratio = -1;
  expect_error(clora_trainer_create(adapter, &options, &trainer), CLORA_INVALID_ARGUMENT,
               "learning rates of B and A must be finite and above 0, got -1");
  options.loraplus_lr_ratio = 16;
  const auto bytes_with = [&](const char* optimizer) {
    options.optimizer = optimizer;
    EXPECT_EQ(clora_trainer_create(adapter, &options, &trainer), CLORA_OK) << clora_last_error();
    clora_statistics statistics = clora_statistics_init();
    EXPECT_EQ(clora_context_get_statistics(context_, &statistics), CLORA_OK);
    EXPECT_GT(grad_norm_of_a_step(trainer, 1e-3), 0);
    clora_trainer_release(trainer);
    return statistics.adapters_bytes;
  };
  const std::uint64_t of_adamw = bytes_with(nullptr);
  EXPECT_EQ(bytes_with("adamw"), of_adamw);
  for (const char* less : {"adamw-8bit", "lion", "muon"}) EXPECT_LT(bytes_with(less), of_adamw);
  options.momentum = 0.8;
  options.nesterov = 1;
  EXPECT_LT(bytes_with("sgd"), of_adamw);
  clora_adapter_release(adapter);
}

TEST_F(OpenCApi, TrainsWithCheckpointsToTheSameBitsAndRefusesOtherPolicies) {
  clora_adapter* adapter = nullptr;
  clora_trainer* trainer = nullptr;
  ASSERT_EQ(clora_adapter_create(model_, nullptr, &adapter), CLORA_OK) << clora_last_error();
  clora_trainer_options options = clora_trainer_options_init();
  options.saved_activations = "q4";
  expect_error(clora_trainer_create(adapter, &options, &trainer), CLORA_INVALID_ARGUMENT,
               "saved activations must be computed, bf16, f16 or q8, got 'q4'");
  options.saved_activations = "computed";
  options.feed_forward_rows = 100;
  expect_error(clora_trainer_create(adapter, &options, &trainer), CLORA_INVALID_ARGUMENT,
               "feed_forward_rows must be a multiple of 256, or 0, got 100");
  options.feed_forward_rows = 0;
  std::array<double, 2> grad_norms{};
  for (const std::int64_t blocks : {0, 1}) {
    options.blocks_per_checkpoint = blocks;
    ASSERT_EQ(clora_trainer_create(adapter, &options, &trainer), CLORA_OK) << clora_last_error();
    grad_norms.at(static_cast<std::size_t>(blocks)) = grad_norm_of_a_step(trainer, 0);
    clora_trainer_release(trainer);
  }
  EXPECT_GT(grad_norms[0], 0);
  EXPECT_EQ(grad_norms[1], grad_norms[0]);
  clora_adapter_release(adapter);
}

TEST_F(OpenCApi, AnAdapterOfAnotherModelIsNotAttached) {
  clora_model* other = nullptr;
  clora_adapter* adapter = nullptr;
  ASSERT_EQ(clora_model_load(context_, model_folder().c_str(), nullptr, &other), CLORA_OK);
  ASSERT_EQ(clora_adapter_create(other, nullptr, &adapter), CLORA_OK);
  expect_error(clora_session_attach(session_, adapter), CLORA_INVALID_ARGUMENT,
               "must belong to the session's model");
  clora_adapter_release(adapter);
  clora_model_release(other);
}

TEST_F(OpenCApi, ArraysTooSmallReportHowMuchThereIs) {
  clora_tokenizer* tokenizer = nullptr;
  ASSERT_EQ(clora_tokenizer_load(model_folder().c_str(), &tokenizer), CLORA_OK);
  std::array<std::int32_t, 2> ids{-7, -7};
  std::size_t count = 0;
  expect_error(clora_tokenizer_encode(tokenizer, "wxyz", 4, 0, ids.data(), 2, &count),
               CLORA_INVALID_ARGUMENT, "the array must have space for 4 elements, got 2");
  EXPECT_EQ(count, 4U);
  EXPECT_EQ(ids[0], -7);
  EXPECT_EQ(clora_tokenizer_encode(tokenizer, "wxyz", 4, 0, nullptr, 0, &count), CLORA_OK);
  EXPECT_EQ(count, 4U);
  clora_tokenizer_release(tokenizer);
}

TEST_F(OpenCApi, AConversationAsJsonIsReadWhollyOrRefused) {
  clora_tokenizer* tokenizer = nullptr;
  ASSERT_EQ(clora_tokenizer_load(model_folder().c_str(), &tokenizer), CLORA_OK);
  std::size_t count = 0;
  const auto refuses = [&](const std::string& text, const std::string& part) {
    expect_error(
        clora_tokenizer_encode_chat_json(tokenizer, text.data(), text.size(), nullptr, 0, &count),
        CLORA_INVALID_ARGUMENT, part);
  };
  refuses(R"({"messages": [], "temperature": 1})", "unknown key 'temperature'");
  refuses(R"({"messages": {}})", "\"messages\" must be a list");
  refuses(R"({"messages": [{"content": "a"}]})", "\"role\" is missing");
  refuses(R"({"messages": [{"role": "poet", "content": "a"}]})", "\"role\" must be system");
  refuses(R"({"messages": [{"role": "user", "content": null}]})", "\"content\" is null");
  refuses(R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"name": "look_up"}]})",
          "does not write tools");
  const std::string typed =
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]})";
  EXPECT_EQ(
      clora_tokenizer_encode_chat_json(tokenizer, typed.data(), typed.size(), nullptr, 0, &count),
      CLORA_OK)
      << clora_last_error();
  EXPECT_GT(count, 3U);
  clora_tokenizer_release(tokenizer);
}

// ---- Structs of other sizes

TEST_F(OpenCApi, AStructWithoutItsSizeIsRefused) {
  clora_generation_options options{};  // size 0
  expect_error(clora_generate(session_, ids_.data(), 4, &options, nullptr, 0, nullptr),
               CLORA_INVALID_ARGUMENT, "size must be set by its _init function");
  clora_model_info info{};
  expect_error(clora_model_get_info(model_, &info), CLORA_INVALID_ARGUMENT, "size must be set");
  clora_context_options garbage{};
  garbage.size = 0xdeadbeef;
  clora_context* context = nullptr;
  expect_error(clora_context_create(&garbage, &context), CLORA_INVALID_ARGUMENT, "got 3735928559");
}

TEST_F(OpenCApi, FieldsPastTheSizeOfAnOlderHeaderAreDefaults) {
  clora_generation_options options = clora_generation_options_init();
  options.max_tokens = 3;
  options.ignore_end = 99;  // beyond the size below, so not read
  options.size = offsetof(clora_generation_options, temperature);
  options.temperature = -5;                                                // would be refused
  options.on_token = [](void*, std::int32_t) { return std::int32_t{1}; };  // would stop at once
  clora_generation generation = clora_generation_init();
  ASSERT_EQ(clora_generate(session_, ids_.data(), 4, &options, nullptr, 0, &generation), CLORA_OK)
      << clora_last_error();
  EXPECT_NE(generation.finish_reason, CLORA_FINISH_CANCELLED);
  EXPECT_LE(generation.token_count, 3U);
}

TEST_F(OpenCApi, OnlyWhatFitsAnOldersHeadersStructIsWritten) {
  clora_model_info info = clora_model_info_init();
  info.size = offsetof(clora_model_info, layers);
  info.layers = -7;
  ASSERT_EQ(clora_model_get_info(model_, &info), CLORA_OK);
  EXPECT_THAT(info.architecture, StrEq("llama"));
  EXPECT_EQ(info.size, offsetof(clora_model_info, layers));
  EXPECT_EQ(info.layers, -7);
}

struct NewerOptions {
  clora_session_options known;
  std::uint64_t unknown;
};

TEST_F(OpenCApi, FieldsOfANewerHeaderMustBeZero) {
  NewerOptions options{clora_session_options_init(), 0};
  options.known.size = sizeof options;
  clora_session* session = nullptr;
  EXPECT_EQ(clora_session_create(model_, &options.known, &session), CLORA_OK);
  clora_session_release(session);
  options.unknown = 1ULL << 40U;
  expect_error(clora_session_create(model_, &options.known, &session), CLORA_UNSUPPORTED,
               "does not support");
}

// ---- Last error

TEST_F(OpenCApi, TheLastErrorStaysThroughCallsThatSucceed) {
  expect_error(clora_context_finish(nullptr), CLORA_INVALID_ARGUMENT, "clora_context_finish");
  ASSERT_EQ(clora_context_finish(context_), CLORA_OK);
  EXPECT_THAT(clora_last_error(), HasSubstr("clora_context_finish: context must not be NULL"));
}

TEST(CApiLastError, BelongsToItsThread) {
  EXPECT_EQ(clora_context_finish(nullptr), CLORA_INVALID_ARGUMENT);
  std::string elsewhere = "not set";
  std::thread([&] { elsewhere = clora_last_error(); }).join();
  EXPECT_EQ(elsewhere, "");
  EXPECT_THAT(clora_last_error(), HasSubstr("clora_context_finish"));
}

TEST(CApiStatus, HasATextForEveryValueAndForNone) {
  for (int i = 0; i <= CLORA_INTERNAL; ++i) {
    EXPECT_THAT(clora_status_text(static_cast<clora_status>(i)), testing::Not(StrEq("")));
  }
  EXPECT_THAT(clora_status_text(CLORA_INTERNAL), StrEq("internal"));
  EXPECT_THAT(clora_status_text(CLORA_DIVERGED), StrEq("diverged"));
  EXPECT_THAT(clora_status_text(static_cast<clora_status>(15)), StrEq("unknown status"));
}

// ---- Lifetimes

TEST_F(OpenCApi, ChildrenLiveOnWhenTheirParentsAreReleased) {
  const std::vector<float> want = last_logits(session_);
  clora_context* context = nullptr;
  clora_model* model = nullptr;
  clora_session* session = nullptr;
  clora_adapter* adapter = nullptr;
  clora_trainer* trainer = nullptr;
  clora_context_options options = clora_context_options_init();
  options.device = std::getenv("CLORA_DEVICE");
  ASSERT_EQ(clora_context_create(&options, &context), CLORA_OK);
  ASSERT_EQ(clora_model_load(context, model_folder().c_str(), nullptr, &model), CLORA_OK);
  clora_context_release(context);
  ASSERT_EQ(clora_session_create(model, nullptr, &session), CLORA_OK);
  ASSERT_EQ(clora_adapter_create(model, nullptr, &adapter), CLORA_OK);
  clora_model_release(model);
  ASSERT_EQ(clora_trainer_create(adapter, nullptr, &trainer), CLORA_OK);
  ASSERT_EQ(clora_session_attach(session, adapter), CLORA_OK);
  clora_adapter_release(adapter);
  EXPECT_EQ(last_logits(session), want);  // a new adapter changes no logits
  clora_train_batch batch = clora_train_batch_init();
  batch.ids = ids_.data();
  batch.id_count = ids_.size();
  EXPECT_EQ(clora_trainer_step(trainer, &batch, 1e-2, nullptr), CLORA_OK) << clora_last_error();
  EXPECT_NE(last_logits(session), want);  // the session uses the updated adapter
  clora_session_release(session);
  EXPECT_EQ(clora_trainer_step(trainer, &batch, 1e-2, nullptr), CLORA_OK) << clora_last_error();
  clora_trainer_release(trainer);
}

TEST_F(OpenCApi, AllMemoryComesBackWhenAllIsReleased) {
  clora_statistics before = clora_statistics_init();
  clora_statistics after = clora_statistics_init();
  ASSERT_EQ(clora_context_get_statistics(context_, &before), CLORA_OK);
  clora_model* model = nullptr;
  clora_session* session = nullptr;
  clora_engine* engine = nullptr;
  ASSERT_EQ(clora_model_load(context_, model_folder().c_str(), nullptr, &model), CLORA_OK);
  ASSERT_EQ(clora_session_create(model, nullptr, &session), CLORA_OK);
  ASSERT_EQ(clora_engine_create(model, nullptr, &engine), CLORA_OK);
  last_logits(session);
  ASSERT_EQ(clora_generate(session, ids_.data(), 4, nullptr, nullptr, 0, nullptr), CLORA_OK);
  clora_model_release(model);
  clora_session_release(session);
  clora_engine_release(engine);
  ASSERT_EQ(clora_context_get_statistics(context_, &after), CLORA_OK);
  EXPECT_EQ(after.memory_in_use_bytes, before.memory_in_use_bytes);
  EXPECT_GT(after.memory_high_water_bytes, before.memory_high_water_bytes);
}

}  // namespace
}  // namespace clora

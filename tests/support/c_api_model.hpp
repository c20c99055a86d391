// A tiny chat model that is open in the C interface and in C++, for tests that compare the two.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "clora/model/transformer/language_model.hpp"
#include "clora/model/weights/weights.hpp"
#include "clora/runtime/context.hpp"
#include "model/c_api/clora.h"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_chat_model.hpp"

namespace clora::test {

inline void expect_ok(clora_status status) { EXPECT_EQ(status, CLORA_OK) << clora_last_error(); }

// Expects the status, and `part` in the thread's last error.
inline void expect_error(clora_status got, clora_status want, const std::string& part) {
  EXPECT_EQ(got, want) << clora_last_error();
  EXPECT_THAT(clora_last_error(), testing::HasSubstr(part));
}

class CApiModel : public testing::Test {
 protected:
  CApiModel() {
    write_tiny_chat_model(path());
    clora_context_options options = clora_context_options_init();
    options.device = std::getenv("CLORA_DEVICE");
    expect_ok(clora_context_create(&options, &context_));
    expect_ok(clora_model_load(context_, path().c_str(), nullptr, &model_));
    expect_ok(clora_session_create(model_, nullptr, &session_));
    expect_ok(clora_tokenizer_load(path().c_str(), &tokenizer_));
  }
  ~CApiModel() override {
    for (clora_adapter* adapter : adapters_) clora_adapter_release(adapter);
    clora_tokenizer_release(tokenizer_);
    clora_session_release(session_);
    clora_model_release(model_);
    clora_context_release(context_);
  }

  std::string path() const { return folder_ / "model"; }
  std::string at(const char* name) const { return folder_ / name; }

  // Released with the fixture.
  clora_adapter* new_adapter(double dropout = 0) {
    clora_adapter_options options = clora_adapter_options_init();
    options.rank = 4;
    options.seed = 3;
    options.dropout = dropout;
    return new_adapter(options);
  }
  clora_adapter* new_adapter(const clora_adapter_options& options) {
    clora_adapter* adapter = nullptr;
    expect_ok(clora_adapter_create(model_, &options, &adapter));
    adapters_.push_back(adapter);
    return adapter;
  }
  // One that changes every reply.
  clora_adapter* trained_adapter() {
    clora_adapter* const adapter = new_adapter();
    clora_trainer* trainer = nullptr;
    expect_ok(clora_trainer_create(adapter, nullptr, &trainer));
    const clora_train_batch batch = batch_of(first_);
    for (int i = 0; i < 5; ++i) expect_ok(clora_trainer_step(trainer, &batch, 0.1, nullptr));
    clora_trainer_release(trainer);
    return adapter;
  }

  // One document, all of whose tokens are labelled. Must not outlive the ids.
  static clora_train_batch batch_of(const std::vector<std::int32_t>& ids) {
    clora_train_batch batch = clora_train_batch_init();
    batch.ids = ids.data();
    batch.id_count = ids.size();
    return batch;
  }

  std::vector<float> logits() {
    clora_model_info info = clora_model_info_init();
    expect_ok(clora_model_get_info(model_, &info));
    std::vector<float> logits(static_cast<std::size_t>(info.vocabulary));
    expect_ok(clora_forward(session_, first_.data(), first_.size(), CLORA_LOGITS_LAST,
                            logits.data(), logits.size()));
    return logits;
  }

  // All values, tensor by tensor.
  static std::vector<float> values_of(const clora_adapter* adapter) {
    std::size_t count = 0;
    expect_ok(clora_adapter_tensor_count(adapter, &count));
    std::vector<float> all;
    for (std::size_t i = 0; i < count; ++i) {
      clora_adapter_tensor tensor = clora_adapter_tensor_init();
      expect_ok(clora_adapter_get_tensor(adapter, i, &tensor));
      std::vector<float> values(static_cast<std::size_t>(tensor.elements));
      expect_ok(clora_adapter_read_tensor(adapter, i, values.data(), values.size()));
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  TemporaryFolder folder_;
  const std::vector<std::int32_t> first_{72, 5, 61, 30, 9, 33, 12}, second_{7, 60, 11, 2};
  clora_context* context_ = nullptr;
  clora_model* model_ = nullptr;
  clora_session* session_ = nullptr;
  clora_tokenizer* tokenizer_ = nullptr;
  std::vector<clora_adapter*> adapters_;
};

// The same model in C++, on a Context with the settings that the C interface has by default.
struct SameModel {
  explicit SameModel(const std::string& path)
      : context(settings()), files(WeightFiles::open(path)), model(context, files) {}
  static ContextConfig settings() {
    ContextConfig config;
    if (const char* device = std::getenv("CLORA_DEVICE")) config.device = device;
    return config;
  }
  // As CApiModel::new_adapter().
  Adapter new_adapter(double dropout = 0) {
    Adapter adapter(context, select_sites(model.config(), {"all-linear"}, 0),
                    {.rank = 4, .dropout = dropout});
    adapter.initialise(3);
    return adapter;
  }
  Context context;
  WeightFiles files;
  LanguageModel model;
};

}  // namespace clora::test

// The C interface with weights that are NaN or infinite: each error of the library has its status.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstdlib>

#include "model/c_api/clora.h"
#include "tests/support/poisoned_file.hpp"
#include "tests/support/tiny_chat_model.hpp"

namespace clora {
namespace {

using testing::HasSubstr;

void expect_error(clora_status got, clora_status want, const std::string& part) {
  EXPECT_EQ(got, want) << clora_last_error();
  EXPECT_THAT(clora_last_error(), HasSubstr(part));
}

constexpr const char* kPoisoned = "model.layers.1.mlp.up_proj.weight";

class CApiNotANumber : public testing::Test {
 protected:
  CApiNotANumber() {
    test::write_tiny_chat_model(folder_ / "model");
    clora_context_options options = clora_context_options_init();
    options.device = std::getenv("CLORA_DEVICE");
    EXPECT_EQ(clora_context_create(&options, &context_), CLORA_OK) << clora_last_error();
  }
  ~CApiNotANumber() override {
    clora_trainer_release(trainer_);
    clora_adapter_release(adapter_);
    clora_session_release(session_);
    clora_model_release(model_);
    clora_context_release(context_);
  }

  std::string at(const char* name) const { return folder_ / name; }

  void open() {
    ASSERT_EQ(clora_model_load(context_, at("model").c_str(), nullptr, &model_), CLORA_OK)
        << clora_last_error();
    ASSERT_EQ(clora_session_create(model_, nullptr, &session_), CLORA_OK) << clora_last_error();
    ASSERT_EQ(clora_adapter_create(model_, nullptr, &adapter_), CLORA_OK) << clora_last_error();
    ASSERT_EQ(clora_trainer_create(adapter_, nullptr, &trainer_), CLORA_OK) << clora_last_error();
    batch_.ids = ids_.data();
    batch_.id_count = ids_.size();
  }
  clora_status generate() {
    return clora_generate(session_, ids_.data(), ids_.size(), nullptr, nullptr, 0, nullptr);
  }

  test::TemporaryFolder folder_;
  clora_context* context_ = nullptr;
  clora_model* model_ = nullptr;
  clora_session* session_ = nullptr;
  clora_adapter* adapter_ = nullptr;
  clora_trainer* trainer_ = nullptr;
  clora_train_batch batch_ = clora_train_batch_init();
  std::array<std::int32_t, 4> ids_{5, 6, 7, 8};
};

TEST_F(CApiNotANumber, InAWeightIsAnInvalidFileThatNamesIt) {
  test::poison(folder_ / "model/model.safetensors", kPoisoned, std::nanf(""));
  open();
  expect_error(generate(), CLORA_INVALID_FILE, kPoisoned);
  std::vector<float> logits(4096);
  expect_error(clora_forward(session_, ids_.data(), ids_.size(), CLORA_LOGITS_LAST, logits.data(),
                             logits.size()),
               CLORA_INVALID_FILE, kPoisoned);
  clora_step_result result = clora_step_result_init();
  expect_error(clora_trainer_step(trainer_, &batch_, 1e-3, &result), CLORA_INVALID_FILE, kPoisoned);
}

TEST_F(CApiNotANumber, OfAStepThatWasNotWaitedForIsReturnedByTheNext) {
  test::poison(folder_ / "model/model.safetensors", kPoisoned, HUGE_VALF);
  open();
  EXPECT_EQ(clora_trainer_step(trainer_, &batch_, 1e-3, nullptr), CLORA_OK) << clora_last_error();
  expect_error(clora_trainer_step(trainer_, &batch_, 1e-3, nullptr), CLORA_INVALID_FILE, kPoisoned);
}

TEST_F(CApiNotANumber, WithFiniteWeightsIsADivergedRun) {
  open();
  clora_step_result result = clora_step_result_init();
  clora_status status = CLORA_OK;
  for (int step = 0; step < 5 && status == CLORA_OK; ++step) {
    status = clora_trainer_step(trainer_, &batch_, 1e30, &result);
  }
  expect_error(status, CLORA_DIVERGED, "training: step ");
  ASSERT_EQ(clora_session_attach(session_, adapter_), CLORA_OK);
  expect_error(generate(), CLORA_INVALID_DATA, "the adapter's ");
}

TEST_F(CApiNotANumber, IsNotTheLossOfABatchWithoutALabelledToken) {
  open();
  const std::array<std::uint8_t, 4> nowhere{1, 0, 0, 0};  // nothing predicts the first token
  batch_.is_target = nowhere.data();
  clora_step_result result = clora_step_result_init();
  expect_error(clora_trainer_step(trainer_, &batch_, 1e-3, &result), CLORA_INVALID_ARGUMENT,
               "at least one labelled token");
}

}  // namespace
}  // namespace clora

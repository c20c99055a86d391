// A fixture for tests of engines: one tiny model at a time, whose family the test names.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "clora/model/generation/engine.hpp"
#include "tests/support/test_models.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora::test {

class EngineFixture : public testing::TestWithParam<std::string> {
 protected:
  static constexpr std::int64_t kPositions = 128;

  // The model of tiny_config(name), in place of the one before.
  void open(const std::string& name, Variant variant = Variant::automatic) {
    write_tiny_model(folder_ / name, tiny_config(name));
    open_.reset();
    open_.emplace(folder_ / name, variant);
  }
  LanguageModel& model() { return open_->model; }
  static EngineConfig config(std::int64_t sequences = 4) {
    return {.max_sequences = sequences, .max_positions = kPositions, .step_tokens = 64};
  }

  TemporaryFolder folder_;
  std::optional<OpenModel> open_;
};

}  // namespace clora::test

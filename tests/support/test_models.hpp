// Models and reference values outside of the repository. A test skips with a message if one is
// absent.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "clora/model/families/language_model.hpp"
#include "tests/support/test_files.hpp"

namespace clora::test {

// The demo model in the model cache; nothing if it is absent.
std::optional<std::filesystem::path> demo_model();

nlohmann::json read_json(const std::filesystem::path& path);

// A model opened on the process's Context of the device's preferred variant.
struct OpenModel {
  explicit OpenModel(const std::filesystem::path& path);
  WeightFiles files;
  LanguageModel model;
};

// |got - want| <= tolerance * max |want| for every logit.
void expect_logits(const std::vector<float>& got, const std::vector<double>& want,
                   double tolerance);

}  // namespace clora::test

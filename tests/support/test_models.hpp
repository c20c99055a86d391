// Models and reference values outside of the repository.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clora/model/transformer/language_model.hpp"
#include "tests/support/test_files.hpp"

namespace clora::test {

nlohmann::json read_json(const std::filesystem::path& path);

// A model opened on the process's Context of a variant, by default the one that the device prefers.
struct OpenModel {
  explicit OpenModel(const std::filesystem::path& path, Variant variant = Variant::automatic,
                     const LoadOptions& options = {});
  WeightFiles files;
  LanguageModel model;
};

// |got - want| <= tolerance * max |want| for every logit.
void expect_logits(const std::vector<float>& got, const std::vector<double>& want,
                   double tolerance);

}  // namespace clora::test

// A model for a thread of a test that has several.
#pragma once

#include <filesystem>

#include "clora/model/transformer/language_model.hpp"
#include "clora/model/weights/weights.hpp"
#include "clora/runtime/context.hpp"

namespace clora::test {

// A model with a Context of its own, for one thread.
struct OwnModel {
  explicit OwnModel(const std::filesystem::path& path)
      : context(config_from_environment()), files(WeightFiles::open(path)), model(context, files) {}
  Context context;
  WeightFiles files;
  LanguageModel model;
};

}  // namespace clora::test

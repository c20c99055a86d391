// LoadedModel: a model of a bench with a Context of its own, and the profile of work with it.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>

#include "bench/support/session.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "runtime/elapsed.hpp"

namespace clora::bench {

struct LoadedModel {
  LoadedModel(Arithmetic of, const std::filesystem::path& path)
      : arithmetic(of),
        begin(std::chrono::steady_clock::now()),
        context(config(of)),
        files(WeightFiles::open(path)),
        model(context, files),
        load_seconds(seconds_since(begin)) {}
  static ContextConfig config(Arithmetic arithmetic) {
    ContextConfig c = config_for(arithmetic);
    c.profile = wants_profile();
    return c;
  }
  // Prints the profile of work().
  void print_profile(const std::function<void()>& work) {
    if (!wants_profile()) return;
    context.profiler().clear();
    work();
    std::cerr << context.profiler().table(ProfileBy::op, peaks_for(arithmetic));
    context.profiler().clear();
  }
  Arithmetic arithmetic;
  std::chrono::steady_clock::time_point begin;
  Context context;
  WeightFiles files;
  LanguageModel model;
  double load_seconds;
};

}  // namespace clora::bench

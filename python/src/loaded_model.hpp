// LoadedModel and LoadedAdapter: a model and its adapters, as Python holds them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "clora/lora/adapter.hpp"
#include "clora/model/transformer/forward_pass.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "clora/model/weights/weights.hpp"
#include "python/src/shared_context.hpp"

namespace clora::python {

struct LoadedAdapter : std::enable_shared_from_this<LoadedAdapter> {
  template <class Make>
  LoadedAdapter(ContextHandle context, Make&& make)
      : adapter(std::move(context), std::forward<Make>(make)) {}

  const ContextHandle& context() const noexcept { return adapter.context(); }

  OnContext<Adapter> adapter;
  // Counts the changes of its parameters: what was computed from earlier ones is void.
  std::atomic<std::uint64_t> version = 0;
  // As in TrainerConfig.
  std::int64_t frozen_ranks = 0;
};
using AdapterHandle = std::shared_ptr<LoadedAdapter>;

// The adapter, or null for None.
inline Adapter* adapter_or_null(const AdapterHandle& adapter) {
  return adapter ? &*adapter->adapter : nullptr;
}

struct LoadedModel : std::enable_shared_from_this<LoadedModel> {
  // Errors: those of WeightFiles and LanguageModel.
  LoadedModel(ContextHandle context, std::string model_path, const LoadOptions& options)
      : path(std::move(model_path)), files(WeightFiles::open(path)), model(std::move(context), [&] {
          return LanguageModel(model.context()->context, files, options);
        }) {}

  const ContextHandle& context() const noexcept { return model.context(); }

  std::string path;
  WeightFiles files;
  OnContext<LanguageModel> model;

  // The last forward pass, which the next one with the same parameters replays.
  struct Forward {
    AdapterHandle adapter;
    std::uint64_t version = 0;
    std::unique_ptr<ForwardPass> pass;
  };
  // Destroyed before the model. It is used and replaced on the device only.
  std::unique_ptr<Forward> forward;
  ~LoadedModel() {
    on_device(context(), [this] { forward.reset(); });
  }
};
using ModelHandle = std::shared_ptr<LoadedModel>;

}  // namespace clora::python

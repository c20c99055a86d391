// Engine: the server's use of clora: one model, several adapters by name, replies as text.
//
// Threads: generate() may be called from any thread. A Context is used by one thread at a time, so
// a mutex protects it. add() must be called before all else; afterwards the adapters are read-only.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "clora/lora/peft_files.hpp"
#include "clora/model/generation/generator.hpp"
#include "clora/model/generation/stop_filter.hpp"
#include "clora/model/text/tokenizer_files.hpp"

struct Served {
  std::optional<clora::Adapter> adapter;
  std::unique_ptr<clora::Generator> generator;  // below its adapter, so it goes first
};

struct Engine {
  static constexpr std::int64_t kMaxPositions = 2048;  // prompt and reply together

  // The model without an adapter is named "base".
  explicit Engine(const char* model_path)
      : tokenizer(clora::load_tokenizer(model_path)),
        context(clora::config_from_environment()),
        model(context, clora::WeightFiles::open(model_path), {.context_length = kMaxPositions}) {
    serve("base", std::nullopt);
  }

  void add(const std::string& name, const std::string& adapter_folder) {
    const auto sites = clora::adapter_sites(model.config());
    serve(name, clora::load_adapter(context, adapter_folder, sites));
  }

  // on_text receives each piece of the reply, including empty ones. It returns false to end the
  // reply, also while generate() waits for the device.
  clora::Generation generate(const std::string& name, std::span<const std::int32_t> prompt,
                             clora::GenerationConfig config, const std::vector<std::string>& stops,
                             const std::function<bool(const std::string&)>& on_text) {
    clora::Generation generated;
    generated.finish_reason = clora::FinishReason::cancelled;
    std::unique_lock lock(device, std::defer_lock);
    // By the system's clock, because ThreadSanitizer (GCC 12) does not see locks by the steady one.
    // A clock that is set back delays only the next call of on_text.
    while (!lock.try_lock_until(std::chrono::system_clock::now() + std::chrono::milliseconds(50))) {
      if (!on_text("")) return generated;
    }
    clora::StreamDecoder decoder(tokenizer);  // a token may be a part of a character
    clora::StopFilter filter(stops);
    config.end_ids = tokenizer.end_of_generation();
    config.on_prompt = [&](std::int64_t) { return on_text(""); };  // cancels a long prompt
    generated = served.at(name).generator->generate(prompt, config, [&](int id) {
      return on_text(filter.push(decoder.push(id))) && !filter.stopped();
    });
    on_text(filter.push(decoder.finish()) + filter.finish());
    if (filter.stopped()) generated.finish_reason = clora::FinishReason::stop;
    memory_bytes = context.pool().statistics().in_use_bytes;
    tokens += generated.ids.size();
    return generated;
  }

  std::int64_t max_positions() const {
    const std::int64_t known = model.config().max_positions;  // 0: the model does not state it
    return known > 0 ? std::min(known, kMaxPositions) : kMaxPositions;
  }

  std::mutex reading;  // one request is parsed at a time: parsing takes many times its bytes
  clora::Tokenizer tokenizer;
  clora::Context context;
  clora::LanguageModel model;
  std::map<std::string, Served> served;
  std::atomic<std::size_t> memory_bytes = 0;  // at the end of the last reply
  std::atomic<std::size_t> tokens = 0;        // generated so far

 private:
  void serve(const std::string& name, std::optional<clora::Adapter> adapter) {
    Served& entry = served[name];
    entry.adapter = std::move(adapter);
    entry.generator = std::make_unique<clora::Generator>(
        model, entry.adapter ? &*entry.adapter : nullptr, max_positions());
    memory_bytes = context.pool().statistics().in_use_bytes;
  }

  std::timed_mutex device;
};

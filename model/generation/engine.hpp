// Engine: generation for many requests at once from one model, each with its own adapters, length
// and sampling.
//
// The caller submits requests and runs step() in a loop. Each step processes one token of every
// running sequence and, within a budget of tokens, chunks of new prompts, as one recorded batch;
// events then report what was generated. Keys and values are kept in pages of positions, which
// sequences with the same adapter and the same first tokens share. Requests are admitted in the
// order of their arrival; if the cache is full, the latest sequence gives its pages back and is
// computed again later.
//
// A model that is larger than the memory of one device may be divided over several (ModelStage),
// which then compute one after another: each has the weights, the cache and the adapters of its
// blocks.
//
// Threads: submit(), cancel() and statistics() from any thread; everything else one at a time. Must
// not outlive the model, or its stages' models and adapters.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/generation/generation_request.hpp"
#include "clora/model/generation/kv_cache_type.hpp"
#include "clora/model/transformer/model_stage.hpp"

namespace clora {

class Tokenizer;

struct EngineConfig {
  std::int64_t max_sequences = 8;     // that run at once
  std::int64_t max_positions = 4096;  // of one sequence: prompt and reply
  // Positions of the KV cache, for all sequences; 0: max_sequences * max_positions.
  std::int64_t cache_positions = 0;
  std::int64_t step_tokens = 512;        // budget of one step: rows of replies and of prompts
  std::optional<DType> cache_type = {};  // kv_cache_type_of()
  // Whether sequences share the keys and values of equal first tokens, also with ones that have
  // ended. Not possible for models with layers that keep a state.
  bool shares_prefixes = true;
  // Part of the base model of every request; or null. All kinds of adapters are possible.
  const Adapter* base_adapter = nullptr;
  // Adapters of requests: how many different ones may be on the device at once, and the largest
  // rank; 0: requests have none.
  std::int64_t device_adapters = 0;
  std::int64_t max_rank = 0;
  // For texts in events and for stop texts; or null: requests have no stop texts, and events only
  // ids. Must outlive the engine.
  const Tokenizer* tokenizer = nullptr;
};

struct EngineStatistics {
  std::int64_t running = 0, waiting = 0;   // requests
  std::int64_t pages = 0, used_pages = 0;  // of the cache; used: by a running sequence
  std::int64_t cached_pages = 0;           // not used, but kept for a shared prefix
  std::uint64_t prompt_tokens = 0, cached_prompt_tokens = 0, generated_tokens = 0;
  std::uint64_t draft_tokens = 0, accepted_draft_tokens = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t steps = 0;
  // In use on the device or devices: weights, adapters, the cache and steps.
  std::size_t memory_bytes = 0;
};

class Engine {
 public:
  // Errors: out_of_memory, with the size that the cache needs; invalid_argument.
  Engine(LanguageModel& model, const EngineConfig& config);
  // Of a model that is divided over several devices. The stages have the base adapter, each its
  // part, in place of EngineConfig::base_adapter. Errors: the same; invalid_argument unless the
  // stages are those of one model in their order.
  Engine(std::span<const ModelStage> stages, const EngineConfig& config);
  ~Engine();

  // Records the largest steps, so that they have their memory from now on, and no request waits for
  // the compilation of their kernels; steps of adapters only after add_adapter(). Takes seconds if
  // kernels are compiled. REQUIRES: is_idle(). Errors: out_of_memory.
  void prepare();

  // Makes an adapter available to requests by its name; a name that exists is replaced for later
  // requests. The matrices are copied. Errors: invalid_argument if it has a larger rank than
  // EngineConfig::max_rank, or what adapters in one batch cannot have (DoRA, experts).
  void add_adapter(const std::string& name, const Adapter& adapter);
  // Requests that use it go on. Errors: invalid_argument if there is none of that name.
  void remove_adapter(const std::string& name);
  std::vector<std::string> adapter_names() const;  // sorted; from any thread

  // Errors: invalid_argument, naming the field.
  RequestId submit(GenerationRequest request);
  // No effect if it has finished. Its last event has the reason cancelled.
  void cancel(RequestId request);

  // Runs one step, if there is a request. Returns the events, in the order of submission. Errors:
  // those of the device; all requests are then lost, with events at the next call.
  std::vector<GenerationEvent> step();
  bool is_idle() const;
  // The positions of a request that are computed or enqueued; 0 if it waits or has ended.
  std::int64_t computed_positions(RequestId request) const;

  // Returns the logits [V] after the last token of the prompt, and waits. REQUIRES: is_idle().
  // Errors: those of submit(); of the device; those of an event, if a logit is NaN or infinite.
  std::vector<float> logits(std::span<const std::int32_t> prompt);

  // Saves the keys and values of the first of `tokens` to a file, so that they need not be computed
  // again after a restart: all full pages that the cache holds, with these adapters, from the first
  // token on, such as those of the request that has just ended. Waits for the enqueued steps; their
  // events come with the next step(). The file is replaced at once or not at all
  // (model/generation/prefix_file.hpp). Returns the number of saved tokens. Errors: not_found if
  // not even the first page is in the cache; io; those of load_prefix() that do not concern the
  // file.
  std::int64_t save_prefix(const std::filesystem::path& path, std::span<const std::int32_t> tokens,
                           std::span<const AdapterUse> adapters = {});
  // Loads such a file into the cache, where requests that begin with its tokens and have these
  // adapters find them, as if a request before had computed them. They stay until their pages are
  // needed for something else, and take those of the least recently used prefixes. Returns the
  // number of tokens. Errors: invalid_argument, naming what differs, if it was saved with another
  // model, adapter or type of the cache, and if shares_prefixes is off; unsupported for a model
  // with layers that keep a state; not_found, io; invalid_file, naming the field, if it is damaged;
  // out_of_memory if running requests leave too few pages; those of the device. Requests are not
  // affected.
  std::int64_t load_prefix(const std::filesystem::path& path,
                           std::span<const AdapterUse> adapters = {});

  EngineStatistics statistics() const;
  const EngineConfig& config() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace clora

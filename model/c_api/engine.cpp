// clora.h: engines.
#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "model/c_api/boundary.hpp"
#include "model/c_api/engine_request.hpp"
#include "model/c_api/handles.hpp"
#include "runtime/fail.hpp"

namespace clora::c_api {
namespace {

constexpr std::int64_t kDefaultRank = 64;

clora_engine& engine_of(clora_engine* engine, std::string_view who) {
  require_given(engine, who, "engine");
  return *engine;
}

// ---- Options

void require_counts(const clora_engine_options& o) {
  const auto check = [](std::int64_t value, std::string_view name) {
    require(value >= 0, "clora_engine_create: {} must not be negative, got {}", name, value);
  };
  check(o.max_sequences, "max_sequences");
  check(o.max_positions, "max_positions");
  check(o.cache_positions, "cache_positions");
  check(o.step_tokens, "step_tokens");
  check(o.device_adapters, "device_adapters");
  check(o.max_rank, "max_rank");
}

// The longest request, for models that support no more than `most` positions; 0: not known.
std::int64_t positions_of(std::int64_t given, std::int64_t most) {
  require(most == 0 || given <= most,
          "clora_engine_create: the model supports {} positions, got max_positions {}", most,
          given);
  if (given > 0) return given;
  const std::int64_t usual = EngineConfig().max_positions;
  return most > 0 ? std::min(usual, most) : usual;
}

EngineConfig config_of(const clora_engine_options& o, const ModelConfig& model) {
  require_counts(o);
  EngineConfig config;
  if (o.max_sequences > 0) config.max_sequences = o.max_sequences;
  config.max_positions = positions_of(o.max_positions, model.max_positions);
  config.cache_positions = o.cache_positions;
  config.step_tokens =
      o.step_tokens > 0 ? o.step_tokens : std::max(config.step_tokens, config.max_sequences);
  if (o.kv_cache_type != nullptr) config.cache_type = named_kv_cache_type(o.kv_cache_type);
  config.shares_prefixes = o.no_prefix_sharing == 0;
  config.device_adapters = o.device_adapters;
  if (o.device_adapters > 0) config.max_rank = o.max_rank > 0 ? o.max_rank : kDefaultRank;
  return config;
}

void require_same_model(const clora_engine& engine, const clora_adapter& adapter,
                        std::string_view who) {
  require(adapter.core->model == engine.model,
          "{}: the adapter must belong to the engine's model; load it with that model", who);
}

// The model's stop tokens and, if there is a tokenizer, its own.
std::vector<std::int32_t> end_ids_of(const clora_engine& engine) {
  std::vector<std::int32_t> ids = engine.model->model->config().eos_ids;
  if (engine.tokenizer) {
    const std::vector<std::int32_t>& more = engine.tokenizer->end_of_generation();
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

clora_engine* new_engine(clora_model& model, const clora_engine_options& options,
                         std::string_view who) {
  auto created = std::make_unique<clora_engine>();
  created->model = model.core;
  EngineConfig config = config_of(options, model.core->model->config());
  if (options.base_adapter != nullptr) {
    require_same_model(*created, *options.base_adapter, who);
    created->base_adapter = options.base_adapter->core;
    config.base_adapter = &created->base_adapter->adapter;
  }
  if (options.tokenizer != nullptr) {
    created->tokenizer.emplace(options.tokenizer->tokenizer);
    config.tokenizer = &*created->tokenizer;
  }
  created->end_ids = end_ids_of(*created);
  created->engine = std::make_unique<Engine>(*model.core->model, config);
  return created.release();
}

// ---- Steps and events

void count(clora_engine& engine) {
  const EngineStatistics now = engine.engine->statistics();
  ContextCore& context = *engine.model->context;
  context.prompt_tokens += now.prompt_tokens - engine.counted.prompt_tokens;
  context.generated_tokens += now.generated_tokens - engine.counted.generated_tokens;
  engine.counted = now;
}

void assign(TokenArrays& arrays, std::span<const GeneratedToken> tokens) {
  arrays = {};
  for (const GeneratedToken& token : tokens) {
    arrays.ids.push_back(token.id);
    arrays.logprobs.push_back(token.logprob);
    for (const auto& [id, logprob] : token.top_logprobs) {
      arrays.top_logprobs.push_back({id, logprob});
    }
  }
}

// Takes the first event, which the arrays of the result are of.
void take_event(clora_engine& engine) {
  engine.taken = std::move(engine.events.front());
  engine.events.pop_front();
  assign(engine.taken_tokens, engine.taken.tokens);
  assign(engine.taken_prompt, engine.taken.prompt_logprobs);
}

template <class T>
const T* data_or_null(const std::vector<T>& values) {
  return values.empty() ? nullptr : values.data();
}

clora_event event_of(const clora_engine& engine) {
  const GenerationEvent& taken = engine.taken;
  clora_event event{};
  event.kind = CLORA_EVENT_TOKENS;
  event.request = taken.request;
  event.ids = data_or_null(engine.taken_tokens.ids);
  event.id_count = engine.taken_tokens.ids.size();
  event.logprobs = data_or_null(engine.taken_tokens.logprobs);
  event.top_logprobs = data_or_null(engine.taken_tokens.top_logprobs);
  event.prompt_ids = data_or_null(engine.taken_prompt.ids);
  event.prompt_id_count = engine.taken_prompt.ids.size();
  event.prompt_logprobs = data_or_null(engine.taken_prompt.logprobs);
  event.prompt_top_logprobs = data_or_null(engine.taken_prompt.top_logprobs);
  event.text = taken.text.c_str();
  event.text_bytes = taken.text.size();
  event.prompt_tokens = taken.prompt_tokens;
  event.cached_tokens = taken.cached_tokens;
  event.generated_tokens = taken.generated_tokens;
  event.queue_seconds = taken.queue_seconds;
  if (taken.finish_reason) {
    event.kind = CLORA_EVENT_FINISHED;
    event.finish_reason = static_cast<std::int32_t>(*taken.finish_reason);
  } else if (!taken.error.empty()) {
    event.kind = CLORA_EVENT_FAILED;
    event.status = status_of(taken.error_code);
    event.error = taken.error.c_str();
  }
  return event;
}

clora_engine_statistics statistics_of(const EngineStatistics& s) {
  clora_engine_statistics statistics{};
  statistics.running = s.running;
  statistics.waiting = s.waiting;
  statistics.cache_pages = s.pages;
  statistics.used_pages = s.used_pages;
  statistics.cached_pages = s.cached_pages;
  statistics.prompt_tokens = s.prompt_tokens;
  statistics.cached_prompt_tokens = s.cached_prompt_tokens;
  statistics.generated_tokens = s.generated_tokens;
  statistics.draft_tokens = s.draft_tokens;
  statistics.accepted_draft_tokens = s.accepted_draft_tokens;
  statistics.preemptions = s.preemptions;
  statistics.steps = s.steps;
  statistics.memory_bytes = s.memory_bytes;
  return statistics;
}

}  // namespace
}  // namespace clora::c_api

using namespace clora;
using namespace clora::c_api;

clora_status clora_engine_create(clora_model* model, const clora_engine_options* options,
                                 clora_engine** engine) {
  constexpr std::string_view kWho = "clora_engine_create";
  return guarded_create(engine, kWho, [&] {
    require_given(model, kWho, "model");
    return new_engine(*model, read_struct(options, kWho), kWho);
  });
}

void clora_engine_release(clora_engine* engine) { delete engine; }

clora_status clora_engine_add_adapter(clora_engine* engine, const char* name,
                                      const clora_adapter* adapter) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_engine_add_adapter";
    clora_engine& own = engine_of(engine, kWho);
    require_given(name, kWho, "name");
    require_given(adapter, kWho, "adapter");
    require_same_model(own, *adapter, kWho);
    own.engine->add_adapter(name, adapter->core->adapter);
  });
}

clora_status clora_engine_remove_adapter(clora_engine* engine, const char* name) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_engine_remove_adapter";
    clora_engine& own = engine_of(engine, kWho);
    require_given(name, kWho, "name");
    own.engine->remove_adapter(name);
  });
}

clora_status clora_engine_submit(clora_engine* engine, const clora_request* request, uint64_t* id) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_engine_submit";
    clora_engine& own = engine_of(engine, kWho);
    require_given(request, kWho, "request");
    require_given(id, kWho, "id");
    *id = own.engine->submit(request_of(read_struct(request, kWho), own));
  });
}

clora_status clora_engine_cancel(clora_engine* engine, uint64_t id) {
  return guarded([&] { engine_of(engine, "clora_engine_cancel").engine->cancel(id); });
}

clora_status clora_engine_step(clora_engine* engine, int32_t* idle) {
  return guarded([&] {
    clora_engine& own = engine_of(engine, "clora_engine_step");
    std::ranges::move(own.engine->step(), std::back_inserter(own.events));
    count(own);
    if (idle != nullptr) *idle = own.engine->is_idle() ? 1 : 0;
  });
}

clora_status clora_engine_poll(clora_engine* engine, clora_event* event) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_engine_poll";
    clora_engine& own = engine_of(engine, kWho);
    require_writable(event, kWho);
    if (own.events.empty()) return write_struct(event, clora_event{}, kWho);
    take_event(own);
    write_struct(event, event_of(own), kWho);
  });
}

clora_status clora_engine_save_prefix(clora_engine* engine, const char* path,
                                      const clora_prefix* prefix, size_t* saved) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_engine_save_prefix";
    clora_engine& own = engine_of(engine, kWho);
    require_given(path, kWho, "path");
    require_given(prefix, kWho, "prefix");
    const clora_prefix known = read_struct(prefix, kWho);
    if (known.id_count > 0) require_given(known.ids, kWho, "ids");
    const std::int64_t count =
        own.engine->save_prefix(path, std::span(known.ids, known.id_count),
                                adapters_of(known.adapters, known.adapter_count, kWho));
    if (saved != nullptr) *saved = static_cast<std::size_t>(count);
  });
}

clora_status clora_engine_load_prefix(clora_engine* engine, const char* path,
                                      const clora_adapter_use* adapters, size_t adapter_count,
                                      size_t* loaded) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_engine_load_prefix";
    clora_engine& own = engine_of(engine, kWho);
    require_given(path, kWho, "path");
    const std::int64_t count =
        own.engine->load_prefix(path, adapters_of(adapters, adapter_count, kWho));
    if (loaded != nullptr) *loaded = static_cast<std::size_t>(count);
  });
}

clora_status clora_engine_get_statistics(const clora_engine* engine,
                                         clora_engine_statistics* statistics) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_engine_get_statistics";
    require_given(engine, kWho, "engine");
    write_struct(statistics, statistics_of(engine->engine->statistics()), kWho);
  });
}

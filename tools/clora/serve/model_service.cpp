#include "tools/clora/serve/model_service.hpp"

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "clora/model/adapter_files/adapter_files.hpp"
#include "clora/model/generation/grammar/token_grammar.hpp"
#include "clora/model/transformer/adapter_sites.hpp"
#include "clora/model/transformer/saved_tensors.hpp"
#include "clora/runtime/files/digest.hpp"
#include "clora/serving/engine_backend.hpp"
#include "clora/serving/request_error.hpp"
#include "lora/hub_cache.hpp"
#include "model/generation/cache_planner.hpp"
#include "runtime/elapsed.hpp"
#include "runtime/fail.hpp"
#include "tools/clora/loaded_model.hpp"
#include "tools/clora/serve/embedding_service.hpp"
#include "tools/clora/stage_options.hpp"
#include "tools/command_line/setting_names.hpp"

namespace clora {
namespace {

constexpr std::int64_t kLoadableRank = 64;     // the default where adapters may be loaded later
constexpr std::int64_t kLoadableAdapters = 8;  // the same
constexpr std::int64_t kWarmUpTokens = 64;     // of a prompt

std::string name_of_model(const ServeOptions& options) {
  if (!options.name.empty()) return options.name;
  if (const std::string id = hub_id_of(options.common.model); !id.empty()) return id;
  const std::filesystem::path path = std::filesystem::absolute(options.common.model);
  const auto last = path.has_filename() ? path : path.parent_path();
  return last.extension() == ".gguf" ? last.stem().string() : last.filename().string();
}

std::int64_t rank_of(const Adapter& adapter) {
  std::int64_t rank = 0;
  for (const AdapterModule& module : adapter.modules()) rank = std::max(rank, module.rank);
  return rank;
}

struct ServedAdapter {
  NamedAdapter source;
  Adapter adapter;
};

std::vector<ServedAdapter> load_adapters(Context& context, const ModelConfig& model,
                                         const ServeOptions& options) {
  std::vector<ServedAdapter> adapters;
  for (const NamedAdapter& source : named_adapters_of(options)) {
    adapters.push_back({source, load_adapter(context, source.folder, model)});
  }
  return adapters;
}

// The largest rank of a request, which may add two adapters.
std::int64_t largest_rank(const std::vector<ServedAdapter>& adapters) {
  std::int64_t first = 0, second = 0;
  for (const ServedAdapter& each : adapters) {
    const std::int64_t rank = rank_of(each.adapter);
    second = std::max(second, std::min(first, rank));
    first = std::max(first, rank);
  }
  return first + second;
}

EngineConfig engine_config(const ServeOptions& options, const ModelConfig& model,
                           const std::vector<ServedAdapter>& adapters, const Tokenizer& tokenizer) {
  const std::int64_t rank =
      std::max(options.allows_loading ? kLoadableRank : 0, largest_rank(adapters));
  std::int64_t count = std::ssize(adapters);
  if (options.allows_loading) count = std::max(count, kLoadableAdapters);
  EngineConfig config{.max_sequences = options.max_sequences,
                      .max_positions = options.max_positions,
                      .cache_positions = options.cache_positions,
                      .step_tokens = options.step_tokens,
                      .cache_type = named_kv_cache_type(options.kv_cache_type)};
  if (model.max_positions > 0) {
    config.max_positions = std::min(config.max_positions, model.max_positions);
  }
  config.device_adapters = options.max_device_adapters > 0 ? options.max_device_adapters : count;
  config.max_rank = options.max_rank > 0 ? options.max_rank : rank;
  if (count == 0) config.device_adapters = config.max_rank = 0;
  config.tokenizer = &tokenizer;
  return config;
}

// The model on devices of which nothing is used.
struct DryModel {
  explicit DryModel(const ServeOptions& options) : files(WeightFiles::open(options.common.model)) {
    const std::vector<CommonOptions> each = options_of_stages(options.common);
    const std::vector<BlockRange> ranges = ranges_of_stages(options.common, files);
    for (std::size_t i = 0; i < each.size(); ++i) {
      ContextConfig dry = context_config(each[i]);
      dry.dry_run = true;
      dry.profile = false;
      dry.trace = nullptr;
      dry.hooks.log = nullptr;
      contexts.push_back(std::make_unique<Context>(dry));
      const LoadOptions load{.context_length = options.max_positions, .blocks = ranges[i]};
      models.push_back(std::make_unique<LanguageModel>(*contexts.back(), files, load));
      stages.push_back({models.back().get()});
    }
  }

  WeightFiles files;
  std::vector<std::unique_ptr<Context>> contexts;
  std::vector<std::unique_ptr<LanguageModel>> models;
  std::vector<ModelStage> stages;
};

// What fits of the KV cache, before the weights are read.
CachePlan plan_of(const ServeOptions& options, const Tokenizer& tokenizer) {
  const DryModel dry(options);
  const ModelConfig& model = dry.models.front()->config();
  const std::vector<ServedAdapter> adapters = load_adapters(*dry.contexts.front(), model, options);
  const EngineConfig config = engine_config(options, model, adapters, tokenizer);
  std::vector<const Adapter*> served;
  for (const ServedAdapter& each : adapters) served.push_back(&each.adapter);
  const CachePlan plan = plan_cache(dry.stages, config, served);
  (void)planned_cache_positions(plan, config);
  return plan;
}

// Errors of reading an adapter are those of the request that names it.
template <class F>
void as_request_error(const F& f) {
  try {
    f();
  } catch (const RequestError&) {
    throw;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::device_lost || error.code() == ErrorCode::device ||
        error.code() == ErrorCode::out_of_memory) {
      throw;
    }
    throw RequestError({.param = "lora_path", .code = "invalid_value"}, error.what());
  }
}

}  // namespace

struct ModelService::Impl {
  Impl(const ServeOptions& given, Output& output)
      : options(given),
        text(given.common.model, given.chat_template),
        tokenizer(text.tokenizer()),
        cache_plan(plan_of(given, tokenizer)),
        loaded(given.common, output, given.max_positions),
        models(name_of_model(given), given.common.model),
        metrics(given.metrics_prefix, models.base()) {
    make_engine();
    warm_up(output);
    backend.emplace(*engine);
    thread.emplace(*backend, metrics,
                   EngineThreadLimits{.max_replies = static_cast<std::size_t>(given.max_sequences +
                                                                              given.max_queue)});
    service.emplace(completion_options());
    embeddings.emplace(EmbeddingService::Parts{
        .model = &loaded.model(),
        .tokenizer = &tokenizer,
        .engine = &*thread,
        .models = &models,
        .adapter_of = [this](const std::string& name) {
          return loaded.adapter(models.describe(name)["root"].get<std::string>()).value();
        }});
  }

  void make_engine() {
    const std::vector<ServedAdapter> adapters =
        load_adapters(loaded.context(), loaded.model().config(), options);
    const std::size_t before = loaded.used_bytes();
    config = engine_config(options, loaded.model().config(), adapters, tokenizer);
    config.cache_positions = planned_cache_positions(cache_plan, config);
    engine.emplace(loaded.stages(), config);
    engine_bytes = loaded.used_bytes() - before;
    for (const ServedAdapter& each : adapters) {
      models.require_free(each.source.name);
      engine->add_adapter(each.source.name, each.adapter);
      models.add(each.source.name, each.source.folder);
    }
  }

  // Allocates the memory of the largest steps, and compiles kernels by short replies, without and
  // with an adapter: else the first client would wait.
  void warm_up(Output& output) {
    const auto started = std::chrono::steady_clock::now();
    engine->prepare();
    output.detail("largest steps recorded in {:.2f} s", seconds_since(started));
    generate_some({});
    const auto& served = models.list()["data"];
    if (served.size() > 1) generate_some({{.name = served[1]["id"]}});
  }
  void generate_some(const std::vector<AdapterUse>& adapters) {
    const std::int64_t length =
        std::clamp<std::int64_t>(config.max_positions - 2, 1, kWarmUpTokens);
    const std::vector<std::int32_t> prompt(static_cast<std::size_t>(length));
    engine->submit({.prompt = prompt, .max_tokens = 2, .adapters = adapters});
    while (!engine->is_idle()) {
      for (const GenerationEvent& event : engine->step()) {
        if (!event.error.empty()) throw Error(event.error_code, event.error);
      }
    }
  }

  std::shared_ptr<const TokenGrammar> grammar_of(const ReplyFormat& format) const {
    if (format.kind == ReplyFormat::Kind::json_object) {
      return TokenGrammar::any_json_object(vocabulary);
    }
    return TokenGrammar::from_json_schema(format.schema, vocabulary, format.frame);
  }

  CompletionOptions completion_options() {
    const std::string identity = options.common.model + loaded.device_names();
    return {.engine = &*thread,
            .models = &models,
            .tokenizer = &tokenizer,
            .chat_template = text.find_chat_template(),
            .chat_template_text = text.chat_template_text(),
            .chat_template_source = options.chat_template.empty() ? tokenizer.chat_template()
                                                                  : text.chat_template_text(),
            .end_ids = text.end_ids(loaded.model().config()),
            .fingerprint = "fp_" + digest_of(std::string_view(identity)).text().substr(0, 10),
            .limits = {.max_positions = config.max_positions,
                       .max_output_tokens = options.max_output_tokens,
                       .request_time = std::chrono::milliseconds(
                           static_cast<std::int64_t>(options.request_timeout * 1000))},
            .draft_tokens = options.draft_tokens,
            .grammar_of = [this](const ReplyFormat& format) { return grammar_of(format); }};
  }

  void load(const std::string& name, const std::string& path) {
    const std::lock_guard lock(loading);
    models.require_free(name);
    const std::filesystem::path adapter_path = adapter_path_below(options.adapters_dir, path);
    as_request_error([&] {
      thread->run([&] {
        const std::optional<Adapter> adapter = loaded.adapter(adapter_path.string());
        engine->add_adapter(name, *adapter);
      });
    });
    models.add(name, adapter_path.string());
  }

  // First for new requests, then for the engine.
  void unload(const std::string& name) {
    const std::lock_guard lock(loading);
    models.remove(name);
    thread->run([&] {
      engine->remove_adapter(name);
      embeddings->forget(name);
    });
  }

  const ServeOptions options;
  const ModelText text;
  const Tokenizer tokenizer;
  const GrammarVocabulary vocabulary{tokenizer};
  const CachePlan cache_plan;
  LoadedModel loaded;
  ServedModels models;
  ServerMetrics metrics;
  EngineConfig config;
  std::size_t engine_bytes = 0;
  std::mutex loading;  // one adapter at a time
  std::optional<Engine> engine;
  std::optional<EngineBackend> backend;
  std::optional<EngineThread> thread;
  std::optional<CompletionService> service;
  std::optional<EmbeddingService> embeddings;  // its requests have ended before it does
};

ModelService::ModelService(const ServeOptions& options, Output& output)
    : impl_(std::make_unique<Impl>(options, output)) {}

ModelService::~ModelService() = default;

const std::string& ModelService::base_name() const { return impl_->models.base(); }

ApiParts ModelService::parts() {
  ApiParts parts{.completions = &*impl_->service,
                 .engine = &*impl_->thread,
                 .models = &impl_->models,
                 .metrics = &impl_->metrics,
                 .describes_tokenizer = impl_->options.describes_tokenizer};
  parts.embed = [impl = impl_.get()](const std::string& body) {
    if (!impl->loaded.model().is_whole()) {
      throw RequestError({.code = "unsupported"},
                         "a model that is split by layers does not embed texts; embed on one "
                         "device, without --split");
    }
    return impl->embeddings->reply(body);
  };
  if (!impl_->options.allows_loading) return parts;
  parts.load_adapter = [impl = impl_.get()](const std::string& name, const std::string& path) {
    impl->load(name, path);
  };
  parts.unload_adapter = [impl = impl_.get()](const std::string& name) { impl->unload(name); };
  return parts;
}

void ModelService::show_plan(Output& output) const {
  const EngineConfig& config = impl_->config;
  const auto weights = static_cast<double>(impl_->loaded.weight_bytes());
  output.info("Model: {}, {} of weights on {}", base_name(), readable_bytes(weights),
              impl_->loaded.device_names());
  output.info("Engine: {} for {} positions of KV cache and {} sequences of at most {} positions",
              readable_bytes(static_cast<double>(impl_->engine_bytes)),
              grouped(config.cache_positions), config.max_sequences, grouped(config.max_positions));
  const CachePlan& plan = impl_->cache_plan;
  const auto bytes = [](std::size_t n) { return readable_bytes(static_cast<double>(n)); };
  output.info(
      "Memory: limit {}; weights, adapters and the largest steps take at most {}, a position of "
      "the cache {}; {:.1f} sequences of full length fit at once",
      bytes(plan.limit_bytes), bytes(plan.fixed_bytes), bytes(plan.position_bytes),
      static_cast<double>(config.cache_positions) / static_cast<double>(config.max_positions));
  output.info("Adapters: {} served, at most {} in device memory, ranks up to {}",
              impl_->models.list()["data"].size() - 1, config.device_adapters, config.max_rank);
  if (impl_->text.find_chat_template() == nullptr) {
    output.warning("chats are refused: {}", with_option_names(impl_->text.chat_template_problem()));
  }
}

}  // namespace clora

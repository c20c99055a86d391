// clora.h: models and adapters.
#include <fmt/format.h>

#include <algorithm>

#include "clora/lora/peft_files.hpp"
#include "clora/model/adapter_files/adapter_files.hpp"
#include "clora/model/transformer/adapter_sites.hpp"
#include "clora/model/transformer/principal_start.hpp"
#include "clora/model/transformer/saved_tensors.hpp"
#include "clora/model/weights/stored_ends.hpp"
#include "clora/model/weights/weights.hpp"
#include "lora/module_selection.hpp"
#include "lora/peft_config.hpp"
#include "lora/saved_tensors.hpp"
#include "model/c_api/boundary.hpp"
#include "model/c_api/handles.hpp"
#include "model/transformer/adapter_start.hpp"
#include "model/transformer/configured_adapter.hpp"

namespace clora::c_api {
namespace {

constexpr const char* kCreate = "clora_adapter_create";
constexpr const char* kAll = "all-linear";

clora_model_info info_of(const LanguageModel& model) {
  const ModelConfig& c = model.config();
  clora_model_info info{};
  write_text(info.architecture, c.family);
  info.layers = c.layers;
  info.hidden_size = c.hidden_size;
  info.intermediate_size = c.intermediate_size;
  info.heads = c.heads;
  info.kv_heads = c.kv_heads;
  info.head_dim = c.head_dim;
  info.vocabulary = c.vocabulary;
  info.max_positions = c.max_positions;
  info.weight_bytes = model.weight_bytes();
  return info;
}

const std::shared_ptr<ModelCore>& core_of(const clora_model* model, std::string_view who) {
  require_given(model, who, "model");
  return model->core;
}

const Adapter& adapter_of(const clora_adapter* adapter, std::string_view who) {
  require_given(adapter, who, "adapter");
  return adapter->core->adapter;
}

clora_adapter* handle_of(std::shared_ptr<ModelCore> model, Adapter adapter,
                         std::int64_t frozen_ranks = 0) {
  return new clora_adapter{std::shared_ptr<AdapterCore>(
      new AdapterCore{std::move(model), std::move(adapter), frozen_ranks})};
}

std::optional<PrincipalStart> start_of(const clora_adapter_options& options) {
  const std::string_view name = options.init == nullptr ? "lora" : options.init;
  const auto start = principal_start_of(name);
  require(start || name == "lora", "{}: init must be lora, pissa or olora, got '{}'", kCreate,
          name);
  return start;
}

// Splits "q_proj,v_proj" at the commas.
std::vector<std::string> names_of(const char* text) {
  if (text == nullptr) return {};
  std::vector<std::string> names;
  std::string_view left = text;
  for (;;) {
    const std::size_t comma = left.find(',');
    names.emplace_back(left.substr(0, comma));
    if (comma == std::string_view::npos) return names;
    left.remove_prefix(comma + 1);
  }
}

// What the adapter trains in full.
std::vector<SavedTensor> trained_tensors(const ModelConfig& model, const AdapterConfig& config,
                                         const std::vector<AdapterSite>& sites) {
  require_savable(model, config);
  auto tensors = select_trained_tensors(savable_tensors(model), config, sites, kCreate);
  require(
      config.biases == TrainedBiases::none || std::ranges::any_of(tensors, &SavedTensor::is_bias),
      "{}: bias '{}' selects nothing: {} no biases", kCreate, name_of(config.biases),
      config.biases == TrainedBiases::all ? "the model has" : "the adapted layers have");
  return tensors;
}

AdapterConfig config_of(const clora_adapter_options& options) {
  AdapterConfig config;
  if (options.rank != 0) config.rank = options.rank;
  if (options.alpha != 0) config.alpha = options.alpha;
  config.dropout = options.dropout;
  config.rank_stabilised = options.rank_stabilised != 0;
  config.use_dora = options.use_dora != 0;
  config.modules_to_save = names_of(options.modules_to_save);
  if (options.bias != nullptr) config.biases = named_biases(options.bias);
  return config;
}

// The adapter of a text in place of the fields.
clora_adapter* configured(const std::shared_ptr<ModelCore>& core,
                          const clora_adapter_options& options) {
  LanguageModel& model = *core->model;
  const auto start = start_of(options);
  AdapterConfig config =
      parse_peft_config(options.peft_config, fmt::format("{}: peft_config", kCreate));
  if (options.target_modules != nullptr) {
    config.target_modules = names_of(options.target_modules);
    config.targets_are_regex = false;
    if (config.target_modules == names_of(kAll)) target_all_linear(config, model.config());
  }
  return handle_of(core, configured_adapter(model, config, {options.seed, start}, kCreate),
                   start ? config.rank : 0);
}

clora_adapter* new_adapter(const std::shared_ptr<ModelCore>& core,
                           const clora_adapter_options& options) {
  if (options.peft_config != nullptr) return configured(core, options);
  LanguageModel& model = *core->model;
  const auto start = start_of(options);
  AdapterConfig config = config_of(options);
  const std::int64_t frozen_ranks = start ? config.rank : 0;
  config.rank += frozen_ranks;
  if (start) config.alpha *= 2;  // the same scale
  const char* const targets = options.target_modules;
  const auto sites = select_sites(model.config(), names_of(targets == nullptr ? kAll : targets),
                                  options.last_layers);
  select_exactly(config, sites, all_adapter_sites(model.config()));
  Adapter adapter(model.context(), sites, config, trained_tensors(model.config(), config, sites));
  adapter.initialise(options.seed);
  initialise_from_model(model, adapter, start);
  return handle_of(core, std::move(adapter), frozen_ranks);
}

std::unique_ptr<LanguageModel> load(Context& context, const char* path,
                                    const clora_model_options& options) {
  require(options.context_length >= 0, "clora_model_load: context_length must be 0 or more, got {}",
          options.context_length);
  LoadOptions load{.progress = {}, .context_length = options.context_length};
  if (options.progress != nullptr) {
    load.progress = [&options](double fraction) {
      return options.progress(options.user, fraction) == 0;
    };
  }
  return std::make_unique<LanguageModel>(context, WeightFiles::open(path), load);
}

}  // namespace
}  // namespace clora::c_api

using namespace clora;
using namespace clora::c_api;

clora_status clora_model_load(clora_context* context, const char* path,
                              const clora_model_options* options, clora_model** model) {
  constexpr std::string_view kWho = "clora_model_load";
  return guarded_create(model, kWho, [&] {
    require_given(context, kWho, "context");
    require_given(path, kWho, "path");
    const clora_model_options own = read_struct(options, kWho);
    auto core = std::make_shared<ModelCore>();
    core->context = context->core;
    core->path = path;
    core->model = load(core->context->context, path, own);
    return new clora_model{std::move(core)};
  });
}

void clora_model_release(clora_model* model) { delete model; }

clora_status clora_model_get_info(const clora_model* model, clora_model_info* info) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_model_get_info";
    write_struct(info, info_of(*core_of(model, kWho)->model), kWho);
  });
}

clora_status clora_adapter_create(clora_model* model, const clora_adapter_options* options,
                                  clora_adapter** adapter) {
  return guarded_create(adapter, kCreate, [&] {
    const auto& core = core_of(model, kCreate);
    return new_adapter(core, read_struct(options, kCreate));
  });
}

clora_status clora_adapter_load(clora_model* model, const char* path, clora_adapter** adapter) {
  constexpr std::string_view kWho = "clora_adapter_load";
  return guarded_create(adapter, kWho, [&] {
    const auto& core = core_of(model, kWho);
    require_given(path, kWho, "path");
    Adapter loaded = load_adapter(core->context->context, path, core->model->config());
    require_stored_ends(path, core->model->stored_weights());
    return handle_of(core, std::move(loaded));
  });
}

clora_status clora_adapter_save(const clora_adapter* adapter, const char* folder) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_adapter_save";
    const Adapter& own = adapter_of(adapter, kWho);
    require_given(folder, kWho, "folder");
    save_adapter(own, folder);
  });
}

clora_status clora_adapter_save_as(const clora_adapter* adapter, const char* path,
                                   const char* format) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_adapter_save_as";
    const Adapter& own = adapter_of(adapter, kWho);
    require_given(path, kWho, "path");
    require_given(format, kWho, "format");
    const ModelConfig& config = adapter->core->model->model->config();
    const AdapterFormat wanted = named_adapter_format(format);
    require_format_holds(own, wanted, config);
    write_adapter(values_of(own), wanted, config, path);
  });
}

void clora_adapter_release(clora_adapter* adapter) { delete adapter; }

clora_status clora_adapter_get_info(const clora_adapter* adapter, clora_adapter_info* info) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_adapter_get_info";
    const Adapter& own = adapter_of(adapter, kWho);
    clora_adapter_info result{};
    result.rank = own.config().rank;
    result.alpha = own.config().alpha;
    result.modules = static_cast<std::int64_t>(own.modules().size());
    result.trainable_parameters = own.trainable_parameters();
    write_struct(info, result, kWho);
  });
}

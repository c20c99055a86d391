#include "tools/clora/training/training_adapter.hpp"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "clora/model/adapter_files/adapter_files.hpp"
#include "clora/model/transformer/adapter_sites.hpp"
#include "clora/model/transformer/principal_start.hpp"
#include "clora/model/transformer/saved_tensors.hpp"
#include "clora/model/weights/stored_ends.hpp"
#include "lora/hub_cache.hpp"
#include "lora/module_selection.hpp"
#include "lora/saved_tensors.hpp"
#include "model/transformer/adapter_start.hpp"
#include "runtime/fail.hpp"
#include "tools/command_line/adapter_options.hpp"
#include "tools/command_line/local_path.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

// The options that describe an adapter.
constexpr std::array kDescribing{"rank",   "alpha",           "dropout", "dora", "target-modules",
                                 "layers", "modules-to-save", "bias",    "init"};

std::int64_t last_layers(const TrainingAdapterOptions& options) {
  if (options.layers == "all") return 0;
  return std::stoll(options.layers);
}

// An existing adapter fixes the options that describe an adapter: an equal value is accepted, a
// different one is an error.
template <class T>
void require_same(const TrainingAdapterOptions& options, const char* option, const T& given,
                  const T& own) {
  if (!options.given.contains(option) || given == own) return;
  fail(ErrorCode::invalid_argument,
       "train: --{} is {}, but the adapter of --adapter-init '{}' has {}, which is kept; omit --{}",
       option, given, options.init, own, option);
}

std::set<std::string> paths_of(const std::vector<AdapterSite>& sites) {
  std::set<std::string> paths;
  for (const AdapterSite& site : sites) paths.insert(site.path);
  return paths;
}

void require_same_modules(const TrainingAdapterOptions& options, const Adapter& adapter,
                          const ModelConfig& model) {
  const bool modules = options.given.contains("target-modules");
  if (!modules && !options.given.contains("layers")) return;
  std::set<std::string> own;
  for (const auto& module : adapter.modules()) own.insert(module.site.path);
  if (paths_of(select_sites(model, options.target_modules, last_layers(options))) == own) return;
  const char* const option = modules ? "target-modules" : "layers";
  fail(ErrorCode::invalid_argument,
       "train: --{0} must name the layers of the adapter of --adapter-init '{1}', which are kept; "
       "omit --{0}",
       option, options.init);
}

// What the adapter trains in full.
std::vector<SavedTensor> trained_tensors(const ModelConfig& model, const AdapterConfig& config,
                                         const std::vector<AdapterSite>& sites) {
  require_savable(model, config);
  auto tensors = select_trained_tensors(savable_tensors(model), config, sites, "train");
  require(
      config.biases == TrainedBiases::none || std::ranges::any_of(tensors, &SavedTensor::is_bias),
      "train: --bias {} selects nothing: {} no biases; omit --bias", name_of(config.biases),
      config.biases == TrainedBiases::all ? "the model has" : "the adapted layers have");
  return tensors;
}

}  // namespace

void TrainingAdapterOptions::note_given(const CLI::App& command) {
  for (const char* option : kDescribing) {
    if (command.count(fmt::format("--{}", option)) > 0) given.insert(option);
  }
}

std::vector<std::string> TrainingAdapterOptions::left_out_of_configuration() const {
  if (init.empty()) return {};
  return {kDescribing.begin(), kDescribing.end()};
}

void add_training_adapter_options(CLI::App& command, TrainingAdapterOptions& options) {
  const std::string group = "Adapter";
  command
      .add_option("--adapter-init", options.init,
                  "Adapter to start from (its rank, alpha, dropout and modules are used)")
      ->transform(LocalPath(HubKind::model))
      ->type_name("DIR")
      ->group(group);
  add_rank_option(command, options.config, group);
  command
      .add_option("--alpha", options.config.alpha,
                  "LoRA alpha; the adapter's output is scaled by alpha/rank")
      ->transform(NumberAbove(0, 1e6))
      ->capture_default_str()
      ->group(group);
  add_dropout_option(command, options.config, group);
  command
      .add_flag("--dora,!--no-dora", options.config.use_dora,
                "Train magnitudes of the layers' outputs next to the adapter (DoRA)")
      ->group(group);
  add_target_modules_option(command, options.target_modules, group);
  command
      .add_option(
          "--modules-to-save", options.config.modules_to_save,
          "Modules to train in full and to store with the adapter: the ends of their names, "
          "such as down_proj, or norm for all norms")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAMES")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
  command
      .add_option("--bias", options.bias,
                  "Biases to train and to store with the adapter: none, all, or lora_only for "
                  "those of the adapted layers")
      ->check(CLI::IsMember({"none", "all", "lora_only"}))
      ->type_name("none|all|lora_only")
      ->capture_default_str()
      ->group(group);
  command
      .add_option(
          "--init", options.start,
          "First matrices of a new adapter: lora (random A, B = 0), or the principal part of "
          "each weight, which pissa takes from its singular values and olora from its QR "
          "decomposition; the saved adapter then has twice the rank")
      ->transform(CLI::IsMember({"lora", "pissa", "olora"}))
      ->type_name("NAME")
      ->capture_default_str()
      ->group(group);
  command.add_option("--layers", options.layers, "Blocks to adapt: all, or the last N")
      ->transform(WordOrInteger("all", 1, 10000))
      ->type_name("all|N")
      ->capture_default_str()
      ->group(group);
}

Adapter make_adapter(const TrainingAdapterOptions& options, Context& context,
                     const ModelConfig& model, const std::string& model_name, std::uint64_t seed) {
  if (!options.init.empty()) {
    Adapter adapter = load_adapter(context, options.init, model);
    if (has_stored_ends(options.init)) {
      require_stored_ends(options.init, WeightFiles::open(model_name).all());
    }
    require_same(options, "rank", options.config.rank, adapter.config().rank);
    require_same(options, "alpha", options.config.alpha, adapter.config().alpha);
    require_same(options, "dropout", options.config.dropout, adapter.config().dropout);
    require_same(options, "dora", options.config.use_dora, adapter.config().use_dora);
    require_same(options, "modules-to-save", options.config.modules_to_save,
                 adapter.config().modules_to_save);
    require_same(options, "bias", options.bias, std::string(name_of(adapter.config().biases)));
    require_same_modules(options, adapter, model);
    require(!options.given.contains("init") || options.start == "lora",
            "train: --init {} is for new adapters, but --adapter-init names '{}'; omit one of them",
            options.start, options.init);
    return adapter;
  }
  const auto sites = select_sites(model, options.target_modules, last_layers(options));
  AdapterConfig config = options.config;
  const std::string id = hub_id_of(model_name);
  config.base_model = id.empty() ? model_name : id;
  config.biases = named_biases(options.bias);
  config.rank += options.frozen_ranks();
  if (options.has_principal_start()) config.alpha *= 2;  // the same scale
  select_exactly(config, sites, all_adapter_sites(model));
  Adapter adapter(context, sites, config, trained_tensors(model, config, sites));
  adapter.initialise(seed);
  if (options.has_principal_start()) check_principal_start(adapter);
  return adapter;
}

void initialise_from_model(const TrainingAdapterOptions& options, LanguageModel& model,
                           Adapter& adapter) {
  if (!options.init.empty()) return;
  initialise_from_model(model, adapter, principal_start_of(options.start));
}

}  // namespace clora

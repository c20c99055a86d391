// clora adapters add, clora adapters subtract: a weighted combination of adapters.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <memory>

#include "clora/lora/combination.hpp"
#include "runtime/fail.hpp"
#include "tools/clora/adapters/adapters_commands.hpp"
#include "tools/clora/adapters/validation_losses.hpp"
#include "tools/command_line/config_file.hpp"
#include "tools/command_line/local_path.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr const char* kTypes = R"(Types, named and defined as in PEFT's add_weighted_adapter:
  cat              exact sum of the products; the ranks add up
  svd              best approximation of that sum of rank --rank
  linear           weighted sum of A and of B: cheap, but no sum of the products; equal ranks
  ties             linear on the largest values, averaged where signs agree (TIES); equal ranks
  dare_linear, dare_ties    the same on random values, rescaled (DARE); equal ranks
  magnitude_prune  linear on the largest values; equal ranks
  NAME_svd         ties, dare_linear, dare_ties or magnitude_prune on the products, then svd; takes
                   N * K * 8 bytes of memory for each adapter's [N, K] module
The error is that of the result's products against the weighted sum of the products.)";

constexpr const char* kAddExample = R"(Examples:
  clora adapters add sql=0.7 chat=0.3 --out both
  clora adapters add sql chat --type ties_svd --rank 16 --density 0.5 --out both
  clora adapters add sql chat --out both --model MODEL.gguf --data valid.jsonl
)";

constexpr const char* kSubtractExample = R"(Examples:
  clora adapters subtract both chat --out sql
  clora adapters subtract both chat=0.5 --type svd --rank 8 --out less-chat
)";

struct Options {
  ResultOptions result;
  std::vector<std::string> inputs;
  std::string type = "cat";
  std::optional<std::int64_t> rank;
  std::optional<double> density;
  std::optional<std::string> majority_sign;
  std::optional<std::uint64_t> seed;
  bool subtracts = false;
};

struct Input {
  std::string folder;
  double weight = 1;
};

// "DIR" or "DIR=WEIGHT". A path may itself end in "=" and a number.
Input input_of(const std::string& text) {
  const std::size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || std::filesystem::exists(text)) return {text};
  const std::string number = text.substr(at + 1);
  double weight = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), weight);
  const bool is_number = error == std::errc() && end == number.data() + number.size();
  if (!is_number || !std::isfinite(weight) || weight == 0) {
    throw UsageError(
        fmt::format("the weight of '{}' must be a finite number other than 0, got '{}'",
                    text.substr(0, at), number));
  }
  return {text.substr(0, at), weight};
}

std::vector<std::string> names_of_types(bool CombinationFacts::*has) {
  std::vector<std::string> names;
  for (const CombinationFacts& facts : combination_types()) {
    if (facts.*has) names.emplace_back(facts.name);
  }
  return names;
}

void require_used(bool is_given, bool CombinationFacts::*has, const char* option,
                  const Options& options) {
  if (!is_given || facts_of(*combination_type(options.type)).*has) return;
  throw UsageError(fmt::format("{} is for --type {}, not for {}", option,
                               fmt::join(names_of_types(has), ", "), options.type));
}

CombinationConfig config_of(const Options& options) {
  const CombinationFacts& facts = facts_of(*combination_type(options.type));
  require_used(options.rank.has_value(), &CombinationFacts::has_rank, "--rank", options);
  require_used(options.density.has_value(), &CombinationFacts::has_density, "--density", options);
  require_used(options.majority_sign.has_value(), &CombinationFacts::has_majority_sign,
               "--majority-sign", options);
  require_used(options.seed.has_value(), &CombinationFacts::has_random, "--seed", options);
  if (facts.has_density && !options.density) {
    throw UsageError(fmt::format(
        "--type {} requires --density, the share of values to keep, such as 0.5", options.type));
  }
  const bool by_frequency = options.majority_sign == "frequency";
  return {.type = facts.type,
          .rank = options.rank.value_or(0),
          .density = options.density.value_or(1),
          .majority_sign = by_frequency ? MajoritySign::frequency : MajoritySign::total,
          .seed = options.seed.value_or(0)};
}

struct ReadAdapters {
  std::vector<Input> inputs;
  std::vector<AdapterMatrices> adapters;

  std::vector<WeightedAdapter> weighted() const {
    std::vector<WeightedAdapter> all;
    for (std::size_t i = 0; i < inputs.size(); ++i) all.push_back({&adapters[i], inputs[i].weight});
    return all;
  }
};

ReadAdapters read(const Options& options) {
  ReadAdapters read;
  std::vector<std::string> folders;
  for (const std::string& text : options.inputs) {
    Input& input = read.inputs.emplace_back(input_of(text));
    if (options.subtracts && read.inputs.size() > 1) input.weight = -input.weight;
    folders.push_back(input.folder);
  }
  require_free(options.result, folders);
  for (const std::string& folder : folders) read.adapters.push_back(read_adapter_matrices(folder));
  return read;
}

void warn_of_base_models(const ReadAdapters& read, Output& output) {
  const std::string& first = read.adapters.front().config.base_model;
  for (std::size_t i = 1; i < read.adapters.size(); ++i) {
    const std::string& other = read.adapters[i].config.base_model;
    if (other == first) continue;
    output.warning(
        "'{}' was trained on '{}', but '{}' on '{}'; if these are different models, the "
        "result fits neither",
        read.inputs.front().folder, first, read.inputs[i].folder, other);
  }
}

int combine_adapters(const Options& options) {
  Output output(options.result.common.output);
  const CombinationConfig config = config_of(options);
  if (options.subtracts && options.inputs.size() < 2) {
    throw UsageError("subtract requires an adapter and at least one to subtract from it");
  }
  const ReadAdapters read_adapters = read(options);
  warn_of_base_models(read_adapters, output);
  ValidationLosses losses(options.result, output);
  losses.add("base model");
  for (const Input& input : read_adapters.inputs) losses.add(input.folder, input.folder);
  const std::vector<WeightedAdapter> weighted = read_adapters.weighted();
  AdapterMatrices result = combine(weighted, config);
  write_result(result, options.result);
  const AdapterErrors errors = errors_of(result, weighted);
  output.result("wrote {}", options.result.out);
  report_errors(output, errors, {.wanted = "the weighted sum"});
  losses.add(options.result.out, options.result.out);
  nlohmann::ordered_json object = json_of(options.result, errors);
  object["type"] = options.type;
  losses.add_to(object);
  output.object(object);
  return 0;
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const CombinationFacts& facts : combination_types()) names.emplace_back(facts.name);
  return names;
}

void add_type_options(CLI::App& command, Options& options) {
  command.add_option("--type", options.type, "How to combine; see below")
      ->check(CLI::IsMember(all_names()))
      ->capture_default_str();
  command
      .add_option("--rank", options.rank,
                  "Rank of the result, for svd and NAME_svd (default: the adapters' largest)")
      ->transform(Integer(1, Adapter::kMaxRank));
  command
      .add_option("--density", options.density, "Share of values to keep, for ties, dare_*, ...")
      ->transform(NumberAbove(0, 1));
  command
      .add_option("--majority-sign", options.majority_sign,
                  "For ties and dare_ties: the sign of the values' sum (total, the default) or of "
                  "most values (frequency)")
      ->check(CLI::IsMember({"total", "frequency"}));
  command.add_option("--seed", options.seed, "Random seed of dare_* (default 0)")
      ->transform(Integer(0, kMaxSeed));
}

struct Words {
  const char* name;
  const char* description;
  const char* inputs;
  const char* example;
};

void add_command(CLI::App& group, Action& action, const Words& words, bool subtracts) {
  CLI::App* command = group.add_subcommand(words.name, words.description);
  const auto options = std::make_shared<Options>();
  options->subtracts = subtracts;
  command->add_option("ADAPTER", options->inputs, words.inputs)
      ->type_name("DIR[=WEIGHT]")
      ->required();
  add_type_options(*command, *options);
  add_result_options(*command, options->result);
  command->footer(std::string(words.example) + kTypes);
  command->callback(
      [options, &action] { action = [options] { return combine_adapters(*options); }; });
}

}  // namespace

void add_adapters_add_command(CLI::App& group, Action& action) {
  add_command(group, action,
              {.name = "add",
               .description = "Combine adapters into one, by weights",
               .inputs = "Adapters in PEFT format, with weights (default 1, may be negative)",
               .example = kAddExample},
              false);
}

void add_adapters_subtract_command(CLI::App& group, Action& action) {
  add_command(group, action,
              {.name = "subtract",
               .description = "Remove the effect of adapters from the first one",
               .inputs = "The adapter, and those to subtract from it (weights: default 1)",
               .example = kSubtractExample},
              true);
}

}  // namespace clora

// clora adapters extract: an adapter from a base model and a fine-tuned one.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "clora/model/weights/adapter_extraction.hpp"
#include "tools/clora/adapters/adapters_commands.hpp"
#include "tools/clora/adapters/validation_losses.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/progress_bar.hpp"
#include "tools/command_line/adapter_options.hpp"
#include "tools/command_line/local_path.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora adapters extract --model MODEL.gguf --tuned tuned-model --rank 32 --out tuned-adapter
  clora adapters extract --model base --tuned tuned --rank 128 --energy 0.95 --out tuned-adapter
For each linear layer, the best product of rank --rank for the difference of the weights, by SVD;
equal layers get none. --energy chooses the least rank of each layer that keeps that share of the
difference's squared Frobenius norm, at most --rank. Layers with over 192 rows and columns use a
randomised SVD with a fixed seed. Errors and kept energy are measured on the difference itself.
Differences of norms, biases, embeddings and heads are named and left out.)";

struct Options {
  ResultOptions result;
  std::string tuned;
  std::int64_t rank = 16;
  double energy = 1;
  std::vector<std::string> target_modules{"all-linear"};
};

Extraction extraction_of(const Options& options, Output& output) {
  const WeightFiles base = WeightFiles::open(options.result.common.model);
  const WeightFiles tuned = WeightFiles::open(options.tuned);
  const auto sites = select_sites(base.config(), options.target_modules, 0);
  const auto all = static_cast<std::int64_t>(base.all().size());
  ProgressBar bar(output, "tensor", all);
  const Interrupt interrupt("\nclora: stopping; press Ctrl-C again to stop immediately\n");
  return extract_adapter(base, tuned, sites, {.base_model = options.result.common.model},
                         {.rank = options.rank,
                          .energy = options.energy,
                          .type = type_of(options.result),
                          .go_on = [&](std::size_t done, std::size_t) {
                            bar.update(static_cast<std::int64_t>(done), "compared");
                            return !interrupt.requested();
                          }});
}

int extract(const Options& options) {
  Output output(options.result.common.output);
  const std::string inputs[] = {options.result.common.model, options.tuned};
  require_free(options.result, inputs);
  auto tuned_loss = nlohmann::ordered_json::object();
  {
    ValidationLosses losses(options.result, output, options.tuned);
    losses.add("fine-tuned model");
    losses.add_to(tuned_loss);
  }
  Extraction extraction = extraction_of(options, output);
  write_result(extraction.adapter, options.result);
  output.result("wrote {}", options.result.out);
  report_errors(output, extraction.errors, {.wanted = "the difference", .energy = true});
  if (!extraction.left_out.empty()) {
    output.warning("{} other tensors differ and are left out: {}", extraction.left_out.size(),
                   fmt::join(extraction.left_out, ", "));
  }
  ValidationLosses losses(options.result, output);
  losses.add("base model");
  losses.add(options.result.out, options.result.out);
  nlohmann::ordered_json object = json_of(options.result, extraction.errors);
  object["left_out"] = extraction.left_out;
  object.update(tuned_loss);
  losses.add_to(object);
  output.object(object);
  return 0;
}

}  // namespace

void add_adapters_extract_command(CLI::App& group, Action& action) {
  CLI::App* command = group.add_subcommand("extract", "Make an adapter from two models");
  const auto options = std::make_shared<Options>();
  command->add_option("--tuned", options->tuned, "Fine-tuned model: a .gguf file or a folder")
      ->transform(LocalPath(HubKind::model))
      ->type_name("PATH")
      ->required();
  command->add_option("--rank", options->rank, "Rank of every module at most")
      ->transform(Integer(1, Adapter::kMaxRank))
      ->capture_default_str();
  command->add_option("--energy", options->energy, "Share of each difference's energy to keep")
      ->transform(NumberAbove(0, 1))
      ->capture_default_str();
  add_target_modules_option(*command, options->target_modules, "Adapter");
  add_result_options(*command, options->result);
  command->get_option("--model")->required();
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return extract(*options); }; });
}

}  // namespace clora

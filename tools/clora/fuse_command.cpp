// clora fuse: merges an adapter into its model and writes the result as a Hugging Face folder.
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "model/fuse.hpp"
#include "model/generator.hpp"
#include "model/tokenizer_files.hpp"
#include "runtime/error.hpp"
#include "tools/clora/commands.hpp"
#include "tools/clora/loaded_model.hpp"
#include "tools/clora/run_folder.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Example:
  clora fuse --model MODEL.gguf --adapter my-adapter --out my-model
Writes config.json, model.safetensors (f32: four bytes a parameter) and the tokeniser's files, then
reads the folder back and tells the largest difference between its logits and those of model and
adapter, on a few fixed prompts.)";

constexpr std::int64_t kProbes = 4;
constexpr std::int64_t kProbeLength = 16;

struct Options {
  CommonOptions common;
  std::string adapter;
  std::string out;
  bool overwrite = false;
};

// Any tokens do: they only have to be the same ones, and spread over the vocabulary.
std::vector<std::int32_t> probe(std::int64_t which, std::int64_t vocabulary) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < kProbeLength; ++i) {
    ids.push_back(static_cast<std::int32_t>((which * 104729 + i * 7919 + 17) % vocabulary));
  }
  return ids;
}

std::vector<std::vector<float>> probe_logits(LanguageModel& model, const Adapter* adapter) {
  Generator generator(model, adapter, kProbeLength + 1);
  std::vector<std::vector<float>> all;
  for (std::int64_t i = 0; i < kProbes; ++i) {
    all.push_back(generator.logits(probe(i, model.config().vocabulary)));
  }
  return all;
}

struct Difference {
  double largest = 0;        // between the logits
  double largest_logit = 0;  // in absolute value
};

Difference difference_of(const std::vector<std::vector<float>>& expected,
                         const std::vector<std::vector<float>>& got) {
  Difference difference;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    require(expected[i].size() == got[i].size(),
            "fuse: the written model has {} logits a token, the original {}", got[i].size(),
            expected[i].size());
    for (std::size_t j = 0; j < expected[i].size(); ++j) {
      const double a = expected[i][j], b = got[i][j];
      difference.largest = std::max(difference.largest, std::abs(a - b));
      difference.largest_logit = std::max(difference.largest_logit, std::abs(a));
      if (!std::isfinite(b)) difference.largest = INFINITY;
    }
  }
  return difference;
}

void require_free(const Options& options) {
  if (!is_taken(options.out) || options.overwrite) return;
  fail(ErrorCode::io, "fuse: '{}' exists and is not empty; choose another --out or add --overwrite",
       options.out);
}

// A model may come without a tokeniser; then there is nothing to write.
void write_tokenizer(const Options& options, Output& output) {
  try {
    write_tokenizer_files(options.common.model, options.out);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    output.warning("the tokeniser is left out: {}", error.what());
  }
}

std::vector<std::vector<float>> write_and_probe(const Options& options, Output& output) {
  LoadedModel loaded(options.common, output);
  const std::optional<Adapter> adapter = loaded.adapter(options.adapter);
  auto logits = probe_logits(loaded.model(), &*adapter);
  output.info("writing {}", options.out);
  write_fused_model(loaded.files(), *adapter, options.out);
  return logits;
}

// The comparison is of the two models, so it is made in f32 whatever the device prefers.
int fuse(Options options) {
  options.common.precision = "f32";
  Output output(options.common.output);
  require_free(options);
  const auto expected = write_and_probe(options, output);
  write_tokenizer(options, output);
  CommonOptions reloaded = options.common;
  reloaded.model = options.out;
  LoadedModel fused(reloaded, output);
  const Difference difference = difference_of(expected, probe_logits(fused.model(), nullptr));
  output.result("{} is written; its logits differ by at most {:.3g} (the largest logit is {:.3g})",
                options.out, difference.largest, difference.largest_logit);
  output.object({{"model", options.out},
                 {"largest_logit_difference", difference.largest},
                 {"largest_logit", difference.largest_logit}});
  return std::isfinite(difference.largest) ? 0 : 1;
}

}  // namespace

void add_fuse_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("fuse", "Merge an adapter into its model");
  const auto options = std::make_shared<Options>();
  command->add_option("--adapter", options->adapter, "Adapter to merge, as PEFT writes them")
      ->type_name("DIR")
      ->required();
  command->add_option("--out", options->out, "Folder to write the model to")
      ->type_name("DIR")
      ->required();
  command->add_flag("--overwrite", options->overwrite, "Write into an --out that is not empty");
  add_run_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return fuse(*options); }; });
}

}  // namespace clora

// clora fuse: merges an adapter into its base model and writes the result as a Hugging Face folder.
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "clora/model/generation/generator.hpp"
#include "clora/model/text/tokenizer_files.hpp"
#include "clora/model/weights/fuse.hpp"
#include "runtime/fail.hpp"
#include "runtime/files/atomic_folder.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/loaded_model.hpp"
#include "tools/clora/training/run_folder.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Example:
  clora fuse --model MODEL.gguf --adapter my-adapter --out my-model
Writes config.json, model.safetensors (f32: four bytes per parameter) and the tokeniser files, then
reads the folder back and reports the largest difference between its logits and those of the model
with the adapter, on a few fixed prompts. Only then is the folder moved to --out.)";

constexpr std::int64_t kProbes = 4;
constexpr std::int64_t kProbeLength = 16;
constexpr const char* kWeights = "model.safetensors";
// The largest difference of logits that rounding can explain, relative to the largest logit.
constexpr double kMaxLogitShare = 0.1;

struct Options {
  CommonOptions common;
  std::string adapter;
  std::string out;
  bool overwrite = false;
};

// Probe token ids. Any ids work if they are reproducible and spread over the vocabulary.
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
  double largest = 0;        // largest absolute difference between the logits
  double largest_logit = 0;  // largest absolute logit
};

Difference difference_of(const std::vector<std::vector<float>>& expected,
                         const std::vector<std::vector<float>>& got) {
  Difference difference;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    require(expected[i].size() == got[i].size(),
            "fuse: the written model has {} logits per token, the original has {}", got[i].size(),
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

bool is_same_folder(const std::filesystem::path& one, const std::filesystem::path& other) {
  std::error_code ignored;
  return std::filesystem::equivalent(one, other, ignored);
}

// A weight file of another model in the same folder would be read as a part of this one.
std::string foreign_weights(const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool weights =
        name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
    if (weights && name != kWeights) return name;
  }
  return {};
}

// Checks --out before the model is read.
void require_free(const Options& options) {
  if (!is_occupied(options.out)) return;
  if (!options.overwrite || !std::filesystem::is_directory(options.out)) {
    fail(ErrorCode::io,
         "fuse: '{}' exists and is not empty; choose another --out or add --overwrite",
         options.out);
  }
  for (const std::string& input : {options.common.model, options.adapter}) {
    if (is_same_folder(options.out, input)) {
      fail(ErrorCode::io, "fuse: --out '{}' is also an input; choose another folder", options.out);
    }
  }
  const std::string foreign = foreign_weights(options.out);
  if (foreign.empty()) return;
  fail(ErrorCode::io,
       "fuse: '{}' contains {} of another model; move it away or choose another --out", options.out,
       foreign);
}

// Writes nothing if the model has no tokeniser.
void write_tokenizer(const Options& options, const std::filesystem::path& folder, Output& output) {
  try {
    write_tokenizer_files(options.common.model, folder);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    output.warning("the tokeniser is not written: {}", error.what());
  }
}

bool all_finite(const std::vector<std::vector<float>>& logits) {
  return std::ranges::all_of(logits, [](const auto& row) {
    return std::ranges::all_of(row, [](float logit) { return std::isfinite(logit); });
  });
}

// Validates the model and the adapter before writing anything.
std::vector<std::vector<float>> probe_and_write(const Options& options,
                                                const std::filesystem::path& folder,
                                                Output& output) {
  LoadedModel loaded(options.common, output);
  const std::optional<Adapter> adapter = loaded.adapter(options.adapter);
  const Interrupt interrupt("\nclora: stopping; press Ctrl-C again to stop immediately\n");
  const auto go_on = [&interrupt] { return !interrupt.requested(); };
  auto logits = probe_logits(loaded.model(), &*adapter);
  if (!all_finite(logits)) {
    require_finite_fusion(loaded.files(), *adapter, go_on);  // the error names the tensor
    fail(ErrorCode::invalid_data, "fuse: the logits of model and adapter are not finite");
  }
  output.info("writing {}", options.out);
  write_fused_model(loaded.files(), *adapter, folder, go_on);
  return logits;
}

// The difference of the written model's logits to `expected`.
Difference read_back(const Options& options, const std::filesystem::path& folder,
                     const std::vector<std::vector<float>>& expected, Output& output) {
  CommonOptions reloaded = options.common;
  reloaded.model = folder.string();
  LoadedModel fused(reloaded, output);
  const Difference difference = difference_of(expected, probe_logits(fused.model(), nullptr));
  if (difference.largest > kMaxLogitShare * difference.largest_logit) {
    fail(ErrorCode::invalid_data,
         "fuse: the logits of the written model differ by {:.3g} (the largest logit is {:.3g}); "
         "the model was discarded",
         difference.largest, difference.largest_logit);
  }
  return difference;
}

// Compares the two models in f32 whatever precision the device prefers. The files at --out are
// replaced one by one at the end, from a complete folder that was read back.
int fuse(Options options) {
  options.common.precision = "f32";
  Output output(options.common.output);
  require_free(options);
  const AtomicFolder folder(options.out, "config.json");
  const auto expected = probe_and_write(options, folder.partial(), output);
  write_tokenizer(options, folder.partial(), output);
  const Difference difference = read_back(options, folder.partial(), expected, output);
  folder.commit_files();
  output.result("wrote {}; its logits differ by at most {:.3g} (the largest logit is {:.3g})",
                options.out, difference.largest, difference.largest_logit);
  output.object({{"model", options.out},
                 {"largest_logit_difference", difference.largest},
                 {"largest_logit", difference.largest_logit}});
  return 0;
}

}  // namespace

void add_fuse_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("fuse", "Merge an adapter into its base model");
  const auto options = std::make_shared<Options>();
  add_adapter_option(*command, options->adapter, "Adapter to merge")->required();
  command->add_option("--out", options->out, "Folder to write the model to")
      ->type_name("DIR")
      ->required();
  command->add_flag("--overwrite", options->overwrite,
                    "Replace the model in a non-empty --out once the new one is complete");
  add_run_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return fuse(*options); }; });
}

}  // namespace clora

#include "tools/clora/export/model_export.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "clora/model/export/gguf_model.hpp"
#include "clora/model/text/tokenizer_files.hpp"
#include "clora/model/weights/fuse.hpp"
#include "clora/runtime/files/file.hpp"
#include "runtime/fail.hpp"
#include "runtime/files/atomic_folder.hpp"
#include "tools/clora/export/model_comparison.hpp"
#include "tools/clora/export/modelfile.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/loaded_model.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

// The largest difference of logits that rounding to 16 bits can explain, relative to the largest
// logit.
constexpr double kMaxLogitShare = 0.1;
// A quantised model that is as far from the original as one that knows nothing is worth nothing;
// below this divergence, in nats, the original itself knows nothing.
constexpr double kLeastDivergence = 0.01;

// What is known of the model before and after it is written.
struct Exported {
  std::vector<TokenIds> prompts;
  ModelBehaviour original;
  bool is_lossy = false;  // written in a quantised type
  GgufModelSummary gguf;
  std::uintmax_t bytes = 0;
};

class ModelExport {
 public:
  explicit ModelExport(const ExportOptions& options)
      : options_(options),
        output_(options.common.output),
        folder_(without_slash(options.out), "config.json"),
        written_(options.is_gguf() ? folder_.partial() / name() : folder_.partial()) {}

  int run() {
    write();
    if (options_.is_gguf()) {
      write_modelfile();
    } else {
      write_tokenizer();
    }
    const std::optional<ModelDifference> difference = verify();
    commit();
    report(difference);
    return 0;
  }

 private:
  static fs::path without_slash(const fs::path& path) {
    return path.has_filename() ? path : path.parent_path();
  }
  fs::path out() const { return without_slash(options_.out); }
  std::string name() const { return out().filename().string(); }
  std::string modelfile_name() const { return out().stem().string() + ".Modelfile"; }

  // Examines the model and the adapter before writing anything.
  void write() {
    LoadedModel loaded(options_.common, output_);
    const std::optional<Adapter> adapter = loaded.adapter(options_.adapter);
    const Adapter* merged = adapter ? &*adapter : nullptr;
    const Interrupt interrupt("\nclora: stopping; press Ctrl-C again to stop immediately\n");
    const auto go_on = [&interrupt] { return !interrupt.requested(); };
    if (!options_.no_verify) observe(loaded, merged, go_on);
    output_.info("writing {}", options_.out);
    const std::optional<DType> type = options_.stored_type();
    if (options_.is_gguf()) {
      fs::create_directories(folder_.partial());
      exported_.gguf =
          write_gguf_model(loaded.files(), merged, written_, {.type = type, .go_on = go_on});
      exported_.bytes = exported_.gguf.bytes;
    } else {
      const FuseOptions fused{
          .type = *type, .max_shard_bytes = options_.max_shard_bytes, .go_on = go_on};
      require_no_other_weights(fused_file_names(loaded.files(), merged, fused));
      write_fused_model(loaded.files(), merged, written_, fused);
    }
    exported_.is_lossy = type ? is_quantised(*type) : has_quantised_weights(loaded.files());
    warn_of_gguf();
  }

  static bool has_quantised_weights(const WeightFiles& files) {
    return std::ranges::any_of(files.all(),
                               [](const WeightView& view) { return is_quantised(view.type); });
  }

  void observe(LoadedModel& loaded, const Adapter* adapter, const std::function<bool()>& go_on) {
    const std::int64_t vocabulary = loaded.model().config().vocabulary;
    exported_.prompts = options_.prompts.empty()
                            ? fixed_prompts(vocabulary)
                            : read_prompts(options_.prompts, options_.common.model, vocabulary);
    exported_.original = behaviour_of(loaded.model(), adapter, exported_.prompts);
    if (exported_.original.is_finite()) return;
    require_finite_fusion(loaded.files(), adapter, go_on);  // the error names the tensor
    fail(ErrorCode::invalid_data, "{}: the logits of the model are not finite", options_.who);
  }

  // A weight file of another model in the same folder would be read as a part of this one.
  void require_no_other_weights(const std::vector<std::string>& own) const {
    std::error_code error;
    for (fs::directory_iterator entry(out(), error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string found = entry->path().filename().string();
      const bool weights =
          found.ends_with(".safetensors") || found.ends_with(".safetensors.index.json");
      if (!weights || std::ranges::find(own, found) != own.end()) continue;
      fail(ErrorCode::io,
           "{}: '{}' contains {} of another model; move it away or choose another --out",
           options_.who, options_.out, found);
    }
  }

  void warn_of_gguf() {
    const GgufModelSummary& summary = exported_.gguf;
    if (!summary.missing_tokenizer.empty())
      output_.warning("the file has no tokeniser, so programs can use it with token ids only: {}",
                      summary.missing_tokenizer);
    if (!summary.tokenizer_warning.empty()) output_.warning("{}", summary.tokenizer_warning);
    if (summary.other_types.empty()) return;
    output_.warning(
        "{} tensors have rows that are no multiple of the blocks of {} and are stored in another "
        "type: {}{}",
        summary.other_types.size(), options_.type, summary.other_types.front(),
        summary.other_types.size() > 1 ? ", ..." : "");
    for (const std::string& each : summary.other_types) output_.detail("  {}", each);
  }

  // Writes nothing if the model has no tokeniser.
  void write_tokenizer() {
    try {
      write_tokenizer_files(options_.common.model, folder_.partial());
    } catch (const Error& error) {
      if (error.code() == ErrorCode::io) throw;
      output_.warning("the tokeniser is not written: {}", error.what());
    }
  }

  void write_modelfile() {
    if (options_.no_modelfile || !exported_.gguf.missing_tokenizer.empty()) return;
    try {
      write_file_atomically(folder_.partial() / modelfile_name(),
                            modelfile_of(name(), load_tokenizer(written_)));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::io) throw;
      output_.warning("{} is not written: {}", modelfile_name(), error.what());
    }
  }

  std::optional<ModelDifference> verify() {
    if (options_.no_verify) return std::nullopt;
    CommonOptions reloaded = options_.common;
    reloaded.model = written_.string();
    LoadedModel loaded(reloaded, output_);
    const ModelBehaviour written = behaviour_of(loaded.model(), nullptr, exported_.prompts);
    const ModelDifference difference = difference_of(exported_.original, written);
    if (!is_acceptable(difference))
      fail(ErrorCode::invalid_data,
           "{}: the logits of the written model differ by {:.3g} (the largest logit is {:.3g}; "
           "the divergence is {:.3g} nats); the model was discarded",
           options_.who, difference.largest, difference.largest_logit, difference.divergence);
    return difference;
  }

  bool is_acceptable(const ModelDifference& difference) const {
    if (!std::isfinite(difference.largest)) return false;
    if (!exported_.is_lossy) return difference.largest <= kMaxLogitShare * difference.largest_logit;
    return difference.divergence <= std::max(kLeastDivergence, difference.uniform_divergence);
  }

  void commit() {
    if (!options_.is_gguf()) return folder_.commit_files();
    move_to_out(modelfile_name());
    move_to_out(name());
  }

  void move_to_out(const std::string& file) const {
    const fs::path from = folder_.partial() / file, to = out().parent_path() / file;
    std::error_code error;
    if (!fs::exists(from, error)) return;
    fs::rename(from, to, error);
    if (error)
      fail(ErrorCode::io, "{}: '{}' cannot be written: {}", options_.who, to.string(),
           error.message());
  }

  void report(const std::optional<ModelDifference>& difference) {
    nlohmann::ordered_json object{{"model", options_.out},
                                  {"format", options_.is_gguf() ? "gguf" : "safetensors"},
                                  {"type", type_name()}};
    if (options_.is_gguf()) {
      object["bytes"] = exported_.gguf.bytes;
      object["copied_tensors"] = exported_.gguf.copied;
      object["converted_tensors"] = exported_.gguf.converted;
      object["other_types"] = exported_.gguf.other_types;
    }
    if (difference) {
      object["largest_logit_difference"] = difference->largest;
      object["largest_logit"] = difference->largest_logit;
      object["divergence"] = difference->divergence;
      object["equal_greedy_tokens"] = difference->equal_tokens;
      object["greedy_tokens"] = difference->tokens;
      output_.result(
          "wrote {}{}; its logits differ by at most {:.3g} (the largest logit is {:.3g}), and {} "
          "of {} greedy tokens are equal{}",
          options_.out, size_text(), difference->largest, difference->largest_logit,
          difference->equal_tokens, difference->tokens,
          exported_.is_lossy ? fmt::format("; divergence {:.3g} nats", difference->divergence)
                             : "");
    } else {
      output_.result("wrote {}{}, which was not compared with the original", options_.out,
                     size_text());
    }
    output_.object(object);
  }

  std::string type_name() const {
    const std::optional<DType> type = options_.stored_type();
    return type ? std::string(name_of(*type)) : "keep";
  }

  std::string size_text() const {
    return options_.is_gguf()
               ? fmt::format(" ({})", readable_bytes(static_cast<double>(exported_.bytes)))
               : "";
  }

  const ExportOptions& options_;
  Output output_;
  AtomicFolder folder_;
  fs::path written_;
  Exported exported_;
};

}  // namespace

// Compares the two models in f32 whatever precision the device prefers.
int export_model(ExportOptions options) {
  options.common.precision = "f32";
  options.stored_type();
  require_free_out(options);
  return ModelExport(options).run();
}

}  // namespace clora

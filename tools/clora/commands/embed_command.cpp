// clora embed: vectors of texts.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "clora/model/embedding/embedder.hpp"
#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "model/data/line_reader.hpp"
#include "runtime/fail.hpp"
#include "runtime/files/npy.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/commands/common_options.hpp"
#include "tools/clora/commands/embedding_task.hpp"
#include "tools/clora/loaded_model.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora embed --model all-MiniLM-L6-v2 --data texts.txt --out texts.npy
  clora embed --model e5-small-v2 --data queries.jsonl --key query --prefix "query: " --json
Each line of the data is a text; of a .jsonl file it is an object with a text under --key. The .npy
file has a row of f32 for each text, in order. Pooling, normalisation, the prompt and the length are
those of the model's sentence-transformers files or GGUF metadata unless options give others; without
both, the mean of all tokens is normalised. Longer texts are cut, which is reported. --precision auto
is faster on devices whose matrix units take bf16, and changes a vector's direction by about 1e-5 of
its cosine.)";

constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20U;
constexpr std::size_t kTextsAtOnce = 1024;

struct Options {
  CommonOptions common;
  std::string adapter, data, out, key = "text", pooling;
  std::optional<std::string> prefix;  // in place of that of the model's files
  std::optional<bool> normalises;
  std::int64_t max_length = 0;
};

// How the model's files and the options turn texts into vectors.
struct Settings {
  EmbedderOptions embedder;
  std::string prefix;
  std::int64_t max_length = 0;
};

Settings settings_of(const Options& options, const ModelConfig& model) {
  Settings settings;
  const auto files = read_sentence_transformers(options.common.model);
  settings.embedder.pooling = pooling_of(options.pooling, files, model);
  if (files) {
    settings.embedder.normalises = files->normalises;
    settings.max_length = files->max_length;
    const auto prompt = files->prompts.find(files->default_prompt);
    if (prompt != files->prompts.end()) settings.prefix = prompt->second;
  }
  if (options.normalises) settings.embedder.normalises = *options.normalises;
  if (options.prefix) settings.prefix = *options.prefix;
  if (options.max_length > 0) settings.max_length = options.max_length;
  return settings;
}

// The texts of the data file, a few at a time.
class Texts {
 public:
  explicit Texts(const Options& options)
      : options_(options),
        lines_(options.data, kMaxLineBytes),
        is_json_(std::filesystem::path(options.data).extension() == ".jsonl") {}

  // Empty at the end.
  std::vector<std::string> next() {
    std::vector<std::string> texts;
    std::string line;
    while (texts.size() < kTextsAtOnce && lines_.next(line)) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      texts.push_back(is_json_ ? text_of(line) : line);
    }
    return texts;
  }

 private:
  std::string text_of(const std::string& line) const {
    const nlohmann::json value = parse_json(line, options_.data, {}, lines_.number());
    return JsonKeys(value, fmt::format("{}:{}", options_.data, lines_.number())).text(options_.key);
  }

  const Options& options_;
  LineReader lines_;
  bool is_json_;
};

// The token ids of texts; reports those that are cut.
class Encoder {
 public:
  Encoder(const Tokenizer& tokenizer, const Settings& settings, std::int64_t limit)
      : tokenizer_(tokenizer),
        prefix_(settings.prefix),
        limit_(settings.max_length > 0 ? std::min(settings.max_length, limit) : limit) {}

  std::vector<std::vector<std::int32_t>> ids(const std::vector<std::string>& texts) {
    std::vector<std::vector<std::int32_t>> all;
    for (const std::string& text : texts) {
      CutText encoded = tokenizer_.encode_at_most(prefix_ + text, static_cast<std::size_t>(limit_));
      cut_ += encoded.cut > 0 ? 1 : 0;
      all.push_back(std::move(encoded.ids));
    }
    return all;
  }
  std::size_t cut() const { return cut_; }
  std::int64_t limit() const { return limit_; }

 private:
  const Tokenizer& tokenizer_;
  std::string prefix_;
  std::int64_t limit_;
  std::size_t cut_ = 0;
};

// A matrix of rows of `width` numbers.
void write_npy(const std::string& path, const std::vector<float>& values, std::size_t width) {
  const std::array<std::int64_t, 2> shape{static_cast<std::int64_t>(values.size() / width),
                                          static_cast<std::int64_t>(width)};
  const std::string head = npy_head("<f4", shape);
  const std::array<std::span<const std::byte>, 2> parts{std::as_bytes(std::span(head)),
                                                        std::as_bytes(std::span(values))};
  write_file_atomically(path, parts);
}

void show(Output& output, const std::vector<float>& vectors, std::size_t width) {
  for (std::size_t at = 0; at < vectors.size(); at += width) {
    const std::vector<float> row(vectors.begin() + static_cast<std::ptrdiff_t>(at),
                                 vectors.begin() + static_cast<std::ptrdiff_t>(at + width));
    output.object({{"embedding", row}});
  }
}

int embed(const Options& options) {
  Output output(options.common.output);
  Texts texts(options);
  const ModelText text(options.common.model);
  (void)text.tokenizer();  // its error comes before the weights are loaded
  LoadedModel loaded(options.common, output);
  const std::optional<Adapter> adapter = loaded.adapter(options.adapter);
  const Settings settings = settings_of(options, loaded.model().config());
  Embedder embedder(loaded.model(), adapter ? &*adapter : nullptr, settings.embedder);
  Encoder encoder(text.tokenizer(), settings, embedder.max_length());
  const auto width = static_cast<std::size_t>(embedder.width());
  std::vector<float> all;
  for (auto some = texts.next(); !some.empty(); some = texts.next()) {
    const std::vector<float> vectors = embedder.embed(encoder.ids(some));
    show(output, vectors, width);
    if (!options.out.empty()) all.insert(all.end(), vectors.begin(), vectors.end());
  }
  if (encoder.cut() > 0)
    output.warning("{} texts were cut to {} tokens", encoder.cut(), encoder.limit());
  if (!options.out.empty()) {
    write_npy(options.out, all, width);
    output.result("{}: {} vectors of {} numbers", options.out, all.size() / width, width);
  }
  loaded.show_inside();
  return 0;
}

}  // namespace

void add_embed_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("embed", "Compute vectors of texts");
  const auto options = std::make_shared<Options>();
  options->common.precision = "f32";  // vectors are compared with those of other programs
  command->add_option("--data", options->data, "Texts: one a line, or JSON lines (.jsonl)")
      ->required()
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  command->add_option("--out", options->out, "NumPy file to write (.npy)")->type_name("FILE");
  command->add_option("--key", options->key, "Key of the text in JSON lines")
      ->type_name("KEY")
      ->capture_default_str();
  add_adapter_option(*command, options->adapter);
  command->add_option("--prefix", options->prefix, "Text before each text, such as 'query: '")
      ->type_name("TEXT");
  add_pooling_option(*command, options->pooling);
  command->add_flag_callback(
      "--normalize", [options] { options->normalises = true; }, "Scale vectors to length 1");
  command->add_flag_callback(
      "--no-normalize", [options] { options->normalises = false; }, "Keep the vectors' lengths");
  command->add_option("--max-length", options->max_length, "Tokens of a text, at most")
      ->type_name("N")
      ->transform(Integer(1, kMaxCount));
  add_run_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return embed(*options); }; });
}

}  // namespace clora

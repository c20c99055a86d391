// The sampling options shared by generate and chat, and the loop that streams the generated text.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "clora/model/generation/generator.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/loaded_model.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

// What the reply must match: at most one of these.
struct GrammarOptions {
  bool json_object = false;
  std::string json_schema;  // files
  std::string grammar;
};

struct SamplingOptions {
  GenerationConfig config;  // all except end_ids, grammar and seed
  GrammarOptions grammar;
  std::vector<std::string> stops;
  std::string kv_cache_type = "auto";  // named_kv_cache_type()
};

void add_sampling_options(CLI::App& command, SamplingOptions& options);

// The grammar for the model's tokenizer, or null. Errors: those of TokenGrammar, with the file's
// name; io; unsupported if the model has no tokenizer.
std::shared_ptr<const TokenGrammar> grammar_of(const GrammarOptions& options,
                                               const ModelText& text);

struct Reply {
  std::string text;  // without a stop string
  Generation generation;
  bool cancelled = false;  // by Ctrl-C
};

// Generates after `prompt`; with `stream`, shows the text as it arrives. Stops early at a stop
// string (finish_reason is then stop), at Ctrl-C, and when stdout is closed by its reader. If
// `text` has no tokeniser, the reply's text is empty and the ids are shown.
Reply generate_reply(Generator& generator, std::span<const std::int32_t> prompt,
                     const GenerationConfig& config, const std::vector<std::string>& stops,
                     const ModelText& text, const Interrupt& interrupt, Output& output,
                     bool stream);

}  // namespace clora

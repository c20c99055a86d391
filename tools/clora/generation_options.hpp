// The options of generating text, shared by generate and chat, and the loop that shows the text
// while it arrives.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <vector>

#include "model/generation/generator.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/loaded_model.hpp"

namespace clora {

struct SamplingOptions {
  GenerationConfig config;  // all but end_ids and seed
  std::vector<std::string> stops;
};

void add_sampling_options(CLI::App& command, SamplingOptions& options);

struct Reply {
  std::string text;  // without a stop string
  Generation generation;
  bool cancelled = false;  // by Ctrl-C
};

// Generates after `prompt` and, where `stream` is set, shows the text as it arrives. Ends early at
// a stop string (then finish_reason is stop), at Ctrl-C and when nobody reads stdout any more.
// text may lack a tokeniser: then the reply's text is empty, and ids are shown.
Reply generate_reply(Generator& generator, std::span<const std::int32_t> prompt,
                     const GenerationConfig& config, const std::vector<std::string>& stops,
                     const ModelText& text, const Interrupt& interrupt, Output& output,
                     bool stream);

}  // namespace clora

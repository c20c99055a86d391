#include "tools/clora/commands/embedding_task.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

// The prompt of the first of these names that the files have, else their default one.
std::string prompt_of(const std::optional<SentenceTransformersConfig>& files,
                      std::initializer_list<const char*> names) {
  if (!files) return {};
  for (const char* name : names) {
    const auto prompt = files->prompts.find(name);
    if (prompt != files->prompts.end()) return prompt->second;
  }
  const auto prompt = files->prompts.find(files->default_prompt);
  return prompt == files->prompts.end() ? std::string() : prompt->second;
}

}  // namespace

CLI::Option* add_pooling_option(CLI::App& command, std::string& name) {
  return command.add_option("--pooling", name, "Tokens whose rows become the vector")
      ->check(CLI::IsMember({"mean", "first", "last"}));
}

Pooling pooling_of(const std::string& name, const std::optional<SentenceTransformersConfig>& files,
                   const ModelConfig& model) {
  if (name == "mean") return Pooling::mean;
  if (name == "first") return Pooling::first_token;
  if (name == "last") return Pooling::last_token;
  if (files && files->pooling) return *files->pooling;
  return model.pooling.value_or(Pooling::mean);
}

void add_embedding_task_options(CLI::App& command, EmbeddingTaskOptions& options) {
  const std::string group = "Embedding";
  command
      .add_option("--task", options.task,
                  "text: predict the next token; embedding: tell texts apart by their vectors")
      ->check(CLI::IsMember({"text", "embedding"}))
      ->capture_default_str()
      ->group(group);
  add_pooling_option(command, options.pooling)->group(group);
  command
      .add_option("--query-prefix", options.query_prefix,
                  "Text before each anchor (default: the model's prompt for queries)")
      ->type_name("TEXT")
      ->group(group);
  command
      .add_option("--document-prefix", options.document_prefix,
                  "Text before each positive and negative (default: the model's prompt for "
                  "documents)")
      ->type_name("TEXT")
      ->group(group);
  command
      .add_option("--scale", options.scale,
                  "Factor of the cosines in the contrastive loss: 1 / temperature")
      ->transform(NumberAbove(0, 1e4))
      ->capture_default_str()
      ->group(group);
}

void set_task_of_data(const EmbeddingTaskOptions& options, const std::string& model,
                      DataOptions& data) {
  if (!options.embeds()) return;
  const auto files = read_sentence_transformers(model);
  data.pairs = TextPairOptions{
      .query_prefix = options.query_prefix.value_or(prompt_of(files, {"query"})),
      .document_prefix =
          options.document_prefix.value_or(prompt_of(files, {"document", "passage"}))};
  if (files && files->max_length > 0) {
    data.max_seq_length = std::min(data.max_seq_length, files->max_length);
  }
}

std::optional<ContrastiveLoss> contrastive_loss_of(const EmbeddingTaskOptions& options,
                                                   const std::string& path,
                                                   const ModelConfig& model) {
  if (!options.embeds()) return std::nullopt;
  return ContrastiveLoss{pooling_of(options.pooling, read_sentence_transformers(path), model),
                         options.scale};
}

std::string text_of(const EmbeddingScores& scores) {
  if (scores.recall) {
    return fmt::format("recall@1 {:.4f}  @5 {:.4f}  @10 {:.4f}", scores.recall->at_1,
                       scores.recall->at_5, scores.recall->at_10);
  }
  return scores.spearman ? fmt::format("Spearman {:.4f}", *scores.spearman) : std::string();
}

void add_to(nlohmann::ordered_json& object, const EmbeddingScores& scores) {
  if (scores.recall) {
    object["recall_at_1"] = scores.recall->at_1;
    object["recall_at_5"] = scores.recall->at_5;
    object["recall_at_10"] = scores.recall->at_10;
  }
  if (scores.spearman) object["spearman"] = *scores.spearman;
}

}  // namespace clora

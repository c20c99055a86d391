// What commands share that embed texts: how a model's files pool them, and the options of --task
// embedding, for train and eval.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "clora/model/embedding/embedding_scores.hpp"
#include "clora/model/training/contrastive_loss.hpp"
#include "model/embedding/sentence_transformers.hpp"
#include "tools/clora/commands/data_options.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

// --pooling. An empty name stands for what the model's files say.
CLI::Option* add_pooling_option(CLI::App& command, std::string& name);
// The pooling of that name; else that of the sentence-transformers files, or of the GGUF metadata;
// else the mean.
Pooling pooling_of(const std::string& name, const std::optional<SentenceTransformersConfig>& files,
                   const ModelConfig& model);

struct EmbeddingTaskOptions {
  std::string task = "text", pooling;
  std::optional<std::string> query_prefix, document_prefix;  // absent: the model's prompts
  double scale = ContrastiveLoss{}.scale;

  bool embeds() const { return task == "embedding"; }
};

void add_embedding_task_options(CLI::App& command, EmbeddingTaskOptions& options);

// Changes how records are read to the task's: text pairs with the prefixes and the length of the
// model's files. No-op for --task text. Errors: those of read_sentence_transformers().
void set_task_of_data(const EmbeddingTaskOptions& options, const std::string& model,
                      DataOptions& data);
// The task's loss; nullopt for --task text.
std::optional<ContrastiveLoss> contrastive_loss_of(const EmbeddingTaskOptions& options,
                                                   const std::string& path,
                                                   const ModelConfig& model);

// "recall@1 0.5  @5 0.9  @10 1", or "Spearman 0.8"; empty without either.
std::string text_of(const EmbeddingScores& scores);
// The same as keys of an event.
void add_to(nlohmann::ordered_json& object, const EmbeddingScores& scores);

}  // namespace clora

// Compares the written model with the one that it was made of, by their logits and greedy replies
// on a few prompts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/transformer/language_model.hpp"

namespace clora {

using TokenIds = std::vector<std::int32_t>;

// The prompts of a file: each line that is not empty is a text, or ids of tokens in brackets, as in
// [1, 15, 7]. `model` is where the tokenizer is. Errors: those of files and tokenizers;
// invalid_file, with the line, for an id outside of the vocabulary; if there is no prompt.
std::vector<TokenIds> read_prompts(const std::string& file, const std::string& model,
                                   std::int64_t vocabulary);

// Without a file: pseudo-random ids, spread over the vocabulary.
std::vector<TokenIds> fixed_prompts(std::int64_t vocabulary);

// What a model computes after each prompt.
struct ModelBehaviour {
  std::vector<std::vector<float>> logits;
  std::vector<TokenIds> replies;  // greedy ones; fewer tokens where the context ends

  bool is_finite() const;  // of the logits
};

// adapter may be null. Without replies if a logit is not finite. Errors: those of Generator.
ModelBehaviour behaviour_of(LanguageModel& model, const Adapter* adapter,
                            const std::vector<TokenIds>& prompts);

struct ModelDifference {
  double largest = 0;        // absolute difference between logits
  double largest_logit = 0;  // of the original model
  // The Kullback-Leibler divergence of the written model's distribution from the original's, in
  // nats, the mean over the prompts; and that of equal probabilities for all tokens.
  double divergence = 0;
  double uniform_divergence = 0;
  std::int64_t equal_tokens = 0;  // of the replies, position by position
  std::int64_t tokens = 0;

  double equal_share() const;
};

// Errors: invalid_data if the numbers of logits differ.
ModelDifference difference_of(const ModelBehaviour& original, const ModelBehaviour& written);

}  // namespace clora

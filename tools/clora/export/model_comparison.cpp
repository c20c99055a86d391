#include "tools/clora/export/model_comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "clora/model/generation/generator.hpp"
#include "clora/model/text/tokenizer_files.hpp"
#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::int64_t kFixedPrompts = 4;
constexpr std::int64_t kFixedLength = 16;
constexpr std::int64_t kReplyLength = 16;

TokenIds ids_in(const std::string& line, const std::string& where, std::int64_t vocabulary) {
  TokenIds ids;
  for (const nlohmann::json& each : parse_json(line, where)) {
    const auto id = each.is_number_integer() ? each.get<std::int64_t>() : -1;
    if (id < 0 || id >= vocabulary)
      fail(ErrorCode::invalid_file, "{}: ids of tokens must be integers from 0 to {}, got {}",
           where, vocabulary - 1, json_excerpt(each));
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

std::vector<double> log_probabilities(const std::vector<float>& logits) {
  const double largest = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  std::vector<double> result;
  for (const float logit : logits) {
    result.push_back(static_cast<double>(logit) - largest - std::log(sum));
  }
  return result;
}

void add_logits(ModelDifference& difference, const std::vector<float>& original,
                const std::vector<float>& written) {
  const std::vector<double> p = log_probabilities(original), q = log_probabilities(written);
  const double uniform = -std::log(static_cast<double>(p.size()));
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double a = original[i], b = written[i];
    difference.largest = std::max(difference.largest, std::abs(a - b));
    difference.largest_logit = std::max(difference.largest_logit, std::abs(a));
    difference.divergence += std::exp(p[i]) * (p[i] - q[i]);
    difference.uniform_divergence += std::exp(p[i]) * (p[i] - uniform);
  }
}

void add_reply(ModelDifference& difference, const TokenIds& original, const TokenIds& written) {
  for (std::size_t i = 0; i < original.size(); ++i) {
    ++difference.tokens;
    if (i < written.size() && written[i] == original[i]) ++difference.equal_tokens;
  }
}

}  // namespace

std::vector<TokenIds> read_prompts(const std::string& file, const std::string& model,
                                   std::int64_t vocabulary) {
  std::istringstream lines{std::string(MappedFile::open(file).text())};
  std::optional<Tokenizer> tokenizer;
  std::vector<TokenIds> prompts;
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = fmt::format("{}: line {}", file, ++number);
    if (line.empty()) continue;
    if (line.front() == '[') {
      prompts.push_back(ids_in(line, where, vocabulary));
    } else {
      if (!tokenizer) tokenizer = load_tokenizer(model);
      prompts.push_back(tokenizer->encode(line));
    }
    if (prompts.back().empty()) fail(ErrorCode::invalid_file, "{}: has no tokens", where);
  }
  if (prompts.empty()) fail(ErrorCode::invalid_file, "{}: has no prompts", file);
  return prompts;
}

std::vector<TokenIds> fixed_prompts(std::int64_t vocabulary) {
  std::vector<TokenIds> prompts;
  for (std::int64_t which = 0; which < kFixedPrompts; ++which) {
    TokenIds& ids = prompts.emplace_back();
    for (std::int64_t i = 0; i < kFixedLength; ++i) {
      ids.push_back(static_cast<std::int32_t>((which * 104729 + i * 7919 + 17) % vocabulary));
    }
  }
  return prompts;
}

bool ModelBehaviour::is_finite() const {
  return std::ranges::all_of(logits, [](const auto& row) {
    return std::ranges::all_of(row, [](float logit) { return std::isfinite(logit); });
  });
}

ModelBehaviour behaviour_of(LanguageModel& model, const Adapter* adapter,
                            const std::vector<TokenIds>& prompts) {
  std::size_t longest = 0;
  for (const TokenIds& prompt : prompts) longest = std::max(longest, prompt.size());
  Generator generator(model, adapter, static_cast<std::int64_t>(longest) + kReplyLength + 1);
  ModelBehaviour behaviour;
  for (const TokenIds& prompt : prompts) behaviour.logits.push_back(generator.logits(prompt));
  if (!behaviour.is_finite()) return behaviour;
  for (const TokenIds& prompt : prompts) {
    GenerationConfig config{.max_tokens = kReplyLength};
    config.sampling.temperature = 0;
    behaviour.replies.push_back(generator.generate(prompt, config).ids);
  }
  return behaviour;
}

double ModelDifference::equal_share() const {
  return tokens == 0 ? 1 : static_cast<double>(equal_tokens) / static_cast<double>(tokens);
}

ModelDifference difference_of(const ModelBehaviour& original, const ModelBehaviour& written) {
  ModelDifference difference;
  if (!written.is_finite()) {
    difference.largest = difference.divergence = std::numeric_limits<double>::infinity();
    return difference;
  }
  for (std::size_t i = 0; i < original.logits.size(); ++i) {
    const std::size_t expected = original.logits[i].size(), got = written.logits[i].size();
    if (expected != got)
      fail(ErrorCode::invalid_data,
           "the written model has {} logits per token, the original has {}", got, expected);
    add_logits(difference, original.logits[i], written.logits[i]);
    add_reply(difference, original.replies[i], written.replies[i]);
  }
  const auto prompts = static_cast<double>(original.logits.size());
  difference.divergence = std::max(0.0, difference.divergence / prompts);
  difference.uniform_divergence /= prompts;
  return difference;
}

}  // namespace clora

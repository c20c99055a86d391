// ReplySamples: greedy replies of the base model and of the adapter in training to prompts of the
// held-out records. Must not outlive the model, the adapter or the tokenizer. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/clora/exact_match.hpp"
#include "tools/clora/report/run_record.hpp"

namespace clora {

// The bytes of a text of a sample; longer ones are cut.
constexpr std::size_t kMaxSampleBytes = 6000;
// The text, at most `most` bytes of it and then "…", cut between characters. Pure.
std::string shortened(const std::string& text, std::size_t most);

// The positions of the Generator that samples of the first `count` records with a prompt take; 0:
// there is none. Pure.
std::int64_t sample_positions(const Records& held_out, std::int64_t count);

class ReplySamples {
 public:
  // The first `count` records that have a prompt. A reply has at most 256 tokens.
  ReplySamples(LanguageModel& model, const Adapter& adapter, const Tokenizer& tokenizer,
               const Records& held_out, std::vector<std::int32_t> end_ids, std::int64_t count);

  // Whether a record has a prompt; a {"text"} has none.
  bool has_prompts() const noexcept { return !questions_.empty(); }

  // The replies with the adapter as it is now, or nothing if should_stop() ended them. The base
  // model replies once. Errors: those of Generator; out_of_memory leaves the training as it was.
  std::vector<ReplySample> replies(const std::function<bool()>& should_stop);

 private:
  std::optional<std::vector<std::string>> replies_of(const Adapter* adapter,
                                                     const std::function<bool()>& should_stop);

  LanguageModel& model_;
  const Adapter& adapter_;
  const Tokenizer& tokenizer_;
  std::vector<Question> questions_;
  std::vector<std::int32_t> end_ids_;
  std::vector<std::string> base_;  // once they are known
};

// The event of the log: {"event":"samples","step":4,"samples":[{"prompt":...,"wanted":...,
// "base":...,"adapter":...}]}
nlohmann::ordered_json samples_event(std::int64_t step, const std::vector<ReplySample>& samples);

}  // namespace clora

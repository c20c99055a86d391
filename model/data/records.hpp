// Data sets: JSON Lines files become records of token ids, each token with its bit of the loss mask
// (is_target). Three forms, told apart by their keys, may be mixed in a file; "messages" counts
// before "prompt", that before "text":
//   {"text"}                        every token but the first is a target
//   {"prompt", "completion"}        the completion's tokens are targets
//   {"messages": [{role, content}]} each assistant turn, with the token that ends it, is a target,
//                                   unless its "weight" is 0; content: a string, or a list of
//                                   {"type": "text", "text"}
// Other keys are ignored, except those that would change what is trained (tools, tool_calls,
// labels, ...): these are refused by name unless they are null or empty.
// A line that cannot be used stops the reading: Error(invalid_data) "FILE: line N: reason".
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/chat_template.hpp"
#include "model/text/tokenizer.hpp"

namespace clora {

struct Record {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> is_target;  // [ids.size()]; the loss mask; 1: the token is labelled
};

struct RecordOptions {
  std::size_t max_seq_length = 512;  // tokens; longer records lose their end. REQUIRES >= 2
  bool append_eos = true;            // texts and completions end with eos, a target
  bool apply_chat_template =
      false;              // prompt and completion become a user's and an assistant's turn
  std::size_t limit = 0;  // records read at most; 0: all
  // Special tokens (<|im_end|>) written in a record's texts become these tokens, as Hugging Face's
  // tokenizers do; else they are text like any other, and counted in Records::with_special.
  bool parse_special = false;
  // What the model reads at most; 0: unknown. A record that is longer after max_seq_length cut it
  // is refused.
  std::size_t max_positions = 0;
  std::size_t max_bytes = std::size_t{4} << 30U;  // of memory that the records take
  std::string chat_template_problem = {};         // why there is no chat template, for messages
};

struct Records {
  std::vector<Record> records;
  std::size_t truncated = 0;  // records that lost their end
  std::size_t skipped = 0;    // records left without a target; not in `records`
  // Records with special tokens in their texts that were not parsed, and the first of them.
  std::size_t with_special = 0;
  std::size_t special_line = 0;
  std::string special_token = {};

  std::size_t target_count() const;  // labelled tokens of all records
};

// Reads a file. chat_template: null where the model has none that is known; messages, and
// apply_chat_template, then stop with the reason. Throws Error(not_found) where the file is absent,
// Error(invalid_data) for a bad line, a file without records or one of whose records none has a
// target, Error(invalid_argument) where append_eos is asked of a tokenizer that has no eos,
// Error(out_of_memory) where the records take more than max_bytes. Memory is bounded for files
// without an end, too.
Records load_records(const std::filesystem::path& path, const Tokenizer& tokenizer,
                     const ChatTemplate* chat_template, const RecordOptions& options = {});

// One line of such a file. Throws Error(invalid_data) "record: line 1: reason". Neither truncates
// nor skips.
Record read_record(std::string_view line, const Tokenizer& tokenizer,
                   const ChatTemplate* chat_template, const RecordOptions& options = {});

// folder/SPLIT.jsonl, for "train", "valid" or "test", where it exists.
std::optional<std::filesystem::path> find_split(const std::filesystem::path& folder,
                                                std::string_view split);

}  // namespace clora

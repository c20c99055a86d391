// Data sets: JSON Lines files are read as records of token ids, each token with its bit of the loss
// mask (is_target). Forms, distinguished by their keys, may be mixed in a file; the first in this
// list takes precedence:
//   {"messages": [{role, content}]}     each assistant turn, with the token that ends it, is a
//                                       target, unless its "weight" is 0 or its "train" is false
//   {"conversations": [{from, value}]}  the same (ShareGPT)
//   {"prompt", "completion"}            the completion's tokens are targets; both are texts, or
//                                       lists of messages, or an exchange (apply_chat_template)
//   {"instruction", "input", "output"}  a user and an assistant turn (Alpaca)
//   {"text"}                            every token except the first is a target
// A "weight" of such a record, a number of 0 or more, multiplies the losses of its tokens in
// training (Record::weight); with one of 0 none of its tokens is a target.
// Conversations may have tools, tool calls and reasoning (conversation.hpp, message_reading.hpp).
// Or, if text pairs are requested (RecordOptions::pairs), one of
//   {"anchor", "positive"}, {"anchor", "positive", "negative"}    for the contrastive loss
//   {"sentence1", "sentence2", "score"}                           for a rank correlation
// whose texts follow one another in a record, each with its special tokens; is_target marks the
// first token of each (texts_of()).
// Or, if answers are to be compared (RecordOptions::preference), one of
//   {"prompt", "chosen", "rejected"}       texts, or lists of messages; without a prompt, "chosen"
//                                          and "rejected" are whole, and begin with the same one
//   {"prompt", "completion", "label"}      the label is true for a desirable completion, or false
// whose tokens are those of the prompt, marked 0, and of the answers (preference_packing.hpp).
// Other keys are ignored, except those that would change what is trained (labels, images, ...;
// tools of a text): these are refused by name unless they are null or empty. A line that cannot be
// used is an error: Error(invalid_data) "FILE: line N: reason".
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/data/data_order.hpp"
#include "clora/model/data/record_store.hpp"
#include "clora/model/text/chat_template.hpp"
#include "clora/model/text/tokenizer.hpp"

namespace clora {

// The forms of records; of the first five, a record has the first whose keys it contains.
enum class RecordForm {
  messages,
  share_gpt,
  prompt,
  alpaca,
  text,
  text_pair,
  scored_pair,
  answer_pair,
  labelled_answer
};
inline constexpr std::size_t kRecordForms = 9;
std::string_view name_of(RecordForm form);

struct DataReport;  // data_report.hpp

struct TextPairOptions {
  std::string query_prefix;     // before anchors, and before both texts of a scored pair
  std::string document_prefix;  // before positives and negatives
};

enum class PreferenceForm { pairs, labelled };

struct RecordOptions {
  // In tokens; longer records, texts of a pair, or prompts with an answer are truncated. REQUIRES
  // >= 2
  std::size_t max_seq_length = 512;
  bool append_eos = true;            // append eos, as a target, to texts and completions
  bool apply_chat_template = false;  // prompt and completion become a user and an assistant turn
  std::size_t limit = 0;             // maximum number of records to read of each file; 0: all
  // Special tokens (<|im_end|>) in a record's texts are parsed as tokens, as by Hugging Face's
  // tokenizers; else they are plain text, and counted in Records::with_special.
  bool parse_special = false;
  // The model's maximum number of positions; 0: unknown. A record that is longer after truncation
  // to max_seq_length is refused.
  std::size_t max_positions = 0;
  RecordStoreLimits memory = {};
  std::size_t max_bytes = std::size_t{1} << 40U;  // of the records, in memory and in its file
  std::string chat_template_problem = {};         // why there is no chat template, for messages
  std::optional<TextPairOptions> pairs = {};      // records are pairs or triplets of texts
  std::optional<PreferenceForm> preference = {};  // records are prompts with answers
  DataReport* report = nullptr;                   // to which each record is added; null: none
};

struct Records {
  RecordStore records;
  std::size_t truncated = 0;  // number of truncated records
  std::size_t skipped = 0;    // records without a target; not in `records`
  // Number of records with special tokens that were not parsed; line and token of the first.
  std::size_t with_special = 0;
  std::size_t special_line = 0;
  std::string special_token = {}, special_file = {};
  std::vector<double> scores = {};  // of scored pairs, one for each record; else empty

  std::vector<DataShare> shares = {};  // of each file, in order; empty: one of weight 1

  std::optional<PreferenceForm> preference = {};  // that of RecordOptions

  std::size_t target_count() const;  // labelled tokens of all records
  std::vector<DataShare> data_shares() const;
};

struct DataFile {
  std::filesystem::path path;
  double weight = 1;  // DataShare
};

// Reads files one after the other. chat_template: null if the model has no known one; messages and
// apply_chat_template then fail with the reason. Throws Error(not_found) if the file does not
// exist, Error(invalid_data) for a bad line, a file without records or without any target,
// Error(invalid_argument) if append_eos is set and the tokenizer has no eos, Error(out_of_memory)
// if the records take more than max_bytes, Error(io) if their temporary file cannot grow. Memory is
// bounded by `memory`, the longest line and 8 bytes for each scored pair, even for files without an
// end.
Records load_records(std::span<const DataFile> files, const Tokenizer& tokenizer,
                     const ChatTemplate* chat_template, const RecordOptions& options = {});
Records load_records(const std::filesystem::path& path, const Tokenizer& tokenizer,
                     const ChatTemplate* chat_template, const RecordOptions& options = {});

// Reads one line of such a file, without truncating or skipping. Throws Error(invalid_data)
// "record: line 1: reason".
Record read_record(std::string_view line, const Tokenizer& tokenizer,
                   const ChatTemplate* chat_template, const RecordOptions& options = {});

// Returns the file of a split ("train", "valid", "test") in a folder: SPLIT.jsonl, SPLIT.json, or
// one of these with .gz or .zst. Throws Error(invalid_data) if there are several.
std::optional<std::filesystem::path> find_split(const std::filesystem::path& folder,
                                                std::string_view split);

}  // namespace clora

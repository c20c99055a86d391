// RecordReader: converts one line of a data set to a record (records.hpp). Immutable; thread-safe.
// Refers to its constructor arguments, which must outlive it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/data/records.hpp"
#include "model/data/conversation.hpp"

namespace clora {

struct ReadRecord {
  Record record = {};
  RecordForm form = RecordForm::text;
  std::optional<std::int32_t> special =
      {};                            // the first special token in its texts that was not parsed
  bool is_cut = false;               // a text of a pair, or an answer, was truncated
  std::optional<double> score = {};  // of a scored pair
};

class RecordReader {
 public:
  // Errors: invalid_argument for a max_seq_length below 2.
  RecordReader(const Tokenizer& tokenizer, const ChatTemplate* chat_template,
               const RecordOptions& options);

  // Errors: those of read_record(); `source` and `number` name the line in them.
  ReadRecord read(std::string_view line, std::string_view source, std::size_t number) const;

  const Tokenizer& tokenizer() const noexcept { return tokenizer_; }

 private:
  ReadRecord read_object(const RecordJson& object) const;
  ReadRecord read_form(const RecordJson& object, RecordForm form) const;
  ReadRecord read_text(const std::string& text) const;
  ReadRecord read_pair(const RecordJson& object) const;
  ReadRecord read_text_pair(const RecordJson& object) const;
  // Of prompts with answers that are compared (preference_reading.cpp).
  ReadRecord read_answers(const RecordJson& object) const;
  ReadRecord read_answer_pair(const RecordJson& object) const;
  bool cut_answer(Record& record) const;
  void append_text(ReadRecord& out, const std::string& text) const;
  void require_chat_template(RecordForm form) const;
  ReadRecord read_conversation(const Conversation& conversation) const;
  void append(ReadRecord& out, const std::string& text, bool is_target) const;
  void append_eos(Record& record) const;
  void look_for_special(ReadRecord& out, std::string_view text) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_template_;
  const RecordOptions& options_;
};

}  // namespace clora

// The records of prompts with answers that are compared (preference_packing.hpp): members of
// RecordReader. An answer is read as the completion of a record with a prompt; what follows the
// prompt's tokens is the answer, the markup between and after its messages included.
#include <algorithm>

#include "clora/runtime/files/json.hpp"
#include "model/data/preference_packing.hpp"
#include "model/data/record_reader.hpp"

namespace clora {
namespace {

constexpr std::size_t kFirst = 1;  // token of a document, which no other predicts

struct SharedPrompt {
  RecordJson prompt, chosen, rejected;
};

// Returns an answer of a pair. Errors: it is missing, blank, or neither a text nor a list.
const RecordJson& answer_of(const RecordJson& object, std::string_view key) {
  const RecordJson* const answer = find_filled(object, key);
  if (answer == nullptr) bad_record("\"{}\" is missing or empty", key);
  if (answer->is_string() || answer->is_array()) return *answer;
  bad_record("\"{}\" must be a text or a list of messages, got {}", key, json_excerpt(*answer));
}

// The common beginning of two whole texts, without a space at its end, which belongs to the token
// after it, and without a part of a character.
SharedPrompt split_texts(const std::string& chosen, const std::string& rejected) {
  const auto differ = std::ranges::mismatch(chosen, rejected);
  auto count = static_cast<std::size_t>(differ.in1 - chosen.begin());
  const auto is_inside_character = [&](const std::string& text) {
    return count < text.size() && (static_cast<unsigned char>(text[count]) & 0xC0U) == 0x80U;
  };
  while (count > 0 && (is_inside_character(chosen) || is_inside_character(rejected))) --count;
  if (count > 0 && chosen[count - 1] == ' ') --count;
  if (count == chosen.size() || count == rejected.size()) {
    bad_record(
        "\"chosen\" and \"rejected\" must differ after their common beginning, which is their "
        "prompt, or the record needs a \"prompt\"");
  }
  return {chosen.substr(0, count), chosen.substr(count), rejected.substr(count)};
}

// The common first messages of two whole conversations.
SharedPrompt split_conversations(const RecordJson& chosen, const RecordJson& rejected) {
  const std::size_t most = std::min(chosen.size(), rejected.size()) - 1;
  std::size_t count = 0;
  while (count < most && chosen[count] == rejected[count]) ++count;
  if (count == 0) {
    bad_record(
        "\"chosen\" and \"rejected\" must begin with the same messages, which are their prompt, "
        "or the record needs a \"prompt\"");
  }
  SharedPrompt split{RecordJson::array(), RecordJson::array(), RecordJson::array()};
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    (i < count ? split.prompt : split.chosen).push_back(chosen[i]);
  }
  for (std::size_t i = count; i < rejected.size(); ++i) split.rejected.push_back(rejected[i]);
  return split;
}

SharedPrompt split_of(const RecordJson& object) {
  const RecordJson &chosen = answer_of(object, "chosen"), &rejected = answer_of(object, "rejected");
  const bool are_texts = chosen.is_string();
  const bool has_prompt = object.contains("prompt") && !object["prompt"].is_null();
  const bool fits =
      !has_prompt || (are_texts ? object["prompt"].is_string() : object["prompt"].is_array());
  if (rejected.is_string() != are_texts || !fits) {
    bad_record(
        "\"prompt\", \"chosen\" and \"rejected\" must be all texts or all lists of messages, got "
        "{}, {} and {}",
        has_prompt ? json_excerpt(object["prompt"]) : "no prompt", json_excerpt(chosen),
        json_excerpt(rejected));
  }
  if (has_prompt) return {object["prompt"], chosen, rejected};
  if (!are_texts) return split_conversations(chosen, rejected);
  return split_texts(chosen.get<std::string>(), rejected.get<std::string>());
}

RecordJson with_completion(RecordJson object, const RecordJson& prompt,
                           const RecordJson& completion) {
  object.erase("chosen");
  object.erase("rejected");
  object["prompt"] = prompt;
  object["completion"] = completion;
  return object;
}

// The first labelled token, but not the very first, which no token predicts.
std::size_t prompt_length(const Record& record) {
  const auto found = std::find(record.is_target.begin() + (record.ids.empty() ? 0 : kFirst),
                               record.is_target.end(), 1);
  return static_cast<std::size_t>(found - record.is_target.begin());
}

void append_part(Record& record, std::span<const std::int32_t> ids, std::uint8_t mark) {
  record.ids.insert(record.ids.end(), ids.begin(), ids.end());
  record.is_target.resize(record.ids.size(), mark);
}

}  // namespace

// Cuts a document; returns whether it was too long.
bool RecordReader::cut_answer(Record& record) const {
  const bool is_cut = record.ids.size() > options_.max_seq_length;
  if (is_cut) record.ids.resize(options_.max_seq_length);
  if (options_.max_positions > 0 && record.ids.size() > options_.max_positions) {
    bad_record(
        "a prompt with its answer has {} tokens, but the model supports at most {}; shorten it or "
        "truncate it (`max_seq_length` {})",
        record.ids.size(), options_.max_positions, options_.max_positions);
  }
  return is_cut;
}

ReadRecord RecordReader::read_answers(const RecordJson& object) const {
  if (*options_.preference == PreferenceForm::pairs) return read_answer_pair(object);
  refuse_keys_of_record(object, {"label"});
  const auto label = object.find("label");
  if (label == object.end() || !label->is_boolean()) {
    bad_record("\"label\" must be true or false, got {}",
               label == object.end() ? "nothing" : json_excerpt(*label));
  }
  const std::uint8_t mark = label->get<bool>() ? kChosen : kRejected;
  ReadRecord out = read_form(object, RecordForm::prompt);
  out.form = RecordForm::labelled_answer;
  Record document = std::move(out.record);
  const std::size_t prompt = prompt_length(document);
  out.is_cut = cut_answer(document);
  out.record = {};
  const std::span<const std::int32_t> ids(document.ids);
  const bool is_skipped = ids.size() <= std::max(prompt, kFirst);
  append_part(out.record, ids.first(std::min(prompt, ids.size())), 0);
  if (!is_skipped) append_part(out.record, ids.subspan(prompt), mark);
  return out;
}

ReadRecord RecordReader::read_answer_pair(const RecordJson& object) const {
  refuse_keys_of_record(object, {"chosen", "rejected"});
  const SharedPrompt split = split_of(object);
  ReadRecord out =
      read_form(with_completion(object, split.prompt, split.chosen), RecordForm::prompt);
  ReadRecord other =
      read_form(with_completion(object, split.prompt, split.rejected), RecordForm::prompt);
  out.form = RecordForm::answer_pair;
  if (!out.special) out.special = other.special;
  Record chosen = std::move(out.record), rejected = std::move(other.record);
  const auto differ = std::ranges::mismatch(chosen.ids, rejected.ids);
  const std::size_t prompt = std::min({static_cast<std::size_t>(differ.in1 - chosen.ids.begin()),
                                       prompt_length(chosen), prompt_length(rejected)});
  const bool cuts_chosen = cut_answer(chosen), cuts_rejected = cut_answer(rejected);
  out.is_cut = cuts_chosen || cuts_rejected;
  out.record = {};
  const std::span<const std::int32_t> c(chosen.ids), r(rejected.ids);
  const bool is_skipped = std::min(c.size(), r.size()) <= std::max(prompt, kFirst);
  append_part(out.record, c.first(std::min(prompt, c.size())), 0);
  if (is_skipped) return out;
  append_part(out.record, c.subspan(prompt), kChosen);
  append_part(out.record, r.subspan(prompt), kRejected);
  return out;
}

}  // namespace clora

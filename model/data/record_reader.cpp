#include "model/data/record_reader.hpp"

#include <algorithm>
#include <limits>

#include "clora/runtime/files/json.hpp"
#include "model/data/conversation.hpp"
#include "runtime/fail.hpp"

namespace clora {

namespace {

// Objects with more keys would take time quadratic in their number.
constexpr JsonLimits kLineLimits{.keys = 1024};

// Reads the factor of the losses of the record's tokens. One of 0 is that of a record whose tokens
// do not count.
void weigh(Record& record, const RecordJson& object) {
  const auto found = object.find("weight");
  if (found == object.end() || found->is_null()) return;
  const double weight = found->is_number() ? found->get<double>() : -1;
  if (!(weight >= 0) || weight > double{std::numeric_limits<float>::max()}) {
    bad_record("\"weight\" must be a finite number of 0 or more, got {}", json_excerpt(*found));
  }
  record.weight = static_cast<float>(weight);
  if (record.weight == 0) std::ranges::fill(record.is_target, std::uint8_t{0});
}

// Whether any text within the value satisfies the predicate, which ends the search.
template <class F>
bool any_text(const RecordJson& value, const F& f) {
  if (value.is_string()) return f(value.get_ref<const std::string&>());
  return value.is_structured() &&
         std::ranges::any_of(value, [&](const RecordJson& inner) { return any_text(inner, f); });
}

}  // namespace

RecordReader::RecordReader(const Tokenizer& tokenizer, const ChatTemplate* chat_template,
                           const RecordOptions& options)
    : tokenizer_(tokenizer), chat_template_(chat_template), options_(options) {
  require(options.max_seq_length >= 2, "records: max_seq_length must be at least 2, got {}",
          options.max_seq_length);
}

ReadRecord RecordReader::read(std::string_view line, std::string_view source,
                              std::size_t number) const {
  const RecordJson object = [&] {
    try {
      return parse_json<RecordJson>(line, source, kLineLimits, number);
    } catch (const Error& error) {
      const bool is_open = line.starts_with('{') && line.find('}') == std::string_view::npos;
      bad_record(
          "{}{}", error.what(),
          is_open ? "; a record must be on one line, or the file a JSON array of records" : "");
    }
  }();
  try {
    if (!object.is_object())
      bad_record("a record must be a JSON object, got {}", json_excerpt(object));
    ReadRecord out = read_object(object);
    if (out.record.ids.empty()) bad_record("the text has no tokens");
    if (options_.pairs || options_.preference) return out;
    out.record.is_target.front() = 0;  // no token before it could predict it
    return out;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_data) throw;
    bad_record("{}: line {}: {}", source, number, error.what());
  }
}

ReadRecord RecordReader::read_object(const RecordJson& object) const {
  if (options_.preference) return read_answers(object);
  if (options_.pairs) {
    refuse_keys_of_record(object);
    refuse_keys_of_conversation(object);
    return read_text_pair(object);
  }
  refuse_keys_of_record(object, {"weight"});
  const std::optional<RecordForm> form = form_of(object);
  if (!form) {
    bad_record(
        "a record needs \"text\", \"prompt\" and \"completion\", \"messages\", \"conversations\" "
        "(ShareGPT), or \"instruction\" and \"output\" (Alpaca); got keys: {}",
        names_of_keys(object));
  }
  ReadRecord out = read_form(object, *form);
  out.form = *form;
  weigh(out.record, object);
  return out;
}

ReadRecord RecordReader::read_form(const RecordJson& object, RecordForm form) const {
  const bool is_text =
      form == RecordForm::text ||
      (form == RecordForm::prompt && !has_prompt_messages(object) && !options_.apply_chat_template);
  if (!is_text) {
    require_chat_template(form);
    return read_conversation(fitted(conversation_of(object, form), chat_template_->support()));
  }
  refuse_keys_of_conversation(object);
  return form == RecordForm::text ? read_text(filled_string_of(object, "text")) : read_pair(object);
}

ReadRecord RecordReader::read_text_pair(const RecordJson& object) const {
  const auto& [query_prefix, document_prefix] = *options_.pairs;
  ReadRecord out{.form = RecordForm::text_pair};
  if (object.contains("sentence1") || object.contains("sentence2")) {
    for (const char* key : {"sentence1", "sentence2"}) {
      append_text(out, query_prefix + filled_string_of(object, key));
    }
    const auto score = object.find("score");
    if (score == object.end() || !score->is_number()) {
      bad_record("\"score\" must be a number, got {}",
                 score == object.end() ? "nothing" : json_excerpt(*score));
    }
    out.form = RecordForm::scored_pair;
    out.score = score->get<double>();
    return out;
  }
  append_text(out, query_prefix + filled_string_of(object, "anchor"));
  append_text(out, document_prefix + filled_string_of(object, "positive"));
  if (object.contains("negative")) {
    append_text(out, document_prefix + filled_string_of(object, "negative"));
  }
  return out;
}

void RecordReader::append_text(ReadRecord& out, const std::string& text) const {
  look_for_special(out, text);
  std::size_t most = options_.max_seq_length;
  if (options_.max_positions > 0) most = std::min(most, options_.max_positions);
  const CutText encoded =
      tokenizer_.encode_at_most(text, most, {.parse_special = options_.parse_special});
  if (encoded.ids.empty()) bad_record("a text has no tokens");
  out.is_cut = out.is_cut || encoded.cut > 0;
  Record& record = out.record;
  const std::size_t begin = record.ids.size();
  record.ids.insert(record.ids.end(), encoded.ids.begin(), encoded.ids.end());
  record.is_target.resize(record.ids.size(), 0);
  record.is_target[begin] = 1;
}

ReadRecord RecordReader::read_text(const std::string& text) const {
  ReadRecord out;
  append(out, text, true);
  append_eos(out.record);
  return out;
}

ReadRecord RecordReader::read_pair(const RecordJson& object) const {
  const std::string prompt = string_of(object, "prompt");
  const std::string completion = filled_string_of(object, "completion");
  ReadRecord out;
  append(out, prompt, false);
  append(out, completion, true);
  append_eos(out.record);
  return out;
}

void RecordReader::require_chat_template(RecordForm form) const {
  if (chat_template_ != nullptr) return;
  bad_record("{} need a chat template: {}",
             form == RecordForm::alpaca ? "Alpaca's instructions" : "messages",
             options_.chat_template_problem.empty() ? "the model has no supported one"
                                                    : options_.chat_template_problem);
}

ReadRecord RecordReader::read_conversation(const Conversation& conversation) const {
  ReadRecord out;
  for (const ChatMessage& message : conversation.messages) {
    look_for_special(out, message.content);
    any_text(message.fields, [&](const std::string& text) {
      look_for_special(out, text);
      return out.special.has_value();
    });
  }
  try {
    const ChatOptions how{.parse_special = options_.parse_special,
                          .tools = conversation.tools,
                          .arguments = conversation.arguments};
    ChatTokens tokens = chat_template_->encode(conversation.messages, how, tokenizer_);
    out.record = {std::move(tokens.ids), std::move(tokens.is_target)};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    bad_record("{}", error.what());  // the template refuses this conversation
  }
  return out;
}

// Prompt and completion are tokenised separately; bos is prepended only to the first.
void RecordReader::append(ReadRecord& out, const std::string& text, bool is_target) const {
  if (text.empty()) return;
  look_for_special(out, text);
  Record& record = out.record;
  const EncodeOptions how{.parse_special = options_.parse_special,
                          .continues = !record.ids.empty()};
  const std::vector<std::int32_t> ids = tokenizer_.encode(text, how);
  record.ids.insert(record.ids.end(), ids.begin(), ids.end());
  record.is_target.resize(record.ids.size(), is_target ? 1 : 0);
}

// No-op if the text ends in a parsed eos.
void RecordReader::append_eos(Record& record) const {
  if (!options_.append_eos) return;
  require(tokenizer_.eos().has_value(),
          "records: append_eos is on, but the tokenizer has no eos token; turn it off");
  if (options_.parse_special && !record.ids.empty() && record.ids.back() == *tokenizer_.eos()) {
    return;
  }
  record.ids.push_back(*tokenizer_.eos());
  record.is_target.push_back(1);
}

void RecordReader::look_for_special(ReadRecord& out, std::string_view text) const {
  if (options_.parse_special || out.special) return;
  out.special = tokenizer_.first_special(text);
}

}  // namespace clora

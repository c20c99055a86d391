#include "clora/model/data/records.hpp"

#include <algorithm>
#include <numeric>

#include "model/data/record_reader.hpp"
#include "model/data/record_texts.hpp"
#include "runtime/fail.hpp"

namespace clora {

namespace {

// For one record: about 4 million tokens, more than any model reads.
constexpr std::size_t kMaxRecordBytes = std::size_t{16} << 20U;
constexpr std::size_t kMaxBlankLines = 1U << 20U;  // at the end of a file

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

// Reads one file into Records.
class FileReading {
 public:
  FileReading(const std::filesystem::path& path, const RecordReader& reader,
              const RecordOptions& options)
      : source_(path.string()), lines_(path, kMaxRecordBytes), reader_(reader), options_(options) {
    out_.records = RecordStore(options.memory);
  }

  Records read() {
    std::string line;
    std::size_t blank = 0;  // number of a blank line, which only blank lines may follow
    while ((options_.limit == 0 || read_ < options_.limit) && lines_.next(line)) {
      if (is_blank(line)) {
        if (blank == 0) blank = lines_.number();
        if (lines_.number() - blank < kMaxBlankLines) continue;
      }
      if (blank != 0) bad(blank, "an empty line before the end of the file");
      add(reader_.read(line, source_, lines_.number()));
    }
    if (read_ == 0) fail(ErrorCode::invalid_data, "{}: the data set has no records", source_);
    if (out_.records.empty()) {
      bad(first_skipped_,
          "the record has no target: none of its tokens counts towards the loss, and the same is "
          "true of all {} records read; a record needs a text, a completion or an assistant turn "
          "that max_seq_length ({} tokens) does not cut off",
          read_, options_.max_seq_length);
    }
    return std::move(out_);
  }

 private:
  template <class... Args>
  [[noreturn]] void bad(std::size_t line, fmt::format_string<Args...> format,
                        Args&&... args) const {
    fail(ErrorCode::invalid_data, "{}: line {}: {}", source_, line,
         fmt::format(format, std::forward<Args>(args)...));
  }

  void add(ReadRecord read) {
    ++read_;
    note_special(read);
    Record& record = read.record;
    if (options_.pairs) {
      note_pair(read);
    } else {
      cut(record);
    }
    if (std::ranges::find(record.is_target, 1) == record.is_target.end()) {
      if (out_.skipped++ == 0) first_skipped_ = lines_.number();
      return;
    }
    out_.records.push_back(record);
    if (out_.records.bytes() > options_.max_bytes) {
      fail(ErrorCode::out_of_memory,
           "{}: line {}: the records up to this line take more than {} bytes; read fewer (`limit`)",
           source_, lines_.number(), options_.max_bytes);
    }
  }

  void note_special(const ReadRecord& read) {
    if (!read.special) return;
    if (out_.with_special++ > 0) return;
    out_.special_line = lines_.number();
    out_.special_token = reader_.tokenizer().token_text(*read.special);
  }

  void note_pair(const ReadRecord& read) {
    if (read.is_cut) ++out_.truncated;
    if (read.score.has_value() != !out_.scores.empty() && !out_.records.empty()) {
      bad(lines_.number(), "pairs with a score and pairs without one cannot be mixed");
    }
    if (read.score) out_.scores.push_back(*read.score);
  }

  void cut(Record& record) {
    if (record.ids.size() > options_.max_seq_length) {
      record.ids.resize(options_.max_seq_length);
      record.is_target.resize(options_.max_seq_length);
      ++out_.truncated;
    }
    if (options_.max_positions > 0 && record.ids.size() > options_.max_positions) {
      bad(lines_.number(),
          "the record has {} tokens, but the model supports at most {}; shorten it or truncate it "
          "(`max_seq_length` {})",
          record.ids.size(), options_.max_positions, options_.max_positions);
    }
  }

  std::string source_;
  RecordTexts lines_;
  const RecordReader& reader_;
  const RecordOptions& options_;
  Records out_;
  std::size_t read_ = 0, first_skipped_ = 0;
};

}  // namespace

std::size_t Records::target_count() const {
  std::size_t count = 0;
  for (const RecordView record : records) {
    count += std::accumulate(record.is_target.begin(), record.is_target.end(), std::size_t{0});
  }
  return count;
}

Record read_record(std::string_view line, const Tokenizer& tokenizer,
                   const ChatTemplate* chat_template, const RecordOptions& options) {
  return RecordReader(tokenizer, chat_template, options).read(line, "record", 1).record;
}

Records load_records(const std::filesystem::path& path, const Tokenizer& tokenizer,
                     const ChatTemplate* chat_template, const RecordOptions& options) {
  const RecordReader reader(tokenizer, chat_template, options);
  return FileReading(path, reader, options).read();
}

std::optional<std::filesystem::path> find_split(const std::filesystem::path& folder,
                                                std::string_view split) {
  const std::filesystem::path path = folder / (std::string(split) + ".jsonl");
  if (!std::filesystem::is_regular_file(path)) return std::nullopt;
  return path;
}

}  // namespace clora

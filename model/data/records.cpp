#include "clora/model/data/records.hpp"

#include <algorithm>

#include "clora/model/data/data_report.hpp"
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

// Reads one file and appends its records.
class FileReading {
 public:
  FileReading(const std::filesystem::path& path, const RecordReader& reader,
              const RecordOptions& options, Records& out)
      : source_(path.string()),
        texts_(path, kMaxRecordBytes),
        reader_(reader),
        options_(options),
        out_(out),
        begin_(out.records.size()) {}

  // Returns the number of records that were appended.
  std::size_t read() {
    std::string text;
    std::size_t blank = 0;  // number of a blank line, which only blank lines may follow
    while ((options_.limit == 0 || read_ < options_.limit) && texts_.next(text)) {
      if (is_blank(text)) {
        if (blank == 0) blank = texts_.number();
        if (texts_.number() - blank < kMaxBlankLines) continue;
      }
      if (blank != 0) bad(blank, "an empty line before the end of the file");
      add(reader_.read(text, source_, texts_.number()));
    }
    if (read_ == 0) fail(ErrorCode::invalid_data, "{}: the data set has no records", source_);
    const std::size_t count = out_.records.size() - begin_;
    if (count > 0) return count;
    bad(first_skipped_,
        "the record has no target: none of its tokens counts towards the loss, and the same is "
        "true of all {} records read; a record needs a text, a completion or an assistant turn "
        "that max_seq_length ({} tokens) does not cut off",
        read_, options_.max_seq_length);
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
    const std::vector<std::int32_t> complete = read.record.ids;
    if (options_.pairs) {
      note_pair(read);
    } else if (!options_.preference) {
      read.is_cut = cut(read.record);
    }
    if (read.is_cut) ++out_.truncated;
    const auto& marks = read.record.is_target;
    const bool is_skipped = std::ranges::all_of(marks, [](std::uint8_t mark) { return mark == 0; });
    if (options_.report != nullptr) {
      clora::add(*options_.report, {.form = read.form,
                                    .ids = complete,
                                    .is_target = marks,
                                    .is_cut = read.is_cut,
                                    .is_skipped = is_skipped,
                                    .has_special = read.special.has_value()});
    }
    if (is_skipped) {
      skip();
    } else {
      keep(read.record);
    }
  }

  void skip() {
    ++out_.skipped;
    if (first_skipped_ == 0) first_skipped_ = texts_.number();
  }

  void keep(const Record& record) {
    out_.records.push_back(record);
    if (out_.records.bytes() > options_.max_bytes) {
      fail(ErrorCode::out_of_memory,
           "{}: line {}: the records up to this line take more than {} bytes; read fewer (`limit`)",
           source_, texts_.number(), options_.max_bytes);
    }
  }

  void note_special(const ReadRecord& read) {
    if (!read.special) return;
    if (out_.with_special++ > 0) return;
    out_.special_file = source_;
    out_.special_line = texts_.number();
    out_.special_token = reader_.tokenizer().token_text(*read.special);
  }

  void note_pair(const ReadRecord& read) {
    if (read.score.has_value() != !out_.scores.empty() && !out_.records.empty()) {
      bad(texts_.number(), "pairs with a score and pairs without one cannot be mixed");
    }
    if (read.score) out_.scores.push_back(*read.score);
  }

  // Returns whether it was too long.
  bool cut(Record& record) const {
    const bool is_cut = record.ids.size() > options_.max_seq_length;
    if (is_cut) {
      record.ids.resize(options_.max_seq_length);
      record.is_target.resize(options_.max_seq_length);
    }
    if (options_.max_positions > 0 && record.ids.size() > options_.max_positions) {
      bad(texts_.number(),
          "the record has {} tokens, but the model supports at most {}; shorten it or truncate it "
          "(`max_seq_length` {})",
          record.ids.size(), options_.max_positions, options_.max_positions);
    }
    return is_cut;
  }

  std::string source_;
  RecordTexts texts_;
  const RecordReader& reader_;
  const RecordOptions& options_;
  Records& out_;
  std::size_t begin_;  // number of the file's first record
  std::size_t read_ = 0, first_skipped_ = 0;
};

}  // namespace

std::size_t Records::target_count() const {
  std::size_t count = 0;
  for (const RecordView record : records) {
    count +=
        record.is_target.size() - static_cast<std::size_t>(std::ranges::count(record.is_target, 0));
  }
  return count;
}

std::vector<DataShare> Records::data_shares() const {
  return shares.empty() ? std::vector{DataShare{.records = records.size()}} : shares;
}

Record read_record(std::string_view line, const Tokenizer& tokenizer,
                   const ChatTemplate* chat_template, const RecordOptions& options) {
  return RecordReader(tokenizer, chat_template, options).read(line, "record", 1).record;
}

Records load_records(std::span<const DataFile> files, const Tokenizer& tokenizer,
                     const ChatTemplate* chat_template, const RecordOptions& options) {
  require(!files.empty(), "records: at least one file is needed, got none");
  const RecordReader reader(tokenizer, chat_template, options);
  Records out{.records = RecordStore(options.memory), .preference = options.preference};
  for (const DataFile& file : files) {
    const std::size_t count = FileReading(file.path, reader, options, out).read();
    out.shares.push_back({count, file.weight});
  }
  return out;
}

Records load_records(const std::filesystem::path& path, const Tokenizer& tokenizer,
                     const ChatTemplate* chat_template, const RecordOptions& options) {
  const DataFile file{.path = path};
  return load_records(std::span(&file, 1), tokenizer, chat_template, options);
}

std::optional<std::filesystem::path> find_split(const std::filesystem::path& folder,
                                                std::string_view split) {
  std::optional<std::filesystem::path> found;
  for (const char* end : {".jsonl", ".json", ".jsonl.gz", ".json.gz", ".jsonl.zst", ".json.zst"}) {
    std::filesystem::path path = folder / (std::string(split) + end);
    if (!std::filesystem::is_regular_file(path)) continue;
    if (found) {
      fail(ErrorCode::invalid_data, "records: '{}' and '{}' both exist; name the one to use",
           found->string(), path.string());
    }
    found = std::move(path);
  }
  return found;
}

}  // namespace clora

#include "model/data/record_texts.hpp"

#include <algorithm>
#include <array>

#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"

namespace clora {

namespace {

using std::string_view_literals::operator""sv;

struct KnownFormat {
  std::string_view first_bytes;
  const char* what;
  const char* advice;
};

constexpr const char* kDataSets =
    "convert it to JSON Lines, with Python's datasets: "
    "Dataset.from_file(FILE).to_json('train.jsonl')";
constexpr const char* kUnpack = "unpack it, and name a file in it";
constexpr const char* kRecode = "convert it: iconv -f UTF-16 -t UTF-8 FILE > train.jsonl";
constexpr const char* kDecompress = "decompress it, or compress it with gzip or zstd instead";

constexpr std::array<KnownFormat, 11> kFormats = {
    {{"PAR1"sv, "a Parquet file",
      "convert it to JSON Lines, with Python's pandas: pandas.read_parquet(FILE).to_json("
      "'train.jsonl', orient='records', lines=True)"},
     {"ARROW1"sv, "an Arrow file", kDataSets},
     {"\xff\xff\xff\xff"sv, "an Arrow stream, as data sets of Hugging Face are stored", kDataSets},
     {"\xff\xfe"sv, "UTF-16 text", kRecode},
     {"\xfe\xff"sv, "UTF-16 text", kRecode},
     {"PK\x03\x04"sv, "a ZIP archive or an Excel file", kUnpack},
     {"BZh"sv, "compressed with bzip2", kDecompress},
     {"\xfd\x37zXZ"sv, "compressed with xz", kDecompress},
     {"SQLite format 3"sv, "an SQLite database", "export its table as JSON Lines"},
     {"%PDF"sv, "a PDF file", "extract its text into records {\"text\": ...}"},
     {"GGUF"sv, "a model in GGUF", "pass it as the model, not as the data"}}};

[[noreturn]] void refuse(const std::string& path, std::string_view what, std::string_view advice) {
  fail(ErrorCode::invalid_data,
       "{}: records must be JSON Lines or a JSON array, but the file is {}; {}", path, what,
       advice);
}

std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find_first_of("\r\n"));
}

// Text whose first record cannot be JSON is named here, since a parser's error would not help.
[[noreturn]] void refuse_text(const std::string& path, std::string_view text) {
  const std::string_view line = first_line(text);
  const std::string begin = json_excerpt(nlohmann::json(line), 60);
  if (line.find_first_of(",;\t") != std::string_view::npos) {
    fail(ErrorCode::invalid_data,
         "{}: line 1: a record must be a JSON object, but the line is {}; if the file is a table "
         "(CSV), convert it to JSON Lines, with Python's pandas: pandas.read_csv(FILE).to_json("
         "'train.jsonl', orient='records', lines=True), and rename its columns to the keys of "
         "records",
         path, begin);
  }
  fail(ErrorCode::invalid_data,
       "{}: line 1: a record must be a JSON object, but the line is {}; plain text must be written "
       "as records {{\"text\": ...}}",
       path, begin);
}

// Returns whether the file is an array. Errors: it is not JSON.
bool is_array(ByteSource& source) {
  const std::string_view text = source.available();
  const auto known = std::ranges::find_if(
      kFormats, [&](const KnownFormat& format) { return text.starts_with(format.first_bytes); });
  if (known != kFormats.end()) refuse(source.path(), known->what, known->advice);
  if (text.find('\0') != std::string_view::npos) {
    refuse(source.path(), "binary", "name a file of records");
  }
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return false;
  if (text[begin] == '[') return true;
  if (text[begin] != '{' && begin == text.find_first_not_of(" \t")) {
    refuse_text(source.path(), text.substr(begin));
  }
  return false;
}

std::variant<LineReader, JsonElements> reader_of(ByteSource source, std::size_t max_bytes) {
  if (is_array(source)) return JsonElements(std::move(source), max_bytes);
  return LineReader(std::move(source), max_bytes);
}

}  // namespace

RecordTexts::RecordTexts(const std::filesystem::path& path, std::size_t max_record_bytes)
    : reader_(reader_of(ByteSource(path), max_record_bytes)) {}

}  // namespace clora

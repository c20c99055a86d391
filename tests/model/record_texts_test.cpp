// Files of records: JSON Lines and arrays, compressed or not, and files that are neither.
#include "model/data/record_texts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/compressed.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using test::gzip;
using test::zstd;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::size_t kMaxBytes = 1000;

class RecordFiles : public testing::Test {
 protected:
  std::vector<std::string> read(const std::string& content) {
    test::write_file(path_, content);
    RecordTexts texts(path_, kMaxBytes);
    std::vector<std::string> records;
    numbers_.clear();
    for (std::string text; texts.next(text);) {
      records.push_back(text);
      numbers_.push_back(texts.number());
    }
    return records;
  }
  void refuses(const std::string& content, const std::string& reason) {
    CLORA_EXPECT_ERROR(read(content), ErrorCode::invalid_data, reason);
  }

  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "data";
  std::vector<std::size_t> numbers_;
};

TEST_F(RecordFiles, AreLinesOrTheElementsOfAnArray) {
  EXPECT_THAT(read("{\"a\": 1}\n{\"b\": 2}"), ElementsAre("{\"a\": 1}", "{\"b\": 2}"));
  EXPECT_THAT(read(" \n[ {\"a\": 1},\n\n {\"b\":\n [2, {}]} ]\n"),
              ElementsAre("{\"a\": 1}", "{\"b\":\n [2, {}]}"));
  EXPECT_THAT(numbers_, ElementsAre(2, 4));
  EXPECT_THAT(read("[1,\"x\",[]]"), ElementsAre("1", "\"x\"", "[]"));
  EXPECT_THAT(read("[]"), IsEmpty());
  EXPECT_THAT(read(""), IsEmpty());
}

TEST_F(RecordFiles, OfAnArrayAreNotDividedWithinStrings) {
  EXPECT_THAT(read(R"([{"a": "],}\"[{"}, {"b": "\\"}, {"c": "\\\""}])"),
              ElementsAre(R"({"a": "],}\"[{"})", R"({"b": "\\"})", R"({"c": "\\\""})"));
}

TEST_F(RecordFiles, OfAnArrayEndWithIt) {
  refuses("[{}", "data: line 1: the JSON array is not closed");
  refuses("[{},\n{\"a\": \"]", "data: line 2: the JSON array is not closed");
  refuses("[{}]\n[{}]", "data: line 2: text after the end of the JSON array");
  refuses("[{},]", "an element of the JSON array is missing");
  refuses("[,{}]", "an element of the JSON array is missing");
}

TEST_F(RecordFiles, HaveABoundForEachRecord) {
  const std::string filled = "{\"a\": \"" + std::string(kMaxBytes, 'x') + "\"}";
  refuses("{}\n" + filled, "data: line 2: a line must have at most 1000 bytes");
  refuses("[{},\n" + filled + "]", "data: line 2: an element of the array must have at most 1000");
}

TEST_F(RecordFiles, MayBeCompressedWhateverTheirNameIs) {
  std::string lines;
  for (int i = 0; i < 30000; ++i) lines += "{\"text\": \"" + std::to_string(i * 7919) + "\"}\n";
  const std::vector<std::string> plain = read(lines);
  ASSERT_EQ(plain.size(), 30000u);
  EXPECT_EQ(read(gzip(lines)), plain);
  EXPECT_EQ(read(zstd(lines)), plain);
  const std::string first = lines.substr(0, 100'000), second = lines.substr(100'000);
  EXPECT_EQ(read(gzip(first) + gzip(second)), plain) << "files that were concatenated";
  EXPECT_EQ(read(zstd(first) + zstd(second)), plain) << "frames that were concatenated";
}

TEST_F(RecordFiles, OfEachLengthEndWhereTheCompressedFileEnds) {
  for (const std::size_t length : {1U, 65535U, 65536U, 65537U, 131072U, 262144U}) {
    std::string text(length, '\n');
    text.front() = '{';
    for (const std::string& file : {text, gzip(text), zstd(text)}) {
      EXPECT_EQ(read(file).size(), std::max<std::size_t>(1, length - 1)) << length;
    }
  }
}

TEST_F(RecordFiles, ThatAreDamagedOrIncompleteAreRefused) {
  const std::string lines = "{\"text\": \"the quick brown fox\"}\n{\"text\": \"jumps\"}\n";
  for (const std::string& whole : {gzip(lines), zstd(lines)}) {
    for (std::size_t length = 5; length < whole.size(); ++length) {
      CLORA_EXPECT_ERROR(read(whole.substr(0, length)), ErrorCode::invalid_data, "data: ");
    }
    refuses(whole.substr(0, whole.size() - 1), "incomplete");
  }
  std::string damaged = gzip(lines);
  damaged[damaged.size() - 6] = static_cast<char>(damaged[damaged.size() - 6] ^ 1);  // its checksum
  refuses(damaged, "the compressed data is damaged: incorrect data check");
}

TEST_F(RecordFiles, ThatGrowAThousandfoldAreReadInBoundedMemory) {
  const std::string bomb = "{\"text\": \"" + std::string(std::size_t{100} << 20U, 'x');
  for (const std::string& file : {gzip(bomb), zstd(bomb)}) {
    refuses(file, "line 1: a line must have at most 1000 bytes");
  }
}

TEST_F(RecordFiles, MayBeginWithAByteOrderMark) {
  EXPECT_THAT(read("\xef\xbb\xbf{}\n"), ElementsAre("{}"));
  EXPECT_THAT(read("\xef\xbb\xbf[{}]"), ElementsAre("{}"));
  EXPECT_THAT(read(gzip("\xef\xbb\xbf{}")), ElementsAre("{}"));
}

TEST_F(RecordFiles, OfOtherFormatsAreNamedWithWhatToDo) {
  refuses("PAR1\x15", "the file is a Parquet file; convert it to JSON Lines, with Python's pandas");
  refuses(std::string("\xff\xfe{\0\"\0", 6), "the file is UTF-16 text; convert it: iconv");
  refuses(std::string("{\0\"\0a\0", 6), "the file is binary");
  refuses("PK\x03\x04", "ZIP archive");
  refuses("BZh91AY", "compressed with bzip2; decompress it");
  refuses("GGUF\x03", "a model in GGUF; pass it as the model");
  refuses("question,answer\n1,2\n", "the line is \"question,answer\"; if the file is a table");
  refuses("Once upon a time\n", "plain text must be written as records");
}

TEST_F(RecordFiles, ThatAreFoldersOrMissingAreNamed) {
  CLORA_EXPECT_ERROR(RecordTexts(folder_.path(), kMaxBytes), ErrorCode::not_found,
                     "is a folder; name a file in it");
  CLORA_EXPECT_ERROR(RecordTexts(folder_ / "none", kMaxBytes), ErrorCode::not_found,
                     "does not exist");
}

}  // namespace
}  // namespace clora

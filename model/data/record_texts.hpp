// RecordTexts: the records of a data file as JSON texts, one at a time and in bounded memory. The
// file is JSON Lines, or one JSON array of records; it may be compressed (byte_source.hpp). Other
// files are refused with what they are, by their first bytes, and how to convert them. Threads: one
// at a time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <variant>

#include "model/data/json_elements.hpp"
#include "model/data/line_reader.hpp"

namespace clora {

class RecordTexts {
 public:
  // Errors: invalid_data for a file of another format; those of ByteSource.
  RecordTexts(const std::filesystem::path& path, std::size_t max_record_bytes);

  // Reads the next record, or an empty line; returns false at the end. Errors: those of LineReader
  // and JsonElements.
  bool next(std::string& text) {
    return std::visit([&](auto& reader) { return reader.next(text); }, reader_);
  }

  // The line of the last record, on which it begins, from 1.
  std::size_t number() const noexcept {
    return std::visit([](const auto& reader) { return reader.number(); }, reader_);
  }

 private:
  std::variant<LineReader, JsonElements> reader_;
};

}  // namespace clora

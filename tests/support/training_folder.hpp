// A test fixture with a tiny model, records, and the command line of `clora train` on them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/test_files.hpp"
#include "tests/support/tiny_chat_model.hpp"

namespace clora::test {

class TrainingFolder : public testing::Test {
 protected:
  TrainingFolder() {
    write_tiny_chat_model(folder_ / "model");
    std::filesystem::create_directory(folder_ / "data");
    write_file(folder_ / "data/train.jsonl", records());
  }

  // Eight prompts and completions, one per line.
  static std::string records() {
    std::string lines;
    for (const std::string word : {"abc", "lo", "the", "cab", "tool", "hello", "both", "bath"}) {
      lines += R"({"prompt":"say )" + word + R"(:","completion":" )" + word + "\"}\n";
    }
    return lines;
  }

  std::string at(const char* name) const { return (folder_ / name).string(); }
  // 8 steps unless `more` names their number.
  std::vector<std::string> training(const char* out,
                                    const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"train",    "--model",       at("model"), "--data",
                                 at("data"), "--adapter-out", at(out),     "--lr",
                                 "0.02",     "--seed",        "3"};
    if (std::ranges::find(more, "--steps") == more.end()) all.insert(all.end(), {"--steps", "8"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string adapter_bytes(const char* out) const {
    return read_file(folder_ / out / "adapter_model.safetensors");
  }

  TemporaryFolder folder_;
};

}  // namespace clora::test

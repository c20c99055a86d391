// Writes the seeds of each target to FOLDER/TARGET, with short real files if $CLORA_TEST_DATA
// exists, and prints the targets' names, one per line.
//   clora_fuzz_seeds FOLDER
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/target.hpp"

namespace {

namespace fs = std::filesystem;
using clora::fuzz::Target;

constexpr std::size_t kMaxSeedBytes = 16384;  // mutations of longer seeds rarely matter

void write(const fs::path& file, std::string_view content) {
  std::ofstream(file, std::ios::binary)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
}

// The first kMaxSeedBytes of the file, or all of it if it is shorter.
std::string beginning_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string content(kMaxSeedBytes, '\0');
  stream.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<std::size_t>(stream.gcount()));
  return content;
}

// The target that reads a real file, by the end of the file's name.
std::string_view target_of(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kEnds{
      {{"generation_config.json", "generation_config"},
       {"tokenizer.json", "tokenizer"},
       {"config.json", "model_config"},
       {".gguf", "gguf"},
       {".safetensors", "safetensors"},
       {".jsonl", "records"}}};
  if (name == "tokenizer_config.json" || name == "adapter_config.json") return {};
  const auto found =
      std::ranges::find_if(kEnds, [&](const auto& end) { return name.ends_with(end.first); });
  return found == kEnds.end() ? std::string_view() : found->second;
}

void write_real_files(const fs::path& folder, const fs::path& data) {
  int number = 0;
  for (const auto& entry : fs::recursive_directory_iterator(data)) {
    if (!entry.is_regular_file()) continue;
    const std::string_view target = target_of(entry.path().filename().string());
    if (target.empty() || !fs::is_directory(folder / target)) continue;
    write(folder / target / ("real-" + std::to_string(number++)), beginning_of(entry.path()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("clora_fuzz_seeds FOLDER\n", stderr);
    return 2;
  }
  const fs::path folder = argv[1];
  for (const Target& target : clora::fuzz::targets()) {
    fs::create_directories(folder / target.name);
    int number = 0;
    for (const std::string& seed : target.seeds())
      write(folder / target.name / ("seed-" + std::to_string(number++)), seed);
    std::printf("%.*s\n", static_cast<int>(target.name.size()), target.name.data());
  }
  if (const char* data = std::getenv("CLORA_TEST_DATA"); data != nullptr && fs::is_directory(data))
    write_real_files(folder, data);
}

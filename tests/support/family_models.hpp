// Tiny random models of every family with the values that transformers and PEFT give for them
// (tests/reference/families.py), and their files.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace clora::test {

struct FamilyModel {
  std::string name;  // of the file: "gemma3_text"
  nlohmann::json reference;
};

// Those of tests/reference/families whose family this build has, in the order of their names.
std::vector<FamilyModel> family_models();

// Those of tests/reference/encoders: an encoder has vectors in place of logits
// (tests/reference/encoders.py).
std::vector<FamilyModel> encoder_models();

// vocab.txt of these encoders: special tokens, then letters and digits that begin or continue a
// word.
std::string tiny_encoder_vocabulary();

// Writes config.json and model.safetensors.
void write_family_model(const std::filesystem::path& folder, const FamilyModel& model);
// Writes a GGUF file as llama.cpp's converter would.
void write_family_gguf(const std::filesystem::path& path, const FamilyModel& model);

}  // namespace clora::test

// Merged models as Hugging Face folders (model/weights/fuse.hpp): types, shards, and errors. What
// adapters of each kind become is tested with those kinds.
#include "clora/model/weights/fuse.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "clora/lora/safetensors.hpp"
#include "model/files/dequantise.hpp"
#include "model/files/quantise.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/test_models.hpp"
#include "tests/support/tiny_chat_model.hpp"

namespace clora {
namespace {

std::string shard_name(std::size_t number, std::size_t count) {
  return "model-0000" + std::to_string(number) + "-of-0000" + std::to_string(count) +
         ".safetensors";
}

class Fuse : public testing::Test {
 protected:
  Fuse() {
    test::write_tiny_chat_model(folder_ / "model");
    files_.emplace(WeightFiles::open(folder_ / "model"));
  }
  void write(const char* out, const FuseOptions& options) {
    write_fused_model(*files_, nullptr, folder_ / out, options);
  }
  std::vector<float> values(const WeightView& view) {
    return to_float(view.type, view.bytes, static_cast<std::size_t>(view.shape.elements()));
  }
  // The bytes of all tensors of a type.
  std::uintmax_t bytes(std::size_t of_value) {
    std::uintmax_t all = 0;
    for (const WeightView& view : files_->all()) {
      all += static_cast<std::uintmax_t>(view.shape.elements()) * of_value;
    }
    return all;
  }

  test::TemporaryFolder folder_;
  std::optional<WeightFiles> files_;
};

TEST_F(Fuse, WritesTheWeightsRoundedToEachType) {
  for (const auto& [type, name] :
       {std::pair{DType::f32, "float32"}, {DType::f16, "float16"}, {DType::bf16, "bfloat16"}}) {
    write(name, {.type = type});
    const auto config = test::read_json(folder_ / name / "config.json");
    EXPECT_EQ(config.at("torch_dtype"), name);
    const WeightFiles written = WeightFiles::open(folder_ / name);
    for (const WeightView& view : files_->all()) {
      const WeightView got = written.get(view.name, view.shape);
      EXPECT_EQ(got.type, type);
      EXPECT_TRUE(std::ranges::equal(got.bytes, quantise(type, values(view)))) << view.name;
    }
  }
}

TEST_F(Fuse, DividesTheTensorsIntoShardsOfAtMostASize) {
  const std::uintmax_t most = bytes(4) / 3;
  write("shards", {.max_shard_bytes = most});
  const auto index = test::read_json(folder_ / "shards/model.safetensors.index.json");
  EXPECT_EQ(index.at("metadata").at("total_size"), bytes(4));
  std::set<std::string> files;
  for (const auto& [tensor, file] : index.at("weight_map").items()) {
    files.insert(file.get<std::string>());
    const auto shard = SafetensorsFile::open(folder_ / "shards" / file.get<std::string>());
    EXPECT_TRUE(shard.find(tensor).has_value()) << tensor;
  }
  ASSERT_GE(files.size(), 3U);
  std::size_t number = 0;
  for (const std::string& file : files) {
    EXPECT_EQ(file, shard_name(++number, files.size()));
    const auto shard = SafetensorsFile::open(folder_ / "shards" / file);
    std::uintmax_t size = 0;
    for (const auto& entry : shard.entries()) size += entry.bytes.size();
    EXPECT_TRUE(size <= most || shard.entries().size() == 1) << file;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "shards/model.safetensors"));
  // Its tensors are those of one file.
  write("one", {});
  const WeightFiles one = WeightFiles::open(folder_ / "one");
  const WeightFiles shards = WeightFiles::open(folder_ / "shards");
  for (const WeightView& view : one.all()) {
    EXPECT_TRUE(std::ranges::equal(shards.get(view.name, view.shape).bytes, view.bytes));
  }
}

TEST_F(Fuse, WritesOneFileIfTheTensorsFitIt) {
  write("one", {.max_shard_bytes = bytes(4)});
  EXPECT_TRUE(std::filesystem::exists(folder_ / "one/model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "one/model.safetensors.index.json"));
}

TEST_F(Fuse, NamesItsFilesBeforeItWritesThem) {
  for (const std::uintmax_t most : {std::uintmax_t{0}, bytes(4) / 3}) {
    const FuseOptions options{.max_shard_bytes = most};
    const std::string out = "out" + std::to_string(most);
    auto names = fused_file_names(*files_, nullptr, options);
    write(out.c_str(), options);
    names.emplace_back("config.json");
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / out)) {
      found.insert(entry.path().filename().string());
    }
    EXPECT_EQ(found, std::set<std::string>(names.begin(), names.end()));
  }
}

TEST_F(Fuse, RefusesTypesThatSafetensorsDoNotHave) {
  CLORA_EXPECT_ERROR(write("out", {.type = DType::q8_0}), ErrorCode::unsupported,
                     "f32, f16 or bf16, got q8_0");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(Fuse, NamesTheTensorWithAValueThatF16CannotHold) {
  const std::string path = (folder_ / "model/model.safetensors").string();
  const WeightView view = files_->all().at(2);
  std::string bytes = test::read_file(path);
  const auto file = SafetensorsFile::open(path);
  const auto found = file.find(view.stored_name);
  ASSERT_TRUE(found.has_value());
  const auto place = bytes.find(
      std::string(reinterpret_cast<const char*>(found->bytes.data()), found->bytes.size()));
  ASSERT_NE(place, std::string::npos);
  const float large = 1e6F;
  std::memcpy(&bytes[place + 8], &large, sizeof large);
  test::write_file(path, bytes);
  files_.emplace(WeightFiles::open(folder_ / "model"));
  CLORA_EXPECT_ERROR(write("f16", {.type = DType::f16}), ErrorCode::invalid_data, view.name);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "f16/model.safetensors"));
  write("bf16", {.type = DType::bf16});
}

TEST_F(Fuse, StopsIfItIsCancelled) {
  int tensors = 0;
  CLORA_EXPECT_ERROR(write("out", {.go_on = [&] { return ++tensors < 3; }}), ErrorCode::cancelled,
                     "fuse: stopped");
  EXPECT_EQ(tensors, 3);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/config.json"));
}

}  // namespace
}  // namespace clora

// Writing of GGUF files (model/files/gguf_writing.hpp), read back by GgufFile.
#include "clora/model/files/gguf_writing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/support/gguf_bytes.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using test::TemporaryFolder;

std::vector<std::byte> bytes_of_floats(const std::vector<float>& values) {
  const auto raw = std::as_bytes(std::span(values));
  return {raw.begin(), raw.end()};
}

class GgufWriting : public ::testing::Test {
 protected:
  GgufFile written(const GgufMetadata& metadata,
                   const std::vector<GgufTensorDescription>& tensors = {},
                   const GgufTensorBytes& make = {}) {
    write_gguf(path_, metadata, tensors, make);
    return GgufFile::open(path_);
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "a.gguf";
};

TEST_F(GgufWriting, ValuesOfEveryKindAreReadBack) {
  GgufMetadata metadata;
  metadata.set_text("text", "caf\xc3\xa9");
  metadata.set_uint32("uint32", 4000000000);
  metadata.set_float32("float32", 1.5F);
  metadata.set_boolean("boolean", true);
  const std::vector<std::string> texts = {"a", "", "bc"};
  metadata.set_texts("texts", texts);
  const std::vector<std::int32_t> numbers = {3, -4};
  metadata.set_int32s("int32s", numbers);
  const std::vector<float> floats = {0.5F, -2.0F, 8.0F};
  metadata.set_float32s("float32s", floats);
  metadata.set_booleans("booleans", {true, false});

  const GgufFile file = written(metadata);
  EXPECT_EQ(file.version(), 3U);
  EXPECT_EQ(file.metadata().size(), 8U);
  EXPECT_EQ(file.text("text"), "caf\xc3\xa9");
  EXPECT_EQ(file.integer("uint32"), 4000000000);
  EXPECT_EQ(file.number("float32"), 1.5);
  EXPECT_EQ(file.boolean("boolean"), true);
  EXPECT_EQ(file.find_value("texts")->texts(), (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ(file.find_value("int32s")->integers(), (std::vector<std::int64_t>{3, -4}));
  EXPECT_EQ(file.find_value("float32s")->floats(), floats);
  const auto booleans = file.find_value("booleans")->values();
  ASSERT_TRUE(booleans && booleans->size() == 2);
  EXPECT_EQ((*booleans)[0].boolean(), true);
  EXPECT_EQ((*booleans)[1].boolean(), false);
}

TEST_F(GgufWriting, MetadataOfARealFileIsCopiedToTheByte) {
  CLORA_REQUIRE_TEST_DATA(model, "models/stories260k/stories260K.gguf");
  const GgufFile original = GgufFile::open(model);
  GgufMetadata metadata;
  for (const GgufFile::Entry& entry : original.metadata()) metadata.set(entry.key, entry.value);
  const GgufFile copy = written(metadata);
  ASSERT_EQ(copy.metadata().size(), original.metadata().size());
  for (std::size_t i = 0; i < copy.metadata().size(); ++i) {
    const GgufFile::Entry &one = original.metadata()[i], &other = copy.metadata()[i];
    EXPECT_EQ(one.key, other.key);
    EXPECT_EQ(one.value.type, other.value.type) << one.key;
    EXPECT_EQ(one.value.count, other.value.count) << one.key;
    EXPECT_TRUE(std::ranges::equal(one.value.bytes, other.value.bytes)) << one.key;
  }
}

TEST_F(GgufWriting, AKeyThatIsSetAgainKeepsItsPlaceAndARemovedOneIsGone) {
  GgufMetadata metadata;
  metadata.set_uint32("a", 1);
  metadata.set_uint32("b", 2);
  metadata.set_uint32("c", 3);
  metadata.set_text("a", "one");
  metadata.remove("b");
  const GgufFile file = written(metadata);
  ASSERT_EQ(file.metadata().size(), 2U);
  EXPECT_EQ(file.metadata()[0].key, "a");
  EXPECT_EQ(file.text("a"), "one");
  EXPECT_EQ(file.metadata()[1].key, "c");
}

TEST_F(GgufWriting, TensorsAreAlignedAndHaveTheirShapes) {
  const std::vector<GgufTensorDescription> tensors = {
      {"vector", DType::f32, Shape{3}},
      {"matrix", DType::f32, Shape{2, 5}},
      {"blocks", DType::q8_0, Shape{1, 32}},
  };
  const std::vector<std::vector<float>> values = {{1, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}};
  const std::vector<std::byte> block(34, std::byte{7});
  const GgufFile file = written(
      {}, tensors, [&](std::size_t i) { return i < 2 ? bytes_of_floats(values[i]) : block; });
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const GgufTensor* tensor = file.find_tensor(tensors[i].name);
    ASSERT_NE(tensor, nullptr) << tensors[i].name;
    EXPECT_EQ(tensor->type, tensors[i].type);
    EXPECT_EQ(tensor->shape, tensors[i].shape);
    const auto offset =
        static_cast<std::size_t>(tensor->bytes.data() - file.parts().front().bytes().data());
    EXPECT_EQ(offset % 32, 0U) << tensors[i].name;
    const std::vector<std::byte> expected = i < 2 ? bytes_of_floats(values[i]) : block;
    EXPECT_TRUE(std::ranges::equal(tensor->bytes, expected)) << tensors[i].name;
  }
  EXPECT_EQ(gguf_file_bytes({}, tensors), std::filesystem::file_size(path_));
}

TEST_F(GgufWriting, RefusesWhatTheFormatCannotHold) {
  const auto write = [&](const std::vector<GgufTensorDescription>& tensors) {
    write_gguf(path_, {}, tensors, [&](std::size_t) { return std::vector<std::byte>(4); });
  };
  CLORA_EXPECT_ERROR(write({{"a", DType::f32, Shape{1}}, {"a", DType::f32, Shape{1}}}),
                     ErrorCode::invalid_argument, "two tensors are named 'a'");
  CLORA_EXPECT_ERROR(write({{std::string(64, 'n'), DType::f32, Shape{1}}}),
                     ErrorCode::invalid_argument, "1 to 63 bytes");
  CLORA_EXPECT_ERROR(write({{"a", DType::nf4, Shape{64}}}), ErrorCode::invalid_argument,
                     "'a' cannot be stored as nf4");
  CLORA_EXPECT_ERROR(write({{"a", DType::q8_0, Shape{2, 33}}}), ErrorCode::invalid_argument,
                     "multiple of 32 elements");
  CLORA_EXPECT_ERROR(write({{"a", DType::f32, Shape{2}}}), ErrorCode::invalid_argument,
                     "must be 8 bytes, got 4");
  EXPECT_FALSE(std::filesystem::exists(path_));
  GgufMetadata aligned;
  aligned.set_uint32("general.alignment", 64);
  CLORA_EXPECT_ERROR(write_gguf(path_, aligned, {}, {}), ErrorCode::invalid_argument,
                     "general.alignment");
}

}  // namespace
}  // namespace clora

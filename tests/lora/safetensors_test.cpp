// safetensors files (lora/safetensors.hpp): reading, writing, and every kind of invalid file.
#include "clora/lora/safetensors.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using test::read_file;
using test::TemporaryFolder;
using test::write_file;

std::string file_of(std::string_view header, std::string_view data = "") {
  const std::uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  return file.append(header).append(data);
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> bytes_of_text(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class Safetensors : public ::testing::Test {
 protected:
  SafetensorsFile open(const std::string& bytes) {
    write_file(path_, bytes);
    return SafetensorsFile::open(path_);
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "a.safetensors";
};

constexpr std::string_view kTwo =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]},)"
    R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})";

TEST_F(Safetensors, GivesTypesShapesAndBytes) {
  const SafetensorsFile file = open(file_of(kTwo, "aaaabbbbbbbb"));
  EXPECT_EQ(file.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const auto a = file.find("a");
  ASSERT_TRUE(a.has_value());
  EXPECT_EQ(a->type, DType::bf16);
  EXPECT_EQ(a->shape, (Shape{2}));
  EXPECT_EQ(text_of(a->bytes), "aaaa");
  EXPECT_EQ(file.find("b")->shape, (Shape{1, 2}));
  EXPECT_EQ(text_of(file.find("b")->bytes), "bbbbbbbb");
  EXPECT_FALSE(file.find("c").has_value());
}

TEST_F(Safetensors, AllowsGapsEmptyTensorsAndScalars) {
  const SafetensorsFile file =
      open(file_of(R"({"__metadata__":null,"e":{"dtype":"F32","shape":[0,3],"data_offsets":[4,4]},)"
                   R"("s":{"dtype":"F32","shape":[],"data_offsets":[8,12]}}  )",
                   "________ssss__"));
  EXPECT_EQ(file.find("e")->shape.elements(), 0);
  EXPECT_EQ(file.find("s")->shape, Shape{});
  EXPECT_EQ(text_of(file.find("s")->bytes), "ssss");
}

TEST_F(Safetensors, ListsOtherTypesAndRefusesToReadThem) {
  const SafetensorsFile file =
      open(file_of(R"({"ids":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
                   R"("deep":{"dtype":"F32","shape":[1,1,1,1,1],"data_offsets":[8,12]}})",
                   "12345678ssss"));
  EXPECT_EQ(file.entries().at(1).type_name, "I64");
  CLORA_EXPECT_ERROR(file.find("ids"), ErrorCode::unsupported, "tensor ids has type I64");
  CLORA_EXPECT_ERROR(file.find("deep"), ErrorCode::unsupported, "tensor deep has 5 dimensions");
}

TEST_F(Safetensors, RefusesEveryPrefixOfAFile) {
  const std::string intact = file_of(kTwo, "aaaabbbbbbbb");
  for (std::size_t size = 0; size < intact.size(); ++size)
    CLORA_EXPECT_ERROR(open(intact.substr(0, size)), ErrorCode::invalid_file, "a.safetensors");
}

TEST_F(Safetensors, SurvivesAnyDamagedByte) {
  const std::string intact = file_of(kTwo, "aaaabbbbbbbb");
  for (std::size_t at = 0; at < intact.size(); ++at) {
    for (const char damage : {'\x00', '9', '"', '-', '[', '}', '\xff'}) {
      std::string damaged = intact;
      damaged[at] = damage;
      // Either an Error, or views inside the file, which a sanitizer build checks.
      test::caught([&] {
        const SafetensorsFile file = open(damaged);
        for (const auto& entry : file.entries()) EXPECT_LE(text_of(entry.bytes).size(), 12u);
      });
    }
  }
}

TEST_F(Safetensors, RefusesAHeaderLongerThanTheFile) {
  std::string file = file_of("{}");
  file[0] = 3;
  CLORA_EXPECT_ERROR(open(file), ErrorCode::invalid_file, "the header claims 3 bytes");
  file.replace(0, 8, 8, '\xff');
  CLORA_EXPECT_ERROR(open(file), ErrorCode::invalid_file, "claims 18446744073709551615 bytes");
}

TEST_F(Safetensors, RefusesAHeaderThatIsNoJsonObject) {
  CLORA_EXPECT_ERROR(open(file_of("{oops}")), ErrorCode::invalid_file, "not valid JSON");
  CLORA_EXPECT_ERROR(open(file_of("[]")), ErrorCode::invalid_file, "must be a JSON object");
  CLORA_EXPECT_ERROR(open(file_of(std::string(100000, '['))), ErrorCode::invalid_file,
                     "at most 8 deep");
  CLORA_EXPECT_ERROR(open(file_of(R"({"__metadata__":{"a":1}})")), ErrorCode::invalid_file,
                     "object of strings");
}

TEST_F(Safetensors, RefusesATensorDescribedIncompletely) {
  const std::string data = "xxxx";
  CLORA_EXPECT_ERROR(open(file_of(R"({"w":7})", data)), ErrorCode::invalid_file,
                     "a.safetensors: w must be an object, got 7");
  CLORA_EXPECT_ERROR(open(file_of(R"({"w":{"dtype":"F32","data_offsets":[0,4]}})", data)),
                     ErrorCode::invalid_file, "w.shape must be a list of integers, got null");
  CLORA_EXPECT_ERROR(open(file_of(R"({"w":{"dtype":"F32","shape":[1]}})", data)),
                     ErrorCode::invalid_file, "w.data_offsets must be a list of integers");
  CLORA_EXPECT_ERROR(
      open(file_of(R"({"w":{"dtype":"Q9","shape":[1],"data_offsets":[0,4]}})", data)),
      ErrorCode::unsupported, "w.dtype has the unknown type \"Q9\"");
}

TEST_F(Safetensors, RefusesImpossibleShapesAndOffsets) {
  const auto with = [](std::string_view shape, std::string_view offsets) {
    return file_of(
        fmt::format(R"({{"w":{{"dtype":"F32","shape":{},"data_offsets":{}}}}})", shape, offsets),
        std::string(16, 'x'));
  };
  EXPECT_NO_THROW(open(with("[2]", "[8,16]")));
  CLORA_EXPECT_ERROR(open(with("[-1]", "[0,4]")), ErrorCode::invalid_file,
                     "w.shape must be a list of integers from 0 to 2^62, got -1");
  CLORA_EXPECT_ERROR(open(with("[1.5]", "[0,4]")), ErrorCode::invalid_file,
                     "from 0 to 2^62, got 1.5");
  CLORA_EXPECT_ERROR(open(with("[2]", "[12,20]")), ErrorCode::invalid_file, "outside the data");
  CLORA_EXPECT_ERROR(open(with("[1]", "[8,4]")), ErrorCode::invalid_file, "outside the data");
  CLORA_EXPECT_ERROR(open(with("[1]", "[4]")), ErrorCode::invalid_file, "outside the data");
  CLORA_EXPECT_ERROR(open(with("[3]", "[0,8]")), ErrorCode::invalid_file,
                     "[3] needs 12 bytes, but its data_offsets span 8");
  CLORA_EXPECT_ERROR(open(with("[4611686018427387903,4611686018427387903]", "[0,4]")),
                     ErrorCode::invalid_file, "needs more than the file's");
}

TEST_F(Safetensors, RefusesOverlappingTensors) {
  CLORA_EXPECT_ERROR(open(file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                  R"("y":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                                  "12345678")),
                     ErrorCode::invalid_file, "tensors x and y overlap");
}

TEST_F(Safetensors, RefusesANameThatIsThereTwice) {
  CLORA_EXPECT_ERROR(open(file_of(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                  R"("x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                                  "12345678")),
                     ErrorCode::invalid_file, "the key \"x\" is duplicated");
}

TEST_F(Safetensors, RefusesAPropertyOfATensorThatIsThereTwice) {
  CLORA_EXPECT_ERROR(
      open(file_of(R"({"x":{"dtype":"F32","shape":[1],"shape":[2],"data_offsets":[0,8]}})",
                   "12345678")),
      ErrorCode::invalid_file, "a.safetensors: header: the key \"shape\" is duplicated");
}

// A file of that size of which only the first bytes are written. The disk stores only those.
void write_sparse_file(const std::filesystem::path& path, std::string_view begin,
                       std::uintmax_t size) {
  write_file(path, begin);
  std::filesystem::resize_file(path, size);
}

TEST_F(Safetensors, BoundsTheHeaderOfAHugeFile) {
  constexpr std::uint64_t kHuge = std::uint64_t{12} << 30U;
  const std::uint64_t claimed = kHuge - 8;
  write_sparse_file(path_, {reinterpret_cast<const char*>(&claimed), 8}, kHuge);
  CLORA_EXPECT_ERROR(SafetensorsFile::open(path_), ErrorCode::invalid_file,
                     "the header must have at most 16777216 bytes, got 12884901880");
}

TEST_F(Safetensors, BoundsTheNumberAndTheNamesOfTensors) {
  std::string many = "{\"0\":0";
  for (int i = 1; i <= 300'000; ++i) many += fmt::format(",\"{}\":0", i);
  CLORA_EXPECT_ERROR(open(file_of(many + "}")), ErrorCode::invalid_file,
                     "the header must name at most 262144 tensors, got 300001");
  const auto named = [](std::size_t bytes) {
    return file_of(fmt::format(R"({{"{}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}}})",
                               std::string(bytes, 'n')));
  };
  EXPECT_NO_THROW(open(named(1024)));
  CLORA_EXPECT_ERROR(open(named(1025)), ErrorCode::invalid_file,
                     "a tensor name must have 1 to 1024 bytes, got 1025: \"nnn");
  CLORA_EXPECT_ERROR(open(named(0)), ErrorCode::invalid_file, "1 to 1024 bytes, got 0");
}

TEST_F(Safetensors, KeepsMessagesShortWhateverTheFileHolds) {
  const std::string numbers = fmt::format("{}", fmt::join(std::vector<int>(100'000, 1), ","));
  const auto error = test::caught([&] {
    open(file_of(
        fmt::format(R"({{"w":{{"dtype":"F32","shape":[{}],"data_offsets":[0,0]}}}})", numbers)));
  });
  ASSERT_TRUE(error.has_value());
  EXPECT_LT(error->message.size(), 300U) << error->message;
  const auto type = test::caught([&] {
    open(file_of(fmt::format(R"({{"w":{{"dtype":"{}","shape":[],"data_offsets":[0,0]}}}})",
                             std::string(100'000, 'F'))));
  });
  ASSERT_TRUE(type.has_value());
  EXPECT_LT(type->message.size(), 300U) << type->message;
}

TEST_F(Safetensors, ReadsBackWhatItWrites) {
  const std::vector<StoredTensor> tensors{{"half", DType::f16, {3}, bytes_of_text("hhhhhh")},
                                          {"one", DType::f32, {1, 2}, bytes_of_text("ONEoneTW")},
                                          {"byte", DType::u8, {1}, bytes_of_text("b")},
                                          {"two", DType::f32, {1}, bytes_of_text("TWO2")}};
  write_safetensors(path_, tensors, {{"format", "pt"}, {"note", "a \"quoted\" text"}});
  const SafetensorsFile file = SafetensorsFile::open(path_);
  EXPECT_EQ(file.names(), (std::vector<std::string>{"byte", "half", "one", "two"}));
  EXPECT_EQ(file.metadata().at("note"), "a \"quoted\" text");
  for (const StoredTensor& tensor : tensors) {
    const auto read = file.find(tensor.name);
    ASSERT_TRUE(read.has_value()) << tensor.name;
    EXPECT_EQ(read->type, tensor.type);
    EXPECT_EQ(read->shape, tensor.shape);
    EXPECT_EQ(text_of(read->bytes), text_of(tensor.bytes));
    EXPECT_EQ(
        reinterpret_cast<std::uintptr_t>(read->bytes.data()) % facts_of(tensor.type).block_bytes,
        0u)
        << tensor.name << " is not aligned";
  }
}

TEST_F(Safetensors, LeavesNoGapsBetweenWrittenTensors) {
  const std::vector<StoredTensor> tensors{{"h", DType::f16, {1}, bytes_of_text("hh")},
                                          {"f", DType::f32, {1}, bytes_of_text("ffff")}};
  write_safetensors(path_, tensors);
  const std::string intact = read_file(path_);
  EXPECT_EQ(intact.substr(intact.size() - 6), "ffffhh");
  std::uint64_t length = 0;
  std::memcpy(&length, intact.data(), sizeof length);
  EXPECT_EQ(8 + length + 6, intact.size());
}

TEST_F(Safetensors, WritesTensorsProducedOneAtATime) {
  const std::vector<StoredTensor> descriptions{{"h", DType::f16, {2}, {}},
                                               {"f", DType::f32, {1}, {}}};
  std::vector<std::size_t> requested;
  write_safetensors(path_, descriptions, {}, [&](std::size_t i) {
    requested.push_back(i);
    return std::vector<std::byte>(4, static_cast<std::byte>('a' + i));
  });
  EXPECT_EQ(requested, (std::vector<std::size_t>{1, 0}));
  const SafetensorsFile file = SafetensorsFile::open(path_);
  EXPECT_EQ(text_of(file.find("h")->bytes), "aaaa");
  EXPECT_EQ(text_of(file.find("f")->bytes), "bbbb");
}

TEST_F(Safetensors, WritesNothingIfATensorDoesNotFit) {
  write_file(path_, "old");
  const auto write = [&](const std::vector<StoredTensor>& tensors) {
    write_safetensors(path_, tensors);
  };
  const auto four = bytes_of_text("1234");
  CLORA_EXPECT_ERROR(write({{"w", DType::f32, {2}, four}}), ErrorCode::invalid_argument,
                     "w f32 [2] must be 8 bytes, got 4");
  CLORA_EXPECT_ERROR(write({{"w", DType::f32, {1}, four}, {"w", DType::f32, {1}, four}}),
                     ErrorCode::invalid_argument, "w cannot be stored: the name is already in use");
  CLORA_EXPECT_ERROR(write({{"w", DType::q4_0, {32}, four}}), ErrorCode::invalid_argument,
                     "cannot be stored as q4_0");
  EXPECT_EQ(read_file(path_), "old");
}

TEST(SafetensorsModels, ReadTinyStories) {
  CLORA_REQUIRE_TEST_DATA(path, "models/tinystories-656k/model.safetensors");
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(file.entries().size(), 20u);
  EXPECT_EQ(file.find("lm_head.weight")->shape, (Shape{2048, 128}));
  EXPECT_EQ(file.find("lm_head.weight")->type, DType::f32);
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST(SafetensorsModels, ReadTinyQwen3) {
  CLORA_REQUIRE_TEST_DATA(path, "models/tiny_qwen3/model.safetensors");
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(file.find("model.layers.1.self_attn.q_norm.weight")->shape, (Shape{16}));
  EXPECT_EQ(file.find("lm_head.weight")->type, DType::bf16);
}

}  // namespace
}  // namespace clora

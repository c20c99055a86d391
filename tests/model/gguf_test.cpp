// GGUF files (model/files/gguf.hpp): real files, and every kind of invalid file.
#include "clora/model/files/gguf.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "tests/support/gguf_bytes.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using test::append_gguf_string;
using test::append_scalar;
using test::GgufBytes;
using test::TemporaryFolder;
using test::write_file;

constexpr std::uint32_t kF32 = 0;
constexpr std::uint32_t kQ40 = 2;
constexpr std::uint32_t kIq2Xs = 17;
constexpr std::uint32_t kArray = 9;

class Gguf : public ::testing::Test {
 protected:
  GgufFile open(const std::string& bytes) {
    write_file(folder_ / "a.gguf", bytes);
    return GgufFile::open(folder_ / "a.gguf");
  }
  GgufFile open(const GgufBytes& file) { return open(file.bytes()); }

  TemporaryFolder folder_;
};

TEST_F(Gguf, ReadsEveryKindOfValue) {
  GgufBytes gguf_bytes;
  const auto add = [&](std::string_view key, std::uint32_t type, auto value) {
    std::string encoded;
    append_scalar(encoded, value);
    gguf_bytes.add_raw(key, type, encoded);
  };
  add("u8", 0, std::uint8_t{200});
  add("i8", 1, std::int8_t{-3});
  add("u16", 2, std::uint16_t{60000});
  add("i16", 3, std::int16_t{-30000});
  add("u32", 4, std::uint32_t{4000000000});
  add("i32", 5, std::int32_t{-2000000000});
  add("f32", 6, 1.5f);
  add("bool", 7, std::uint8_t{1});
  gguf_bytes.add_text("string", "word");
  add("u64", 10, std::uint64_t{1} << 40);
  add("i64", 11, -(std::int64_t{1} << 40));
  add("f64", 12, 0.1);
  add("u64 max", 10, std::numeric_limits<std::uint64_t>::max());

  const GgufFile file = open(gguf_bytes);
  EXPECT_EQ(file.metadata().size(), 13u);
  EXPECT_EQ(file.integer("u8"), 200);
  EXPECT_EQ(file.integer("i8"), -3);
  EXPECT_EQ(file.integer("u16"), 60000);
  EXPECT_EQ(file.integer("i16"), -30000);
  EXPECT_EQ(file.integer("u32"), 4000000000);
  EXPECT_EQ(file.integer("i32"), -2000000000);
  EXPECT_EQ(file.integer("u64"), std::int64_t{1} << 40);
  EXPECT_EQ(file.integer("i64"), -(std::int64_t{1} << 40));
  EXPECT_EQ(file.number("f32"), 1.5);
  EXPECT_EQ(file.number("f64"), 0.1);
  EXPECT_EQ(file.number("i8"), -3.0);
  EXPECT_EQ(file.boolean("bool"), true);
  EXPECT_EQ(file.text("string"), "word");
  EXPECT_EQ(file.integer("absent"), std::nullopt);
  CLORA_EXPECT_ERROR(file.integer("string"), ErrorCode::invalid_file,
                     "string must be an integer, got string");
  CLORA_EXPECT_ERROR(file.integer("f32"), ErrorCode::invalid_file, "must be an integer");
  CLORA_EXPECT_ERROR(file.integer("u64 max"), ErrorCode::invalid_file, "must be an integer");
  EXPECT_EQ(file.find_value("u64 max")->summary(), "18446744073709551615");
  EXPECT_EQ(file.find_value("f32")->summary(), "1.5");
}

TEST_F(Gguf, ReadsArraysAndArraysOfArrays) {
  std::string words;
  append_scalar(words, std::uint32_t{8});
  append_scalar(words, std::uint64_t{2});
  append_gguf_string(words, "");
  append_gguf_string(words, "second");
  std::string inner;
  append_scalar(inner, std::uint32_t{5});
  append_scalar(inner, std::uint64_t{2});
  append_scalar(inner, std::int32_t{-7});
  append_scalar(inner, std::int32_t{8});
  std::string outer;
  append_scalar(outer, kArray);
  append_scalar(outer, std::uint64_t{2});
  const GgufFile file = open(GgufBytes()
                                 .add_raw("words", kArray, words)
                                 .add_raw("nested", kArray, outer + inner + inner)
                                 .add_integer("after", 5));
  EXPECT_EQ(file.find_value("words")->texts(), (std::vector<std::string_view>{"", "second"}));
  EXPECT_EQ(file.find_value("words")->integers(), std::nullopt);
  EXPECT_EQ(file.find_value("words")->summary(), "[2 string]");
  const auto nested = file.find_value("nested")->values();
  ASSERT_TRUE(nested.has_value());
  ASSERT_EQ(nested->size(), 2u);
  EXPECT_EQ((*nested)[1].integers(), (std::vector<std::int64_t>{-7, 8}));
  EXPECT_EQ(file.integer("after"), 5);
}

TEST_F(Gguf, GivesShapesRowMajor) {
  const GgufFile file = open(GgufBytes().add_tensor("w", {32, 3}, kQ40, std::string(3 * 18, 'q')));
  const GgufTensor* w = file.find_tensor("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->shape, (Shape{3, 32}));
  EXPECT_EQ(w->type, DType::q4_0);
  EXPECT_EQ(w->bytes.size(), 54u);
  EXPECT_EQ(file.find_tensor("v"), nullptr);
}

TEST_F(Gguf, FollowsTheAlignmentKey) {
  GgufBytes gguf_bytes;
  gguf_bytes.alignment = 64;
  gguf_bytes.add_integer("general.alignment", 64).add_tensor("a", {1}, kF32, "AAAA");
  const GgufFile file = open(gguf_bytes.add_tensor("b", {1}, kF32, "BBBB"));
  EXPECT_EQ(std::memcmp(file.find_tensor("a")->bytes.data(), "AAAA", 4), 0);
  EXPECT_EQ(std::memcmp(file.find_tensor("b")->bytes.data(), "BBBB", 4), 0);
}

TEST_F(Gguf, ListsATensorOfAnUnknownTypeWithoutItsBytes) {
  const GgufFile file = open(GgufBytes().add_tensor("w", {256}, kIq2Xs, std::string(74, 'x')));
  EXPECT_EQ(file.find_tensor("w")->type, std::nullopt);
  EXPECT_TRUE(file.find_tensor("w")->bytes.empty());
  EXPECT_EQ(ggml_type_name(kIq2Xs), "IQ2_XS");
  EXPECT_EQ(ggml_type_name(99), "type 99");
}

GgufBytes with_a_text_and_an_array() {
  std::string words;
  append_scalar(words, std::uint32_t{8});  // strings
  append_scalar(words, std::uint64_t{1});
  append_gguf_string(words, "token");
  GgufBytes gguf_bytes;
  gguf_bytes.add_text("general.architecture", "llama").add_raw("tokens", kArray, words);
  return gguf_bytes;
}

TEST_F(Gguf, RefusesEveryPrefixOfAFile) {
  GgufBytes gguf_bytes = with_a_text_and_an_array();
  gguf_bytes.add_tensor("a", {2}, kF32, "12345678").add_tensor("b", {1}, kF32, "abcd");
  const std::string intact = gguf_bytes.bytes();
  ASSERT_NO_THROW(open(intact));
  for (std::size_t size = 0; size < intact.size(); ++size)
    CLORA_EXPECT_ERROR(open(intact.substr(0, size)), ErrorCode::invalid_file, "a.gguf");
}

TEST_F(Gguf, SurvivesAnyDamagedByte) {
  GgufBytes gguf_bytes = with_a_text_and_an_array();
  const std::string intact = gguf_bytes.add_tensor("a", {2, 2}, kF32, std::string(16, 'x')).bytes();
  for (std::size_t at = 0; at < intact.size(); ++at) {
    for (const char damage : {'\x00', '\x01', '\x09', '\x7f', '\xff'}) {
      std::string damaged = intact;
      damaged[at] = damage;
      // Either an Error, or a file whose views are all readable, which a sanitizer build checks.
      test::caught([&] {
        const GgufFile file = open(damaged);
        for (const auto& entry : file.metadata()) (void)entry.value.summary();
        unsigned sum = 0;
        for (const auto& tensor : file.tensors())
          for (const std::byte byte : tensor.bytes) sum += std::to_integer<unsigned>(byte);
        EXPECT_LE(sum, 16u * 255u);
      });
    }
  }
}

TEST_F(Gguf, RefusesAnotherFormat) {
  CLORA_EXPECT_ERROR(open(std::string(100, 'x')), ErrorCode::invalid_file, "not a GGUF file");
}

TEST_F(Gguf, RefusesVersionsItDoesNotKnow) {
  GgufBytes gguf_bytes;
  gguf_bytes.version = 1;
  CLORA_EXPECT_ERROR(open(gguf_bytes), ErrorCode::unsupported, "version 2 or 3 is required, got 1");
  gguf_bytes.version = 0x03000000;
  CLORA_EXPECT_ERROR(open(gguf_bytes), ErrorCode::unsupported, "big-endian");
}

TEST_F(Gguf, RefusesHugeCountsWithoutAllocating) {
  GgufBytes tensors;
  tensors.extra_tensor_count = std::int64_t{1} << 60;
  CLORA_EXPECT_ERROR(open(tensors), ErrorCode::invalid_file, "claims 1152921504606846976 tensors");
  GgufBytes entries;
  entries.extra_entry_count = std::int64_t{1} << 60;
  CLORA_EXPECT_ERROR(open(entries), ErrorCode::invalid_file, "metadata entries");
  std::string array;
  append_scalar(array, std::uint32_t{12});
  append_scalar(array, std::uint64_t{1} << 61);  // times 8 bytes: 2^64
  CLORA_EXPECT_ERROR(open(GgufBytes().add_raw("k", kArray, array)), ErrorCode::invalid_file,
                     "claims 2305843009213693952 elements of k");
}

// The resident memory of this process, in bytes.
std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::string array_of(std::uint32_t element, std::uint64_t count) {
  std::string array;
  append_scalar(array, element);
  append_scalar(array, count);
  return array;
}

// Zeros are empty strings and empty arrays of numbers. Without a limit, the reader would walk all
// of them and make 12 GB of the file resident.
TEST_F(Gguf, ReadsNoSparseFileOfGigabytes) {
  constexpr std::uintmax_t kHuge = std::uintmax_t{12} << 30U;
  for (const std::uint32_t element : {8U, kArray, 0U}) {
    const std::uint64_t count = element == 0U ? kHuge / 2 : kHuge / 16;
    write_file(folder_ / "a.gguf",
               GgufBytes().add_raw("words", kArray, array_of(element, count)).bytes());
    std::filesystem::resize_file(folder_ / "a.gguf", kHuge);
    const std::uint64_t before = resident_bytes();
    CLORA_EXPECT_ERROR(GgufFile::open(folder_ / "a.gguf"), ErrorCode::invalid_file,
                       fmt::format("elements of words, got {}", count));
    EXPECT_LT(resident_bytes(), before + (std::uint64_t{64} << 20U));
  }
}

TEST_F(Gguf, BoundsItsHeaderWhateverTheFileHolds) {
  std::string encoded;
  append_scalar(encoded, std::uint64_t{300} << 20U);
  write_file(folder_ / "a.gguf", GgufBytes().add_raw("text", 8, encoded).bytes());
  std::filesystem::resize_file(folder_ / "a.gguf", std::uintmax_t{12} << 30U);
  CLORA_EXPECT_ERROR(GgufFile::open(folder_ / "a.gguf"), ErrorCode::invalid_file,
                     "at most 268435456 bytes, text takes 314572800 bytes");

  GgufBytes entries;
  entries.add_integer("k", 1).extra_entry_count = 1'000'000;
  write_file(folder_ / "a.gguf", entries.bytes());
  std::filesystem::resize_file(folder_ / "a.gguf", std::uintmax_t{12} << 30U);
  CLORA_EXPECT_ERROR(GgufFile::open(folder_ / "a.gguf"), ErrorCode::invalid_file,
                     "at most 65536 metadata entries, got 1000001");

  GgufBytes tensors;
  tensors.extra_tensor_count = 1'000'000;
  write_file(folder_ / "a.gguf", tensors.bytes());
  std::filesystem::resize_file(folder_ / "a.gguf", std::uintmax_t{12} << 30U);
  CLORA_EXPECT_ERROR(GgufFile::open(folder_ / "a.gguf"), ErrorCode::invalid_file,
                     "at most 262144 tensors, got 1000000");
}

TEST_F(Gguf, BoundsTheNamesThatMessagesRepeat) {
  const auto named = [](std::size_t size) { return std::string(size, 'n'); };
  EXPECT_NO_THROW(open(GgufBytes().add_integer(named(1024), 1)));
  CLORA_EXPECT_ERROR(open(GgufBytes().add_integer(named(1025), 1)), ErrorCode::invalid_file,
                     "a metadata key must have at most 1024 bytes, got 1025");
  CLORA_EXPECT_ERROR(open(GgufBytes().add_tensor(named(1025), {1}, kF32, "1234")),
                     ErrorCode::invalid_file, "a tensor's name must have at most 1024 bytes");
}

TEST_F(Gguf, RefusesAStringThatRunsPastTheEnd) {
  std::string encoded;
  append_scalar(encoded, std::numeric_limits<std::uint64_t>::max());
  CLORA_EXPECT_ERROR(open(GgufBytes().add_raw("k", 8, encoded)), ErrorCode::invalid_file,
                     "k needs 18446744073709551615 bytes");
}

TEST_F(Gguf, RefusesAnUnknownValueType) {
  CLORA_EXPECT_ERROR(open(GgufBytes().add_raw("k", 13, "xxxxxxxx")), ErrorCode::invalid_file,
                     "unknown value type 13");
}

TEST_F(Gguf, RefusesArraysNestedWithoutEnd) {
  std::string nested;
  for (int i = 0; i < 1000; ++i) {
    append_scalar(nested, kArray);
    append_scalar(nested, std::uint64_t{1});
  }
  CLORA_EXPECT_ERROR(open(GgufBytes().add_raw("k", kArray, nested)), ErrorCode::invalid_file,
                     "nests arrays");
}

TEST_F(Gguf, RefusesDuplicateNames) {
  CLORA_EXPECT_ERROR(open(GgufBytes().add_integer("k", 1).add_integer("k", 2)),
                     ErrorCode::invalid_file, "key k is duplicated");
  GgufBytes gguf_bytes;
  gguf_bytes.add_tensor("w", {1}, kF32, "1234").add_tensor("w", {1}, kF32, "1234");
  CLORA_EXPECT_ERROR(open(gguf_bytes), ErrorCode::invalid_file, "tensor w is duplicated");
}

TEST_F(Gguf, RefusesOverlappingTensors) {
  GgufBytes gguf_bytes;
  gguf_bytes.add_tensor("a", {16}, kF32, std::string(64, 'a')).describe_tensor("b", {1}, kF32, 32);
  CLORA_EXPECT_ERROR(open(gguf_bytes), ErrorCode::invalid_file, "tensors a and b overlap");
}

TEST_F(Gguf, RefusesTensorsOutsideTheFile) {
  GgufBytes gguf_bytes;
  gguf_bytes.add_tensor("a", {1}, kF32, "1234");
  GgufBytes far = gguf_bytes;
  CLORA_EXPECT_ERROR(open(far.describe_tensor("b", {1}, kF32, std::uint64_t{1} << 62)),
                     ErrorCode::invalid_file, "tensor b [1] needs 4 bytes");
  GgufBytes crooked = gguf_bytes;
  CLORA_EXPECT_ERROR(open(crooked.describe_tensor("b", {1}, kF32, 4)), ErrorCode::invalid_file,
                     "not a multiple of the alignment 32");
}

TEST_F(Gguf, RefusesImpossibleShapes) {
  const auto with = [](std::vector<std::uint64_t> dimensions, std::uint32_t type) {
    return GgufBytes().describe_tensor("w", std::move(dimensions), type, 0);
  };
  const std::uint64_t big = std::uint64_t{1} << 32;
  CLORA_EXPECT_ERROR(open(with({big, big}, kF32)), ErrorCode::invalid_file, "impossible dimension");
  CLORA_EXPECT_ERROR(open(with({0}, kF32)), ErrorCode::invalid_file, "impossible dimension 0");
  CLORA_EXPECT_ERROR(open(with({1, 1, 1, 1, 1}, kF32)), ErrorCode::invalid_file, "5 dimensions");
  CLORA_EXPECT_ERROR(open(with({33}, kQ40)), ErrorCode::invalid_file, "complete q4_0 blocks of 32");
}

TEST_F(Gguf, RefusesAnAlignmentThatIsNotAPowerOfTwo) {
  for (const std::uint32_t alignment : {0u, 24u, 1u << 31})
    CLORA_EXPECT_ERROR(open(GgufBytes().add_integer("general.alignment", alignment)),
                       ErrorCode::invalid_file, "general.alignment must be a power of two");
}

TEST(GgufModels, ReadStories260k) {
  CLORA_REQUIRE_TEST_DATA(path, "models/stories260k/stories260K-Q4_0.gguf");
  const GgufFile file = GgufFile::open(path);
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.text("general.architecture"), "llama");
  EXPECT_EQ(file.integer("llama.block_count"), 5);
  EXPECT_EQ(file.tensors().size(), 48u);
  EXPECT_EQ(file.find_tensor("output.weight")->type, DType::q8_0);
  EXPECT_EQ(file.find_tensor("blk.0.ffn_down.weight")->type, DType::f16);
  EXPECT_EQ(file.find_tensor("blk.0.ffn_down.weight")->shape, (Shape{64, 172}));
  EXPECT_EQ(file.find_tensor("blk.0.attn_k.weight")->type, DType::q4_0);
  const auto tokens = file.find_value("tokenizer.ggml.tokens")->texts();
  ASSERT_TRUE(tokens.has_value());
  EXPECT_EQ(tokens->size(), 512u);
  EXPECT_EQ((*tokens)[1], "<s>");
  EXPECT_EQ(file.find_value("tokenizer.ggml.scores")->floats()->size(), 512u);
}

TEST(GgufModels, ReadSmolLM2) {
  CLORA_DEMO_MODEL_OR_SKIP(path);
  const GgufFile file = GgufFile::open(path);
  EXPECT_EQ(file.tensors().size(), 272u);
  EXPECT_EQ(file.metadata().size(), 33u);
  EXPECT_EQ(file.find_tensor("token_embd.weight")->shape, (Shape{49152, 576}));
  EXPECT_EQ(file.find_tensor("token_embd.weight")->type, DType::q8_0);
  EXPECT_EQ(file.find_value("tokenizer.ggml.merges")->texts()->size(), 48900u);
  EXPECT_EQ(file.boolean("tokenizer.ggml.add_bos_token"), false);
}

}  // namespace
}  // namespace clora

// Models split into several GGUF files (model/files/gguf_split.hpp): any part opens all, and parts
// that do not belong together are refused by name.
#include "model/files/gguf_split.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "clora/model/text/tokenizer_files.hpp"
#include "clora/model/training/run_fingerprint.hpp"
#include "clora/model/weights/weights.hpp"
#include "tests/support/gguf_parts.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using test::add_split_keys;
using test::gguf_part_file;
using test::GgufBytes;
using test::TemporaryFolder;
using test::write_file;

constexpr std::uint32_t kF32 = 0;
constexpr int kParts = 3;

// Two parts of two tensors, "a" and "b", each of which a test can change.
class SplitGguf : public ::testing::Test {
 protected:
  SplitGguf() {
    first_.add_text("general.architecture", "llama").add_tensor("a", {1}, kF32, "AAAA");
    second_.add_tensor("b", {1}, kF32, "BBBB");
  }

  std::filesystem::path path(int number) { return folder_ / gguf_part_file("m", number, 2); }

  GgufFile open(int opened = 1) {
    write_file(path(1), first_.bytes());
    write_file(path(2), second_.bytes());
    return GgufFile::open(path(opened));
  }

  TemporaryFolder folder_;
  GgufBytes first_, second_;
};

TEST_F(SplitGguf, IsOneFileWhicheverPartIsOpened) {
  add_split_keys(first_, 0, 2, 2);
  add_split_keys(second_, 1, 2, 2);
  for (const int opened : {1, 2}) {
    const GgufFile file = open(opened);
    EXPECT_EQ(file.path(), path(1));
    EXPECT_EQ(file.text("general.architecture"), "llama");
    ASSERT_EQ(file.tensors().size(), 2U);
    EXPECT_EQ(file.part_of(*file.find_tensor("a")).path(), path(1));
    EXPECT_EQ(file.part_of(*file.find_tensor("b")).path(), path(2));
    EXPECT_EQ(file.find_tensor("b")->bytes[0], std::byte{'B'});
  }
}

TEST_F(SplitGguf, MayHaveAFirstPartWithoutTensors) {
  first_ = GgufBytes().add_text("general.architecture", "llama");
  add_split_keys(first_, 0, 2, 1);
  add_split_keys(second_, 1, 2, 1);
  EXPECT_EQ(open().tensors().size(), 1U);
}

TEST_F(SplitGguf, NamesThePartThatIsMissing) {
  add_split_keys(first_, 0, 2, 2);
  write_file(path(1), first_.bytes());
  CLORA_EXPECT_ERROR(GgufFile::open(path(1)), ErrorCode::not_found,
                     "m-00001-of-00002.gguf: part 2 of 2 is missing: m-00002-of-00002.gguf");
}

TEST_F(SplitGguf, RequiresTheNamesOfItsParts) {
  add_split_keys(first_, 0, 2, 2);
  for (const char* name : {"m.gguf", "m-00001-of-00003.gguf", "m-1-of-2.gguf"}) {
    write_file(folder_ / name, first_.bytes());
    CLORA_EXPECT_ERROR(GgufFile::open(folder_ / name), ErrorCode::invalid_file,
                       "split.count is 2, so the file must be named NAME-NNNNN-of-00002.gguf");
  }
}

TEST_F(SplitGguf, RefusesPartsThatDisagree) {
  struct Case {
    int index, count, tensors;  // of the second part
    const char* message;
  };
  for (const Case& each :
       {Case{1, 3, 2, "split.count must be 2 as the names of the files say, got 3"},
        Case{0, 2, 2, "split.no must be 1 by the name of the file, got 0"},
        Case{1, 2, 3,
             "split.tensors.count must be 2, the number of tensors in all parts, got 3"}}) {
    GgufBytes first = first_, second = second_;
    add_split_keys(first, 0, 2, 2);
    add_split_keys(second, each.index, each.count, each.tensors);
    write_file(path(1), first.bytes());
    write_file(path(2), second.bytes());
    CLORA_EXPECT_ERROR(GgufFile::open(path(1)), ErrorCode::invalid_file,
                       std::string("m-00002-of-00002.gguf: ") + each.message);
  }
}

TEST_F(SplitGguf, RefusesAPartWithoutItsKeys) {
  add_split_keys(first_, 0, 2, 2);
  CLORA_EXPECT_ERROR(open(), ErrorCode::invalid_file,
                     "m-00002-of-00002.gguf: split.count must be 2 as the names of the files say, "
                     "got no such key");
}

TEST_F(SplitGguf, RefusesATensorInTwoParts) {
  first_.add_tensor("b", {1}, kF32, "bbbb");
  add_split_keys(first_, 0, 2, 3);
  add_split_keys(second_, 1, 2, 3);
  CLORA_EXPECT_ERROR(open(), ErrorCode::invalid_file, "m-00002-of-00002.gguf: tensor b is also in");
}

TEST_F(SplitGguf, RequiresTheMetadataInTheFirstPart) {
  first_ = GgufBytes().add_tensor("a", {1}, kF32, "AAAA");
  add_split_keys(first_, 0, 2, 2);
  add_split_keys(second_.add_text("general.architecture", "llama"), 1, 2, 2);
  CLORA_EXPECT_ERROR(open(), ErrorCode::invalid_file,
                     "m-00001-of-00002.gguf: general.architecture is missing; the first part must");
}

TEST_F(SplitGguf, RefusesMetadataThatOnlyAFurtherPartHas) {
  add_split_keys(first_, 0, 2, 2);
  add_split_keys(second_.add_text("general.architecture", "qwen2"), 1, 2, 2);
  CLORA_EXPECT_ERROR(open(), ErrorCode::invalid_file,
                     "m-00002-of-00002.gguf: general.architecture = qwen2 is not in");
}

TEST_F(SplitGguf, RefusesEveryPrefixOfAPart) {
  add_split_keys(first_, 0, 2, 2);
  add_split_keys(second_, 1, 2, 2);
  ASSERT_NO_THROW(open());
  const std::string intact = second_.bytes();
  for (std::size_t size = 0; size < intact.size(); ++size) {
    write_file(path(2), intact.substr(0, size));
    CLORA_EXPECT_ERROR(GgufFile::open(path(1)), ErrorCode::invalid_file, "m-00002-of-00002.gguf");
  }
}

TEST(GgufPartNames, AreReadFromFiveDigits) {
  const auto name = gguf_part_name("folder/big-model-Q4_K-00002-of-00003.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->model, "big-model-Q4_K");
  EXPECT_EQ(name->number, 2);
  EXPECT_EQ(name->count, 3);
  EXPECT_EQ(name->path_of(3), "folder/big-model-Q4_K-00003-of-00003.gguf");
  EXPECT_TRUE(name->is_same_model(*gguf_part_name("folder/big-model-Q4_K-00001-of-00003.gguf")));
  EXPECT_FALSE(name->is_same_model(*gguf_part_name("folder/big-model-Q4_K-00001-of-00004.gguf")));
  for (const char* other : {"m.gguf", "-00001-of-00001.gguf", "m-00000-of-00001.gguf",
                            "m-00002-of-00001.gguf", "m-1-of-2.gguf", "m-0000a-of-00001.gguf",
                            "m-00001_of-00001.gguf", "m-+0001-of-00001.gguf", "m-00001-of-00001"})
    EXPECT_FALSE(gguf_part_name(other).has_value()) << other;
}

// A real model, and its three parts in a folder.
class SplitStories : public ::testing::Test {
 protected:
  void SetUp() override {
    CLORA_REQUIRE_TEST_DATA(path, "models/stories260k/stories260K-Q4_0.gguf");
    complete_ = path;
    test::write_gguf_parts(GgufFile::open(path), folder_.path(), "stories", kParts);
  }

  std::filesystem::path part(int number) {
    return folder_ / gguf_part_file("stories", number, kParts);
  }

  TemporaryFolder folder_;
  std::filesystem::path complete_;
};

TEST_F(SplitStories, HaveTheWeightsAndTheFingerprintOfTheCompleteFile) {
  const WeightFiles complete = WeightFiles::open(complete_);
  for (const auto& path : {part(1), part(2), part(3), folder_.path()}) {
    const WeightFiles parts = WeightFiles::open(path);
    EXPECT_EQ(parts.files(), (std::vector{part(1), part(2), part(3)}));
    EXPECT_EQ(parts.config().layers, complete.config().layers);
    EXPECT_EQ(digest_of_weights(parts.all()).text(), digest_of_weights(complete.all()).text());
  }
}

TEST_F(SplitStories, KeepTheMappingOfEveryPartAlive) {
  const std::vector<WeightView> expected = WeightFiles::open(complete_).all();
  const std::vector<WeightView> views = WeightFiles::open(part(2)).all();
  ASSERT_EQ(views.size(), expected.size());
  for (std::size_t i = 0; i < views.size(); ++i)
    EXPECT_TRUE(std::ranges::equal(views[i].bytes, expected[i].bytes)) << views[i].name;
}

TEST_F(SplitStories, HaveTheirTokenizerInTheFirstPart) {
  const auto ids = load_tokenizer(complete_).encode("Once upon a time");
  for (const auto& path : {part(1), part(2), folder_.path()})
    EXPECT_EQ(load_tokenizer(path).encode("Once upon a time"), ids);
}

TEST_F(SplitStories, AreNotTheOnlyModelOfAFolderWithAnother) {
  for (const std::string& other : {std::string("zoo.gguf"), gguf_part_file("zoo", 1, 1)}) {
    write_file(folder_ / other, "x");
    CLORA_EXPECT_ERROR(WeightFiles::open(folder_.path()), ErrorCode::not_found,
                       "3 other .gguf files, which are not the parts of one model");
    std::filesystem::remove(folder_ / other);
  }
}

TEST_F(SplitStories, NameAPartThatIsNotInTheirFolder) {
  std::filesystem::remove(part(3));
  CLORA_EXPECT_ERROR(WeightFiles::open(folder_.path()), ErrorCode::not_found,
                     "part 3 of 3 is missing: stories-00003-of-00003.gguf");
}

}  // namespace
}  // namespace clora

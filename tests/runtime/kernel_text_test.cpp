// Tests runtime/programs/kernel_text: how the files of a kernel are found.
#include "runtime/programs/kernel_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clora/runtime/error.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class KernelText : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((folder_ / path).parent_path());
    test::write_file(folder_ / path, text);
  }
  std::string read(const std::string& file, std::vector<fs::path> folders) const {
    return kernel_text(file, folders);
  }

  test::TemporaryFolder folder_;
};

TEST_F(KernelText, FindsAFileInASubfolderByItsName) {
  write("rows/scale.cl", "kernel void scale() {}\n");
  EXPECT_EQ(read("scale.cl", {folder_.path()}), "#line 1 \"scale.cl\"\nkernel void scale() {}\n");
}

TEST_F(KernelText, FindsAnIncludeByItsPathFromTheFolder) {
  write("rows/scale.cl", "#include \"rows/factor.clh\"\n");
  write("rows/factor.clh", "#define FACTOR 2\n");
  EXPECT_THAT(read("scale.cl", {folder_.path()}),
              HasSubstr("#line 1 \"factor.clh\"\n#define FACTOR 2\n#line 2 \"scale.cl\"\n"));
}

TEST_F(KernelText, FindsAnIncludeByItsNameInAFolderWithoutSubfolders) {
  write("scale.cl", "#include \"rows/factor.clh\"\n");
  write("factor.clh", "#define FACTOR 2\n");
  EXPECT_THAT(read("scale.cl", {folder_.path()}), HasSubstr("#define FACTOR 2\n"));
}

TEST_F(KernelText, DoesNotSearchSubfoldersForAnInclude) {
  write("scale.cl", "#include \"factor.clh\"\n");
  write("elsewhere/factor.clh", "#define FACTOR 2\n");
  CLORA_EXPECT_ERROR(read("scale.cl", {folder_.path()}), ErrorCode::not_found,
                     "'factor.clh' (required by scale.cl) is not in folder");
}

TEST_F(KernelText, TakesTheFirstFolderThatHasTheFile) {
  write("first/factor.clh", "#define FACTOR 1\n");
  write("second/factor.clh", "#define FACTOR 2\n");
  write("second/scale.cl", "#include \"factor.clh\"\n");
  EXPECT_THAT(read("scale.cl", {folder_ / "first", folder_ / "second"}),
              HasSubstr("#define FACTOR 1\n"));
}

TEST_F(KernelText, IncludesAFileOnceHoweverItIsNamed) {
  write("rows/scale.cl", "#include \"factor.clh\"\n#include \"rows/factor.clh\"\n");
  write("rows/factor.clh", "factor\n");
  const std::string text = read("scale.cl", {folder_ / "rows", folder_.path()});
  EXPECT_EQ(text.find("factor\n"), text.rfind("factor\n"));
}

TEST_F(KernelText, FindsBuiltInFilesByName) {
  EXPECT_THAT(kernel_text("rms_norm.cl"), HasSubstr("kernel void"));
  CLORA_EXPECT_ERROR(kernel_text("rms_norm_of_none.cl"), ErrorCode::not_found, "embedded files");
}

}  // namespace
}  // namespace clora

// clc's reports about this machine: devices, doctor, cache; and embed, which needs no device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ClcHere : public ::testing::Test {
 protected:
  test::ProgramResult clc(std::vector<std::string> arguments,
                          std::vector<std::string> environment = {}) const {
    environment.push_back("CLORA_CACHE_DIR=" + (folder_ / "cache").string());
    return test::run_clc(
        {.arguments = std::move(arguments), .environment = std::move(environment)});
  }

  // Leaves a program in the cache: the one of the roofline peaks, or any other that clora builds.
  std::filesystem::path fill_cache() const {
    const auto done = clc({"devices", "--device", device(), "--measure"}, {"CLORA_SELF_TEST=0"});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache/programs")) {
      if (entry.path().extension() == ".program") return entry.path();
    }
    ADD_FAILURE() << "the files were not kept";
    return {};
  }

  static std::string device() {
    const char* wanted = std::getenv("CLORA_DEVICE");
    return wanted == nullptr ? "0" : wanted;
  }
  test::TemporaryFolder folder_;
};

TEST_F(ClcHere, ListsWhatADeviceSupportsAndItsMeasuredPeaks) {
  const auto before = clc({"devices"});
  EXPECT_EQ(before.exit_code, 0) << before.err;
  EXPECT_THAT(before.out, AllOf(HasSubstr("double precision"), HasSubstr("not measured yet")));
  fill_cache();
  const auto after = clc({"devices", "--device", device(), "--json"}).json_lines().at(0);
  const auto& found = after.at("devices").at(0);
  EXPECT_GT(found.at("peaks").at("copy_bytes_per_s"), 1e8);
  EXPECT_FALSE(found.at("can").at("extensions").get<std::string>().empty());
}

TEST_F(ClcHere, FindsAMachineThatWorksGood) {
  const auto done = clc({"doctor"});
  EXPECT_EQ(done.exit_code, 0) << done.out;
  EXPECT_THAT(done.out, AllOf(HasSubstr("builds a kernel in"), Not(HasSubstr("bad "))));
}

TEST_F(ClcHere, NamesTheFixForAMachineWithoutADriver) {
  const std::filesystem::path none = folder_ / "vendors";
  std::filesystem::create_directories(none);
  const auto done = clc({"doctor"}, {"OCL_ICD_VENDORS=" + none.string(), "PATH=/nowhere"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.out, HasSubstr("bad   "));
  EXPECT_THAT(done.out, HasSubstr("-> apt install pocl-opencl-icd"));
  EXPECT_THAT(done.out, HasSubstr("-> apt install oclgrind"));
}

TEST_F(ClcHere, ListsAndClearsTheCachedPrograms) {
  const std::filesystem::path program = fill_cache();
  const auto listed = clc({"cache", "list", "--json"}).json_lines().at(0).at("programs");
  ASSERT_FALSE(listed.empty());
  EXPECT_FALSE(listed[0].at("file").get<std::string>().empty());
  EXPECT_THAT(clc({"cache", "clear", "--file", "no such file"}).out,
              HasSubstr("0 programs removed"));
  EXPECT_TRUE(std::filesystem::exists(program)) << "a filter that names no file removes nothing";
  EXPECT_EQ(clc({"cache", "clear"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(program));
}

TEST_F(ClcHere, FindsADamagedProgramInTheCache) {
  const std::filesystem::path program = fill_cache();
  EXPECT_EQ(clc({"cache", "verify"}).exit_code, 0);
  std::string bytes = test::read_file(program);
  bytes[bytes.size() / 2] ^= 1;
  test::write_file(program, bytes);
  const auto done = clc({"cache", "verify"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.out, HasSubstr("its checksum does not match"));
}

TEST_F(ClcHere, AUsageErrorAfterAGroupOfCommandsIsReportedLikeAnyOther) {
  const auto unknown = clc({"cache", "lst"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'list'?"));
  EXPECT_EQ(clc({"cache"}).exit_code, 2);
  EXPECT_THAT(clc({"cache", "list", "--fiel", "x"}).err, HasSubstr("did you mean --file?"));
  EXPECT_EQ(clc({"cache", "--help"}).exit_code, 0);
}

TEST_F(ClcHere, EmbedsFilesThatAProgramThenHas) {
  const std::string long_text = "// (\")" + std::string(40000, 'x') + "\n";
  test::write_file(folder_ / "a.cl", "#include \"b.clh\"\n__kernel void f() {}\n");
  test::write_file(folder_ / "b.clh", long_text);
  const auto done = clc({"embed", (folder_ / "a.cl").string(), "--out",
                         (folder_ / "texts.cpp").string(), "--namespace", "my::own"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  test::write_file(folder_ / "main.cpp",
                   "#include \"texts.hpp\"\n#include <cstdio>\nint main() {\n"
                   "  const auto [name, text] = my::own::kernel_texts().front();\n"
                   "  std::printf(\"%zu:%.*s\", my::own::kernel_texts().size(), "
                   "(int)name.size(), name.data());\n"
                   "  return text.find(\"xxx\\n\") == text.npos;\n}\n");
  const std::string folder = folder_.path().string();
  const std::string compile = "cd " + folder + " && c++ -std=c++20 main.cpp texts.cpp -o main";
  ASSERT_EQ(std::system(compile.c_str()), 0);  // NOLINT: a compiler, as a person calls it
  const auto ran = test::run_program(folder_ / "main", {.arguments = {}});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.out, "1:a.cl");
}

TEST_F(ClcHere, RefusesNamesThatAreNotCppIdentifiers) {
  const auto done =
      clc({"embed", "softmax.cl", "--out", (folder_ / "a.cpp").string(), "--function", "1st"});
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_THAT(done.err, HasSubstr("'1st' is not a C++ name"));
}

}  // namespace
}  // namespace clora

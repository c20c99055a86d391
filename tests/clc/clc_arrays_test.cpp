// clc's arrays: .npy files, the specs of --arg, comparisons and pictures.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>

#include "clora/runtime/error.hpp"
#include "runtime/files/npy.hpp"
#include "tests/support/test_files.hpp"
#include "tools/clc/call/array_spec.hpp"
#include "tools/clc/call/comparison.hpp"
#include "tools/clc/call/npy.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

HostArray array_of_spec(const std::string& spec) {
  return array_of(std::get<ArraySpec>(parse_argument("x=" + spec).value));
}

std::vector<double> values(const HostArray& array) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < array.elements(); ++i) all.push_back(array.value(i));
  return all;
}

std::string mistake_in(const std::string& argument) {
  try {
    (void)parse_argument(argument);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

// A file with this header, as NumPy writes it.
std::string npy_file(std::string header, const std::string& elements) {
  header += '\n';
  std::string file = "\x93NUMPY";
  file += {'\1', '\0', static_cast<char>(header.size()), '\0'};
  return file + header + elements;
}

HostArray parsed(const std::string& file) {
  return parse_npy(std::as_bytes(std::span(file)), "x.npy");
}

std::string two_integers() { return std::string("\1\0\0\0\2\0\0\0", 8); }

TEST(Npy, ReadsWhatNumPyWrites) {
  const HostArray array = parsed(
      npy_file("{'descr': '<i4', 'fortran_order': False, 'shape': (1, 2), }    ", two_integers()));
  EXPECT_EQ(array.text(), "i32 [1, 2]");
  EXPECT_THAT(values(array), ElementsAre(1, 2));
}

TEST(Npy, GivesBackEveryTypeThatItWrote) {
  const test::TemporaryFolder folder;
  for (const char* type :
       {"f16", "f32", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"}) {
    const HostArray array = array_of_spec(fmt::format("rand({},3x5,seed=7)", type));
    write_npy(folder / "x.npy", array);
    const HostArray again = read_npy(folder / "x.npy");
    EXPECT_EQ(again.text(), array.text());
    EXPECT_EQ(again.bytes, array.bytes);
  }
}

TEST(Npy, KeepsBf16AsSixteenBits) {
  const test::TemporaryFolder folder;
  const HostArray array = array_of_spec("range(bf16,4)");
  write_npy(folder / "x.npy", array);
  EXPECT_EQ(read_npy(folder / "x.npy").text(), "u16 [4]");
  EXPECT_EQ(array_of_spec("npy(" + (folder / "x.npy").string() + ",bf16)").bytes, array.bytes);
}

TEST(Npy, BeginsItsElementsAtAMultipleOf64Bytes) {
  const test::TemporaryFolder folder;
  for (const char* shape : {"1", "4x4", "1x1x1x1x1x1x1x1x1x1x1x1x1"}) {
    write_npy(folder / "x.npy", array_of_spec(fmt::format("zeros(u8,{})", shape)));
    const std::string file = test::read_file(folder / "x.npy");
    EXPECT_EQ((file.find('\n') + 1) % 64, 0U) << shape;
  }
}

TEST(Npy, ReportsWhatIsWrongWithAFile) {
  const auto with = [](const char* descr, const char* order, const std::string& shape) {
    return npy_file(
        fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}", descr, order, shape),
        two_integers());
  };
  const auto invalid = ErrorCode::invalid_file, unsupported = ErrorCode::unsupported;
  CLORA_EXPECT_ERROR(parsed("text"), invalid, "not a .npy file");
  CLORA_EXPECT_ERROR(parsed(with("'<i4'", "False", "(2,)").substr(0, 30)), invalid, "ends within");
  CLORA_EXPECT_ERROR(parsed(with("'<i4'", "False", "(3,)")), invalid, "cut short: 2 elements");
  CLORA_EXPECT_ERROR(parsed(with("'<i4'", "False", "(4294967296, 4294967296)")), invalid, "short");
  CLORA_EXPECT_ERROR(parsed(with("'<i4'", "False", "(0,)")), invalid, "no elements");
  const std::string long_header =
      std::string("\x93NUMPY\x02\x00\x00\x00\x02\x00", 12) + std::string(200'000, ' ');
  CLORA_EXPECT_ERROR(parsed(long_header), invalid, "must have at most 65536 bytes, got 131072");
  std::string ones;
  for (int i = 0; i < 65; ++i) ones += "1,";
  CLORA_EXPECT_ERROR(parsed(with("'<i4'", "False", "(" + ones + ")")), invalid,
                     "must be a tuple of at most 64 integers");
  CLORA_EXPECT_ERROR(parsed(with("'<i4'", "True", "(1, 2)")), unsupported, "Fortran order");
  CLORA_EXPECT_ERROR(parsed(with("'>i4'", "False", "(2,)")), unsupported, "big endian");
  CLORA_EXPECT_ERROR(parsed(with("'<c8'", "False", "(1,)")), unsupported, "'<c8'");
  CLORA_EXPECT_ERROR(parsed(with("[('a', '<i4')]", "False", "(2,)")), unsupported, "structured");
  EXPECT_EQ(parsed(with("'<i4'", "True", "(2,)")).text(), "i32 [2]");  // 1-D has no order
}

TEST(Npy, ReadsNoSparseFileOfMostOfTheMemory) {
  const std::uint64_t memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                               static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const test::TemporaryFolder folder;
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(memory / 2)};
  const std::string head = npy_head("|u1", shape);
  test::write_file(folder / "x.npy", head);
  std::filesystem::resize_file(folder / "x.npy", head.size() + memory / 2);
  CLORA_EXPECT_ERROR(read_npy(folder / "x.npy"), ErrorCode::invalid_file,
                     fmt::format("a quarter of this machine's memory, got u8 [{}]", memory / 2));
}

TEST(ArraySpecs, MakeWhatTheySay) {
  EXPECT_THAT(values(array_of_spec("zeros(f32,2)")), ElementsAre(0, 0));
  EXPECT_THAT(values(array_of_spec("const(f16,2,-1.5)")), ElementsAre(-1.5, -1.5));
  EXPECT_THAT(values(array_of_spec("range(i8,4,1,-1)")), ElementsAre(1, 0, -1, -2));
  EXPECT_THAT(values(array_of_spec("const(u64,1,0xffffffffffffffff)")),
              ElementsAre(std::ldexp(1.0, 64)));
  EXPECT_EQ(array_of_spec("out(f32,2x3)").text(), "f32 [2, 3]");
  EXPECT_TRUE(std::isnan(array_of_spec("out(bf16,1)").value(0)));
  EXPECT_EQ(array_of_spec("out(u16,1)").bits(0), 0xA5A5U);
}

TEST(ArraySpecs, MakeTheSameRandomNumbersOnEveryMachine) {
  const HostArray array = array_of_spec("rand(f32,4096,seed=1)");
  EXPECT_EQ(array.bits(0), 3196516692U);  // -0.263621
  EXPECT_EQ(array.bytes, array_of_spec("rand(f32,64x64,seed=1)").bytes);
  EXPECT_NE(array.bytes, array_of_spec("rand(f32,4096,seed=2)").bytes);
  double sum = 0;
  for (const double value : values(array)) {
    ASSERT_GE(value, -1);
    ASSERT_LT(value, 1);
    sum += value;
  }
  EXPECT_NEAR(sum / 4096, 0, 0.04);  // four standard deviations
}

TEST(ArraySpecs, KeepRandomNumbersWithinTheirBoundsBothReached) {
  const std::vector<double> all = values(array_of_spec("rand(i32,200,seed=3,min=-2,max=2)"));
  EXPECT_EQ(*std::ranges::min_element(all), -2);
  EXPECT_EQ(*std::ranges::max_element(all), 2);
}

TEST(ArraySpecs, ReadValuesAndLocalMemory) {
  EXPECT_THAT(std::get<ScalarSpec>(parse_argument("n=768").value).values, ElementsAre("768"));
  EXPECT_THAT(std::get<ScalarSpec>(parse_argument("v=(1, 2,3)").value).values,
              ElementsAre("1", "2", "3"));
  EXPECT_EQ(std::get<ScalarSpec>(parse_argument("v=float4(1)").value).type, "float4");
  EXPECT_EQ(std::get<LocalMemory>(parse_argument("s=local(64)").value).bytes, 64U);
  EXPECT_EQ(parse_argument("0=1").name, "0");
}

TEST(ArraySpecs, NameTheFaultAndTheAcceptedForms) {
  EXPECT_THAT(mistake_in("rand(f32,4)"), HasSubstr("must be NAME=VALUE"));
  EXPECT_THAT(mistake_in("x="), HasSubstr("a value is missing"));
  EXPECT_THAT(mistake_in("x=rnad(f32,4)"), HasSubstr("did you mean rand?"));
  EXPECT_THAT(mistake_in("x=rand(f31,4)"),
              HasSubstr("'f31' is not a type; the types are f16, bf16"));
  EXPECT_THAT(mistake_in("x=rand(f32,4x0)"), HasSubstr("'4x0' is not a shape"));
  EXPECT_THAT(mistake_in("x=rand(f32,4x)"), HasSubstr("is not a shape"));
  EXPECT_THAT(mistake_in("x=zeros(u8,9999999x9999999)"), HasSubstr("too many elements"));
  EXPECT_THAT(mistake_in("x=rand(f32,4,sed=1)"), HasSubstr("'sed=1' must be seed=N"));
  EXPECT_THAT(mistake_in("x=rand(f32,4,min=2)"), HasSubstr("min=2 is above max=1"));
  EXPECT_THAT(mistake_in("x=const(u8,4,256)"), HasSubstr("'256' is not a valid u8"));
  EXPECT_THAT(mistake_in("x=const(i8,4,-129)"), HasSubstr("'-129' is not a valid i8"));
  EXPECT_THAT(mistake_in("x=zeros(f32"), HasSubstr("')' is missing"));
  EXPECT_THAT(mistake_in("x=local(0)"), HasSubstr("local takes a size in bytes"));
}

TEST(ArrayComparison, CountsUlpsAcrossZeroAndTypes) {
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  EXPECT_EQ(ulps_between(ElementType::f32, bits(1), bits(std::nextafter(1.0F, 2.0F))), 1);
  EXPECT_EQ(ulps_between(ElementType::f32, bits(-0.0F), bits(0.0F)), 0);
  EXPECT_EQ(ulps_between(ElementType::f32, 0x80000001U, 0x00000001U), 2);
  EXPECT_EQ(ulps_between(ElementType::f16, 0x3C00U, 0x3C03U), 3);
  EXPECT_EQ(ulps_between(ElementType::i8, ~std::uint64_t{0}, 1), 2);
  EXPECT_EQ(ulps_between(ElementType::u64, ~std::uint64_t{0}, 0), std::ldexp(1.0, 64));
}

TEST(ArrayComparison, FindsTheWorstElementAndCountsThoseAboveTolerance) {
  HostArray got = array_of_spec("range(f32,2x3,1)");
  const HostArray wanted = got;
  EXPECT_EQ(compare(got, wanted, {}, "y").worst, -1);
  got.set_bits(1, got.bits(1) + 3);
  got.set_bits(5, got.bits(5) + 8);
  const ArrayComparison strict = compare(got, wanted, {}, "y");
  EXPECT_EQ(strict.bad, 2);
  EXPECT_EQ(strict.first_bad, 1);
  EXPECT_EQ(strict.max_ulp, 8);
  const ArrayComparison loose = compare(got, wanted, {.atol = {}, .rtol = {}, .ulp = 4}, "y");
  EXPECT_EQ(loose.bad, 1);
  EXPECT_EQ(place_text(got.shape, loose.worst), "[1, 2]");
  EXPECT_EQ(compare(got, wanted, {.atol = {}, .rtol = 1e-6, .ulp = {}}, "y").bad, 0);
}

TEST(ArrayComparison, TakesNanForNanAndForNothingElse) {
  const HostArray nan = array_of_spec("const(f32,1,nan)"), one = array_of_spec("const(f32,1,1)");
  const HostArray infinite = array_of_spec("const(f32,1,inf)");
  const Tolerance loose{.atol = 1e30, .rtol = {}, .ulp = {}};
  EXPECT_EQ(compare(nan, nan, {}, "y").bad, 0);
  EXPECT_EQ(compare(nan, one, loose, "y").bad, 1);
  EXPECT_EQ(compare(one, nan, loose, "y").bad, 1);
  EXPECT_EQ(compare(infinite, infinite, {}, "y").bad, 0);
  EXPECT_EQ(compare(infinite, one, loose, "y").bad, 1);
}

TEST(ArrayComparison, RefusesOtherShapesAndTypes) {
  const HostArray four = array_of_spec("zeros(f32,4)");
  EXPECT_THROW(compare(four, array_of_spec("zeros(f32,2x2)"), {}, "y"), UsageError);
  EXPECT_THROW(compare(four, array_of_spec("zeros(i32,4)"), {}, "y"), UsageError);
  EXPECT_EQ(
      compare(array_of_spec("const(f16,4,0.5)"), array_of_spec("const(f64,4,0.5)"), {}, "y").bad,
      0);
}

TEST(Pictures, ShowSmallArraysInFullAndTheEdgesOfLargeOnes) {
  EXPECT_EQ(picture_of(array_of_spec("range(i32,2x3)")), "[[0 1 2]\n [3 4 5]]");
  EXPECT_EQ(picture_of(array_of_spec("range(i32,100)")), "[ 0  1  2 ... 97 98 99]");
  EXPECT_EQ(picture_of(array_of_spec("range(i32,9)")), "[0 1 2 3 4 5 6 7\n 8]");
}

TEST(Pictures, ShowThePartThatIsNamed) {
  const HostArray array = array_of_spec("range(i32,3x4)");
  EXPECT_EQ(picture_of(part_of(array, "1")), "[4 5 6 7]");
  EXPECT_EQ(picture_of(part_of(array, "1:,:2")), "[[4 5]\n [8 9]]");
  EXPECT_EQ(picture_of(part_of(array, "2,3")), "11");
  EXPECT_THROW(part_of(array, "3"), UsageError);
  EXPECT_THROW(part_of(array, "0:5"), UsageError);
  EXPECT_THROW(part_of(array, "0,0,0"), UsageError);
}

}  // namespace
}  // namespace clora

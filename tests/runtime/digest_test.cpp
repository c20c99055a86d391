#include "clora/runtime/files/digest.hpp"

#include <gtest/gtest.h>

#include <string>

namespace clora {
namespace {

TEST(Digests, OfPiecesAreThoseOfTheWholeText) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += static_cast<char>('a' + i * i % 26);
  for (const std::size_t piece : {1U, 7U, 64U, 1000U, 3000U}) {
    DigestStream stream;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      stream.add(std::as_bytes(std::span(text).subspan(at, std::min(piece, text.size() - at))));
    }
    EXPECT_EQ(stream.digest(), digest_of(text)) << "pieces of " << piece;
  }
  EXPECT_EQ(DigestStream().digest(), digest_of(std::string_view()));
}

}  // namespace
}  // namespace clora

// Pickles of plain data, as Python and PyTorch write them, and what must be refused.
#include <gtest/gtest.h>

#include <string>

#include "src/base/prng.h"
#include "src/base/words.h"
#include "src/health/pickle.h"

namespace tutti::health {
namespace {

using topology::JsonValue;

std::string bytes_of(const char* hex) { return from_hex(hex).value(); }

// pickle.dumps({"a": [1, -2, 300, 70000, 2**40, 1.5, True, None, (1, 2)], 3: "x"}, protocol=2)
constexpr const char* kProtocol2 =
    "80027d7100285801000000617101"
    "5d7102284b014afeffffff4d2c014a701101008a0600000000000147"
    "3ff8000000000000884e4b014b0286710365"
    "4b03580100000078710475"
    "2e";

TEST(PickleTest, ReadsPlainData) {
  const auto read = read_pickle(bytes_of(kProtocol2));
  ASSERT_TRUE(read.ok()) << read.status().message();
  const JsonValue& list = *read.value().find("a");
  ASSERT_EQ(list.items.size(), 9u);
  EXPECT_EQ(list.items[1].number, -2);
  EXPECT_EQ(list.items[3].number, 70000);
  EXPECT_EQ(list.items[4].number, 1099511627776.0);
  EXPECT_EQ(list.items[5].number, 1.5);
  EXPECT_EQ(list.items[6].type, JsonValue::Type::kBoolean);
  EXPECT_EQ(list.items[8].items[1].number, 2);
  EXPECT_EQ(read.value().find("3")->text, "x");
}

// A list of whole numbers as PyTorch's pickler writes it, which names a function.
TEST(PickleTest, TakesPyTorchsTypedLists) {
  std::string bytes = "\x80\x02";
  bytes += "ctorch.jit._pickle\nbuild_intlist\n(]q";
  bytes += '\0';
  bytes += "(K\x05K\x07";
  bytes += "etR.";
  const auto read = read_pickle(bytes);
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read.value().items.size(), 2u);
  EXPECT_EQ(read.value().items[1].number, 7);
}

TEST(PickleTest, ExecutesNothing) {
  const std::string evil =
      "\x80\x02"
      "cos\nsystem\n(X\x02" +
      std::string(3, '\0') + "lstR.";
  const auto read = read_pickle(evil);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.status().message().find("os.system"), std::string::npos);
}

TEST(PickleTest, RefusesWhatIsCutOffOrHoldsItself) {
  const std::string whole = bytes_of(kProtocol2);
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(read_pickle(whole.substr(0, length)).ok()) << length;
  }
  std::string itself = "\x80\x02]q";
  itself += '\0';
  itself += "h";
  itself += '\0';
  itself += "a.";
  EXPECT_FALSE(read_pickle(itself).ok());
}

TEST(PickleTest, EndsForAnyBytes) {
  Prng random(4);
  const std::string whole = bytes_of(kProtocol2);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = whole;
    for (uint64_t n = 1 + random.below(4); n > 0; --n) {
      bytes[random.below(bytes.size())] = static_cast<char>(random());
    }
    (void)read_pickle(bytes).ok();
  }
}

}  // namespace
}  // namespace tutti::health

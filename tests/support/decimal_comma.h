// A locale whose numbers have a comma, as in most of Europe: bare systems have none installed.
#pragma once

#include <stdlib.h>

#include <array>
#include <clocale>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <locale>
#include <string>
#include <vector>

namespace tutti::testing_support {

/// While it lives, printf, strtod and streams write and read "1.234,5" in all threads.
class DecimalComma {
 public:
  DecimalComma() {
    std::string pattern = "/tmp/tutti-locale-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    std::filesystem::create_directory(folder_ + "/comma");
    write_numbers(folder_ + "/comma/LC_NUMERIC");
    setenv("LOCPATH", folder_.c_str(), 1);
    is_set_ = setlocale(LC_NUMERIC, "comma") != nullptr && writes_commas();
    before_ = std::locale::global(std::locale(std::locale::classic(), new Comma));
    if (is_set_) setlocale(LC_NUMERIC, "comma");  // which the line above has ended
  }
  DecimalComma(const DecimalComma&) = delete;
  DecimalComma& operator=(const DecimalComma&) = delete;
  ~DecimalComma() {
    std::locale::global(before_);
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
    std::filesystem::remove_all(folder_);
  }

  /// False: the C library is not glibc, or has another form of these files.
  bool is_set() const { return is_set_; }

 private:
  struct Comma final : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };

  static bool writes_commas() {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "%.1f", 0.5);
    return std::strcmp(text.data(), "0,5") == 0;
  }

  // glibc's form: a mark of the category, the number of items, the place of each, and the items.
  static void write_numbers(const std::string& path) {
    constexpr uint32_t kMark = 0x20031115 ^ LC_NUMERIC;
    const std::string wide_comma("\x2c\0\0\0", 4), wide_point("\x2e\0\0\0", 4);
    const std::vector<std::string> items = {std::string(",\0", 2),
                                            std::string(".\0", 2),
                                            std::string("\3\0", 2),
                                            wide_comma,
                                            wide_point,
                                            std::string("UTF-8\0", 6)};
    std::vector<uint32_t> words = {kMark, static_cast<uint32_t>(items.size())};
    std::string text;
    for (const std::string& item : items) {
      words.push_back(static_cast<uint32_t>((2 + items.size()) * sizeof words[0] + text.size()));
      text += item;
      text.resize((text.size() + 3) / 4 * 4);
    }
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(words.data()),
               static_cast<std::streamsize>(words.size() * sizeof words[0]));
    file << text;
  }

  std::string folder_;
  std::locale before_;
  bool is_set_ = false;
};

}  // namespace tutti::testing_support

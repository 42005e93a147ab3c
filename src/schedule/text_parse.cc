// parse(): one line at a time, one token at a time, nothing is looked at twice.

#include <charconv>
#include <optional>
#include <utility>

#include "src/schedule/builder.h"
#include "src/schedule/text.h"

namespace tutti::schedule {
namespace {

constexpr uint64_t kMaxIndex = (1u << 30) - 1;

// The rest of a line. Tokens are words, numbers and single punctuation marks; spaces only separate
// them.
class Cursor {
 public:
  Cursor(std::string_view line, size_t number) : line_(line), number_(number) { skip(); }

  bool at_end() const { return position_ == line_.size(); }

  bool take(std::string_view token) {
    if (line_.substr(position_, token.size()) != token) return false;
    const size_t end = position_ + token.size();
    // A word must not be the beginning of a longer one.
    if (is_letter(token.back()) && end < line_.size() && is_letter(line_[end])) return false;
    position_ = end;
    skip();
    return true;
  }

  std::optional<uint64_t> number(uint64_t limit) {
    uint64_t value = 0;
    const char* begin = line_.data() + position_;
    const auto [end, error] = std::from_chars(begin, line_.data() + line_.size(), value);
    if (error != std::errc() || value > limit) return std::nullopt;
    position_ += static_cast<size_t>(end - begin);
    skip();
    return value;
  }

  Status error(const std::string& what) const {
    return Status::invalid_argument("line " + std::to_string(number_) + ", column " +
                                    std::to_string(position_ + 1) + ": " + what);
  }
  Status expected(const std::string& what) const { return error("expected " + what); }

 private:
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }
  void skip() {
    while (position_ < line_.size() && (line_[position_] == ' ' || line_[position_] == '\t')) {
      ++position_;
    }
  }

  std::string_view line_;
  size_t number_;
  size_t position_ = 0;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<ScheduleSet> run() {
    for (size_t number = 1; !text_.empty(); ++number) {
      const size_t end = std::min(text_.find('\n'), text_.size());
      std::string_view line = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      line = line.substr(0, line.find('#'));
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      Cursor cursor(line, number);
      if (cursor.at_end()) continue;
      if (Status s = parse_line(cursor); !s.ok()) return s;
      if (!cursor.at_end()) return cursor.expected("the end of the line");
      if (words_ > kMaxTextWords) return cursor.error("the schedules are too large");
    }
    finish_rank();
    if (next_header_ < kHeaderLines) {
      return Status::invalid_argument("the text ends before its '" +
                                      std::string(kHeader[next_header_]) + "' line");
    }
    return std::move(set_);
  }

 private:
  static constexpr size_t kHeaderLines = 7;
  static constexpr std::string_view kHeader[kHeaderLines] = {
      "tutti-schedule", "collective", "ranks", "root", "lanes", "input", "output"};

  Status parse_line(Cursor& cursor) {
    if (next_header_ < kHeaderLines) {
      const std::string_view name = kHeader[next_header_];
      if (!cursor.take(name)) return cursor.expected("'" + std::string(name) + "'");
      return parse_header(cursor, next_header_++);
    }
    if (cursor.take("rank")) return parse_rank(cursor);
    if (!builder_) return cursor.expected("'rank'");
    if (cursor.take("scratch")) return parse_scratch(cursor);
    return parse_step(cursor);
  }

  Status parse_header(Cursor& cursor, size_t header) {
    Shape& shape = set_.shape;
    switch (header) {
      case 0:
        return cursor.number(1) == 1 ? Status() : cursor.expected("version 1");
      case 1:
        return parse_collective(cursor);
      case 2:
        return parse_number(cursor, 0x7fffffff, shape.ranks);
      case 3:
        return parse_number(cursor, 0x7fffffff, shape.root);
      case 4:
        return parse_number(cursor, 0xffff, shape.lanes);
      case 5:
        return parse_partition(cursor, shape.input);
      default:
        return parse_partition(cursor, shape.output);
    }
  }

  template <class Number>
  Status parse_number(Cursor& cursor, uint64_t limit, Number& result) {
    const auto number = cursor.number(limit);
    if (!number) return cursor.expected("a number of at most " + std::to_string(limit));
    result = static_cast<Number>(*number);
    return {};
  }

  Status parse_collective(Cursor& cursor) {
    for (int i = 0; i < kCollectives; ++i) {
      const auto collective = static_cast<Collective>(i);
      if (!cursor.take(name_of(collective))) continue;
      set_.shape.collective = collective;
      return {};
    }
    return cursor.expected("the name of a collective");
  }

  Status parse_partition(Cursor& cursor, Partition& cut) {
    if (!cursor.take("at")) return parse_number(cursor, kMaxIndex, cut.blocks);
    do {
      Fraction bound;
      if (Status s = parse_number(cursor, ~0ull, bound.num); !s.ok()) return s;
      if (cursor.take("/")) {
        if (Status s = parse_number(cursor, ~0ull, bound.den); !s.ok()) return s;
        if (bound.den == 0) return cursor.error("a fraction has the denominator 0");
      }
      cut.bounds.push_back(Fraction::of(bound.num, bound.den));
      ++words_;
    } while (!cursor.at_end());
    cut.blocks = static_cast<uint32_t>(cut.bounds.size() - 1);
    return {};
  }

  Status parse_rank(Cursor& cursor) {
    finish_rank();
    int rank = 0;
    lanes_ = 1;
    steps_ = 0;
    if (Status s = parse_number(cursor, 0x7fffffff, rank); !s.ok()) return s;
    if (cursor.take("lanes")) {
      if (Status s = parse_number(cursor, 0xffff, lanes_); !s.ok()) return s;
    }
    builder_.emplace(rank);
    ++words_;
    return {};
  }

  void finish_rank() {
    if (!builder_) return;
    set_.schedules.push_back(std::move(*builder_).finish());
    set_.schedules.back().lanes = lanes_;
    builder_.reset();
  }

  Status parse_scratch(Cursor& cursor) {
    if (steps_ != 0) return cursor.error("'scratch' must come before the steps");
    if (Status s = parse_blocks(cursor, blocks_); !s.ok()) return s;
    for (Block like : blocks_) builder_->scratch(like);
    return {};
  }

  // [number ':'] ['lane' number] ('send' ... | 'move' ...) ['(tree)'] ['after' number {',' number}]
  Status parse_step(Cursor& cursor) {
    if (const auto number = cursor.number(~0ull)) {
      if (*number != steps_) return cursor.expected("step " + std::to_string(steps_));
      if (!cursor.take(":")) return cursor.expected("':'");
    }
    uint16_t lane = 0;
    if (cursor.take("lane")) {
      if (Status s = parse_number(cursor, 0xffff, lane); !s.ok()) return s;
      if (lane >= lanes_) return cursor.error("this rank has fewer lanes");
    }
    builder_->lane(lane);
    Status status;
    if (cursor.take("send")) {
      status = parse_send(cursor);
    } else if (cursor.take("move")) {
      status = parse_move(cursor);
    } else {
      return cursor.expected("'send' or 'move'");
    }
    if (!status.ok()) return status;
    if (cursor.take("after")) status = parse_after(cursor);
    ++steps_;
    words_ += 4;  // a step takes space too
    return status;
  }

  Status parse_send(Cursor& cursor) {
    if (Status s = parse_blocks(cursor, blocks_); !s.ok()) return s;
    if (!cursor.take("->")) return cursor.expected("'->'");
    std::vector<int> peers;
    while (!cursor.take("nobody")) {
      int peer = 0;
      if (Status s = parse_number(cursor, 0x7fffffff, peer); !s.ok()) return s;
      peers.push_back(peer);
      if (!cursor.take(",")) break;
    }
    words_ += peers.size();
    builder_->send(blocks_, peers);
    return {};
  }

  Status parse_move(Cursor& cursor) {
    if (Status s = parse_blocks(cursor, blocks_); !s.ok()) return s;
    if (!cursor.take("<-")) return cursor.expected("'<-'");
    std::vector<std::vector<Block>> lists;  // the operands view them
    std::vector<int> peers;                 // -1: a list
    while (!cursor.take("none")) {
      int peer = -1;
      std::vector<Block> list;
      if (cursor.take("message")) {
        if (Status s = parse_number(cursor, 0x7fffffff, peer); !s.ok()) return s;
      } else {
        if (Status s = parse_blocks(cursor, list); !s.ok()) return s;
        if (list.size() != blocks_.size()) {
          return cursor.error("a source of " + std::to_string(list.size()) +
                              " blocks for a target of " + std::to_string(blocks_.size()));
        }
      }
      peers.push_back(peer);
      lists.push_back(std::move(list));
      if (!cursor.take("+")) break;
    }
    std::vector<MoveSource> sources;
    for (size_t i = 0; i < peers.size(); ++i) sources.push_back({peers[i], lists[i]});
    words_ += sources.size();
    const Fold fold = cursor.take("(tree)") ? Fold::kTree : Fold::kList;
    builder_->move(blocks_, sources, fold);
    return {};
  }

  Status parse_after(Cursor& cursor) {
    do {
      uint32_t earlier = 0;
      if (Status s = parse_number(cursor, 0xffffffff, earlier); !s.ok()) return s;
      builder_->after(steps_, earlier);
      ++words_;
    } while (cursor.take(","));
    return {};
  }

  // {space '[' index [':' end] {',' index [':' end]} ']'} or 'nothing'
  Status parse_blocks(Cursor& cursor, std::vector<Block>& blocks) {
    blocks.clear();
    if (cursor.take("nothing")) return {};
    do {
      Space space = Space::kScratch;
      if (cursor.take("input")) {
        space = Space::kInput;
      } else if (cursor.take("output")) {
        space = Space::kOutput;
      } else if (!cursor.take("scratch")) {
        return cursor.expected("'input', 'output', 'scratch' or 'nothing'");
      }
      if (!cursor.take("[")) return cursor.expected("'['");
      do {
        if (Status s = parse_range(cursor, space, blocks); !s.ok()) return s;
      } while (cursor.take(","));
      if (!cursor.take("]")) return cursor.expected("',' or ']'");
    } while (starts_blocks(cursor));
    words_ += blocks.size();
    return {};
  }

  static bool starts_blocks(Cursor cursor) {  // a copy: nothing is taken from the caller's
    return cursor.take("input") || cursor.take("output") || cursor.take("scratch");
  }

  Status parse_range(Cursor& cursor, Space space, std::vector<Block>& blocks) {
    uint32_t first = 0;
    if (Status s = parse_number(cursor, kMaxIndex, first); !s.ok()) return s;
    uint32_t end = first + 1;
    if (cursor.take(":")) {
      if (Status s = parse_number(cursor, kMaxIndex + 1, end); !s.ok()) return s;
      if (end <= first) return cursor.error("the range is empty");
    }
    if (words_ + blocks.size() + (end - first) > kMaxTextWords) {
      return cursor.error("the schedules are too large");
    }
    for (uint32_t index = first; index < end; ++index) blocks.push_back(Block::of(space, index));
    return {};
  }

  std::string_view text_;
  ScheduleSet set_;
  size_t next_header_ = 0;
  std::optional<Builder> builder_;  // of the rank being read
  uint16_t lanes_ = 1;
  uint32_t steps_ = 0;
  uint64_t words_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace

Result<ScheduleSet> parse(std::string_view text) { return Parser(text).run(); }

}  // namespace tutti::schedule

#include "tutti/runtime/outer/subspace.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

constexpr double kTolerance = 1e-5;

/// Goes before the numbers of a message.
struct SubspaceWords {
  int64_t version, d, k, rows;
};

}  // namespace

Subspace::Subspace(std::vector<float> basis, int64_t d, int64_t k, int64_t version)
    : basis_(std::move(basis)), d_(d), k_(k), version_(version) {
  require(k >= 1 && k <= d, "a subspace of ", k, " of ", d,
          " dimensions; give at least 1 and at most all");
  require(std::ssize(basis_) == checked_product(d, k, "the size of a basis"), "a basis of ",
          basis_.size(), " numbers; give ", d, " rows of ", k);
  require(version >= 0, "version ", version, "; count versions from 0");
  for (int64_t a = 0; a < k; ++a) {
    for (int64_t b = a; b < k; ++b) {
      double product = 0;
      for (int64_t i = 0; i < d; ++i) {
        product += double{basis_[at(i * k + a)]} * basis_[at(i * k + b)];
      }
      require(std::fabs(product - (a == b)) <= kTolerance, "columns ", a, " and ", b,
              " of the basis have the product ", product, " instead of ", int64_t{a == b},
              "; orthonormalise the basis");
    }
  }
}

std::vector<float> Subspace::project(std::span<const float> rows) const {
  require(std::ssize(rows) % d_ == 0, rows.size(), " numbers are no rows of ", d_);
  std::vector<float> projected(rows.size() / at(d_) * at(k_), 0.0f);
  for (size_t r = 0; r < rows.size() / at(d_); ++r) {
    float* const out = projected.data() + r * at(k_);
    for (int64_t i = 0; i < d_; ++i) {
      const float x = rows[r * at(d_) + at(i)];
      for (int64_t j = 0; j < k_; ++j) out[j] += basis_[at(i * k_ + j)] * x;
    }
  }
  return projected;
}

std::vector<float> Subspace::rebuild(std::span<const float> projected) const {
  require(std::ssize(projected) % k_ == 0, projected.size(), " numbers are no rows of ", k_);
  std::vector<float> rows(projected.size() / at(k_) * at(d_), 0.0f);
  for (size_t r = 0; r < projected.size() / at(k_); ++r) {
    for (int64_t i = 0; i < d_; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < k_; ++j) {
        sum += basis_[at(i * k_ + j)] * projected[r * at(k_) + at(j)];
      }
      rows[r * at(d_) + at(i)] = sum;
    }
  }
  return rows;
}

void Subspace::send(tuttiComm_t comm, int peer, std::span<const float> rows) const {
  require(std::all_of(rows.begin(), rows.end(), [](float x) { return x - x == 0; }),
          "a row holds NaN or infinity; leave this step out");
  const std::vector<float> projected = project(rows);
  const SubspaceWords words{version_, d_, k_, std::ssize(rows) / d_};
  expect_success(tuttiSend(&words, sizeof words, tuttiUint8, peer, comm, tuttiBlocking()), comm,
                 "tuttiSend");
  expect_success(
      tuttiSend(projected.data(), projected.size(), tuttiFloat32, peer, comm, tuttiBlocking()),
      comm, "tuttiSend");
}

std::vector<float> Subspace::receive(tuttiComm_t comm, int peer, int64_t rows) const {
  require(rows >= 0, rows, " rows; give 0 or more");
  SubspaceWords theirs{};
  expect_success(tuttiRecv(&theirs, sizeof theirs, tuttiUint8, peer, comm, tuttiBlocking()), comm,
                 "tuttiRecv");
  // The numbers are received in any case, so that the next message is the next one.
  const int64_t count = checked_product(theirs.rows, theirs.k, "the size of a message");
  std::vector<float> projected(at(count));
  expect_success(
      tuttiRecv(projected.data(), projected.size(), tuttiFloat32, peer, comm, tuttiBlocking()),
      comm, "tuttiRecv");
  const bool same =
      theirs.version == version_ && theirs.d == d_ && theirs.k == k_ && theirs.rows == rows;
  if (!same) {
    throw Error(
        ErrorKind::kRanksDiffer,
        words("rank ", peer, " sent ", theirs.rows, " rows in a basis of version ", theirs.version,
              " with ", theirs.k, " of ", theirs.d, " dimensions; here ", rows, " rows in version ",
              version_, " with ", k_, " of ", d_, " are expected; bring both to one basis"),
        tuttiInvalidUsage);
  }
  return rebuild(projected);
}

}  // namespace tutti::runtime

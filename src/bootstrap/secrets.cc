#include "src/bootstrap/secrets.h"

#include <sodium.h>

namespace tutti::bootstrap {
namespace {

const uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

template <class Out>
Out derive(const transport::JobKey& key, std::string_view purpose) {
  Out out{};
  crypto_generichash(out.data(), out.size(), bytes_of(purpose), purpose.size(), key.data(),
                     key.size());
  return out;
}

}  // namespace

transport::JobKey derive_key(const transport::JobKey& key, std::string_view purpose) {
  return derive<transport::JobKey>(key, "key " + std::string(purpose));
}

JobId derive_job(const transport::JobKey& key, std::string_view purpose) {
  return derive<JobId>(key, "job " + std::string(purpose));
}

std::string new_nonce() {
  constexpr size_t kBytes = 16;
  std::string nonce(kBytes, '\0');
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::string seal(const transport::JobKey& key, std::string_view secret) {
  static_assert(sizeof(transport::JobKey) == crypto_secretbox_KEYBYTES);
  std::string sealed(crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + secret.size(), '\0');
  auto* at = reinterpret_cast<uint8_t*>(sealed.data());
  randombytes_buf(at, crypto_secretbox_NONCEBYTES);
  crypto_secretbox_easy(at + crypto_secretbox_NONCEBYTES, bytes_of(secret), secret.size(), at,
                        key.data());
  return sealed;
}

Result<std::string> open(const transport::JobKey& key, std::string_view sealed) {
  constexpr size_t kExtra = crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES;
  const Status wrong = Status::remote_error("a sealed secret was not sealed with this group's key");
  if (sealed.size() < kExtra) return wrong;
  std::string secret(sealed.size() - kExtra, '\0');
  const std::string_view box = sealed.substr(crypto_secretbox_NONCEBYTES);
  const int opened =
      crypto_secretbox_open_easy(reinterpret_cast<uint8_t*>(secret.data()), bytes_of(box),
                                 box.size(), bytes_of(sealed), key.data());
  if (opened != 0) return wrong;
  return secret;
}

}  // namespace tutti::bootstrap

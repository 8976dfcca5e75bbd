#include "io/hash.h"

#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <openssl/evp.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "base/input_error.h"
#include "io/files.h"

namespace burnish::io {

namespace {

constexpr uint64_t kBlockBytes = uint64_t{16} << 20;

/// libcrypto fails here only when memory runs out or when a build of it lacks the function.
void must(int ok) {
  if (ok != 1) throw std::runtime_error("libcrypto cannot compute a hash");
}

/// Ends a computation.
std::string hex_digest(EVP_MD_CTX* context) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  must(EVP_DigestFinal_ex(context, digest, &size));
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

/// Fills `buffer` from byte `offset` on.
void read_block(const InputFile& file, const std::filesystem::path& path, uint64_t offset, std::string& buffer) {
  for (size_t done = 0; done < buffer.size();) {
    auto n = pread(file.descriptor(), buffer.data() + done, buffer.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      data_error("io", "cannot read {} at byte {}: {}", path.string(), offset + done, n < 0 ? std::strerror(errno) : "it became shorter");
    done += static_cast<size_t>(n);
  }
}

}  // namespace

struct Sha256::Context {
  EVP_MD_CTX* handle = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(handle); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) { must(EVP_DigestInit_ex(context_->handle, EVP_sha256(), nullptr)); }

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::string_view bytes) { must(EVP_DigestUpdate(context_->handle, bytes.data(), bytes.size())); }

std::string Sha256::hex() { return hex_digest(context_->handle); }

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

std::string git_blob_hash(const std::filesystem::path& path) {
  InputFile file(path);
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  must(EVP_DigestInit_ex(context.get(), EVP_sha1(), nullptr));
  auto title = fmt::format("blob {}", file.size());
  must(EVP_DigestUpdate(context.get(), title.c_str(), title.size() + 1));
  std::string buffer;
  for (uint64_t offset = 0; offset < file.size(); offset += buffer.size()) {
    buffer.resize(std::min(kBlockBytes, file.size() - offset));
    read_block(file, path, offset, buffer);
    must(EVP_DigestUpdate(context.get(), buffer.data(), buffer.size()));
  }
  return hex_digest(context.get());
}

std::string file_hash(const std::filesystem::path& path) {
  InputFile file(path);
  const auto size = file.size();
  std::vector<std::string> digests((size + kBlockBytes - 1) / kBlockBytes);
  at::parallel_for(0, std::ssize(digests), 1, [&](int64_t from, int64_t to) {
    std::string buffer;
    for (auto i = static_cast<uint64_t>(from); i < static_cast<uint64_t>(to); ++i) {
      auto offset = i * kBlockBytes;
      buffer.resize(std::min(kBlockBytes, size - offset));
      read_block(file, path, offset, buffer);
      digests[i] = sha256(buffer);
    }
  });
  Sha256 all;
  for (const auto& digest : digests) all.update(digest);
  return all.hex();
}

std::string sampled_hash(const std::filesystem::path& path) {
  constexpr uint64_t kNumBlocks = 16, kBytes = 64 << 10;
  InputFile file(path);
  Sha256 all;
  all.update(std::to_string(file.size()));
  std::string buffer(std::min(kBytes, file.size()), 0);
  auto last = file.size() - buffer.size();
  for (uint64_t i = 0; i < kNumBlocks; ++i) {
    read_block(file, path, last / (kNumBlocks - 1) * i, buffer);
    all.update(buffer);
  }
  return all.hex();
}

uint64_t xxh64(std::string_view bytes, uint64_t seed) { return XXH64(bytes.data(), bytes.size(), seed); }

uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < table.size(); ++i) {
      table[i] = i;
      for (int bit = 0; bit < 8; ++bit) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0x82F63B78u : 0);  // the polynomial, bits reversed
    }
    return table;
  }();
  uint32_t crc = 0xFFFFFFFFu;
  for (char c : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

}  // namespace burnish::io

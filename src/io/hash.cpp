#include "io/hash.h"

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace burnish::io {

namespace {

constexpr std::array<uint32_t, 64> kRound{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr uint64_t kBlockBytes = uint64_t{16} << 20;

uint32_t big_endian(const unsigned char* p) { return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]}; }

template <class T>
T load(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

}  // namespace

Sha256::Sha256() : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}, pending_{} {}

void Sha256::block(const unsigned char* bytes) {
  uint32_t w[64];
  for (size_t i = 0; i < 16; ++i) w[i] = big_endian(bytes + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    auto s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    auto s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t i = 0; i < 64; ++i) {
    auto t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    auto t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  uint32_t sums[8] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += sums[i];
}

void Sha256::update(std::string_view bytes) {
  const auto* p = reinterpret_cast<const unsigned char*>(bytes.data());
  auto left = bytes.size();
  num_bytes_ += left;
  while (left > 0) {
    if (num_pending_ == 0 && left >= 64) {
      block(p);
      p += 64, left -= 64;
      continue;
    }
    auto count = std::min(left, 64 - num_pending_);
    std::memcpy(pending_.data() + num_pending_, p, count);
    p += count, left -= count, num_pending_ += count;
    if (num_pending_ == 64) {
      block(pending_.data());
      num_pending_ = 0;
    }
  }
}

std::string Sha256::hex() {
  auto num_bits = num_bytes_ * 8;
  std::string end(1, '\x80');
  end.resize(1 + (119 - num_pending_) % 64, '\0');
  for (int shift = 56; shift >= 0; shift -= 8) end.push_back(static_cast<char>(num_bits >> shift));
  update(end);
  std::string text;
  for (auto word : state_) text += fmt::format("{:08x}", word);
  return text;
}

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

std::string file_hash(const std::filesystem::path& path) {
  struct Descriptor {
    int fd;
    ~Descriptor() {
      if (fd >= 0) close(fd);
    }
  } file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat status {};
  if (file.fd < 0 || fstat(file.fd, &status) != 0) data_error("io", "cannot read {}: {}", path.string(), std::strerror(errno));
  auto size = static_cast<uint64_t>(status.st_size);
  std::vector<std::string> digests((size + kBlockBytes - 1) / kBlockBytes);
  at::parallel_for(0, std::ssize(digests), 1, [&](int64_t from, int64_t to) {
    std::string buffer;
    for (auto i = static_cast<uint64_t>(from); i < static_cast<uint64_t>(to); ++i) {
      auto offset = i * kBlockBytes;
      buffer.resize(std::min(kBlockBytes, size - offset));
      for (size_t done = 0; done < buffer.size();) {
        auto n = pread(file.fd, buffer.data() + done, buffer.size() - done, static_cast<off_t>(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
          data_error("io", "cannot read {} at byte {}: {}", path.string(), offset + done,
                     n < 0 ? std::strerror(errno) : "it became shorter");
        done += static_cast<size_t>(n);
      }
      digests[i] = sha256(buffer);
    }
  });
  Sha256 all;
  for (const auto& digest : digests) all.update(digest);
  return all.hex();
}

uint64_t xxh64(std::string_view bytes, uint64_t seed) {
  constexpr uint64_t p1 = 0x9E3779B185EBCA87ull, p2 = 0xC2B2AE3D27D4EB4Full, p3 = 0x165667B19E3779F9ull, p4 = 0x85EBCA77C2B2AE63ull,
                     p5 = 0x27D4EB2F165667C5ull;
  auto round = [](uint64_t lane, uint64_t input) { return std::rotl(lane + input * p2, 31) * p1; };
  const char* at = bytes.data();
  const char* end = at + bytes.size();
  uint64_t hash = seed + p5;
  if (bytes.size() >= 32) {
    uint64_t lanes[4] = {seed + p1 + p2, seed + p2, seed, seed - p1};
    for (; end - at >= 32; at += 32) {
      for (int i = 0; i < 4; ++i) lanes[i] = round(lanes[i], load<uint64_t>(at + 8 * i));
    }
    hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
    for (auto lane : lanes) hash = (hash ^ round(0, lane)) * p1 + p4;
  }
  hash += bytes.size();
  for (; end - at >= 8; at += 8) hash = std::rotl(hash ^ round(0, load<uint64_t>(at)), 27) * p1 + p4;
  if (end - at >= 4) {
    hash = std::rotl(hash ^ load<uint32_t>(at) * p1, 23) * p2 + p3;
    at += 4;
  }
  for (; at < end; ++at) hash = std::rotl(hash ^ static_cast<unsigned char>(*at) * p5, 11) * p1;
  hash = (hash ^ (hash >> 33)) * p2;
  hash = (hash ^ (hash >> 29)) * p3;
  return hash ^ (hash >> 32);
}

}  // namespace burnish::io

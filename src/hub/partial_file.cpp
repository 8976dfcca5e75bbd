#include "hub/partial_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/text.h"
#include "io/files.h"

namespace burnish::hub {

namespace fs = std::filesystem;

PartialFile::PartialFile(fs::path path) : path_(std::move(path)) {
  std::error_code ignored;
  fs::create_directories(path_.parent_path(), ignored);
  for (bool said = false; !open_locked(); said = true) {
    if (!said) info("waiting for another process that fetches {}", path_.string());
    if (interrupted()) throw Error(Exit::interrupted, "hub", "interrupted while another process fetches " + path_.string());
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  read_what_is_there();
}

PartialFile::~PartialFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

/// False while another process holds it, or gave it its final name meanwhile.
bool PartialFile::open_locked() {
  descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, io::kFileMode);
  if (descriptor_ < 0) fail("create");
  bool locked = flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;  // file systems without locks refuse nobody
  struct stat here {
  }, there{};
  if (locked && fstat(descriptor_, &here) == 0 && stat(path_.c_str(), &there) == 0 && here.st_ino == there.st_ino) return true;
  close(descriptor_);
  descriptor_ = -1;
  return false;
}

void PartialFile::read_what_is_there() {
  std::array<char, 1 << 16> part;
  while (true) {
    auto n = ::read(descriptor_, part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read");
    if (n == 0) return;
    hash_.update({part.data(), static_cast<size_t>(n)});
    size_ += n;
  }
}

void PartialFile::fail(const char* action) const {
  data_error("hub",
             "cannot {} {}: {} (after {}); make room, or name another folder in HF_HUB_CACHE, MODELSCOPE_CACHE or "
             "DIFFSYNTH_MODEL_BASE_PATH",
             action, path_.string(), std::strerror(errno), human_bytes(static_cast<double>(size_)));
}

void PartialFile::append(const char* bytes, size_t count) {
  hash_.update({bytes, count});
  while (count > 0) {
    auto n = ::write(descriptor_, bytes, count);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("write");
    bytes += n;
    count -= static_cast<size_t>(n);
    size_ += n;
  }
}

void PartialFile::restart() {
  if (ftruncate(descriptor_, 0) != 0) fail("empty");
  size_ = 0;
  hash_ = io::Sha256();
}

void PartialFile::commit(const fs::path& target) {
  if (fsync(descriptor_) != 0) fail("write");
  if (rename(path_.c_str(), target.c_str()) != 0) fail("name");
}

void PartialFile::remove() { unlink(path_.c_str()); }

}  // namespace burnish::hub

#include "records/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/input_error.h"
#include "io/files.h"

namespace burnish::records {

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code ignored;
  if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path(), ignored);
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, io::kFileMode);
  if (descriptor_ < 0) fail();
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void AppendFile::fail() const {
  data_error("records", "cannot write {}: {}; the last saved state is intact, go on with --resume once there is room", path_.string(),
             std::strerror(errno));
}

void AppendFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    auto n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail();
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace burnish::records

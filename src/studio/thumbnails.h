#pragma once
#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <string>

namespace burnish::studio {

/// Pictures, first frames of clips, and masks made small, which are kept as files in a folder. Few are made at once, so that memory is
/// bounded.
class Thumbnails {
 public:
  /// Longest sides of pictures on a page: among many, and alone.
  static constexpr int64_t kAmongMany = 320, kAlone = 1280;

  explicit Thumbnails(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// At most `side` pixels wide and high, as a WebP file's bytes. A data Error where it cannot be read.
  std::string picture(const std::filesystem::path& file, int64_t side);
  /// Decodes it for somebody who looks at its pixels, uint8 [H, W, 3], at most `side` wide and high, and keeps the picture that pages show
  /// among many.
  at::Tensor decoded(const std::filesystem::path& file, int64_t side);
  /// A mask, as a gray PNG file's bytes.
  std::string mask(const std::filesystem::path& file, int64_t side);

 private:
  static constexpr std::ptrdiff_t kMostAtOnce = 4;
  /// Makes what is not there; one of several who ask for it does.
  void ensure(const std::filesystem::path& place, const std::function<void(const std::filesystem::path& to)>& make);
  /// The file that is kept of it.
  std::filesystem::path place_of(const std::filesystem::path& file, int64_t side, const std::string& ending) const;
  /// What is kept of it, or is made now.
  std::string kept(const std::filesystem::path& file, int64_t side, const std::string& ending,
                   const std::function<void(const std::filesystem::path& to)>& make);

  std::filesystem::path folder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::filesystem::path> made_now_;
};

}  // namespace burnish::studio

#include "studio/thumbnails.h"

#include <ATen/core/Tensor.h>
#include <fmt/core.h>

#include <system_error>

#include "data/clip.h"
#include "data/image.h"
#include "data/resize.h"
#include "io/files.h"
#include "io/hash.h"

namespace burnish::studio {

namespace fs = std::filesystem;

namespace {

constexpr float kQuality = 80;

at::Tensor made_small(const at::Tensor& pixels_HWC, int64_t side) {
  return data::resize_and_crop(pixels_HWC, data::within({pixels_HWC.size(0), pixels_HWC.size(1)}, side));
}

at::Tensor small_picture(const fs::path& file, int64_t side) {
  if (data::is_video(file)) return made_small(data::decode_frames(file, {{0, 1}})[0], side);
  const auto size = data::image_size(file);
  return data::decode_and_crop(file, size, data::centre_crop(size, data::within(size, side)));
}

void write(const fs::path& to, const at::Tensor& pixels_HW3) { io::write_text_atomic(to, data::encode_webp(pixels_HW3, kQuality)); }

/// A place among those who decode at once.
template <std::ptrdiff_t most>
class Place {
 public:
  explicit Place(std::counting_semaphore<most>& free) : free_(free) { free_.acquire(); }
  ~Place() { free_.release(); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  std::counting_semaphore<most>& free_;
};

}  // namespace

std::string Thumbnails::picture(const fs::path& file, int64_t side) {
  return kept(file, side, ".webp", [&](const fs::path& to) { write(to, small_picture(file, side)); });
}

at::Tensor Thumbnails::decoded(const fs::path& file, int64_t side) {
  const Place place_taken(free_);
  auto pixels_HW3 = small_picture(file, side);
  if (const auto to = place(file, kAmongMany, ".webp"); !io::is_there(to)) write(to, made_small(pixels_HW3, kAmongMany));
  return pixels_HW3;
}

std::string Thumbnails::mask(const fs::path& file, int64_t side) {
  return kept(file, side, ".png", [&](const fs::path& to) { data::write_png(to, made_small(data::decode_gray(file), side)); });
}

fs::path Thumbnails::place(const fs::path& file, int64_t side, const std::string& ending) const {
  std::error_code error;
  const auto time = fs::last_write_time(file, error).time_since_epoch().count();
  fs::create_directories(folder_, error);
  return folder_ / (io::sha256(fmt::format("{} {} {}", file.string(), time, side)).substr(0, 32) + ending);
}

std::string Thumbnails::kept(const fs::path& file, int64_t side, const std::string& ending,
                             const std::function<void(const fs::path& to)>& make) {
  const auto path = place(file, side, ending);
  if (!io::is_there(path)) {
    const Place place_taken(free_);
    make(path);
  }
  return io::read_text(path);
}

}  // namespace burnish::studio

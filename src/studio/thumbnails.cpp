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

}  // namespace

std::string Thumbnails::picture(const fs::path& file, int64_t side) {
  return kept(file, side, ".webp", [&](const fs::path& to) { write(to, small_picture(file, side)); });
}

at::Tensor Thumbnails::decoded(const fs::path& file, int64_t side) {
  const auto place = place_of(file, kAmongMany, ".webp");
  at::Tensor pixels_HW3;
  ensure(place, [&](const fs::path& to) {
    pixels_HW3 = small_picture(file, side);
    write(to, made_small(pixels_HW3, kAmongMany));
  });
  return pixels_HW3.defined() ? pixels_HW3 : small_picture(file, side);
}

std::string Thumbnails::mask(const fs::path& file, int64_t side) {
  return kept(file, side, ".png", [&](const fs::path& to) { data::write_png(to, made_small(data::decode_gray(file), side)); });
}

fs::path Thumbnails::place_of(const fs::path& file, int64_t side, const std::string& ending) const {
  std::error_code error;
  const auto time = fs::last_write_time(file, error).time_since_epoch().count();
  fs::create_directories(folder_, error);
  return folder_ / (io::sha256(fmt::format("{} {} {}", file.string(), time, side)).substr(0, 32) + ending);
}

void Thumbnails::ensure(const fs::path& place, const std::function<void(const fs::path& to)>& make) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !made_now_.contains(place) && (std::ssize(made_now_) < kMostAtOnce || io::is_there(place)); });
  if (io::is_there(place)) return;
  made_now_.insert(place);
  lock.unlock();
  auto end = [&] {
    lock.lock();
    made_now_.erase(place);
    changed_.notify_all();
  };
  try {
    make(place);
  } catch (...) {
    end();
    throw;
  }
  end();
}

std::string Thumbnails::kept(const fs::path& file, int64_t side, const std::string& ending,
                             const std::function<void(const fs::path& to)>& make) {
  const auto place = place_of(file, side, ending);
  ensure(place, make);
  return io::read_text(place);
}

}  // namespace burnish::studio

#include "data/frame_folder.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <vector>

#include "base/input_error.h"
#include "data/frame_files.h"
#include "data/image.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

class FolderFrames : public ClipFrames {
 public:
  explicit FolderFrames(std::vector<fs::path> files) : files_(std::move(files)), frame_HW3_(decode_image(files_.front())) {}
  bool next() override {
    if (next_ == std::ssize(files_)) return false;
    const auto& file = files_[static_cast<size_t>(next_++)];
    const auto height = this->height(), width = this->width();
    frame_HW3_ = decode_image(file).contiguous();
    if (frame_HW3_.size(0) != height || frame_HW3_.size(1) != width)
      data_error("data", "the frame {} is {} by {} pixels, and the first one of its folder {} by {}; frames of a clip have one size",
                 file.string(), frame_HW3_.size(1), frame_HW3_.size(0), width, height);
    return true;
  }
  bool skip_to(const Fraction& time) override {
    next_ = std::clamp(time.num / time.den, next_, std::ssize(files_));
    return true;
  }
  bool has_times() const override { return false; }
  Fraction tick() const override { return {1, 1}; }
  int64_t end() const override { return next_; }
  int64_t height() const override { return frame_HW3_.size(0); }
  int64_t width() const override { return frame_HW3_.size(1); }
  void write_pixels(uint8_t* to_HW3) override { std::copy_n(frame_HW3_.const_data_ptr<uint8_t>(), frame_HW3_.numel(), to_HW3); }
  void write_alpha(uint8_t* to_HW) override {
    auto alpha_HW1 = decode_alpha(files_[static_cast<size_t>(next_ - 1)]);
    std::copy_n(alpha_HW1.const_data_ptr<uint8_t>(), alpha_HW1.numel(), to_HW);
  }

 private:
  std::vector<fs::path> files_;
  at::Tensor frame_HW3_;
  int64_t next_ = 0;
};

}  // namespace

std::unique_ptr<ClipFrames> open_frame_folder(const fs::path& folder) {
  auto files = frame_files(folder);
  if (files.empty())
    data_error("data", "the folder {} is to be a clip, and holds no picture; put its frames there, 0001.png and so on", folder.string());
  return std::make_unique<FolderFrames>(std::move(files));
}

}  // namespace burnish::data

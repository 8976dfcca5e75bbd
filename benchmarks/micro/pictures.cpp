// What the data room does to a picture: a 2000x1500 JPEG to 1024x1024, on one thread as one sample is loaded.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <benchmark/benchmark.h>
#include <jpeglib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/image.h"
#include "data/resize.h"

namespace burnish::data {
namespace {

constexpr int kWidth = 2000, kHeight = 1500;
constexpr Size kTarget{1024, 1024};

/// A temporary JPEG of quality 90 that is neither flat nor noise: waves of many lengths. Removed at the end.
class Picture {
 public:
  Picture() : path_(std::filesystem::temp_directory_path() / ("bench_micro_" + std::to_string(std::rand()) + ".jpg")) {
    auto x = at::arange(kWidth, at::kFloat).unsqueeze(0), y = at::arange(kHeight, at::kFloat).unsqueeze(1);
    std::vector<at::Tensor> channels;
    for (double k : {1.0, 1.7, 2.9}) channels.push_back((x * k / 37).sin() + (y * k / 53).cos() + (x * y * k / 9000).sin());
    write((at::stack(channels, -1) * 40 + 128).clamp(0, 255).to(at::kByte).contiguous());
  }
  ~Picture() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  void write(const at::Tensor& pixels_HW3) const {
    std::FILE* file = std::fopen(path_.c_str(), "wb");
    if (file == nullptr) throw std::runtime_error("cannot write " + path_.string());
    jpeg_compress_struct info{};
    jpeg_error_mgr errors{};
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_stdio_dest(&info, file);
    info.image_width = kWidth;
    info.image_height = kHeight;
    info.input_components = 3;
    info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, 90, TRUE);
    jpeg_start_compress(&info, TRUE);
    auto* bytes = pixels_HW3.data_ptr<uint8_t>();
    while (info.next_scanline < info.image_height) {
      JSAMPROW row = bytes + static_cast<size_t>(info.next_scanline) * kWidth * 3;
      jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    std::fclose(file);
  }
  std::filesystem::path path_;
};

void decode(benchmark::State& state) {
  const Picture picture;
  for (auto _ : state) benchmark::DoNotOptimize(decode_image(picture.path()).data_ptr());
}

void resize(benchmark::State& state) {
  const Picture picture;
  const auto pixels = decode_image(picture.path());
  for (auto _ : state) benchmark::DoNotOptimize(resize_and_crop(pixels, kTarget).data_ptr());
}

void decode_and_resize(benchmark::State& state) {
  const Picture picture;
  const Size size{kHeight, kWidth};
  const auto crop = centre_crop(size, kTarget);
  for (auto _ : state) benchmark::DoNotOptimize(to_model_range(decode_and_crop(picture.path(), size, crop)).data_ptr());
}

/// The JPEGs in the folder that BURNISH_BENCH_PICTURES names, one an iteration and all of them in turn: for benchmarks/pictures.py.
void from_folder(benchmark::State& state) {
  const auto* folder = std::getenv("BURNISH_BENCH_PICTURES");
  if (folder == nullptr) return state.SkipWithError("BURNISH_BENCH_PICTURES names no folder");
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  const Size size{kHeight, kWidth};
  const auto crop = centre_crop(size, kTarget);
  size_t next = 0;
  for (auto _ : state) benchmark::DoNotOptimize(to_model_range(decode_and_crop(files[next++ % files.size()], size, crop)).data_ptr());
}

BENCHMARK(from_folder)->Name("folder/decode_resize_normalise")->Unit(benchmark::kMillisecond)->Iterations(200);
BENCHMARK(decode)->Name("jpeg_2000x1500/decode")->Unit(benchmark::kMillisecond);
BENCHMARK(resize)->Name("jpeg_2000x1500/resize_to_1024")->Unit(benchmark::kMillisecond);
BENCHMARK(decode_and_resize)->Name("jpeg_2000x1500/decode_resize_normalise")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace burnish::data

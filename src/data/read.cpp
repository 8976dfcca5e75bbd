#include "data/read.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "base/input_error.h"
#include "data/clip.h"
#include "data/image.h"
#include "data/resize.h"
#include "data/sound.h"
#include "io/hash.h"
#include "io/safetensors.h"

namespace burnish::data {

namespace {

at::Tensor cut(const at::Tensor& pixels_HWC, const std::string& file, const CropOf& crop_of) {
  return resize_and_crop(pixels_HWC, crop_of(file, {pixels_HWC.size(0), pixels_HWC.size(1)}));
}

/// [N] of a number or a list of them, either of which may be written as text.
at::Tensor read_numbers(const Column& column, const nlohmann::json& cell, const std::string& where) {
  auto list = cell.is_string() ? nlohmann::json::parse(cell.get<std::string>(), nullptr, /*allow_exceptions=*/false) : cell;
  std::vector<float> numbers;
  for (const auto& item : list.is_array() ? list : nlohmann::json::array({list})) {
    if (!item.is_number())
      data_error("models", "{} has {} in the column '{}', and a number or a list of them was expected", where, cell.dump(), column.name);
    numbers.push_back(item.get<float>());
  }
  return at::tensor(numbers);
}

/// [N] of a file's one tensor.
at::Tensor read_tensor(const Column& column, const nlohmann::json& cell, const std::string& where) {
  auto path = cell.get<std::string>();
  if (path == column.words.example) return at::zeros({std::stoll(path)});
  auto file = io::SafetensorsFile::open(path);
  if (file->tensors().size() != 1)
    data_error("models", "{}: {} holds {} tensors, and one was expected", where, path, file->tensors().size());
  return file->tensor(file->tensors().begin()->first).to(at::kFloat).flatten();
}

}  // namespace

Pixels pixels_of(const Column& column) {
  if (column.is == Column::Is::mask) return Pixels::gray;
  return column.channels == 4 ? Pixels::layer : Pixels::colours;
}

at::Tensor read_picture(const std::string& file, Pixels pixels, const CropOf& crop_of) {
  if (pixels == Pixels::colours) return decode_and_crop(file, [&](const Size& picture) { return crop_of(file, picture); });
  if (pixels == Pixels::layer) return cut(decode_rgba(file), file, crop_of);
  return cut(pixels == Pixels::alpha ? decode_alpha(file) : decode_gray(file), file, crop_of);
}

std::vector<at::Tensor> read_pictures(const std::vector<std::string>& files, Pixels pixels, const CropOf& crop_of) {
  std::vector<at::Tensor> pictures;
  for (const auto& file : files) pictures.push_back(read_picture(file, pixels, crop_of));
  return pictures;
}

at::Tensor read_layers(const std::vector<std::string>& files, const CropOf& crop_of) {
  auto layers = read_pictures(files, Pixels::layer, crop_of);
  return layers.size() == 1 ? layers[0] : at::stack(layers);
}

at::Tensor read_frames(const std::string& file, const ClipWindow& window, Pixels pixels, const CropOf& crop_of) {
  at::Tensor frames_FHWC;
  for_frames_at(file, window.times(), pixels == Pixels::alpha, [&](int64_t k, const at::Tensor& frame) {
    auto cut_HWC = cut(pixels == Pixels::gray ? gray_of(frame) : frame, file, crop_of);
    if (k == 0) frames_FHWC = at::empty({window.count, cut_HWC.size(0), cut_HWC.size(1), cut_HWC.size(2)}, cut_HWC.options());
    frames_FHWC[k].copy_(cut_HWC);
  });
  return frames_FHWC;
}

at::Tensor silence(const Column& column, int64_t num_samples) {
  return column.channels == 1 ? at::zeros({num_samples}) : at::zeros({column.channels, num_samples});
}

at::Tensor read_sound(const Column& column, const std::string& file, const SoundWindow& window) {
  auto sound_CN = decode_sound(file, window, column.rate, column.channels, where_missing(column));
  return column.channels == 1 ? sound_CN[0] : sound_CN;
}

Cell read_value(const Column& column, const nlohmann::json& cell, const std::string& where) {
  if (column.is == Column::Is::numbers) return read_numbers(column, cell, where);
  if (column.is == Column::Is::tensor) return read_tensor(column, cell, where);
  return cell.is_string() ? cell.get<std::string>() : cell.dump();
}

std::string content_of_value(const nlohmann::json& cell) {
  auto content = "cell " + cell.dump();
  for (const auto& item : cell.is_array() ? cell : nlohmann::json::array({cell})) {
    std::error_code ignored;
    if (item.is_string() && std::filesystem::is_regular_file(item.get<std::string>(), ignored))
      content += " of " + io::file_hash(item.get<std::string>());
  }
  return content;
}

}  // namespace burnish::data

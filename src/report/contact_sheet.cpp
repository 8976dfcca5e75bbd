#include "report/contact_sheet.h"

#include <fmt/core.h>

#include <algorithm>

#include "data/image.h"
#include "data/read_row.h"
#include "data/resize.h"
#include "io/files.h"
#include "io/output_file.h"
#include "report/assets.h"
#include "report/data_url.h"
#include "report/page.h"
#include "report/strip.h"

namespace burnish::report {

namespace {

constexpr int64_t kLongestSide = 160;
constexpr float kQuality = 80;

constexpr std::string_view kSheetCss =
    "main{max-width:none;padding:1rem}"
    ".sheet{display:flex;flex-wrap:wrap;gap:12px;align-items:flex-end}"
    ".sheet figure{margin:0;width:160px}"
    ".sheet img{display:block}"
    ".sheet .strip{width:auto}"
    ".sheet .strip img{display:inline-block;margin-right:2px}"
    ".sheet figcaption{font-size:12px;max-height:4.5em;overflow:hidden;overflow-wrap:anywhere}";

/// Text as it stands in HTML, also within quotes.
std::string in_html(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

std::string thumbnail(const data::Dataset& dataset, const at::Tensor& pixels, int64_t row) {
  auto smaller = data::within(data::frame_of(dataset.extent(row)), kLongestSide);
  return data_url("image/webp", data::encode_webp(data::resize_and_crop(pixels, smaller), kQuality));
}

/// A picture, or of a clip its strip, frame by frame.
std::vector<std::string> thumbnails(const data::Dataset& dataset, int64_t row) {
  auto pixels = std::get<at::Tensor>(data::read(dataset, row, target_of(dataset.options().columns)));
  if (pixels.dim() == 3) return {thumbnail(dataset, pixels, row)};
  std::vector<std::string> strip;
  for (auto k : frames_in_strip(pixels.size(0))) strip.push_back(thumbnail(dataset, pixels[k], row));
  return strip;
}

std::string figure(const data::Dataset& dataset, int64_t row) {
  auto name = std::filesystem::path(dataset.row(row).file).filename().string();
  auto title = dataset.name_of(row) + ": " + dataset.row(row).file;
  auto images = thumbnails(dataset, row);
  std::string html = images.size() > 1 ? "<figure class=\"strip\">" : "<figure>";
  for (const auto& image : images) html += fmt::format("<img src=\"{}\" alt=\"{}\" title=\"{}\">", image, in_html(name), in_html(title));
  return html + fmt::format("<figcaption>{}</figcaption></figure>\n", in_html(dataset.row(row).prompt));
}

}  // namespace

void write_contact_sheet(const std::filesystem::path& path, const data::Dataset& dataset, const data::Survey& survey,
                         int64_t num_pictures) {
  io::check_output("data", path, ".html", is_page);
  auto html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"generator\" content=\"burnish\"><title>{} "
      "pictures</title>\n<style>{}{}</style></head>\n<body><main>\n"
      "<h1>{} pictures in {} sizes</h1>\n",
      survey.num_files, kCss, kSheetCss, survey.num_files, survey.buckets.size());
  for (const auto& bucket : survey.buckets) {
    auto shown = std::min(num_pictures, std::ssize(bucket.rows));
    html += fmt::format("<h2>{}</h2>\n<p>{} samples, {} visits and {} batches an epoch{}</p>\n<div class=\"sheet\">\n",
                        text_of(bucket.extent), bucket.rows.size(), bucket.num_visits, bucket.num_batches,
                        shown < std::ssize(bucket.rows) ? fmt::format("; the first {} of them", shown) : "");
    for (int64_t i = 0; i < shown; ++i) html += figure(dataset, bucket.rows[static_cast<size_t>(i)]);
    html += "</div>\n";
  }
  io::write_text_atomic(path, html + "</main></body></html>\n");
}

}  // namespace burnish::report

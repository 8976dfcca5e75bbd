#include "data/labelled_row.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <map>
#include <stdexcept>

namespace burnish::data {

namespace {

constexpr int64_t kGlyphHeight = 5, kGlyphWidth = 3;
/// Of a picture's height a label has this part, and its band two lines of dots more.
constexpr int64_t kLabelsAHeight = 20;

/// Glyphs as rows of three dots, an octal digit each, from above.
const std::map<char, int> kGlyphs{{'0', 075557}, {'1', 026227}, {'2', 071747}, {'3', 071717}, {'4', 055711}, {'5', 074717}, {'6', 074757},
                                  {'7', 071111}, {'8', 075757}, {'9', 075717}, {'-', 000700}, {'+', 002720}, {'.', 000002}, {'e', 075747}};

/// Blackens the dots of a glyph whose upper left corner is there, each a square of `dot` pixels.
void draw_glyph(char letter, at::Tensor band_HW3, int64_t left, int64_t dot) {
  const auto glyph = kGlyphs.find(letter);
  if (glyph == kGlyphs.end()) return;
  for (int64_t row = 0; row < kGlyphHeight; ++row) {
    for (int64_t column = 0; column < kGlyphWidth; ++column) {
      const auto bit = kGlyphWidth * (kGlyphHeight - 1 - row) + kGlyphWidth - 1 - column;
      if ((glyph->second >> bit & 1) == 0) continue;
      band_HW3.narrow(0, (row + 1) * dot, dot).narrow(1, left + column * dot, dot).zero_();
    }
  }
}

/// The band with the label in its middle.
at::Tensor band_of(const std::string& label, int64_t width, int64_t dot) {
  auto band_HW3 = at::full({(kGlyphHeight + 2) * dot, width, 3}, 255, at::kByte);
  const auto advance = (kGlyphWidth + 1) * dot;
  auto left = (width - std::ssize(label) * advance) / 2;
  for (char letter : label) {
    if (left >= 0 && left + kGlyphWidth * dot <= width) draw_glyph(letter, band_HW3, left, dot);
    left += advance;
  }
  return band_HW3;
}

}  // namespace

at::Tensor labelled_row(const std::vector<at::Tensor>& pictures_HW3, const std::vector<std::string>& labels) {
  const auto sizes = pictures_HW3.at(0).sizes();
  if (pictures_HW3.size() != labels.size() || std::ranges::any_of(pictures_HW3, [&](const auto& one) { return one.sizes() != sizes; }))
    throw std::logic_error("a row has pictures of one size, each with a label");
  int64_t longest = 1;
  for (const auto& label : labels) longest = std::max<int64_t>(longest, std::ssize(label));
  const auto widest = sizes[1] / (longest * (kGlyphWidth + 1));
  const auto dot = std::max<int64_t>(1, std::min(sizes[0] / kLabelsAHeight / kGlyphHeight, widest));
  std::vector<at::Tensor> columns;
  for (size_t i = 0; i < labels.size(); ++i) columns.push_back(at::cat({band_of(labels[i], sizes[1], dot), pictures_HW3[i]}, 0));
  return at::cat(columns, 1);
}

}  // namespace burnish::data

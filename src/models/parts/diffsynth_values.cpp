#include "models/parts/diffsynth_values.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <fmt/ranges.h>

#include "base/input_error.h"

namespace burnish::models {
namespace {

/// The one tensor of that name.
at::Tensor one(const DiffsynthValue::Find& find, const std::string& name) {
  auto found = find(name);
  if (found.size() != 1) data_error("models", "one tensor '{}' was expected, and there are {}", name, found.size());
  return found[0];
}

at::Tensor first_text(const DiffsynthValue::Find& find, const std::string& name) {
  auto text = find(name).at(0);
  if (text.dim() == 2) text = text.unsqueeze(0);
  if (text.dim() != 3 || text.size(0) != 1)
    data_error("models", "'{}' has the shape {}, and a text's is [tokens, width]", name, text.sizes().vec());
  return text;
}

std::vector<at::Tensor> pictures_in(const DiffsynthValue::Find& find, const std::string& name, const std::string& places,
                                    const FromTokens& from_tokens) {
  auto tokens = one(find, name);
  if (tokens.dim() == 2) tokens = tokens.unsqueeze(0);
  if (tokens.dim() != 3 || tokens.size(0) != 1)
    data_error("models", "'{}' has the shape {}, and tokens have [1, N, K] or [N, K]", name, tokens.sizes().vec());
  auto grids = grids_at(one(find, places));
  const auto num_places = grids.empty() ? 0 : grids.back().first + grids.back().rows * grids.back().columns;
  if (num_places != tokens.size(1))
    data_error("models", "'{}' has {} tokens, and '{}' says where {} are", name, tokens.size(1), places, num_places);
  std::vector<at::Tensor> pictures;
  for (const auto& grid : grids)
    pictures.push_back(from_tokens(tokens[0].narrow(0, grid.first, grid.rows * grid.columns), grid.rows, grid.columns).contiguous());
  return pictures;
}

}  // namespace

std::vector<TokenGrid> grids_at(const at::Tensor& places) {
  const auto width = places.dim() > 1 ? places.size(-1) : 0;
  if (width < 3)
    data_error("models", "places of tokens have the shape {}, and [N, 3] or more numbers each were expected", places.sizes().vec());
  // Large numbers may have been rounded, so only zeros are looked for.
  auto flat = places.reshape({-1, width}).to(at::kDouble).contiguous();
  const auto* numbers = flat.const_data_ptr<double>();
  std::vector<TokenGrid> grids;
  for (int64_t i = 0; i < flat.size(0); ++i) {
    const bool in_first_row = numbers[i * width + 1] == 0, in_first_column = numbers[i * width + 2] == 0;
    if (in_first_row && in_first_column) grids.push_back({.first = i});
    if (grids.empty()) data_error("models", "the places of tokens do not begin in a corner");
    auto& grid = grids.back();
    if (in_first_row) ++grid.columns;
    if (in_first_column) ++grid.rows;
  }
  for (size_t g = 0; g < grids.size(); ++g) {
    const auto end = g + 1 < grids.size() ? grids[g + 1].first : flat.size(0);
    if (grids[g].rows * grids[g].columns != end - grids[g].first)
      data_error("models", "{} places of tokens make no picture of {} rows and {} columns", end - grids[g].first, grids[g].rows,
                 grids[g].columns);
  }
  return grids;
}

DiffsynthValue picture_in_tokens(const std::string& name, const std::string& places, FromTokens from_tokens) {
  return {.name = name, .make = [=](const DiffsynthValue::Find& find) -> pipeline::Value {
            auto pictures = pictures_in(find, name, places, from_tokens);
            if (pictures.size() != 1)
              data_error("models", "'{}' says where {} pictures are, and one was expected", places, pictures.size());
            return pictures[0].unsqueeze(0);
          }};
}

DiffsynthValue references_in_tokens(const std::string& name, const std::string& places, FromTokens from_tokens) {
  return {.name = name,
          .make = [=](const DiffsynthValue::Find& find) -> pipeline::Value {
            return pipeline::TensorLists{pictures_in(find, name, places, from_tokens)};
          },
          .of_references = true};
}

DiffsynthValue references_in_list(const std::string& name) {
  return {.name = name,
          .make = [=](const DiffsynthValue::Find& find) -> pipeline::Value {
            auto pictures = find(name);
            for (auto& picture : pictures) {
              const bool is_batch = picture.dim() == 4 && picture.size(0) == 1;
              if (!is_batch && picture.dim() != 3)
                data_error("models", "'{}' has the shape {}, and latents have [1, C, H, W] or [C, H, W]", name, picture.sizes().vec());
              if (is_batch) picture = picture[0];
            }
            return pipeline::TensorLists{std::move(pictures)};
          },
          .of_references = true};
}

DiffsynthValue layers_in_batch(const std::string& name) {
  return {.name = name, .make = [=](const DiffsynthValue::Find& find) -> pipeline::Value {
            auto latents = one(find, name);
            if (latents.dim() != 4)
              data_error("models", "'{}' has the shape {}, and latents of layers have [F, C, H, W]", name, latents.sizes().vec());
            return latents.transpose(0, 1).unsqueeze(0).contiguous();
          }};
}

DiffsynthValue text_in_list(const std::string& name) {
  return {.name = name, .make = [=](const DiffsynthValue::Find& find) -> pipeline::Value { return first_text(find, name); }};
}

DiffsynthValue mask_of_text_in_list(const std::string& name) {
  return {.name = name, .make = [=](const DiffsynthValue::Find& find) -> pipeline::Value {
            auto text = first_text(find, name);
            return at::ones({1, text.size(1)}, text.options());
          }};
}

DiffsynthValue mask_of_text(const std::string& name) {
  return {.name = name, .make = [=](const DiffsynthValue::Find& find) -> pipeline::Value {
            auto text = one(find, name);
            if (text.dim() < 2 || text.size(0) != 1)
              data_error("models", "'{}' has the shape {}, and one text has [1, T] and further", name, text.sizes().vec());
            return at::ones({1, text.size(1)}, at::kFloat);
          }};
}

DiffsynthValue channels_of(const std::string& name, int64_t begin, int64_t end) {
  return {.name = name, .make = [=](const DiffsynthValue::Find& find) -> pipeline::Value {
            auto whole = one(find, name);
            const auto last = end < 0 ? whole.size(-1) : end;
            if (begin >= last || last > whole.size(-1))
              data_error("models", "'{}' has {} channels, and those from {} to {} were expected", name, whole.size(-1), begin, last);
            return whole.narrow(-1, begin, last - begin).contiguous();
          }};
}

at::Tensor one_of_cache(const DiffsynthValue::Find& find, const std::string& name, int64_t dims) {
  auto found = find(name);
  if (found.size() != 1 || found[0].dim() != dims || found[0].size(0) != 1)
    data_error("models", "one tensor '{}' of {} dimensions, the first of them 1, was expected, and the file has another", name, dims);
  return found[0];
}

}  // namespace burnish::models

#include "train/samples/check_columns.h"

#include <algorithm>

#include "base/input_error.h"
#include "base/text.h"
#include "models/model/columns.h"

namespace burnish::train {

namespace {

void check_any_mask(const data::Dataset& pictures) {
  const auto* mask = mask_of(pictures.options().columns);
  if (mask == nullptr || !mask->is_seen()) return;
  bool any = std::ranges::any_of(pictures.rows(), [&](auto row) { return pictures.row(row).further.contains(mask->name); });
  if (!any)
    data_error("train", "{}: no row names a mask in the column '{}'; name the column with --mask_column, or take masked_loss out",
               pictures.origins().front().path, mask->name);
}

/// Rows that name no first frame have that of their target.
void check_any_reference(const data::Dataset& pictures) {
  const auto* column = find_read_as(pictures.options().columns, kReferences);
  if (column == nullptr || column->fit == Column::Fit::first_frame) return;
  bool any = std::ranges::any_of(pictures.rows(), [&](auto row) {
    const auto& looked = pictures.looked(row);
    return column->is == Column::Is::references ? !looked.references.empty() : !looked.sizes.at(column->name).empty();
  });
  if (!any)
    data_error("train", "{}: no row names a reference picture in the column '{}'; name some there, or take {} out of extra_inputs",
               pictures.origins().front().path, column->name, column->name);
}

void check_fits(const Sample& sample, const std::string& column) {
  for (const auto& extent : sample.picture_extents.at(column)) {
    if (extent != Extent{1, sample.extent.height, sample.extent.width})
      data_error("train",
                 "row {}: the picture in the column '{}' is cut to {} by {} pixels and the picture that is trained to {} by {}; scale it "
                 "to the picture's size",
                 sample.number, column, extent.width, extent.height, sample.extent.width, sample.extent.height);
  }
}

/// Tells whether rows may leave a further column empty: one that a stream is made of, a sound in whose place is that of the clip, a frame
/// in whose place is one of the clip's own, or what rows have within their target.
bool may_be_empty(const Column& column, const models::LatentSpace& space) {
  const bool is_frame =
      column.is == Column::Is::pictures && column.fit == Column::Fit::as_target && models::target_of(space).is != Column::Is::picture;
  return is_frame || column.given == Column::Given::by_prompts || column.fit == Column::Fit::target ||
         std::ranges::find(space.streams, column.name, &models::LatentSpace::Stream::column) != space.streams.end();
}

void check_cell(const Sample& sample, const Column& column) {
  if (!has_column(sample, column.name))
    data_error("train", "row {} has nothing in the column '{}', which extra_inputs names; fill it in, or leave the row out", sample.number,
               column.name);
  if (column.is == Column::Is::tensor && !sample.row.cells.at(column.name).get<std::string>().ends_with(".safetensors"))
    data_error("train",
               "row {}: the column '{}' names {}, and a safetensors file with one tensor was expected; docs/train.md says how one is made",
               sample.number, column.name, sample.row.cells.at(column.name).get<std::string>());
  if (column.is == Column::Is::pictures && column.fit == Column::Fit::as_target) check_fits(sample, column.name);
}

}  // namespace

void check_any(const data::Dataset& pictures) {
  check_any_mask(pictures);
  check_any_reference(pictures);
}

void check_pictures_read(const Samples& samples, const std::string& folder) {
  for (const auto& sample : samples.list) {
    for (const auto& [column, extents] : sample.picture_extents) {
      if (!extents.empty() && find_column(samples.columns, column) == nullptr)
        config_error("train", "the cache {} was made of samples with reference pictures ({}); give the extra_inputs that it was made with",
                     folder, column);
    }
  }
}

void check_columns(const Sample& sample, const models::Model& model, const std::vector<std::string>* read_later) {
  for (const auto& column : model.names().extra_inputs) {
    const bool is_made = read_later != nullptr && !contains(*read_later, column.name);
    if ((!is_made && !may_be_empty(column, model.latent_space())) || has_column(sample, column.name)) check_cell(sample, column);
  }
  const auto columns = models::columns_of(model);
  const auto* references = find_read_as(columns, kReferences);
  if (references == nullptr || !sample.picture_extents.contains(references->name)) return;
  if (const auto why = model.names().why_too_many(std::ssize(sample.picture_extents.at(references->name))); !why.empty())
    data_error("train", "row {} has in the column '{}' {}; take some out", sample.number, references->name, why);
  const bool is_cut_alike = references->fit == Column::Fit::first_frame || references->fit == Column::Fit::as_target;
  if (is_cut_alike) check_fits(sample, references->name);
}

}  // namespace burnish::train

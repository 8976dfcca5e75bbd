#pragma once
#include "models/model/model.h"
#include "train/samples/samples.h"

namespace burnish::train {

/// Throws a data Error where no row names a mask or a reference picture in the column that says where they are: a column that is misspelled
/// must not look like samples that all count whole, or have no reference.
void check_any(const data::Dataset& pictures);

/// Throws a data Error unless a sample has what the model reads of it in further columns, of the size that it must have. Of a list, which
/// may be another program's, it has to have what later units read.
void check_columns(const Sample& sample, const models::Model& model, const std::vector<std::string>* read_later = nullptr);

/// Throws a config Error where samples of the cache in `folder` have pictures that the run does not read: it is not trained from as if they
/// had none.
void check_pictures_read(const Samples& samples, const std::string& folder);

}  // namespace burnish::train

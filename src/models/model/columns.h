#pragma once
#include "base/column.h"
#include "models/model/model.h"

namespace burnish::models {

/// Returns the columns that a model reads beside captions: its target first, then reference pictures where it reads any, then further ones.
/// Of a model of clips or layers a reference is the first frame of the target, unless it takes clips and sounds as references too; rows of
/// layers may name another one than they have.
Columns columns_of(const Model& model);

/// Returns the columns that rows of metadata have of these: all that are not given by prompts alone.
Columns columns_of_rows(Columns columns);

/// Returns what a model makes as a column.
Column target_of(const LatentSpace& space);

}  // namespace burnish::models

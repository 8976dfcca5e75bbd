#pragma once
#include <filesystem>

#include "data/metadata.h"

namespace burnish::data {

/// The rows of a Parquet file with pictures inside, as `datasets` and the Hugging Face hub have them. A column of files (binary values, or
/// structs with `bytes` and `path`; lists of those) holds whole paths through the Parquet file, `photos.parquet/00000003.png`, which
/// data/archived_files.h reads; one that is alone is also `image` where no column is called so. Other columns are JSON values. A data Error
/// for what is no Parquet file, and where Arrow's library is not there.
Metadata load_parquet(const std::filesystem::path& file);

}  // namespace burnish::data

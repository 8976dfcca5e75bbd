#pragma once
#include "foreign/table.h"

namespace burnish::foreign::of_ai_toolkit {

/// Tells settings of LTX-2, 2.3 and 2.5.
bool is_ltx(const Settings& all);

/// Carry `model.name_or_path` of it: files or a folder here, and files of a hub.
Outcome ltx_files_here(const Value& value, const Settings& all);
Outcome ltx_files_of_hub(const Value& value, const Settings& all);

/// The rows of its text encoder, files and layers.
Table ltx_rows();

}  // namespace burnish::foreign::of_ai_toolkit

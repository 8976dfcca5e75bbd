#pragma once
#include "foreign/table.h"

namespace burnish::foreign {

/// Rows of ai-toolkit's settings that say which of two experts train, and whether clips begin with a frame that is given.
Table of_ai_toolkit_experts();
/// Rows that say which frames of a file a clip has.
Table of_ai_toolkit_clips();

}  // namespace burnish::foreign

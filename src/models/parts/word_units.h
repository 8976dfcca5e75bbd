#pragma once
#include <functional>
#include <string>
#include <vector>

#include "models/model/components.h"
#include "pipeline/unit.h"

namespace burnish::models {

/// Returns the name of the unit that puts states of words in the place of an encoder's.
std::string word_unit(const std::string& encoder);

/// Makes the units that put states of words (Word::states_NE) in the place of those of an encoder in `value` [1, L, E]: the first finds the
/// places, value + "_places" [1, L], which like the encoder's states depends on the sample alone; the second puts. None where no word has
/// states. `ids_of` gives the ids of a prompt, one for each state (OneTrainer: BaseModel._apply_output_embeddings).
pipeline::Units word_units(Components& components, const std::string& encoder, const std::string& value,
                           const std::function<std::vector<int64_t>(const std::string& prompt)>& ids_of);

}  // namespace burnish::models

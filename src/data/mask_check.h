#pragma once
#include <string>
#include <vector>

#include "data/dataset.h"

namespace burnish::data {

/// Says in a sentence each, with the number of rows, what is likely to be a mistake in masks: black ones, and those that are black where
/// their picture is cut out; those of 0 and 1 in place of 0 and 255; and masks of which none is told apart from having no mask. `column`
/// may be a column that the dataset was not opened for, but keeps as a text: masks there that are not found, or are
/// not of their picture's size, are passed over. What was seen of a mask is remembered beside the dataset's checks.
std::vector<std::string> warnings_of_masks(const Dataset& dataset, const Column& column);

}  // namespace burnish::data

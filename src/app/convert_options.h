#pragma once
#include "config/fields.h"
#include "convert/options.h"

namespace burnish::app {

void fields(config::Fields& f, convert::Options& o);

}  // namespace burnish::app

#pragma once
#include "adapters/adapter_file.h"

namespace burnish::adapters {

/// Adapters as the layers of a layout have them, `path` being a layer's whole name there. Where a program has one layer and we have
/// several, an adapter that those share is written as it is, and adapters of their own are stacked to one of their ranks together, with
/// zeros for a layer that has none. Where it is the other way round, each layer gets its rows. A config Error for what cannot be stacked or
/// cut.
AdaptedList in_layout(const AdaptedList& adapted, const LayerPrefixes& names, Layout layout);

/// Whether layers share an adapter.
bool any_fused(const AdaptedList& adapted);

}  // namespace burnish::adapters

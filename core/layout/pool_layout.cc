#include "core/layout/pool_layout.h"

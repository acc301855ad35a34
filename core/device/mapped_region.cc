#include "core/device/mapped_region.h"

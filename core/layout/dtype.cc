#include "core/layout/dtype.h"

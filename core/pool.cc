#include "core/pool.h"

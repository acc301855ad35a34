#include "core/memory/memory.h"

#include "core/memory/checksum.h"

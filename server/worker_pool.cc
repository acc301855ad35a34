#include "server/worker_pool.h"

#include "server/process_table.h"

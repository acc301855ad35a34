#pragma once

namespace kvpool::bench {

// Each starts what it needs, prints its rows of the table, and ends what it started.

void RunUnary();         // Lines 1 and 3: unary calls against a bare echo.
void RunPipeline();      // Line 2: calls on a stream against a bare echo's.
void RunOpen();          // Line 13: opening a session and mapping its memory.
void RunReclaim();       // Line 14: a killed worker's blocks are given out again.
void RunResident();      // Line 15: memory of an idle daemon.
void RunInterference();  // Others' byte operations and a worker's Alloc.

// What the program is when it is run as another process of a scenario.
int HoldWorker(const char* socket, const char* pool, const char* count);
int BusyWorker(const char* worker_socket, const char* operator_socket, const char* index);

}  // namespace kvpool::bench

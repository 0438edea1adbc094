/* A process that changes its own memory: it places an area on request, or a thread changes memory all the time.
 *
 *   area where        its address, in hexadecimal
 *   area private MIB  maps private memory there and fills it
 *   area shared       maps shared memory there instead, of the same size, and the same memory at a second address
 *   area policy       has the area on one node of the machine (mbind)
 *   area gone         makes the area inaccessible
 *   area writer       begins a process that has this process's memory and its parent (CLONE_VM, CLONE_PARENT), and
 *                     writes the area without end
 *   area worker       begins a child that looks at its copy of the area without end
 *   churn KIND        begins a thread that goes on without end, with memory of its own:
 *     shared            maps private memory and then shared memory at the same address, over and over
 *     map               maps and unmaps
 *     keep              keeps what it maps for a while
 *     fork              forks children, which look at their copies of its memory and end
 *     clone             begins children that have this process's memory (CLONE_VM), write it and end
 *   churned           "ok ROUNDS", the rounds of the thread; or "bad ..." if anything was not as it had been written */
#ifndef WORKLOAD_CHURN_H
#define WORKLOAD_CHURN_H

#include <stdbool.h>

/* False when the request names nothing of the kind. */
bool churn_answer(const char *request, char *reply);

#endif

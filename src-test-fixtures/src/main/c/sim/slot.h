/* How libcuda calls the implementations of its functions: through slots, pointers in its data that a tool can change. */
#ifndef SIM_SLOT_H
#define SIM_SLOT_H

#include "machine.h"

/* Exports `name`, which calls `name##_implementation` through its slot. The slot is visible in the library, so that
 * the compiler does not treat it as constant; the result is touched, so that the call does not become a jump. */
#define EXPORT_BY_SLOT(name, parameters, ...)                          \
  CUresult (*name##_slot) parameters = name##_implementation;          \
  EXPORT CUresult name parameters {                                    \
    CUresult result = name##_slot(__VA_ARGS__);                        \
    __asm__ volatile("" : "+r"(result));                               \
    return result;                                                     \
  }

#endif

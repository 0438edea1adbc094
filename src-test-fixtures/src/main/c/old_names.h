/* Included before everything else. With _GNU_SOURCE, glibc 2.38 and later send strtol, sscanf and their like to new names
 * such as __isoc23_strtol, so a program compiled there does not start on 2.34 to 2.37. The rest needs 2.34. */
#ifndef OLD_NAMES_H
#define OLD_NAMES_H

#include <features.h>

/* by either name, before and after glibc 2.41 */
#undef __GLIBC_USE_C2X_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
#undef __GLIBC_USE_C23_STRTOL
#define __GLIBC_USE_C23_STRTOL 0

#endif

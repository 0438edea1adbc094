/* What attributes of the stages before the exec hand to the keeper. */
#ifndef KEEPER_H
#define KEEPER_H

#include <stdbool.h>

/* Both ends of the root's terminal; -1 without one. */
extern int terminal_master, terminal_slave;

/* A shell leads the session; the terminal is not the root's controlling one (or the root is in the background); the root is
 * the first process of a pid namespace. */
extern bool has_shell, is_background, has_init;

/* Executes the program that the attributes chose. Returns only if that fails. */
void execute_program(char **arguments);

/* Removes what attributes have made outside: mounts, control groups. */
void undo_outside(void);

/* Joins the control group that was made for the root, if one was. */
void enter_group(void);

#endif

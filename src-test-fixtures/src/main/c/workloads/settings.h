/* A process that sets attributes of its own which CRIU does not restore, and shows them.
 *
 *   setting NAME   sets an attribute; "impossible: ..." where the kernel has no such thing
 *     mdwe           may not map memory as writable and executable
 *     landlock       may not create symbolic links
 *     seal           seals a mapping
 *     keys           has a session keyring with a key
 *     policy         has the thread allocate memory on the first node
 *     bind           has a mapping on the first node
 *     personality    has no random addresses
 *     merge          lets KSM merge its memory
 *   share FILE     maps a file of 64 KiB as shared memory; a number in it, and its twin in private memory, are 0
 *   shared         adds one to both: "SHARED PRIVATE"
 *   sockets        makes a TCP listener, and a member of a multicast group on lo, with options of their own
 *   socket         shows these options, and whether a packet to the group is received
 *   settings       "NAME=VALUE ...": all of them, 0 for those that are not set */
#ifndef WORKLOAD_SETTINGS_H
#define WORKLOAD_SETTINGS_H

#include <stdbool.h>

/* False when the request names nothing of the kind. */
bool settings_answer(const char *request, char *reply);

#endif

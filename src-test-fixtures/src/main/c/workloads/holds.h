/* Things a process can hold that CRIU does not dump, or only when told to. */
#ifndef WORKLOAD_HOLDS_H
#define WORKLOAD_HOLDS_H

#include <stdbool.h>

/* Takes what the request names and keeps it; the reply is its descriptor, the address of its mapping, or "error: ...".
 * False when the request names nothing of the kind.
 *
 *   open FILE         opens it, for reading and writing where that is allowed
 *   map FILE          maps its first page, and closes it
 *   lock FILE         makes it and locks it (fcntl)
 *   flock FILE        makes it and locks it (flock)
 *   lease FILE        makes it and takes a lease on it
 *   deleted FILE N    makes it with N bytes and removes it
 *   sparse FILE N     the same, with a hole for bytes
 *   renamed FILE      makes it, gives it a second name, FILE.other, and removes the first
 *   tcp               a connection within this process
 *   tcp-pending       a connection that its listener has not accepted
 *   tcp-listen        a listener
 *   unix-pair         two connected UNIX sockets
 *   unix-to FILE      a stream connected to the UNIX socket of that name
 *   unix-bind FILE    a datagram socket of that name
 *   unix-send FILE    a datagram socket connected to that one
 *   sysv              System V shared memory
 *   master            the master of a pseudo terminal whose slave can be opened
 *   perf-map          the memory of a perf event, without its descriptor
 *   trace PID         traces that process
 *   halt TID          traces that thread and stops it, while this process lives
 *   many FILE N       opens it N times
 *   many-renamed FILE N    the same as renamed for N files, FILE-0 and so on
 *   many-mapped FILE N     maps it N times
 *   aio               a context for asynchronous reads and writes (io_setup)
 *   io_uring, perf, userfaultfd, eventfd, epoll, timerfd, signalfd, inotify, memfd, pidfd
 *                     what is called so */
bool hold(const char *request, char *reply);

#endif

/* What sockets with and without a peer share. */
#ifndef SOCKETS_H
#define SOCKETS_H

#include <netinet/in.h>

void set_option(int socket, int level, int name, int value);
void tell_option(int socket, const char *what, int level, int name);
int bound_socket(int type);
struct sockaddr_in address_of(int socket);
void tell_address(int socket);

#endif

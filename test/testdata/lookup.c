/* SPDX-License-Identifier: Apache-2.0 */

/* Resolves each argument by the C library, and prints its addresses, or what the library
 * says, on a line. */

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
		char text[INET6_ADDRSTRLEN];
		int error = getaddrinfo(argv[i], NULL, &hints, &found);

		if (error != 0)
			fputs(gai_strerror(error), stdout);
		for (struct addrinfo *a = error ? NULL : found; a != NULL; a = a->ai_next) {
			const void *at = a->ai_family == AF_INET6
				? (const void *)&((struct sockaddr_in6 *)a->ai_addr)->sin6_addr
				: (const void *)&((struct sockaddr_in *)a->ai_addr)->sin_addr;

			printf("%s%s", inet_ntop(a->ai_family, at, text, sizeof text), a->ai_next ? " " : "");
		}
		putchar('\n');
	}
	return 0;
}

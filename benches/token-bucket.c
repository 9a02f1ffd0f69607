/* A DNS server over UDP of exactly known speed: token-bucket ADDRESS PORT RATE. It answers RATE queries a second and drops the others
 * (never more than 10 ms of them at once). A reply is the query with the bit QR set. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))}, peer;
    int fd = socket(AF_INET, SOCK_DGRAM, 0), size = 256 << 10;
    /* A longer queue would be answered after the end of a load, which counts these answers too. */
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    if (inet_pton(AF_INET, argv[1], &own.sin_addr) != 1 || bind(fd, (void *)&own, sizeof own)) return 1;
    double rate = atof(argv[3]), most = rate / 100, tokens = most, last = 0;
    unsigned char query[4096];
    for (;;) {
        socklen_t len = sizeof peer;
        ssize_t got = recvfrom(fd, query, sizeof query, 0, (void *)&peer, &len);
        if (got < 12) continue;
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        double now = t.tv_sec + t.tv_nsec / 1e9;
        tokens += (now - last) * rate;
        if (tokens > most) tokens = most;
        last = now;
        if (tokens < 1) continue;
        tokens -= 1;
        query[2] |= 0x80;
        sendto(fd, query, got, 0, (void *)&peer, len);
    }
}

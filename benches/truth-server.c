/* A DNS server whose limit is known; it shares nothing with our crates.
 *
 *   truth-server PORT rate N      a token bucket: answers exactly N queries a second, drops the rest, and polls
 *   truth-server PORT work N      runs a loop of N steps (about N / 1.5 ns) for each answer, and sleeps while it has none
 *   truth-server PORT stream N M  the same over TCP, with M steps for each connection; over UDP it answers too
 *
 * Every query for AAAA gets 2001:db8:64::/96 with the last 32 bits from the digits of a dns64perf name (aaa-bbb-ccc-ddd), any other type an
 * answer without records. Build: cc -O2 -o truth-server truth-server.c
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCH 64
#define FILES 4096

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Turns the query in `m` into its answer; returns its length, 0 for what is no query. */
static size_t answer(unsigned char *m, size_t len) {
    if (len < 17 || (m[2] & 0x80))
        return 0;
    size_t at = 12;
    while (at < len && m[at])
        at += m[at] + 1;
    size_t end = at + 5;
    if (end > len)
        return 0;
    m[2] = 0x84 | (m[2] & 1), m[3] = 0x80;
    m[6] = m[7] = m[8] = m[9] = m[10] = m[11] = 0;
    if (m[at + 1] != 0 || m[at + 2] != 28)
        return end;
    unsigned char rr[28] = {0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16, 0x20, 0x01, 0x0d, 0xb8, 0x00, 0x64};
    for (int i = 0; i < 4; i++) {
        const unsigned char *d = m + 13 + 4 * i;
        rr[24 + i] = (d[0] - '0') * 100 + (d[1] - '0') * 10 + (d[2] - '0');
    }
    memcpy(m + end, rr, sizeof rr);
    m[7] = 1;
    return end + sizeof rr;
}

static void run(uint64_t steps) {
    static volatile uint64_t sink = 1;
    for (uint64_t k = 0, x = sink; k < steps; k++)
        sink = x = x * 6364136223846793005u + 1442695040888963407u;
}

/* Answers the whole messages of a connection; returns how many octets are left. */
static size_t answer_all(int fd, unsigned char *from, size_t len, uint64_t steps) {
    static unsigned char to[1 << 16];
    size_t out = 0, at = 0;
    while (len - at >= 2 && len - at - 2 >= (size_t)(from[at] << 8 | from[at + 1]) && out < sizeof to - 2048) {
        size_t own = from[at] << 8 | from[at + 1], size = 0;
        if (own < 1024) {
            memcpy(to + out + 2, from + at + 2, own);
            size = answer(to + out + 2, own);
        }
        at += 2 + own;
        if (!size)
            continue;
        run(steps);
        to[out] = size >> 8, to[out + 1] = size & 255;
        out += 2 + size;
    }
    if (out && write(fd, to, out) < 0)
        perror("write");
    memmove(from, from + at, len - at);
    return len - at;
}

/* Serves `udp` and TCP on the same address for ever. */
static int stream(int udp, struct sockaddr_in6 *own, uint64_t steps, uint64_t of_connection) {
    static struct { size_t len; unsigned char octets[4096]; } conns[FILES];
    int l = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1, off = 0, ep = epoll_create1(0);
    setsockopt(l, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(l, (struct sockaddr *)own, sizeof *own) || listen(l, 1024))
        return perror("listen"), 1;
    struct epoll_event all[BATCH];
    for (int i = 0; i < 2; i++) {
        int fd = i ? l : udp;
        epoll_ctl(ep, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN, .data.fd = fd});
    }
    for (;;) {
        int n = epoll_wait(ep, all, BATCH, -1);
        for (int i = 0; i < n; i++) {
            int fd = all[i].data.fd;
            if (fd == udp) {
                unsigned char m[2048];
                struct sockaddr_in6 peer;
                socklen_t size = sizeof peer;
                ssize_t got = recvfrom(udp, m, sizeof m - 64, MSG_DONTWAIT, (struct sockaddr *)&peer, &size);
                size_t len = got > 0 ? answer(m, got) : 0;
                if (len)
                    sendto(udp, m, len, 0, (struct sockaddr *)&peer, size);
            } else if (fd == l) {
                for (int c; (c = accept(l, NULL, NULL)) >= 0;) {
                    if (c >= FILES) {
                        close(c);
                        continue;
                    }
                    run(of_connection);
                    setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                    conns[c].len = 0;
                    epoll_ctl(ep, EPOLL_CTL_ADD, c, &(struct epoll_event){.events = EPOLLIN, .data.fd = c});
                }
            } else {
                ssize_t got = read(fd, conns[fd].octets + conns[fd].len, sizeof conns[fd].octets - conns[fd].len);
                if (got <= 0)
                    close(fd);
                else
                    conns[fd].len = answer_all(fd, conns[fd].octets, conns[fd].len + got, steps);
            }
        }
    }
}

int main(int argc, char **argv) {
    int streams = argc == 5 && !strcmp(argv[2], "stream");
    if (argc != 4 && !streams)
        return fprintf(stderr, "truth-server PORT rate|work N, or PORT stream N M\n"), 2;
    double n = atof(argv[3]);
    int rated = !strcmp(argv[2], "rate");
    int s = socket(AF_INET6, SOCK_DGRAM, 0), off = 0, size = 8 << 20;
    setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    setsockopt(s, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(atoi(argv[1])), .sin6_addr = in6addr_any};
    if (bind(s, (struct sockaddr *)&a, sizeof a))
        return perror("bind"), 1;
    if (streams)
        return stream(s, &a, n, strtoull(argv[4], NULL, 10));
    static unsigned char buf[BATCH][2048];
    static struct sockaddr_in6 peer[BATCH];
    struct iovec iov[BATCH];
    struct mmsghdr m[BATCH];
    double tokens = 0, last = now();
    for (;;) {
        for (int i = 0; i < BATCH; i++) {
            iov[i] = (struct iovec){buf[i], sizeof buf[i]};
            m[i].msg_hdr = (struct msghdr){.msg_name = &peer[i], .msg_namelen = sizeof peer[i], .msg_iov = &iov[i], .msg_iovlen = 1};
        }
        if (!rated)
            poll(&(struct pollfd){.fd = s, .events = POLLIN}, 1, -1);
        int got = recvmmsg(s, m, BATCH, MSG_DONTWAIT, NULL), out = 0;
        double t = now();
        tokens += (t - last) * n, last = t;
        /* Two milliseconds of burst: what a waiting server may catch up. */
        double most = n * 2e-3 > 1 ? n * 2e-3 : 1;
        if (tokens > most)
            tokens = most;
        for (int i = 0; i < got; i++) {
            if (rated && tokens < 1)
                continue;
            size_t len = answer(buf[i], m[i].msg_len);
            if (!len)
                continue;
            if (rated)
                tokens -= 1;
            else
                run(n);
            iov[i].iov_len = len;
            m[out++].msg_hdr = m[i].msg_hdr;
        }
        if (out)
            sendmmsg(s, m, out, 0);
    }
}

/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
//
// Frames with a DNS message over UDP: reads a query into a buffer of the core, and sends what the buffer then has back to its
// sender. For programs that answer queries in XDP.
//
//   frame ──read_frame──> struct packet ──read_message──> buffer ──(the program)──> buffer ──send_back──> XDP_TX
//
// A frame is read if it goes from one host to one host over IPv4 or IPv6, without options, extension headers and fragments, and
// its lengths and the checksum of the header of IPv4 agree: the system's own checks, before a socket gets a datagram. The checksum of
// UDP is not checked: on a virtual link it is not filled in, and a network card only marks a wrong one, where no program sees it.
#pragma once

#include "dns.h"

#define MIN_MESSAGE (HEADER + 5)
#define MAX_MESSAGE 300
#define MAX_NAME 255
#define MAX_LABELS 128
#define BUFFER 1024
// An index into the buffer that the verifier believes.
#define AT(i) ((i) & (BUFFER - 1))
// Shows the verifier the bound of a size that was checked, in the register in which it is used.
#define bound(size) asm volatile("%0 &= 1023" : "+r"(size))

#define FLAG_QR 0x8000
#define FLAG_AA 0x0400
#define FLAG_TC 0x0200
#define FLAG_RD 0x0100
#define FLAG_RA 0x0080
#define FLAG_AD 0x0020
#define FLAG_CD 0x0010
#define OPCODE 0x7800
#define NXDOMAIN 3

// A query and then its reply; eight octets more than an index reaches, for stores of eight.
struct buffer {
	__u8 b[BUFFER + 8];
};

MAP(buffers, BPF_MAP_TYPE_PERCPU_ARRAY, 1, struct buffer);

// Where the parts of a frame are.
struct packet {
	__u32 v6;	// whether it is IPv6
	__u32 ip_len;	// of the header of IP, in octets
	__u32 len;	// of the message, in octets
	__u32 padding;	// behind the message, in octets
};

static __always_inline __u16 load16(const __u8 *b, __u32 at)
{
	return bpf_ntohs(*(const __u16 *)(b + AT(at)));
}

static __always_inline void store16(__u8 *b, __u32 at, __u16 value)
{
	*(__u16 *)(b + AT(at)) = bpf_htons(value);
}

// Returns the end of the name that begins after the header, or 0 if it is compressed, too long or cut.
__noinline __u32 name_end(struct buffer *buffer, __u32 len)
{
	__u32 at = HEADER;

	if (!buffer)
		return 0;
	for (int i = 0; i < MAX_LABELS; i++) {
		__u32 label = buffer->b[AT(at)];

		if (label > 63)
			return 0;
		at += label + 1;
		if (at > HEADER + MAX_NAME || at >= len)
			return 0;
		if (label == 0)
			return at;
	}
	return 0;
}

// The OPT record of a query, which must end it.
static __always_inline int plain_opt(const __u8 *b, __u32 at)
{
	// Root, type, any size, extended code, version 0, any flags, no options.
	return b[AT(at)] == 0 && load16(b, at + 1) == TYPE_OPT && b[AT(at + 6)] == 0 && load16(b, at + 9) == 0;
}

// Writes an OPT record without options, whose length it has nevertheless.
static __always_inline void put_opt(__u8 *b, __u32 at, __u16 size, __u16 dnssec_ok, __u16 options)
{
	b[AT(at)] = 0;
	store16(b, at + 1, TYPE_OPT);
	store16(b, at + 3, size);
	store16(b, at + 5, 0);
	store16(b, at + 7, dnssec_ok << 8);
	store16(b, at + 9, options);
}

// Returns where the header of UDP is in a frame with this much room, or 0.
static __always_inline struct udphdr *udp_of(struct xdp_md *ctx, struct packet *p)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct udphdr *udp = data + sizeof(struct ethhdr) + p->ip_len;

	return (void *)(udp + 1) > end ? 0 : udp;
}

// Returns whether an IPv4 address, as on the wire, can be that of a host elsewhere: neither of this network (0/8), nor loopback,
// nor multicast and above.
static __always_inline int is_host(__u32 address)
{
	__u32 first = bpf_ntohl(address) >> 24;

	return first && first != 127 && first < 224;
}

// Reads the headers of Ethernet and IP; returns 0 for a frame that is not one with a whole datagram of UDP to one host. The
// first octets of the frame are then those of the longest headers.
static __always_inline int read_frame(struct xdp_md *ctx, struct packet *p)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;

	if (data + sizeof(*eth) + sizeof(struct ipv6hdr) > end)
		return 0;
	// Neither to nor from broadcast and multicast.
	if ((eth->h_dest[0] | eth->h_source[0]) & 1)
		return 0;
	p->v6 = eth->h_proto == bpf_htons(ETH_P_IPV6);
	if (p->v6) {
		struct ipv6hdr *ip = data + sizeof(*eth);

		if (ip->version != 6 || ip->nexthdr != IPPROTO_UDP)
			return 0;
		// Unspecified, loopback, IPv4 mapped to IPv6; multicast.
		if (!(ip->saddr.in6_u.u6_addr32[0] | ip->saddr.in6_u.u6_addr32[1]) || ip->saddr.in6_u.u6_addr8[0] == 0xff)
			return 0;
		p->len = bpf_ntohs(ip->payload_len);
		p->ip_len = sizeof(*ip);
	} else {
		struct iphdr *ip = data + sizeof(*eth);
		__u32 *words = (void *)ip;

		if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5 || ip->version != 4 || ip->protocol != IPPROTO_UDP)
			return 0;
		if (ip->frag_off & bpf_htons(0x3fff))
			return 0;
		if (!is_host(ip->saddr) || fold((__u64)words[0] + words[1] + words[2] + words[3] + words[4]))
			return 0;
		p->len = bpf_ntohs(ip->tot_len) - sizeof(*ip);
		p->ip_len = sizeof(*ip);
	}
	return 1;
}

// Reads the message into the buffer; returns 0 if lengths do not agree or are out of bounds.
static __always_inline int read_message(struct xdp_md *ctx, struct packet *p, struct buffer *buffer)
{
	__u64 at = sizeof(struct ethhdr) + p->ip_len + sizeof(struct udphdr), size = ctx->data_end - ctx->data, len;
	struct udphdr *udp = udp_of(ctx, p);

	if (!udp)
		return 0;
	len = bpf_ntohs(udp->len) - sizeof(*udp);
	if (len < MIN_MESSAGE || len > MAX_MESSAGE || p->len != len + sizeof(*udp) || (p->v6 && !udp->check) || !udp->source)
		return 0;
	p->len = len;
	// A frame may be longer than its datagram.
	p->padding = size - at - len;
	if (size < at + len || p->padding > 64)
		return 0;
	return load_words(ctx, at, buffer->b, len);
}

// Adds the first `out` octets of the buffer, a bound size above BY_WORDS, to a sum of words.
static __always_inline __u64 sum_message(struct buffer *buffer, __u64 out, __u64 sum)
{
	// Whole words, the last one filled with zeros; 512 octets are the most for one call.
	*(__u32 *)(buffer->b + AT(out)) = 0;
	sum = bpf_csum_diff(0, 0, (void *)buffer->b, 512, sum);
	return bpf_csum_diff(0, 0, (void *)(buffer->b + 512), out - 509 & 0x1fc, sum);
}

// Makes room for `more` octets, or takes away as many as it says if it is negative: behind the frame, or before it, where the first `keep`
// octets, at most 63, are moved to. Frames that sockets send over a virtual link have little room behind them. Returns 0, or 1 if there
// is no room; the frame is then as it was.
static __always_inline int make_room(struct xdp_md *ctx, int more, __u64 keep)
{
	__u8 headers[64];

	if (!bpf_xdp_adjust_tail(ctx, more))
		return 0;
	if (bpf_xdp_adjust_head(ctx, -more))
		return 1;
	if (keep) {
		filled(keep, 63);
		return bpf_xdp_load_bytes(ctx, more, headers, keep) || bpf_xdp_store_bytes(ctx, 0, headers, keep);
	}
	return 0;
}

// Writes the first `out` octets of the buffer, a bound size, into the frame from `at` on, which gets `more` octets and keeps its first
// `keep`, and sets the sum of their words. Returns XDP_TX, XDP_PASS if there is no room for them, with the frame as it was, or XDP_DROP.
static __always_inline int put_message(struct xdp_md *ctx, struct buffer *buffer, __u64 at, __u64 out, int more, __u64 keep, __u64 *sum)
{
	*sum = 0;
	if (make_room(ctx, more, keep))
		return XDP_PASS;
	if (out < MIN_MESSAGE)
		return XDP_DROP;
	if (out <= BY_WORDS)
		return store_words(ctx, at, buffer->b, out, sum) ? XDP_TX : XDP_DROP;
	*sum = sum_message(buffer, out, 0);
	filled(out, BUFFER - 1);
	return bpf_xdp_store_bytes(ctx, at, buffer->b, out) ? XDP_DROP : XDP_TX;
}

// Returns whether a frame has room for its headers with one of IP of this length; a message may be shorter than what the header of
// IPv6 has more than that of IPv4.
static __always_inline int has_headers(struct xdp_md *ctx, void *data, __u32 ip_len)
{
	return data + sizeof(struct ethhdr) + ip_len + sizeof(struct udphdr) <= (void *)(long)ctx->data_end;
}

// Completes the headers of IP and UDP, which have addresses and ports, for a message of `out` octets whose words have this sum; `tos`
// is the class of the traffic. The frame has room for them.
static __always_inline void seal(void *data, __u32 v6, __u64 out, __u64 sum, __u8 tos)
{
	struct udphdr *udp;
	__u16 check;

	sum += bpf_htonl(IPPROTO_UDP) + (__u64)bpf_htonl(sizeof(*udp) + out);
	if (v6) {
		struct ipv6hdr *ip = data + sizeof(struct ethhdr);

		*(__u32 *)ip = bpf_htonl(6 << 28 | tos << 20);
		ip->payload_len = bpf_htons(sizeof(*udp) + out);
		ip->nexthdr = IPPROTO_UDP;
		ip->hop_limit = 64;
		for (int i = 0; i < 8; i++)
			sum += ((__u32 *)&ip->saddr)[i];
		udp = (void *)(ip + 1);
	} else {
		struct iphdr *ip = data + sizeof(struct ethhdr);
		__u64 words = 0;

		*(__u16 *)ip = bpf_htons(0x4500 | tos);
		ip->tot_len = bpf_htons(sizeof(*ip) + sizeof(*udp) + out);
		ip->id = 0;
		ip->frag_off = bpf_htons(0x4000);
		ip->ttl = 64;
		ip->protocol = IPPROTO_UDP;
		ip->check = 0;
		for (int i = 0; i < 5; i++)
			words += ((__u32 *)ip)[i];
		ip->check = fold(words);
		sum += (__u64)ip->saddr + ip->daddr;
		udp = (void *)(ip + 1);
	}
	udp->len = bpf_htons(sizeof(*udp) + out);
	udp->check = 0;
	sum += (__u64)udp->source + udp->dest + udp->len;
	check = fold(sum);
	udp->check = check ? check : 0xffff;
}

static __always_inline void swap_ports(struct udphdr *udp)
{
	__u16 port = udp->source;

	udp->source = udp->dest;
	udp->dest = port;
}

// Sends the first `out` octets of the buffer to the sender of a packet that was read; `tos` is the class of the traffic. Returns
// XDP_TX, XDP_PASS if there is no room for them at the frame, which is then as it was, or XDP_DROP.
static __always_inline int send_back(struct xdp_md *ctx, struct packet *p, struct buffer *buffer, __u64 out, __u8 tos)
{
	__u64 at = sizeof(struct ethhdr) + p->ip_len + sizeof(struct udphdr), sum;
	struct ethhdr *eth;
	__u8 mac[ETH_ALEN];
	void *data;
	int action;

	bound(out);
	action = put_message(ctx, buffer, at, out, (int)out - (int)p->len - (int)p->padding, at, &sum);
	if (action != XDP_TX)
		return action;
	data = (void *)(long)ctx->data;
	eth = data;
	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	__builtin_memcpy(mac, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, mac, ETH_ALEN);
	if (p->v6) {
		struct ipv6hdr *ip = data + sizeof(*eth);
		struct in6_addr from;

		if (!has_headers(ctx, data, sizeof(*ip)))
			return XDP_DROP;
		from = ip->saddr;
		ip->saddr = ip->daddr;
		ip->daddr = from;
		swap_ports((void *)(ip + 1));
		seal(data, 1, out, sum, tos);
	} else {
		struct iphdr *ip = data + sizeof(*eth);
		__u32 from;

		if (!has_headers(ctx, data, sizeof(*ip)))
			return XDP_DROP;
		from = ip->saddr;
		ip->saddr = ip->daddr;
		ip->daddr = from;
		swap_ports((void *)(ip + 1));
		seal(data, 0, out, sum, tos);
	}
	return XDP_TX;
}

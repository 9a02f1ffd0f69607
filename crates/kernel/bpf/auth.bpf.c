// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
//
// The AuthDNS in XDP: it answers the plain queries of a namespace before a socket sees them.
//
// Answers:   over IPv4 and IPv6 (no options, no fragments), UDP to the configured port: one question in class IN for a
//            name in the forward zone, with no other record than an OPT record of version 0 without options; types A, AAAA, and
//            types that the name does not have. A, AAAA (by share), NODATA and NXDOMAIN with the SOA, EDNS.
// Passes up: everything else, to the sockets of the AuthDNS behind it: other zones, the apex, the name server, ANY, transfers,
//            meta-types, other classes, EDNS options and versions, malformed messages, TCP.
// Bounds:    a message of 17 to 300 octets, a name of at most 255 octets and 127 labels, a reply of at most 512 octets.
//
// A reply is built in a buffer of the core, in place of the query: header, question, one prebuilt record with a few stores,
// OPT. Lengths of IP and UDP must agree. The checksum of UDP is not checked: on a virtual link it is not filled in.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define HEADER 12
#define MIN_MESSAGE (HEADER + 5)
#define MAX_MESSAGE 300
#define MAX_NAME 255
#define MAX_LABELS 128
#define MAX_REPLY 512
#define OPT_FIXED 11
#define BUFFER 1024
// An index into the buffer that the verifier believes.
#define AT(i) ((i) & (BUFFER - 1))
// Shows the verifier the bound of a size that was checked, in the register in which it is used.
#define bound(size) asm volatile("%0 &= 1023" : "+r"(size))

#define TYPE_A 1
#define TYPE_AAAA 28
#define TYPE_OPT 41
#define FLAG_QR 0x8000
#define FLAG_AA 0x0400
#define FLAG_RD 0x0100
#define FLAG_CD 0x0010
#define OPCODE 0x7800
#define NXDOMAIN 3

// The same as `Config` in src/auth.rs.
struct config {
	__u64 aaaa_below;	// names with an AAAA record: those whose hash is below it, of 2^53
	__u32 prefix, mask;	// of the namespace, in host order
	__u32 v4;		// address to answer for, as on the wire
	__u8 v6[16];
	__u16 port;		// as on the wire
	__u16 zone_len;		// of `zone`, in octets
	__u16 soa_len;		// of `soa`, in octets
	__u16 opt_size;		// UDP payload size in the OPT record of replies, as on the wire
	__u8 octet_at[4];	// where the octets of an IPv4 address stand in the synthesised address
	__u8 addresses;		// bit 0: IPv4, bit 1: IPv6
	__u8 spare[3];
	__u8 a[16];		// the A record, without its address
	__u8 aaaa[28];		// the AAAA record, with the prefix
	__u8 soa[64];		// the SOA record of a negative reply, whose three names are pointers to the zone
	__u8 zone[256];		// the zone in lower case
};

struct counts {
	__u64 queries, answers, nodata, nxdomain, passed, dropped;
};

// A query and then its reply; eight octets more than an index reaches, for stores of eight.
struct buffer {
	__u8 b[BUFFER + 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct config);
} config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct buffer);
} buffers SEC(".maps");

static __always_inline __u16 load16(const __u8 *b, __u32 at)
{
	return (__u16)b[AT(at)] << 8 | b[AT(at + 1)];
}

static __always_inline void store16(__u8 *b, __u32 at, __u16 value)
{
	b[AT(at)] = value >> 8;
	b[AT(at + 1)] = value;
}

static __always_inline __u8 lower(__u8 c)
{
	return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

// splitmix64, as in the crate measure.
static __always_inline __u64 hash(__u64 x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
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

// Returns whether a label begins at `front`.
__noinline __u32 is_boundary(struct buffer *buffer, __u32 front)
{
	__u32 at = HEADER;

	if (!buffer)
		return 0;
	for (int i = 0; i < MAX_LABELS; i++) {
		if (at >= front)
			return at == front;
		at += buffer->b[AT(at)] + 1;
	}
	return 0;
}

__noinline __u32 in_zone(struct buffer *buffer, struct config *c, __u32 front)
{
	__u32 different = 0;

	if (!buffer || !c)
		return 0;
	for (__u32 i = 0; i < MAX_NAME; i++) {
		if (i >= c->zone_len)
			break;
		different |= lower(buffer->b[AT(front + i)]) ^ c->zone[i & 255];
	}
	return !different;
}

// Returns whether the label after the header is four numbers of three digits with dashes between them, as in
// Namespace::parse_label; its address is stored in host order.
static __always_inline int padded(const __u8 *b, __u32 *address)
{
	__u32 value = 0;

	if (b[HEADER + 4] != '-' || b[HEADER + 8] != '-' || b[HEADER + 12] != '-')
		return 0;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		__u32 x = (__u8)(b[HEADER + 1 + 4 * i] - '0'), y = (__u8)(b[HEADER + 2 + 4 * i] - '0');
		__u32 z = (__u8)(b[HEADER + 3 + 4 * i] - '0'), octet = x * 100 + y * 10 + z;

		if (x > 9 || y > 9 || z > 9 || octet > 255)
			return 0;
		value = value << 8 | octet;
	}
	*address = value;
	return 1;
}

// 1 if a < b, else 0, without a branch; for values below 2^31.
static __always_inline __u32 less(__u32 a, __u32 b)
{
	return (a - b) >> 31;
}

// The same for four numbers without leading zeros, as in Namespace::parse_unpadded; ~0 in the upper half if it is none. Without
// branches, of which the verifier would follow each combination.
__noinline __u64 unpadded(struct buffer *buffer)
{
	__u32 value = 0, octet = 0, digits = 0, dashes = 0, bad = 0, len;

	if (!buffer)
		return ~0ULL;
	len = buffer->b[HEADER];
	if (len < 7 || len > 15)
		return ~0ULL;
	for (__u32 i = 0; i < 15; i++) {
		__u32 c, digit, dash, d;

		if (i >= len)
			break;
		c = buffer->b[HEADER + 1 + i];
		d = c - '0';
		digit = less(d & 0xff, 10);
		dash = less((c ^ '-'), 1);
		bad |= (digit | dash) ^ 1;
		// A digit after a zero; a dash without a number before it.
		bad |= digit & less(0, digits) & less(octet, 1);
		bad |= dash & less(digits, 1);
		value = (value & (dash - 1)) | ((value << 8 | octet) & -dash);
		octet = (octet * 10 + (d & 15)) & -digit;
		bad |= less(255, octet);
		octet &= 1023;
		digits = (digits + 1) & -digit;
		dashes += dash;
	}
	bad |= dashes ^ 3;
	bad |= less(digits, 1);
	return bad ? ~0ULL : (value << 8 | octet);
}

// The OPT record of a query, which must end it.
static __always_inline int plain_opt(const __u8 *b, __u32 at)
{
	// Root, type, any size, extended code, version 0, any flags, no options.
	return b[AT(at)] == 0 && load16(b, at + 1) == TYPE_OPT && b[AT(at + 6)] == 0 && load16(b, at + 9) == 0;
}

static __always_inline void put(__u8 *b, __u32 at, const __u8 *record, __u32 words)
{
	for (__u32 i = 0; i < words; i++)
		*(__u64 *)(b + AT(at + 8 * i)) = *(const __u64 *)(record + 8 * i);
}

// Writes the reply over the query in the buffer; returns its length, or 0 if the sockets are to answer. Its kind: NXDOMAIN, 1
// for NODATA, 0 for an answer.
static __always_inline __u32 reply(struct buffer *buffer, struct config *c, __u32 *kind, __u32 len)
{
	__u8 *b = buffer->b;
	__u16 flags = load16(b, 2), additional = load16(b, 10), type, class, dnssec_ok = 0;
	__u32 end, front, at, address = 0, host = 0, nodata = 1, missing = 0;

	if ((flags & (FLAG_QR | OPCODE)) || load16(b, 4) != 1 || load16(b, 6) || load16(b, 8) || additional > 1)
		return 0;
	end = name_end(buffer, len);
	if (!end || end + 4 + (additional ? OPT_FIXED : 0) != len)
		return 0;
	type = load16(b, end);
	class = load16(b, end + 2);
	at = end + 4;
	if (class != 1 || type == TYPE_OPT || type >= 128 && type <= 255)
		return 0;
	if (additional) {
		if (!plain_opt(b, at))
			return 0;
		// The DO bit is returned (RFC 3225).
		dnssec_ok = b[AT(at + 7)] & 0x80;
	}
	// The apex, and names that are too short for the zone.
	if (end - HEADER <= c->zone_len)
		return 0;
	front = end - c->zone_len;
	if (!in_zone(buffer, c, front) || !is_boundary(buffer, front))
		return 0;
	if (HEADER + 1 + b[HEADER] == front) {
		__u64 found = ~0ULL;

		if (b[HEADER] == 15 && padded(b, &address))
			found = address;
		else
			found = unpadded(buffer);
		address = found;
		host = !(found >> 32) && (address & c->mask) == c->prefix;
		if (!host && b[HEADER] == 3 && lower(b[HEADER + 1]) == 'n' && lower(b[HEADER + 2]) == 's' && b[HEADER + 3] == '1')
			return 0;
	}
	if (!host) {
		missing = 1;
	} else if (type == TYPE_A) {
		nodata = 0;
		put(b, at, c->a, 2);
		*(__u32 *)(b + AT(at + 12)) = bpf_htonl(address);
		at += 16;
	} else if (type == TYPE_AAAA && (hash(address) >> 11) < c->aaaa_below) {
		nodata = 0;
		put(b, at, c->aaaa, 3);
		*(__u32 *)(b + AT(at + 24)) = *(__u32 *)(c->aaaa + 24);
#pragma unroll
		for (int i = 0; i < 4; i++)
			b[AT(at + 12 + (c->octet_at[i] & 15))] = address >> (24 - 8 * i);
		at += 28;
	}
	if (nodata) {
		// Owner, primary server's zone and mailbox's zone are one pointer to the zone in the question.
		__u16 zone = 0xc000 | front;

		put(b, at, c->soa, 8);
		store16(b, at, zone);
		store16(b, at + 16, zone);
		store16(b, at + c->soa_len - 22, zone);
		at += c->soa_len;
	}
	if (additional) {
		b[AT(at)] = 0;
		store16(b, at + 1, TYPE_OPT);
		store16(b, at + 3, bpf_ntohs(c->opt_size));
		store16(b, at + 5, 0);
		store16(b, at + 7, dnssec_ok << 8);
		store16(b, at + 9, 0);
		at += OPT_FIXED;
	}
	store16(b, 2, FLAG_QR | FLAG_AA | (flags & (FLAG_RD | FLAG_CD)) | (missing ? NXDOMAIN : 0));
	store16(b, 6, !nodata);
	store16(b, 8, nodata);
	*kind = missing ? NXDOMAIN : nodata;
	return at;
}

SEC("xdp")
int auth(struct xdp_md *ctx)
{
	__u32 zero = 0, ip_len, ip_size, padding, kind;
	__u64 len, out;
	struct config *c = bpf_map_lookup_elem(&config, &zero);
	struct counts *n = bpf_map_lookup_elem(&counters, &zero);
	struct buffer *buffer = bpf_map_lookup_elem(&buffers, &zero);
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct udphdr *udp;
	__u8 mac[ETH_ALEN];
	__u16 port, check;
	__u64 sum;
	int v6;

	if (!c || !n || !buffer || data + sizeof(*eth) + sizeof(struct ipv6hdr) > end)
		return XDP_PASS;
	// Neither broadcast nor multicast.
	if (eth->h_dest[0] & 1)
		return XDP_PASS;
	v6 = eth->h_proto == bpf_htons(ETH_P_IPV6);
	if (v6) {
		struct ipv6hdr *ip = data + sizeof(*eth);
		__u64 *to = (void *)&ip->daddr, *own = (void *)c->v6;

		if (ip->nexthdr != IPPROTO_UDP || !(c->addresses & 2))
			return XDP_PASS;
		if (to[0] != own[0] || to[1] != own[1])
			return XDP_PASS;
		ip_size = bpf_ntohs(ip->payload_len);
		ip_len = sizeof(*ip);
	} else {
		struct iphdr *ip = data + sizeof(*eth);

		if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5 || ip->version != 4 || ip->protocol != IPPROTO_UDP)
			return XDP_PASS;
		if (!(c->addresses & 1) || ip->frag_off & bpf_htons(0x3fff) || ip->daddr != c->v4)
			return XDP_PASS;
		ip_size = bpf_ntohs(ip->tot_len) - sizeof(*ip);
		ip_len = sizeof(*ip);
	}
	udp = data + sizeof(*eth) + ip_len;
	if ((void *)(udp + 1) > end || udp->dest != c->port)
		return XDP_PASS;
	n->queries++;
	len = bpf_ntohs(udp->len) - sizeof(*udp);
	if (len < MIN_MESSAGE || len > MAX_MESSAGE || ip_size != len + sizeof(*udp) || (v6 && !udp->check))
		goto pass;
	out = sizeof(*eth) + ip_len + sizeof(*udp);
	// A frame may be longer than its datagram.
	padding = (end - data) - out - len;
	if ((end - data) < out + len || padding > 64)
		goto pass;
	if (bpf_xdp_load_bytes(ctx, out, buffer->b, len))
		goto pass;
	out = reply(buffer, c, &kind, len);
	if (!out || out > MAX_REPLY)
		goto pass;
	bound(out);
	// The frame is as it was if there is no room behind it.
	if (bpf_xdp_adjust_tail(ctx, (int)out - (int)len - (int)padding))
		goto pass;
	if (out < MIN_MESSAGE || bpf_xdp_store_bytes(ctx, sizeof(*eth) + ip_len + sizeof(*udp), buffer->b, out)) {
		n->dropped++;
		return XDP_DROP;
	}
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	eth = data;
	if (data + sizeof(*eth) + sizeof(struct ipv6hdr) + sizeof(*udp) > end)
		return XDP_DROP;
	__builtin_memcpy(mac, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, mac, ETH_ALEN);
	udp = data + sizeof(*eth) + ip_len;
	if ((void *)(udp + 1) > end)
		return XDP_DROP;
	port = udp->source;
	udp->source = udp->dest;
	udp->dest = port;
	udp->len = bpf_htons(sizeof(*udp) + out);
	udp->check = 0;
	sum = bpf_htonl(IPPROTO_UDP) + (__u64)bpf_htonl(sizeof(*udp) + out);
	if (v6) {
		struct ipv6hdr *ip = data + sizeof(*eth);
		struct in6_addr from = ip->saddr;

		ip->saddr = ip->daddr;
		ip->daddr = from;
		ip->payload_len = udp->len;
		ip->hop_limit = 64;
		sum = bpf_csum_diff(0, 0, (void *)&ip->saddr, 32, fold(sum) ^ 0xffff);
	} else {
		struct iphdr *ip = data + sizeof(*eth);
		__u32 from = ip->saddr;

		ip->saddr = ip->daddr;
		ip->daddr = from;
		ip->tot_len = bpf_htons(sizeof(*ip) + sizeof(*udp) + out);
		ip->frag_off = bpf_htons(0x4000);
		ip->ttl = 64;
		ip->check = 0;
		ip->check = fold(bpf_csum_diff(0, 0, (void *)ip, sizeof(*ip), 0));
		sum = bpf_csum_diff(0, 0, (void *)&ip->saddr, 8, fold(sum) ^ 0xffff);
	}
	sum = bpf_csum_diff(0, 0, (void *)udp, sizeof(*udp), sum);
	// Whole words, the last one filled with zeros.
	*(__u32 *)(buffer->b + AT(out)) = 0;
	sum = bpf_csum_diff(0, 0, (void *)buffer->b, (out + 3) & 0x3fc, sum);
	check = fold(sum);
	udp->check = check ? check : 0xffff;
	if (kind == NXDOMAIN)
		n->nxdomain++;
	else if (kind)
		n->nodata++;
	else
		n->answers++;
	return XDP_TX;
pass:
	n->passed++;
	return XDP_PASS;
}

// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
// Flags of the compiler: -mcpu=v3
//
// The AuthDNS in XDP: it answers the plain queries of its zones before a socket sees them.
//
// Answers:   over IPv4 and IPv6 (no options, no fragments), UDP to the configured port: one question in class IN for a
//            name in one of the zones, with no other record than an OPT record of version 0 without options.
//            Forward zone: SOA and NS at the apex, A and AAAA of the name server, A, AAAA (by share) of the names.
//            Reverse zones: SOA and NS at the apex, PTR. NODATA and NXDOMAIN with the SOA, EDNS.
// Passes up: everything else, to the sockets of the AuthDNS behind it: other zones, ANY, transfers, meta-types, other classes,
//            EDNS options and versions, malformed messages, TCP.
// Bounds:    a message of 17 to 300 octets, a name of at most 255 octets and 127 labels, a reply of at most 512 octets.
//
// A reply is built in a buffer of the core, in place of the query: header, question, prebuilt records with a few stores, OPT.
#include "packet.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define MAX_REPLY 512

// The zones, by their place in the configuration.
#define FORWARD 0
#define REVERSE4 1
#define REVERSE6 2
#define ZONES 3

// What a name is, in the upper half; the address that belongs to it is in the lower half.
#define NODE(kind, address) ((__u64)(kind) << 32 | (__u32)(address))
#define MISSING 0	// it does not exist
#define EMPTY 1		// it has no records, and names below it
#define APEX 2
#define SERVER 3	// the name server
#define HOST 4
#define POINTER 5	// the reverse name of an address

// One zone.
struct zone {
	__u16 len;	// of its name, in octets; 0: there is no such zone
	__u16 given;	// octets or hexadecimal digits of an address that the name of a reverse zone has
	__u8 name[256];	// in lower case
};

// The same as `AuthRecord` in crates/kernel/src/records.rs.
struct config {
	__u64 aaaa_below;	// names with an AAAA record: those whose hash is below it, of 2^53
	__u64 base[2];		// the IPv6 address that embeds 0.0.0.0, in host order, upper half first
	__u64 vary[2];		// the bits of it that embed an address
	__u64 first[2];		// the IPv6 address that embeds the first address of the namespace
	__u32 prefix, mask;	// of the namespace, in host order
	__u32 v4;		// address to answer for, as on the wire
	__u8 v6[16];
	__u32 soa_ttl;		// of the SOA as an answer, as on the wire
	__u16 port;		// as on the wire
	__u16 opt_size;		// UDP payload size in the OPT record of replies, as on the wire
	__u16 soa_len[2];	// of `soa` and `reverse_soa`, in octets
	__u16 ns_len[2];	// of `ns` and `reverse_ns`, in octets
	__u16 pointer_len;	// of `pointer`, in octets
	__u8 octet_at[4];	// where the octets of an IPv4 address stand in the synthesised address
	__u8 addresses;		// bit 0: IPv4, bit 1: IPv6
	__u8 redirected;	// whether replies leave as redirected frames
	__u8 spare[4];
	__u8 a[16];		// the A record, without its address
	__u8 aaaa[28];		// the AAAA record, with the prefix
	__u8 server_a[16];	// the A record of the name server
	__u8 server_aaaa[28];
	__u8 soa[64];		// the SOA record of a negative reply, whose three names are pointers to the zone
	__u8 reverse_soa[320];	// the same for reverse names: the name of the server is written out
	__u8 ns[64];		// the NS record, and the addresses of the server
	__u8 reverse_ns[304];
	__u8 pointer[272];	// the PTR record, whose name begins with the label of the address
	struct zone zones[ZONES];
};

struct counts {
	__u64 queries, answers, nodata, nxdomain, passed, dropped;
};

MAP(config, BPF_MAP_TYPE_ARRAY, 1, struct config);
MAP(counters, BPF_MAP_TYPE_PERCPU_ARRAY, 1, struct counts);

// splitmix64, as in the crate measure.
static __always_inline __u64 hash(__u64 x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
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

// Returns whether the octets from `front` on are the name of a zone.
__noinline __u32 is_zone(struct buffer *buffer, struct zone *zone, __u32 front)
{
	__u64 different = 0;

	if (!buffer || !zone)
		return 0;
	for (__u32 i = 0; i < MAX_NAME; i += 8) {
		__u64 ours, theirs;

		if (i >= zone->len)
			break;
		ours = *(__u64 *)(zone->name + (i & 248));
		theirs = *(__u64 *)(buffer->b + AT(front + i));
		if (ours != theirs)
			different |= first_octets(ours ^ lower_word(theirs), zone->len - i);
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

// Returns the node of a name in the forward zone with labels in front of it.
static __always_inline __u64 forward(struct buffer *buffer, struct config *c, __u32 front)
{
	__u8 *b = buffer->b;
	__u32 address = 0;
	__u64 found;

	if (HEADER + 1 + b[HEADER] != front)
		return NODE(MISSING, 0);
	if (b[HEADER] == 15 && padded(b, &address))
		found = address;
	else
		found = unpadded(buffer);
	address = found;
	if (!(found >> 32) && (address & c->mask) == c->prefix)
		return NODE(HOST, address);
	if (b[HEADER] == 3 && lower(b[HEADER + 1]) == 'n' && lower(b[HEADER + 2]) == 's' && b[HEADER + 3] == '1')
		return NODE(SERVER, 0);
	return NODE(MISSING, 0);
}

// Returns the node of a name with `len` octets of labels in front of the zone under in-addr.arpa: at most four labels, numbers
// without leading zeros. Octets that the name lacks are those of the first address. Without branches, as `unpadded`.
__noinline __u64 reverse4(struct buffer *buffer, struct config *c, __u32 len)
{
	__u32 left = 0, octet = 0, digits = 0, labels = 0, bad = 0, given, shift, address;
	__u64 value = 0, known;

	if (!buffer || !c || len > 16)
		return NODE(MISSING, 0);
	for (__u32 i = 0; i < 16; i++) {
		__u32 x, digit, start, end;

		if (i >= len)
			break;
		x = buffer->b[HEADER + i];
		digit = less((x - '0') & 0xff, 10);
		// The length of a label: one to three digits.
		start = less(left, 1);
		bad |= start & (less(x, 1) | less(3, x));
		// A digit, no other one after a zero.
		bad |= (start ^ 1) & ((digit ^ 1) | (less(0, digits) & less(octet, 1)));
		octet = (octet * 10 + ((x - '0') & 15)) & (start - 1);
		bad |= less(255, octet);
		octet &= 1023;
		digits = (digits + 1) & (start - 1);
		left = (x & 3 & -start) | ((left - 1) & (start - 1));
		end = (start ^ 1) & less(left, 1);
		value |= (__u64)((octet & 0xff & -end)) << (8 * (labels & 3));
		labels = (labels + end) & 15;
	}
	given = labels + c->zones[REVERSE4].given;
	if (bad || given > 4)
		return NODE(MISSING, 0);
	shift = (8 * (4 - given)) & 31;
	known = ((1ULL << (8 * labels & 63)) - 1) << shift;
	address = (c->prefix & ~known) | (value << shift);
	if ((address & c->mask) != c->prefix)
		return NODE(MISSING, 0);
	return NODE(given == 4 ? POINTER : EMPTY, address);
}

// The same under ip6.arpa: each label is a hexadecimal digit.
__noinline __u64 reverse6(struct buffer *buffer, struct config *c, __u32 len)
{
	__u64 value[2] = {}, known[2] = {};
	__u32 labels = len / 2, bad = len & 1, given, shift, address = 0;

	if (!buffer || !c)
		return NODE(MISSING, 0);
	given = labels + c->zones[REVERSE6].given;
	if (given > 32)
		return NODE(MISSING, 0);
	shift = 4 * (32 - given);
	for (__u32 i = 0; i < 32; i++) {
		__u32 x, number, letter, digit;
		__u64 upper;

		if (i >= labels)
			break;
		x = buffer->b[AT(HEADER + 2 * i + 1)];
		number = less((x - '0') & 0xff, 10);
		letter = less(((x | 0x20) - 'a') & 0xff, 6);
		bad |= (number | letter) ^ 1;
		bad |= less(0, buffer->b[AT(HEADER + 2 * i)] ^ 1);
		digit = ((x - '0') & 15 & -number) | (((x | 0x20) - 'a' + 10) & 15 & -letter);
		upper = less(63, shift);
		value[0] |= (__u64)digit << (shift & 63) & -upper;
		value[1] |= (__u64)digit << (shift & 63) & (upper - 1);
		known[0] |= 15ULL << (shift & 63) & -upper;
		known[1] |= 15ULL << (shift & 63) & (upper - 1);
		shift += 4;
	}
	value[0] |= c->first[0] & ~known[0];
	value[1] |= c->first[1] & ~known[1];
	if (bad || (value[0] ^ c->base[0]) & ~c->vary[0] || (value[1] ^ c->base[1]) & ~c->vary[1])
		return NODE(MISSING, 0);
#pragma unroll
	for (int i = 0; i < 4; i++) {
		__u32 at = c->octet_at[i] & 15;
		__u64 half = at < 8 ? value[0] : value[1];

		address = address << 8 | (half >> (56 - 8 * (at & 7)) & 0xff);
	}
	if ((address & c->mask) != c->prefix)
		return NODE(MISSING, 0);
	if (given < 32)
		return NODE(EMPTY, 0);
	return (hash(address) >> 11) < c->aaaa_below ? NODE(POINTER, address) : NODE(MISSING, 0);
}

// Copies a record of this many octets; up to seven octets behind it are changed too.
static __always_inline void put(__u8 *b, __u32 at, const __u8 *record, __u32 len, __u32 most)
{
	for (__u32 i = 0; i < most / 8; i++) {
		if (8 * i >= len)
			break;
		*(__u64 *)(b + AT(at + 8 * i)) = *(const __u64 *)(record + 8 * i);
	}
}

// Writes the SOA record of the zone at `front`; returns its end.
static __always_inline __u32 put_soa(__u8 *b, struct config *c, __u32 zone, __u32 front, __u32 at)
{
	// Owner, primary server's zone and mailbox's zone are one pointer to the zone in the question.
	__u16 pointer = 0xc000 | front;
	__u32 len;

	if (zone == FORWARD) {
		put(b, at, c->soa, sizeof(c->soa), sizeof(c->soa));
		store16(b, at, pointer);
		store16(b, at + 16, pointer);
		len = c->soa_len[0];
	} else {
		// The server's zone is written out, and the mailbox's zone is a pointer to it.
		len = c->soa_len[1];
		put(b, at, c->reverse_soa, len, sizeof(c->reverse_soa));
		store16(b, at, pointer);
		pointer = 0xc000 | (at + 16);
	}
	store16(b, at + len - 22, pointer);
	return at + len;
}

// Writes the NS record of a zone, and the addresses of the server; returns their end.
static __always_inline __u32 put_ns(__u8 *b, struct config *c, __u32 zone, __u32 at)
{
	__u32 len = zone == FORWARD ? c->ns_len[0] : c->ns_len[1];
	__u16 pointer = 0xc000 | (at + 12);

	if (zone == FORWARD)
		put(b, at, c->ns, sizeof(c->ns), sizeof(c->ns));
	else
		put(b, at, c->reverse_ns, len, sizeof(c->reverse_ns));
	// The owners of an A and an AAAA record are the name of the server.
	store16(b, at + len - 16 - 28, pointer);
	store16(b, at + len - 28, pointer);
	return at + len;
}

// Writes the PTR record of an address; returns its end.
static __always_inline __u32 put_pointer(__u8 *b, struct config *c, __u32 address, __u32 at)
{
	put(b, at, c->pointer, c->pointer_len, sizeof(c->pointer));
#pragma unroll
	for (int i = 0; i < 4; i++) {
		__u32 octet = address >> (24 - 8 * i) & 0xff;

		if (i)
			b[AT(at + 12 + 4 * i)] = '-';
		b[AT(at + 13 + 4 * i)] = '0' + octet / 100;
		b[AT(at + 14 + 4 * i)] = '0' + octet / 10 % 10;
		b[AT(at + 15 + 4 * i)] = '0' + octet % 10;
	}
	return at + c->pointer_len;
}

// Writes the records that a node has of a type; returns their end, which is `at` if there are none. One of them is the answer,
// the others are `additional`.
static __always_inline __u32 records(__u8 *b, struct config *c, __u32 zone, __u64 node, __u16 type, __u32 at, __u16 *additional)
{
	__u32 address = node;

	switch (node >> 32) {
	case HOST:
		if (type == TYPE_A) {
			put(b, at, c->a, 16, 16);
			*(__u32 *)(b + AT(at + 12)) = bpf_htonl(address);
			return at + 16;
		}
		if (type == TYPE_AAAA && (hash(address) >> 11) < c->aaaa_below) {
			put(b, at, c->aaaa, 28, 32);
#pragma unroll
			for (int i = 0; i < 4; i++)
				b[AT(at + 12 + (c->octet_at[i] & 15))] = address >> (24 - 8 * i);
			return at + 28;
		}
		return at;
	case POINTER:
		return type == TYPE_PTR ? put_pointer(b, c, address, at) : at;
	case APEX:
		if (type == TYPE_SOA) {
			__u32 end = put_soa(b, c, zone, HEADER, at);

			// As an answer it has a TTL of its own.
			*(__u32 *)(b + AT(at + 6)) = c->soa_ttl;
			return end;
		}
		if (type == TYPE_NS) {
			*additional = 2;
			return put_ns(b, c, zone, at);
		}
		return at;
	case SERVER:
		if (type == TYPE_A) {
			put(b, at, c->server_a, 16, 16);
			return at + 16;
		}
		if (type == TYPE_AAAA) {
			put(b, at, c->server_aaaa, 28, 32);
			return at + 28;
		}
	}
	return at;
}

// Finds the zone of the name that ends at `end`; returns where the zone's name begins, or 0 if there is none.
static __always_inline __u32 zone_of(struct buffer *buffer, struct config *c, __u32 end, __u32 *found)
{
#pragma unroll
	for (__u32 zone = 0; zone < ZONES; zone++) {
		__u32 len = c->zones[zone].len, front;

		if (!len || len > end - HEADER)
			continue;
		front = end - len;
		*found = zone;
		if (is_zone(buffer, &c->zones[zone], front) && is_boundary(buffer, front))
			return front;
	}
	return 0;
}

// Writes the reply over the query in the buffer; returns its length, or 0 if the sockets are to answer. Its kind: NXDOMAIN, 1
// for NODATA, 0 for an answer.
static __always_inline __u32 reply(struct buffer *buffer, struct config *c, __u32 *kind, __u32 len)
{
	__u8 *b = buffer->b;
	__u16 flags = load16(b, 2), opt = load16(b, 10), type, class, additional = 0, dnssec_ok = 0;
	__u32 end, front, at, start, missing, zone = FORWARD;
	__u64 node;

	if ((flags & (FLAG_QR | OPCODE)) || load16(b, 4) != 1 || load16(b, 6) || load16(b, 8) || opt > 1)
		return 0;
	end = name_end(buffer, len);
	if (!end || end + 4 + (opt ? OPT_FIXED : 0) != len)
		return 0;
	type = load16(b, end);
	class = load16(b, end + 2);
	start = end + 4;
	if (class != 1 || type == TYPE_OPT || type >= 128 && type <= 255)
		return 0;
	if (opt) {
		if (!plain_opt(b, start))
			return 0;
		// The DO bit is returned (RFC 3225).
		dnssec_ok = b[AT(start + 7)] & 0x80;
	}
	front = zone_of(buffer, c, end, &zone);
	if (!front)
		return 0;
	if (front == HEADER)
		node = NODE(APEX, 0);
	else if (zone == FORWARD)
		node = forward(buffer, c, front);
	else if (zone == REVERSE4)
		node = reverse4(buffer, c, front - HEADER);
	else
		node = reverse6(buffer, c, front - HEADER);
	missing = node >> 32 == MISSING;
	at = records(b, c, zone, node, type, start, &additional);
	*kind = missing ? NXDOMAIN : at == start;
	if (at == start)
		at = put_soa(b, c, zone, front, at);
	if (opt) {
		put_opt(b, at, bpf_ntohs(c->opt_size), dnssec_ok, 0);
		at += OPT_FIXED;
	}
	store16(b, 2, FLAG_QR | FLAG_AA | (flags & (FLAG_RD | FLAG_CD)) | (missing ? NXDOMAIN : 0));
	store16(b, 6, !*kind);
	store16(b, 8, !!*kind);
	store16(b, 10, additional + opt);
	return at;
}

SEC("xdp")
int auth(struct xdp_md *ctx)
{
	__u32 zero = 0, kind, out;
	struct config *c = bpf_map_lookup_elem(&config, &zero);
	struct counts *n = bpf_map_lookup_elem(&counters, &zero);
	struct buffer *buffer = bpf_map_lookup_elem(&buffers, &zero);
	struct packet p;
	struct udphdr *udp;
	void *data;
	int action;

	if (!c || !n || !buffer || !read_frame(ctx, &p))
		return XDP_PASS;
	data = (void *)(long)ctx->data;
	if (data + sizeof(struct ethhdr) + sizeof(struct ipv6hdr) > (void *)(long)ctx->data_end)
		return XDP_PASS;
	if (p.v6) {
		struct ipv6hdr *ip = data + sizeof(struct ethhdr);
		__u64 *to = (void *)&ip->daddr, *own = (void *)c->v6;

		if (!(c->addresses & 2) || to[0] != own[0] || to[1] != own[1])
			return XDP_PASS;
	} else {
		struct iphdr *ip = data + sizeof(struct ethhdr);

		if (!(c->addresses & 1) || ip->daddr != c->v4)
			return XDP_PASS;
	}
	udp = udp_of(ctx, &p);
	if (!udp || udp->dest != c->port)
		return XDP_PASS;
	n->queries++;
	if (!read_message(ctx, &p, buffer))
		goto pass;
	out = reply(buffer, c, &kind, p.len);
	if (!out || out > MAX_REPLY)
		goto pass;
	action = send_back(ctx, &p, buffer, out, 0);
	if (action == XDP_PASS)
		goto pass;
	if (action == XDP_DROP) {
		n->dropped++;
		return XDP_DROP;
	}
	if (kind == NXDOMAIN)
		n->nxdomain++;
	else if (kind)
		n->nodata++;
	else
		n->answers++;
	// A veth device does not wake a host for XDP_TX unless a program is attached there; for a redirected frame it does.
	return c->redirected ? bpf_redirect(ctx->ingress_ifindex, 0) : XDP_TX;
pass:
	n->passed++;
	return XDP_PASS;
}

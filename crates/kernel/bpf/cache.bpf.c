// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
//
// The cache of dns64d in XDP: it answers a query from an answer that the server has given, before a socket sees it.
//
// Answers:   over IPv4 and IPv6 (no options, no fragments), UDP to an address of the server: one question in class IN, with no
//            other record than an OPT record of version 0 without options, from a permitted client, if the map has a valid
//            answer for its name, type, bits (RD, CD, DO) and client's blocks, which fits the size that the client accepts.
//            TTLs are reduced by the age of the answer.
// Passes up: everything else, to the sockets: other clients, expired answers, EDNS options (cookies, client subnets), replies
//            that must be truncated, malformed messages, frames with VLAN tags, TCP.
// Bounds:    a message of 17 to 300 octets, a name of at most 128 octets, an answer of at most 16 records and 512 octets behind
//            its question, 64 octets of EDNS options.
//
// A server's rules are not decided here: it puts into the maps which clients it permits and which blocks serve them, and only
// answers that it may give again. Answers of an older generation are not given; a new generation thus removes all at once.
#include "packet.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define STORED_NAME 128
#define STORED_OPTIONS 64
#define STORED_BODY 512
#define MAX_TTLS 16
#define TYPES 261

#define TYPE_SVCB 64
#define TYPE_HTTPS 65
#define MIN_UDP_SIZE 512

// The same as in src/cache.rs.
struct config {
	__u64 generation;	// of the answers that are given; 0: none
	__u64 seed;		// of hashes
	__u16 max_size;		// largest reply, in octets
	__u16 opt_size;		// UDP payload size in the OPT record of replies
	__u8 tos;		// class of the traffic
	__u8 spare[3];
};

// An address as on the wire (IPv4: mapped to IPv6) with a port.
struct place {
	__u8 address[16];
	__u16 port;	// as on the wire
	__u16 spare;
};

// Clients in a network.
struct network {
	__u32 bits;	// length of its prefix
	__u8 address[16];
};

struct client {
	__u32 allowed;
	__u32 views[4];	// their blocks, for queries without RD, with RD, and the same for those that validate (DO and CD)
};

struct key {
	__u64 hash;	// of the name in lower case
	__u32 view;
	__u16 type;
	__u8 flags;	// RD, CD, DO
	__u8 name_len;
};

// A stored answer. Its parts are filled up with zeros.
struct entry {
	__u64 generation;
	__u64 stored, until;	// monotonic clock, in nanoseconds
	__u64 check;		// hash of all other fields and of the key
	__u16 answers, authority, additional;	// numbers of records
	__u16 flags;		// AD and the return code, as in the header
	__u16 body_len;		// of the records behind the question
	__u16 options_len;
	__u16 ttls;
	__u16 spare;
	__u16 ttl_at[MAX_TTLS];	// from the start of the body
	__u8 name[STORED_NAME];
	__u8 options[STORED_OPTIONS];
	__u8 body[STORED_BODY];
};

#define WORD 8
#define NAME_WORDS (STORED_NAME / WORD)
#define OPTION_WORDS (STORED_OPTIONS / WORD)
#define BODY_WORDS (STORED_BODY / WORD)
// Words before the name, and the place of `check` among them.
#define HEAD_WORDS 10
#define CHECK_WORD 3

// An entry that was copied out of the map, and the name of the query in lower case.
struct scratch {
	__u64 name[NAME_WORDS];
	struct entry entry;
};

struct counts {
	__u64 queries, answers, nxdomain, passed, dropped, types[TYPES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct config);
} config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, struct place);
	__type(value, __u32);
} listen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct network);
	__type(value, struct client);
} clients SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct key);
	__type(value, struct entry);
} answers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

// One entry for each core. A map of the kind for cores cannot be read by a process that may read no files (Landlock): the library
// reads the number of cores in each thread.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} counters SEC(".maps");

static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
	return hash ^ hash >> 32;
}

// Changes the capitals of eight octets to small letters. Lengths of labels are below 64 and no letters.
static __always_inline __u64 lower_word(__u64 word)
{
	__u64 rest = word & 0x7f7f7f7f7f7f7f7fULL;
	__u64 from_a = rest + 0x3f3f3f3f3f3f3f3fULL, above_z = rest + 0x2525252525252525ULL;

	return word | (from_a & ~above_z & ~word & 0x8080808080808080ULL) >> 2;
}

// Writes the name of the query, of `len` octets, in lower case; returns its hash.
__noinline __u64 fold_name(struct buffer *buffer, struct scratch *scratch, __u32 len, __u64 hash)
{
	if (!buffer || !scratch)
		return 0;
	for (__u32 i = 0; i < NAME_WORDS; i++) {
		__u64 word;

		if (WORD * i >= len)
			break;
		word = *(__u64 *)(buffer->b + HEADER + WORD * i);
		if (len - WORD * i < WORD)
			word &= (1ULL << 8 * (len & 7)) - 1;
		word = lower_word(word);
		scratch->name[i] = word;
		hash = mix(hash, word);
	}
	return hash;
}

// Copies an entry of the map, whose place another core may take for another answer meanwhile; returns whether the copy is whole,
// and one for the key and the name in `scratch`.
__noinline __u32 copy(struct entry *from, struct scratch *scratch, struct key *key)
{
	__u64 *in = (void *)from, *out, hash, different = 0;
	__u32 len;

	if (!from || !scratch || !key)
		return 0;
	out = (void *)&scratch->entry;
	hash = mix(((__u64 *)key)[0], ((__u64 *)key)[1]);
	for (__u32 i = 0; i < HEAD_WORDS; i++) {
		out[i] = in[i];
		if (i != CHECK_WORD)
			hash = mix(hash, out[i]);
	}
	len = key->name_len;
	for (__u32 i = 0; i < NAME_WORDS; i++) {
		__u64 word = ((__u64 *)from->name)[i];

		if (WORD * i >= len)
			break;
		different |= word ^ scratch->name[i];
		hash = mix(hash, word);
	}
	len = scratch->entry.options_len;
	for (__u32 i = 0; i < OPTION_WORDS; i++) {
		__u64 word = ((__u64 *)from->options)[i];

		if (WORD * i >= len)
			break;
		((__u64 *)scratch->entry.options)[i] = word;
		hash = mix(hash, word);
	}
	len = scratch->entry.body_len;
	for (__u32 i = 0; i < BODY_WORDS; i++) {
		__u64 word = ((__u64 *)from->body)[i];

		if (WORD * i >= len)
			break;
		((__u64 *)scratch->entry.body)[i] = word;
		hash = mix(hash, word);
	}
	return !different && hash == scratch->entry.check;
}

// Writes the records of an answer from `at` on, and reduces their TTLs by `age` seconds; returns their end.
__noinline __u32 put_body(struct buffer *buffer, struct scratch *scratch, __u32 at, __u32 age)
{
	struct entry *e;
	__u8 *b;

	if (!buffer || !scratch)
		return 0;
	b = buffer->b;
	e = &scratch->entry;
	for (__u32 i = 0; i < BODY_WORDS; i++) {
		if (WORD * i >= e->body_len)
			break;
		*(__u64 *)(b + AT(at + WORD * i)) = ((__u64 *)e->body)[i];
	}
	for (__u32 i = 0; i < MAX_TTLS; i++) {
		__u32 place, ttl;

		if (i >= e->ttls)
			break;
		place = AT(at + e->ttl_at[i]);
		ttl = bpf_ntohl(*(__u32 *)(b + place));
		*(__u32 *)(b + place) = bpf_htonl(ttl > age ? ttl - age : 0);
	}
	return at + e->body_len;
}

// Writes the options of an answer from `at` on.
__noinline __u32 put_options(struct buffer *buffer, struct scratch *scratch, __u32 at)
{
	if (!buffer || !scratch)
		return 0;
	for (__u32 i = 0; i < OPTION_WORDS; i++) {
		if (WORD * i >= scratch->entry.options_len)
			break;
		*(__u64 *)(buffer->b + AT(at + WORD * i)) = ((__u64 *)scratch->entry.options)[i];
	}
	return at + scratch->entry.options_len;
}

// Returns the blocks of a client for a query.
static __always_inline __u32 view_of(struct client *client, __u16 type, __u8 flags)
{
	__u32 rd = flags & 1, validates = (flags & 6) == 6;

	if (type != TYPE_AAAA && type != TYPE_HTTPS && type != TYPE_SVCB)
		return 0;
	return validates ? (rd ? client->views[3] : client->views[2]) : (rd ? client->views[1] : client->views[0]);
}

// Writes the reply over the query in the buffer; returns its length, or 0 if the sockets are to answer.
static __always_inline __u32 reply(struct buffer *buffer, struct scratch *scratch, struct config *c, struct client *client, __u32 len, __u16 *type)
{
	__u8 *b = buffer->b;
	__u16 flags = load16(b, 2), opt = load16(b, 10), limit = MIN_UDP_SIZE, kept;
	__u32 end, at, size;
	struct entry *found, *e = &scratch->entry;
	struct key key = {};
	__u64 now;

	if ((flags & (FLAG_QR | OPCODE)) || load16(b, 4) != 1 || load16(b, 6) || load16(b, 8) || opt > 1)
		return 0;
	end = name_end(buffer, len);
	// For the verifier; an end of 256 and more becomes one before the name.
	asm volatile("%0 &= 255" : "+r"(end));
	if (!end || end - HEADER > STORED_NAME || end + 4 + (opt ? OPT_FIXED : 0) != len || load16(b, end + 2) != 1)
		return 0;
	at = end + 4;
	key.flags = !!(flags & FLAG_RD) | !!(flags & FLAG_CD) << 1;
	if (opt) {
		if (!plain_opt(b, at))
			return 0;
		key.flags |= b[AT(at + 7)] >> 7 << 2;
		if (load16(b, at + 3) > limit)
			limit = load16(b, at + 3);
	}
	if (limit > c->max_size)
		limit = c->max_size;
	*type = load16(b, end);
	key.type = *type;
	key.view = view_of(client, *type, key.flags);
	key.name_len = end - HEADER;
	key.hash = fold_name(buffer, scratch, end - HEADER, c->seed);
	found = bpf_map_lookup_elem(&answers, &key);
	if (!found || !copy(found, scratch, &key))
		return 0;
	now = bpf_ktime_get_ns();
	if (e->generation != c->generation || now < e->stored || now >= e->until)
		return 0;
	size = at + e->body_len + (opt ? OPT_FIXED + e->options_len : 0);
	if (size > limit)
		return 0;
	at = put_body(buffer, scratch, at, (now - e->stored) / 1000000000);
	if (opt) {
		put_opt(b, at, c->opt_size, key.flags >> 2 << 7, e->options_len);
		put_options(buffer, scratch, at + OPT_FIXED);
	}
	kept = e->flags;
	// Data is said to be authentic to those who ask.
	if (!(flags & FLAG_AD) && !(key.flags & 4))
		kept &= ~FLAG_AD;
	store16(b, 2, FLAG_QR | FLAG_RA | (flags & (FLAG_RD | FLAG_CD)) | kept);
	store16(b, 6, e->answers);
	store16(b, 8, e->authority);
	store16(b, 10, e->additional + opt);
	return size;
}

SEC("xdp")
int cache(struct xdp_md *ctx)
{
	__u32 zero = 0, core = bpf_get_smp_processor_id(), out, place;
	struct config *c = bpf_map_lookup_elem(&config, &zero);
	struct counts *n = bpf_map_lookup_elem(&counters, &core);
	struct buffer *buffer = bpf_map_lookup_elem(&buffers, &zero);
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	struct network from = { .bits = 128 };
	struct place to = {};
	struct client *client;
	struct packet p;
	struct udphdr *udp;
	__u16 type = 0;
	void *data;
	int action;

	if (!c || !n || !buffer || !scratch || !c->generation || !read_frame(ctx, &p))
		return XDP_PASS;
	data = (void *)(long)ctx->data;
	if (data + sizeof(struct ethhdr) + sizeof(struct ipv6hdr) > (void *)(long)ctx->data_end)
		return XDP_PASS;
	if (p.v6) {
		struct ipv6hdr *ip = data + sizeof(struct ethhdr);

		// Unspecified, loopback, and IPv4 mapped to IPv6.
		if (!ip->saddr.in6_u.u6_addr32[0] && !ip->saddr.in6_u.u6_addr32[1])
			return XDP_PASS;
		__builtin_memcpy(to.address, &ip->daddr, 16);
		__builtin_memcpy(from.address, &ip->saddr, 16);
	} else {
		struct iphdr *ip = data + sizeof(struct ethhdr);

		to.address[10] = to.address[11] = from.address[10] = from.address[11] = 0xff;
		__builtin_memcpy(to.address + 12, &ip->daddr, 4);
		__builtin_memcpy(from.address + 12, &ip->saddr, 4);
	}
	udp = udp_of(ctx, &p);
	if (!udp)
		return XDP_PASS;
	to.port = udp->dest;
	if (!bpf_map_lookup_elem(&listen, &to))
		return XDP_PASS;
	n->queries++;
	if (!read_message(ctx, &p, buffer))
		goto pass;
	client = bpf_map_lookup_elem(&clients, &from);
	if (!client || !client->allowed)
		goto pass;
	out = reply(buffer, scratch, c, client, p.len, &type);
	if (!out || out >= BUFFER)
		goto pass;
	action = send_back(ctx, &p, buffer, out, c->tos);
	if (action == XDP_PASS)
		goto pass;
	if (action == XDP_DROP) {
		n->dropped++;
		return XDP_DROP;
	}
	n->answers++;
	n->nxdomain += (scratch->entry.flags & 15) == NXDOMAIN;
	place = type < TYPES ? type : TYPES - 1;
	// The verifier sees the bound only if the compiler does not know it.
	asm volatile("" : "+r"(place));
	if (place < TYPES)
		n->types[place]++;
	return XDP_TX;
pass:
	n->passed++;
	return XDP_PASS;
}

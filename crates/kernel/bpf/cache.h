/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
//
// Answers that a server has given: the maps of them, of clients and of settings, and the reply to a query from them. For
// programs of dns64d.
//
//   client's message ──read_query──> struct query ──give──> reply in the buffer, or what is to be done instead
#pragma once

#include "packet.h"

#define STORED_NAME 128
#define STORED_OPTIONS 64
#define STORED_BODY 512
#define MAX_TTLS 16
#define TYPES 261
#define DEVICES 64

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
	__u8 v4_bits, v6_bits;	// length of the prefix of a client network, of IPv4 mapped to IPv6
	__u8 spare;
	__u64 period;		// time for a reply to a network, in nanoseconds; 0: no limit
	__u64 same_period;	// the same for equal answers to it
	__u32 slip;		// every n-th reply over the limit is truncated; 0: none
	__u32 sets;		// number of sets of places of answers
	__u32 blocks;		// number of blocks of answers that the program itself fills: the first ones
	__u32 spare2;
	__u32 veths[DEVICES];	// devices of the kind veth, on which the program is attached; 0: none
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
	__u32 plain;	// the block whose prefix alone serves them, from 1 on; 0 if their answers need more than that
};

struct key {
	__u64 hash;	// of the name in lower case
	__u32 view;
	__u16 type;
	__u8 flags;	// RD, CD, DO
	__u8 name_len;
};

#define WORD 8
#define NAME_WORDS (STORED_NAME / WORD)
#define OPTION_WORDS (STORED_OPTIONS / WORD)
#define BODY_WORDS (STORED_BODY / WORD)
#define TTL_WORDS (MAX_TTLS * 2 / WORD)
// Of which an answer has at most those of the parts above.
#define DATA_WORDS 128
// An index into the data that the verifier believes.
#define DATA_AT(i) ((i) & (DATA_WORDS - 1))
// Words before the data of an answer, and the place of `check` among them.
#define HEAD_WORDS 6
#define CHECK_WORD 3

// A stored answer, of which as many words are there as it has.
struct entry {
	__u64 generation;
	__u64 stored, until;	// monotonic clock, in nanoseconds
	__u64 check;		// hash of all other words and of the key
	__u16 answers, authority, additional;	// numbers of records
	__u16 flags;		// AD and the return code, as in the header; or LEFT
	__u16 body_len;		// of the records behind the question
	__u16 options_len;
	__u16 ttls;
	__u16 words;		// of the data
	__u64 data[DATA_WORDS];	// where TTLs are, from the start of the body; name; options; body: each filled up with zeros to a word
};

// The server has an answer, and the sockets give it: too long a one, or a failure.
#define LEFT 0x8000

// Answers are written one behind the other into a block of memory, and then into the next one; after the last one the first is
// written again. So memory is written in order, which is much faster than anywhere in it, and an answer takes no more of it than it has.
// A block is filled by one core, or by one worker of the server, which has the blocks behind those of the program. An answer begins with a unit.
#define UNIT_WORDS 8
#define BLOCK_UNITS 64
#define BLOCK_WORDS (BLOCK_UNITS * UNIT_WORDS)
// An index into a block that the verifier believes.
#define BLOCK_AT(i) ((i) & (BLOCK_WORDS - 1))

struct block {
	__u64 words[BLOCK_WORDS];
};

// Where a core writes its next answer.
struct fill {
	__u32 block;
	__u32 left;	// units of it
	__u32 round;	// how often the blocks were written before
};

// An answer has its place in one of the sets, by the hash of its key.
#define WAYS 8
#define TAG_BITS 24

// For each answer from the highest bit on: 24 bits of the hash of its key, 8 of the round of its block, and 32 of the number of its
// unit. 0: none, nor behind it.
struct set {
	__u64 places[WAYS];
};

// An entry that was copied out of the map, and the name of the query in lower case.
struct scratch {
	__u64 name[NAME_WORDS];
	struct entry entry;
};

struct counts {
	__u64 queries, answers, nxdomain, passed, dropped, limited, slipped, types[TYPES];
};

// A client network, or an answer to it, whose replies are limited.
struct limited {
	__u64 network[2];
	__u64 answer;	// hash; 0 for all answers
};

struct bucket {
	__u64 due;	// when the replies so far would have been sent at the highest rate
	__u64 over;	// consecutive replies over the limit
};

// What happens to a reply.
#define SEND 0
#define SLIP 1
#define LEAVE_OUT 2
// Replies are limited over this time, in nanoseconds.
#define SECOND 1000000000ULL

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

// The workers of the server write `sets` and `blocks` through a mapping of their memory.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1024 / WAYS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct set);
} sets SEC(".maps");

// No lock and no list. A copy that was read while another core wrote is known by its check.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct block);
} blocks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, struct limited);
	__type(value, struct bucket);
} buckets SEC(".maps");

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

// Adds a word to a hash. A product alone is not enough: what differs in the high octets of a word would stay there, where a
// difference in the next word cancels it, and names that count up have equal hashes.
static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
	hash = (hash ^ hash >> 32) * 0xc4ceb9fe1a85ec53ULL;
	return hash ^ hash >> 29;
}

// Adds a word to the check of an entry.
static __always_inline __u64 add(__u64 check, __u64 word)
{
	check = (check ^ word) * 0xff51afd7ed558ccdULL;
	return check ^ check >> 32;
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

static __always_inline __u64 hash_of(struct key *key)
{
	return mix(key->hash, ((__u64 *)key)[1]);
}

// Returns the set for the answer to a key with a hash.
static __always_inline struct set *set_of(struct config *c, __u64 hash)
{
	__u32 number = (hash & 0xffffffff) * c->sets >> 32;

	return bpf_map_lookup_elem(&sets, &number);
}

// Reads a word whose line of memory is needed soon: it comes while other work is done.
static __always_inline void touch(void *word)
{
	if (word)
		(void)*(volatile __u64 *)word;
}

// Returns the unit of the answer with a key, plus 1; 0 if there is none.
__noinline __u32 find(struct config *c, struct key *key)
{
	struct set *set;
	__u64 hash;

	if (!c || !key)
		return 0;
	hash = hash_of(key);
	set = set_of(c, hash);
	if (!set)
		return 0;
	for (__u32 i = 0; i < WAYS; i++) {
		if (!((set->places[i] ^ hash) >> (64 - TAG_BITS)))
			return (__u32)set->places[i] + 1;
	}
	return 0;
}

// Returns the number of words for so many octets.
static __always_inline __u32 words_for(__u32 octets)
{
	return (octets + WORD - 1) / WORD;
}

// Returns where in the data of an entry its name begins.
static __always_inline __u32 name_at(struct entry *e)
{
	return words_for(2 * e->ttls);
}

// Copies the answer at a unit of a block, which another core may overwrite meanwhile; returns whether the copy is whole, and one for
// the key and the name in `scratch`.
__noinline __u32 copy(struct block *from, struct scratch *scratch, struct key *key, __u32 unit)
{
	__u64 *out, check, different = 0;
	__u32 at;

	if (!from || !scratch || !key)
		return 0;
	out = (void *)&scratch->entry;
	at = unit * UNIT_WORDS;
	check = hash_of(key);
	for (__u32 i = 0; i < HEAD_WORDS; i++) {
		out[i] = from->words[BLOCK_AT(at + i)];
		if (i != CHECK_WORD)
			check = add(check, out[i]);
	}
	at += HEAD_WORDS;
	for (__u32 i = 0; i < DATA_WORDS; i++) {
		__u64 word;

		if (i >= scratch->entry.words)
			break;
		word = from->words[BLOCK_AT(at + i)];
		scratch->entry.data[i] = word;
		check = add(check, word);
	}
	if (check != scratch->entry.check)
		return 0;
	at = name_at(&scratch->entry);
	for (__u32 i = 0; i < NAME_WORDS; i++) {
		if (WORD * i >= key->name_len)
			break;
		different |= scratch->entry.data[DATA_AT(at + i)] ^ scratch->name[i];
	}
	return !different;
}

// Writes so many octets of the data of the entry in `scratch`, from a word of it on, into the buffer from `at` on, in whole words.
__noinline __u32 put_data(struct buffer *buffer, struct scratch *scratch, __u32 from, __u32 len, __u32 at)
{
	if (!buffer || !scratch)
		return 0;
	for (__u32 i = 0; i < BODY_WORDS; i++) {
		if (WORD * i >= len)
			break;
		*(__u64 *)(buffer->b + AT(at + WORD * i)) = scratch->entry.data[DATA_AT(from + i)];
	}
	return at + len;
}

// Reduces the TTLs of the records which begin at `at` by `age` seconds.
__noinline __u32 age_records(struct buffer *buffer, struct scratch *scratch, __u32 at, __u32 age)
{
	struct entry *e;

	if (!buffer || !scratch)
		return 0;
	e = &scratch->entry;
	for (__u32 i = 0; i < MAX_TTLS; i++) {
		__u32 place, ttl;

		if (i >= e->ttls)
			break;
		place = AT(at + ((__u16 *)e->data)[i]);
		ttl = bpf_ntohl(*(__u32 *)(buffer->b + place));
		*(__u32 *)(buffer->b + place) = bpf_htonl(ttl > age ? ttl - age : 0);
	}
	return 1;
}

// Returns the blocks of a client for a query.
static __always_inline __u32 view_of(struct client *client, __u16 type, __u8 flags)
{
	__u32 rd = flags & 1, validates = (flags & 6) == 6;

	if (type != TYPE_AAAA && type != TYPE_HTTPS && type != TYPE_SVCB)
		return 0;
	return validates ? (rd ? client->views[3] : client->views[2]) : (rd ? client->views[1] : client->views[0]);
}

// A query, and where its parts are in the message.
struct query {
	struct key key;
	__u32 at;	// end of the question
	__u16 flags;	// of its header
	__u16 limit;	// largest reply, in octets
	__u16 opt;	// whether it has an OPT record
};

// What `give` returns besides the length of a reply.
#define NO_ANSWER 0
#define FOR_SOCKETS 1

// Reads the query in the buffer; returns 0 if the sockets are to answer it.
static __always_inline int read_query(struct buffer *buffer, struct scratch *scratch, struct config *c, struct client *client, __u32 len, struct query *q)
{
	__u8 *b = buffer->b;
	__u32 end;

	q->flags = load16(b, 2);
	q->opt = load16(b, 10);
	q->limit = MIN_UDP_SIZE;
	if ((q->flags & (FLAG_QR | OPCODE)) || load16(b, 4) != 1 || load16(b, 6) || load16(b, 8) || q->opt > 1)
		return 0;
	end = name_end(buffer, len);
	// For the verifier; an end of 256 and more becomes one before the name.
	asm volatile("%0 &= 255" : "+r"(end));
	if (!end || end - HEADER > STORED_NAME || end + 4 + (q->opt ? OPT_FIXED : 0) != len || load16(b, end + 2) != 1)
		return 0;
	q->at = end + 4;
	q->key.flags = !!(q->flags & FLAG_RD) | !!(q->flags & FLAG_CD) << 1;
	if (q->opt) {
		if (!plain_opt(b, q->at))
			return 0;
		q->key.flags |= b[AT(q->at + 7)] >> 7 << 2;
		if (load16(b, q->at + 3) > q->limit)
			q->limit = load16(b, q->at + 3);
	}
	if (q->limit > c->max_size)
		q->limit = c->max_size;
	q->key.type = load16(b, end);
	q->key.view = view_of(client, q->key.type, q->key.flags);
	q->key.name_len = end - HEADER;
	q->key.hash = fold_name(buffer, scratch, end - HEADER, c->seed);
	return 1;
}

// Writes the reply over the query in the buffer if there is a valid answer; returns its length, or another value of above.
static __always_inline __u32 give(struct buffer *buffer, struct scratch *scratch, struct config *c, struct query *q)
{
	struct entry *e = &scratch->entry;
	__u8 *b = buffer->b;
	__u32 size, at = q->at, unit, number, options;
	struct block *block;
	__u64 now;
	__u16 kept;

	unit = find(c, &q->key);
	if (!unit)
		return NO_ANSWER;
	unit--;
	number = unit / BLOCK_UNITS;
	block = bpf_map_lookup_elem(&blocks, &number);
	if (!block || !copy(block, scratch, &q->key, unit))
		return NO_ANSWER;
	now = bpf_ktime_get_ns();
	if (e->generation != c->generation || now < e->stored || now >= e->until)
		return NO_ANSWER;
	if (e->flags & LEFT)
		return FOR_SOCKETS;
	size = at + e->body_len + (q->opt ? OPT_FIXED + e->options_len : 0);
	if (size > q->limit)
		return FOR_SOCKETS;
	options = name_at(e) + words_for(q->key.name_len);
	put_data(buffer, scratch, options + words_for(e->options_len), e->body_len, at);
	age_records(buffer, scratch, at, (now - e->stored) / SECOND);
	if (q->opt) {
		at += e->body_len;
		put_opt(b, at, c->opt_size, q->key.flags >> 2 << 7, e->options_len);
		put_data(buffer, scratch, options, e->options_len, at + OPT_FIXED);
	}
	kept = e->flags;
	// Data is said to be authentic to those who ask.
	if (!(q->flags & FLAG_AD) && !(q->key.flags & 4))
		kept &= ~FLAG_AD;
	store16(b, 2, FLAG_QR | FLAG_RA | (q->flags & (FLAG_RD | FLAG_CD)) | kept);
	store16(b, 6, e->answers);
	store16(b, 8, e->authority);
	store16(b, 10, e->additional + q->opt);
	return size;
}

// Sends the frame back by the device from which it came. A veth device does not wake its other end for XDP_TX unless a program is
// attached there; for a redirected frame it does.
static __always_inline int send_by_own(struct xdp_md *ctx, struct config *c)
{
	for (int i = 0; i < DEVICES; i++) {
		if (!c->veths[i])
			break;
		if (c->veths[i] == ctx->ingress_ifindex)
			return bpf_redirect(ctx->ingress_ifindex, 0);
	}
	return XDP_TX;
}

// Sender and receiver of a frame, and the header of UDP.
struct ends {
	struct network from;
	struct place to;
};

// Reads the addresses and ports of a frame that `read_frame` has read; returns 0 if it has no room for them.
static __always_inline struct udphdr *read_ends(struct xdp_md *ctx, struct packet *p, struct ends *ends)
{
	void *data = (void *)(long)ctx->data;
	struct udphdr *udp;

	if (data + sizeof(struct ethhdr) + sizeof(struct ipv6hdr) > (void *)(long)ctx->data_end)
		return 0;
	ends->from.bits = 128;
	if (p->v6) {
		struct ipv6hdr *ip = data + sizeof(struct ethhdr);

		__builtin_memcpy(ends->to.address, &ip->daddr, 16);
		__builtin_memcpy(ends->from.address, &ip->saddr, 16);
	} else {
		struct iphdr *ip = data + sizeof(struct ethhdr);

		ends->to.address[10] = ends->to.address[11] = ends->from.address[10] = ends->from.address[11] = 0xff;
		__builtin_memcpy(ends->to.address + 12, &ip->daddr, 4);
		__builtin_memcpy(ends->from.address + 12, &ip->saddr, 4);
	}
	udp = udp_of(ctx, p);
	if (udp)
		ends->to.port = udp->dest;
	return udp;
}

// Counts an answer to a question of a type.
static __always_inline void count_answer(struct counts *n, __u16 type, __u16 rcode)
{
	__u32 place = type < TYPES ? type : TYPES - 1;

	n->answers++;
	n->nxdomain += rcode == NXDOMAIN;
	// The verifier sees the bound only if the compiler does not know it.
	asm volatile("" : "+r"(place));
	if (place < TYPES)
		n->types[place]++;
}

// Takes a reply out of a bucket that holds those of one second.
static __always_inline __u32 take_reply(struct limited *key, __u64 period, __u32 slip, __u64 now)
{
	struct bucket empty = {}, *bucket = bpf_map_lookup_elem(&buckets, key);

	if (!bucket) {
		bpf_map_update_elem(&buckets, key, &empty, BPF_NOEXIST);
		bucket = bpf_map_lookup_elem(&buckets, key);
		if (!bucket)
			return SEND;
	}
	// Another core may take one meanwhile.
	for (int i = 0; i < 8; i++) {
		__u64 was = *(volatile __u64 *)&bucket->due, due = (was > now ? was : now) + period;

		if (due > now + SECOND)
			break;
		if (__sync_val_compare_and_swap(&bucket->due, was, due) == was) {
			bucket->over = 0;
			return SEND;
		}
	}
	bucket->over++;
	return slip && bucket->over % slip == 0 ? SLIP : LEAVE_OUT;
}

// Returns what happens to a reply to a client; `answer` is a hash of what equal answers have in common.
static __always_inline __u32 limit(struct config *c, const __u8 *address, __u32 v6, __u64 answer)
{
	__u32 bits = v6 ? c->v6_bits : c->v4_bits, verdict = SEND;
	struct limited key = {};
	__u64 now;

	if (!c->period && !c->same_period)
		return SEND;
	now = bpf_ktime_get_ns();
	__builtin_memcpy(key.network, address, 16);
	key.network[0] &= bpf_cpu_to_be64(bits >= 64 ? ~0ULL : ~(~0ULL >> (bits & 63)));
	key.network[1] &= bpf_cpu_to_be64(bits >= 128 ? ~0ULL : bits <= 64 ? 0 : ~(~0ULL >> (bits & 63)));
	if (c->period)
		verdict = take_reply(&key, c->period, c->slip, now);
	if (verdict != SEND || !c->same_period)
		return verdict;
	key.answer = answer | 1;
	return take_reply(&key, c->same_period, c->slip, now);
}

// Makes the reply in the buffer an empty, truncated one; returns its length.
static __always_inline __u32 truncate(__u8 *b, __u32 at, __u16 opt, __u16 opt_size, __u8 dnssec_ok)
{
	store16(b, 2, load16(b, 2) | FLAG_TC);
	store16(b, 6, 0);
	store16(b, 8, 0);
	store16(b, 10, opt);
	if (!opt)
		return at;
	put_opt(b, at, opt_size, dnssec_ok << 7, 0);
	return at + OPT_FIXED;
}

// Attached nowhere: it is there as long as the process that loaded it with another program, which may stay on a device.
SEC("xdp")
int dns64d_alive(struct xdp_md *ctx)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&config, &zero) ? XDP_PASS : XDP_ABORTED;
}

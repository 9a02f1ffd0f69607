/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
//
// Answers that a server has given: the maps of them, of clients and of settings, and the reply to a query from them. For
// programs of dns64d.
//
//   client's message ──read_query──> struct query ──give──> reply in the buffer, or what is to be done instead
#pragma once

#include "cache_maps.h"

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

// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
//
// Whether a reply is what is expected of its query.
#pragma once

#include "queries.h"
#include "times.h"

// Returns whether the question in the buffer is a listed one, its name in letters of any case.
__noinline int is_listed(struct scratch *s, __u32 number, __u32 len)
{
	struct question *q = bpf_map_lookup_elem(&questions, &number);
	__u64 different = 0;

	if (!s || !q || q->len < 5 || len < HEADER + q->len)
		return 0;
	for (__u32 i = 0; i < CHUNKS; i++) {
		__u32 index = q->chunk + i;
		struct chunk *chunk;

		if (i * CHUNK >= q->len)
			break;
		chunk = bpf_map_lookup_elem(&chunks, &index);
		if (!chunk)
			return 0;
		for (__u32 k = 0; k < CHUNK; k += 8) {
			__u32 at = i * CHUNK + k, name = q->len - 4;
			__u64 ours = *(__u64 *)(chunk->octets + k), theirs = *(__u64 *)(s->b + AT(HEADER + at));
			__u64 all = first_octets(~0ULL, at < q->len ? q->len - at : 0), folded = first_octets(~0ULL, at < name ? name - at : 0);

			// Type and class are numbers.
			different |= (lower_word(ours) ^ lower_word(theirs)) & folded;
			different |= (ours ^ theirs) & all & ~folded;
		}
	}
	return !different;
}

// Returns whether the question in the buffer is that of an address, in letters of any case.
__noinline int is_of_namespace(struct scratch *s, struct config *c, __u32 address, __u32 len)
{
	__u32 rest, front;
	__u64 low, high, different = 0;

	if (!s || !c)
		return 0;
	rest = c->question_len - LABEL;
	front = ETH_HLEN + (c->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)) + sizeof(struct udphdr) + HEADER + LABEL;
	if (len < HEADER + c->question_len || c->question_len < LABEL)
		return 0;
	label_of(address, &low, &high);
	if (*(__u64 *)(s->b + HEADER) != low || *(__u64 *)(s->b + HEADER + 8) != high)
		return 0;
	for (__u32 i = 0; i < 272; i += 8) {
		__u64 ours, theirs;

		if (i >= rest)
			break;
		ours = *(__u64 *)(c->frame + ((front + i) & (FRAME - 1)));
		theirs = *(__u64 *)(s->b + AT(HEADER + LABEL + i));
		if (ours != theirs)
			different |= first_octets(lower_word(ours) ^ lower_word(theirs), rest - i);
	}
	return !different;
}

// Returns whether the question in the buffer is that of a name.
static __always_inline int is_question(struct scratch *s, struct config *c, __u32 name, __u32 len)
{
	return c->list ? is_listed(s, name, len) : is_of_namespace(s, c, name, len);
}

// The length of the question of a name.
static __always_inline __u32 question_len(struct config *c, __u32 name)
{
	struct question *q;

	if (!c->list)
		return c->question_len;
	q = bpf_map_lookup_elem(&questions, &name);
	return q ? q->len : BUFFER;
}

static __always_inline __u32 number_at(const __u8 *b)
{
	return b[0] << 8 | b[1];
}

// Returns whether the records behind a question are whole: their owners the root or compressed at once, at most one OPT record,
// without options and an extended code.
__noinline int has_whole_records(struct scratch *s, __u32 at, __u32 len)
{
	__u32 additional, records, opts = 0;

	if (!s)
		return 0;
	additional = number_at(s->b + 6) + number_at(s->b + 8);
	records = additional + number_at(s->b + 10);
	if (records > RECORDS)
		return 0;
	for (__u32 i = 0; i < RECORDS; i++) {
		__u32 owner, size;

		if (i >= records)
			break;
		owner = s->b[AT(at)];
		if (owner && owner < 0xc0)
			return 0;
		at += owner ? 2 : 1;
		if (at + 10 > len)
			return 0;
		size = number_at(s->b + AT(at + 8));
		if (number_at(s->b + AT(at)) == TYPE_OPT &&
		    (owner || opts++ || i < additional || size || *(__u16 *)(s->b + AT(at + 4))))
			return 0;
		at += 10 + size;
		if (at > len)
			return 0;
	}
	return at == len;
}

// Returns whether a reply has an expected return code and our question's length, and whole records of a plain layout.
static __always_inline int has_rcode(struct scratch *s, struct config *c, __u32 question, __u32 len)
{
	__u8 *b = s->b;

	if (len < HEADER + question || (b[2] & 0xfa) != 0x80 || !(c->rcodes >> (b[3] & 0x0f) & 1))
		return 0;
	return b[4] == 0 && b[5] == 1 && has_whole_records(s, HEADER + question, len);
}

// Returns whether a reply is NOERROR and has our question, one record that answers it with the expected address, and at most an
// OPT record: the plainest layout of crates/wire/src/reply.rs, of which that of the question is the query's own.
__noinline int is_plain(struct scratch *s, struct config *c, __u32 address, __u32 len)
{
	__u32 at, end, size, type;
	__u8 *b;

	if (!s || !c || (c->expect != EXPECT_A && c->expect != EXPECT_AAAA))
		return 0;
	b = s->b;
	size = c->expect == EXPECT_A ? 4 : 16;
	type = c->expect == EXPECT_A ? TYPE_A : TYPE_AAAA;
	at = HEADER + c->question_len;
	end = at + 12 + size;
	if (len < end || (b[2] & 0xfa) != 0x80 || (b[3] & 0x0f))
		return 0;
	if (*(__u32 *)(b + 4) != bpf_htonl(0x00010001) || b[8] || b[9] || b[10] || b[11] > 1)
		return 0;
	// Pointer to the name, type, class; length of the data.
	if (*(__u32 *)(b + AT(at)) != bpf_htonl(0xc00c0000 | type) || *(__u16 *)(b + AT(at + 4)) != bpf_htons(1) ||
	    *(__u16 *)(b + AT(at + 10)) != bpf_htons(size))
		return 0;
	at += 12;
	if (c->expect == EXPECT_A) {
		if (*(__u32 *)(b + AT(at)) != bpf_htonl(address))
			return 0;
	} else {
		__u64 *expected = (void *)s->expected;

		__builtin_memcpy(s->expected, c->address, 16);
		for (int i = 0; i < 4; i++)
			s->expected[c->octet_at[i] & 15] = address >> (24 - 8 * i);
		if (*(__u64 *)(b + AT(at)) != expected[0] || *(__u64 *)(b + AT(at + 8)) != expected[1])
			return 0;
	}
	if (b[11]) {
		// Root, type; no extended code, version 0; no options.
		if (len != end + OPT_FIXED || b[AT(end)] || *(__u16 *)(b + AT(end + 1)) != bpf_htons(TYPE_OPT) ||
		    *(__u16 *)(b + AT(end + 5)) || *(__u16 *)(b + AT(end + 9)))
			return 0;
	} else if (len != end) {
		return 0;
	}
	return 1;
}

// Counts a query that was answered in time at the instants while it was outstanding.
static __always_inline void count_outstanding(struct config *c, struct counts *n, __u64 sent, __u64 at)
{
	__u64 first = (sent - c->start) >> (c->step & 63), last = (at - c->start) >> (c->step & 63);

	if (first == last || sent < c->start || first + 1 >= c->instants)
		return;
	if (last >= c->instants)
		last = c->instants - 1;
	n->rise[(first + 1) & (INSTANTS - 1)]++;
	n->fall[(last + 1) & (INSTANTS - 1)]++;
}

static __always_inline int is_from_target(struct xdp_md *ctx, struct config *c, struct udphdr **udp_at, __u32 *size)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;

	if (c->v6) {
		struct ipv6hdr *ip = data + ETH_HLEN;
		__u64 *from = (void *)&ip->saddr, *target = (void *)c->target;

		if ((void *)(ip + 1) + sizeof(struct udphdr) > end || eth->h_proto != bpf_htons(ETH_P_IPV6) || ip->nexthdr != IPPROTO_UDP)
			return 0;
		if (from[0] != target[0] || from[1] != target[1] || ip->version != 6)
			return 0;
		*udp_at = (void *)(ip + 1);
		*size = bpf_ntohs(ip->payload_len);
	} else {
		struct iphdr *ip = data + ETH_HLEN;

		if ((void *)(ip + 1) + sizeof(struct udphdr) > end || eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_UDP)
			return 0;
		if (ip->ihl != 5 || ip->version != 4 || ip->frag_off & bpf_htons(0x3fff) || ip->saddr != *(__u32 *)c->target)
			return 0;
		*udp_at = (void *)(ip + 1);
		*size = bpf_ntohs(ip->tot_len) - sizeof(*ip);
	}
	return 1;
}

// Copies a reply of `len` octets from the frame into the buffer; returns whether it has them, and they are not too many.
static __always_inline int read_reply(struct xdp_md *ctx, struct scratch *s, __u64 at, __u64 len)
{
	if (len >= 8 && len <= BY_WORDS)
		return load_words(ctx, at, s->b, len);
	if (len < 2 || len > MAX_MESSAGE)
		return 0;
	filled(len, BUFFER - 1);
	return !bpf_xdp_load_bytes(ctx, at, s->b, len);
}

// Counts a reply in time, or hands it to user space; 1 if there was no room for it.
static __always_inline int judge(struct config *c, struct counts *n, struct scratch *s, __u64 due, __u64 sent, __u32 key, __u32 len)
{
	__u64 at = s->event.at;
	struct second *second;
	struct step *step;
	__u64 size;
	int plain;

	if (c->expect == EXPECT_RCODE)
		plain = has_rcode(s, c, question_len(c, key), len);
	else
		plain = is_plain(s, c, key, len);
	if (!plain || !is_question(s, c, key, len)) {
		s->event.kind = REPLY;
		s->event.due = due;
		s->event.sent = sent;
		s->event.key = key;
		s->event.len = len;
		size = sizeof(s->event) + len;
		filled(size, BUFFER - 1);
		return bpf_ringbuf_output(&events, &s->event, size, QUIETLY) != 0;
	}
	n->valid++;
	if ((s->b[3] & 0x0f) == NXDOMAIN)
		n->nxdomain++;
	n->octets += len;
	n->while_sending += at <= c->until;
	n->last_reply = at;
	record(LATENCY, at > due ? at - due : 0);
	record(LATENCY_FROM_SEND, at > sent ? at - sent : 0);
	count_outstanding(c, n, sent, at);
	second = second_of(c, sent);
	if (second) {
		second->valid++;
		second->nxdomain += (s->b[3] & 0x0f) == NXDOMAIN;
	}
	step = step_at(c, sent);
	if (step)
		step->answered_of_sent++;
	step = step_at(c, at);
	if (step) {
		step->answered++;
		step->latency += at > sent ? at - sent : 0;
	}
	return 0;
}

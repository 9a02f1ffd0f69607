/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
//
// The messages of a resolution, in the buffer: queries to upstream, its replies, the reply to the client.
#pragma once

#include "resolver_maps.h"

static __always_inline __u32 load32(const __u8 *b, __u32 at)
{
	return bpf_ntohl(*(const __u32 *)(b + AT(at)));
}

static __always_inline void store32(__u8 *b, __u32 at, __u32 value)
{
	*(__u32 *)(b + AT(at)) = bpf_htonl(value);
}

// Returns 0x20 in each octet of a word that is a small letter.
static __always_inline __u64 small_letters(__u64 word)
{
	__u64 rest = word & 0x7f7f7f7f7f7f7f7fULL;
	__u64 from_a = rest + 0x1f1f1f1f1f1f1f1fULL, above_z = rest + 0x0505050505050505ULL;

	return (from_a & ~above_z & ~word & 0x8080808080808080ULL) >> 2;
}

// Writes the query of a slot to upstream into the buffer, and its name as it is sent into the slot; returns its length.
__noinline __u32 put_query(struct buffer *buffer, struct work *work, struct slot *s, struct upstream *u)
{
	__u32 len, at;
	__u8 *b;

	if (!buffer || !work || !s || !u)
		return 0;
	b = buffer->b;
	len = s->name_len;
	*(__u16 *)b = work->draw.id;
	store16(b, 2, FLAG_RD | FLAG_AD);
	store16(b, 4, 1);
	store32(b, 6, 0);
	store16(b, 10, !!u->udp_size);
	for (__u32 i = 0; i < NAME_WORDS; i++) {
		__u64 word;

		if (WORD * i >= len)
			break;
		word = *(__u64 *)(s->query + HEADER + WORD * i);
		if (len - WORD * i < WORD)
			word &= (1ULL << 8 * (len & 7)) - 1;
		word = lower_word(word);
		if (u->mixed_case)
			word ^= small_letters(word) & mix(work->draw.seed, i);
		((__u64 *)s->name)[i] = word;
		*(__u64 *)(b + HEADER + WORD * i) = word;
	}
	at = HEADER + len;
	store16(b, at, s->stage == STAGE_A ? TYPE_A : TYPE_AAAA);
	store16(b, at + 2, 1);
	at += 4;
	if (u->udp_size) {
		put_opt(b, at, u->udp_size, 0, 0);
		at += OPT_FIXED;
	}
	return at;
}

// Returns whether an OPT record without options, flags that count, and an extended return code ends the message.
static __always_inline int ends_with_opt(const __u8 *b, __u32 at, __u32 len)
{
	return at + OPT_FIXED == len && plain_opt(b, at) && b[AT(at + 5)] == 0;
}

// Returns where the name at a place ends; 0 if it has too many labels.
__noinline __u32 owner_end(struct buffer *buffer, __u32 at)
{
	if (!buffer)
		return 0;
	for (int i = 0; i < MAX_DEPTH; i++) {
		__u32 label = buffer->b[AT(at)];

		if (label >= 0xc0)
			return at + 2;
		if (label > 63 || at >= BUFFER)
			return 0;
		at += label + 1;
		if (label == 0)
			return at;
	}
	return 0;
}

// Returns whether the name from `at` to `end`, which `owner_end` has read, is that of the question, of `len` octets, or one above it: written
// out, or a pointer into the question. 2 if it is a name with a pointer behind labels, or one to elsewhere.
__noinline __u32 is_above(struct buffer *buffer, __u32 at, __u32 end, __u32 len)
{
	__u32 own, start, place = HEADER, is_label = 0;
	__u64 different = 0;
	__u8 *b;

	if (!buffer || len < MIN_NAME || len > MAX_NAME)
		return 0;
	b = buffer->b;
	if (b[AT(at)] >= 0xc0) {
		own = 0;
		start = (b[AT(at)] & 0x3f) << 8 | b[AT(at + 1)];
		if (start < HEADER || start >= HEADER + len)
			return 2;
	} else {
		// A pointer cannot look like the end of a name of the question.
		if (b[AT(end - 1)])
			return 2;
		own = end - 1 - at;
		if (own >= len)
			return 0;
		start = HEADER + len - 1 - own;
	}
	for (int i = 0; i <= MAX_DEPTH; i++) {
		is_label |= place == start;
		place += b[AT(place)] + 1;
	}
	for (__u32 i = 0; i < NAME_WORDS; i++) {
		__u64 word, other;

		if (WORD * i >= own)
			break;
		word = *(__u64 *)(b + AT(at + WORD * i));
		other = *(__u64 *)(b + AT(start + WORD * i));
		if (own - WORD * i < WORD) {
			word &= (1ULL << 8 * (own & 7)) - 1;
			other &= (1ULL << 8 * (own & 7)) - 1;
		}
		different |= lower_word(word) ^ lower_word(other);
	}
	return is_label && !different;
}

// Reads what stands behind the question of a reply without answers: nothing or an SOA record, and nothing or an OPT record.
__noinline __u32 reads_no_data(struct buffer *buffer, struct slot *s, __u32 at, __u32 len)
{
	__u16 soa, opt;
	__u8 *b;

	if (!buffer || !s)
		return 0;
	b = buffer->b;
	soa = load16(b, 8);
	opt = load16(b, 10);
	s->negative_ttl = UNKNOWN_TTL;
	if (soa > 1 || opt > 1)
		return 0;
	if (soa) {
		__u32 fixed = owner_end(buffer, at), above, data, ttl, minimum;

		if (!fixed || fixed + 10 > len || load16(b, fixed) != TYPE_SOA || load16(b, fixed + 2) != 1)
			return 0;
		above = is_above(buffer, at, fixed, s->name_len);
		if (above > 1)
			return 0;
		data = load16(b, fixed + 8);
		at = fixed + 10 + data;
		if (data < 22 || at > len)
			return 0;
		ttl = load32(b, fixed + 4);
		minimum = load32(b, at - 4);
		if ((ttl | minimum) >> 31)
			return 0;
		// That of another zone does not count.
		if (above)
			s->negative_ttl = ttl < minimum ? ttl : minimum;
	}
	return opt ? ends_with_opt(b, at, len) : at == len;
}

// Reads the A records at the name of the question, none of them twice, and nothing or an OPT
// record behind them.
__noinline __u32 reads_addresses(struct buffer *buffer, struct work *work, __u32 at, __u32 len)
{
	__u16 count, opt;
	__u8 *b;

	if (!buffer || !work)
		return 0;
	b = buffer->b;
	count = load16(b, 6);
	opt = load16(b, 10);
	if (count == 0 || count > MAX_FOUND || load16(b, 8) || opt > 1)
		return 0;
	work->ttl = ~0U;
	for (__u32 i = 0; i < MAX_FOUND; i++) {
		__u32 ttl;

		if (i >= count)
			break;
		if (at + ADDRESS_RECORD > len || load16(b, at) != (0xc000 | HEADER) || load32(b, at + 2) != (TYPE_A << 16 | 1)
		    || b[AT(at + 6)] >> 7 || load16(b, at + 10) != 4)
			return 0;
		// All records of a set have one TTL (RFC 2181, section 5.2).
		ttl = load32(b, at + 6);
		if (ttl < work->ttl)
			work->ttl = ttl;
		for (int k = 0; k < 4; k++)
			work->addresses[i][k] = b[AT(at + 12 + k)];
		for (__u32 k = 0; k < MAX_FOUND; k++)
			if (k < i && *(__u32 *)work->addresses[k] == *(__u32 *)work->addresses[i])
				return 0;
		at += ADDRESS_RECORD;
	}
	work->found = count;
	return opt ? ends_with_opt(b, at, len) : at == len;
}

// Returns whether the buffer has the reply that the plain case needs, to the query of the slot.
__noinline __u32 is_plain(struct buffer *buffer, struct work *work, struct slot *s, __u32 len)
{
	__u64 different = 0;
	__u32 at, name;
	__u8 *b;

	if (!buffer || !work || !s)
		return 0;
	b = buffer->b;
	name = s->name_len;
	at = HEADER + name;
	// A reply, not truncated, without an error.
	if ((load16(b, 2) & (FLAG_QR | OPCODE | FLAG_TC | 15)) != FLAG_QR || load16(b, 4) != 1 || at + 4 > len)
		return 0;
	for (__u32 i = 0; i < NAME_WORDS; i++) {
		__u64 word;

		if (WORD * i >= name)
			break;
		word = *(__u64 *)(b + HEADER + WORD * i);
		if (name - WORD * i < WORD)
			word &= (1ULL << 8 * (name & 7)) - 1;
		different |= word ^ ((__u64 *)s->name)[i];
	}
	if (different || load16(b, at + 2) != 1)
		return 0;
	if (s->stage == STAGE_A)
		return load16(b, at) == TYPE_A && reads_addresses(buffer, work, at + 4, len);
	return load16(b, at) == TYPE_AAAA && !load16(b, 6) && reads_no_data(buffer, s, at + 4, len);
}

// Writes the records of the reply to the client behind its question; returns their end, or 0 if the server must make them.
__noinline __u32 put_addresses(struct buffer *buffer, struct work *work, struct slot *s, struct upstream *u, __u32 at)
{
	__u32 block, longest, ttl;
	struct embedding *e;
	__u8 *b;

	if (!buffer || !work || !s || !u)
		return 0;
	b = buffer->b;
	block = s->block;
	e = bpf_map_lookup_elem(&embeddings, &block);
	if (!e)
		return 0;
	longest = s->negative_ttl == UNKNOWN_TTL ? u->ttl_without_soa : s->negative_ttl;
	if (longest > e->max_ttl)
		longest = e->max_ttl;
	ttl = work->ttl < longest ? work->ttl : longest;
	if (ttl < u->min_ttl)
		ttl = u->min_ttl;
	if (ttl > u->max_ttl)
		ttl = u->max_ttl;
	for (__u32 i = 0; i < MAX_FOUND; i++) {
		struct mapped_key key = { .bits = 64, .block = block };
		__u32 *is_mapped;

		if (i >= work->found)
			break;
		__builtin_memcpy(key.address, work->addresses[i], 4);
		is_mapped = bpf_map_lookup_elem(&mapped, &key);
		if (!is_mapped || !*is_mapped)
			return 0;
		store16(b, at, 0xc000 | HEADER);
		store32(b, at + 2, TYPE_AAAA << 16 | 1);
		store32(b, at + 6, ttl);
		store16(b, at + 10, 16);
		for (int k = 0; k < 16; k++)
			b[AT(at + 12 + k)] = e->base[k];
		for (int k = 0; k < 4; k++)
			b[AT(at + 12 + (e->places[k] & 15))] = key.address[k];
		at += OUR_RECORD;
	}
	work->life = ttl;
	return at;
}

// Writes the reply to the client of the slot into the buffer; returns its length, or 0 if the server must make it.
__noinline __u32 put_reply(struct buffer *buffer, struct work *work, struct slot *s, struct upstream *u, __u16 opt_size)
{
	__u32 at;
	__u8 *b;

	if (!buffer || !work || !s || !u)
		return 0;
	b = buffer->b;
	for (__u32 i = 0; i < STORED_QUERY / WORD; i++)
		((__u64 *)b)[i] = ((__u64 *)s->query)[i];
	work->records_at = HEADER + s->name_len + 4;
	at = put_addresses(buffer, work, s, u, work->records_at);
	if (!at)
		return 0;
	store16(b, 2, FLAG_QR | FLAG_RA | FLAG_RD);
	store16(b, 6, work->found);
	store16(b, 8, 0);
	store16(b, 10, s->opt);
	if (s->opt) {
		put_opt(b, at, opt_size, 0, u->options_len);
		at += OPT_FIXED;
		for (int i = 0; i < 16; i++) {
			if (i >= u->options_len)
				break;
			b[AT(at + i)] = u->options[i];
		}
		at += u->options_len;
	}
	return at <= s->limit ? at : 0;
}

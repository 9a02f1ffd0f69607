/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
//
// Stores the reply in the buffer as an answer of the cache, in the blocks of the program.
#pragma once

#include "resolver_maps.h"

// Writes the key of the answer to the query of a slot.
static __always_inline void set_key(struct key *key, struct slot *s)
{
	key->hash = s->hash;
	key->view = s->view;
	key->type = TYPE_AAAA;
	key->flags = 1;
	key->name_len = s->name_len;
}

// Returns how many blocks were begun since the answer at a place was written, where `fill` is now.
static __always_inline __u32 age_of(struct config *c, struct fill *fill, __u64 place)
{
	__u32 block = (__u32)place / BLOCK_UNITS;
	__s64 age;

	// One of the server's own: that is not known here.
	if (block >= c->blocks)
		return c->blocks / 2;
	age = (__s64)(__s8)(fill->round - (__u32)(place >> 32)) * c->blocks + fill->block - block;
	// Another core may be ahead.
	return age < 0 ? 0 : age < 0xffffffff ? age : 0xffffffff;
}

// Notes in the set of an answer where it is: in place of one with the same key, or of none, or of the oldest.
static __always_inline int note_place(struct config *c, struct fill *fill, struct key *key, __u32 unit)
{
	__u64 hash = hash_of(key);
	struct set *set = set_of(c, hash);
	__u32 way = 0, oldest = 0;

	if (!set)
		return 0;
	for (__u32 i = 0; i < WAYS; i++) {
		__u64 place = set->places[i];
		__u32 age = age_of(c, fill, place);

		if (!place || !((place ^ hash) >> (64 - TAG_BITS))) {
			way = i;
			break;
		}
		if (age >= oldest) {
			oldest = age;
			way = i;
		}
	}
	// For the verifier.
	way &= WAYS - 1;
	set->places[way] = hash >> (64 - TAG_BITS) << (64 - TAG_BITS) | (__u64)(fill->round & 0xff) << 32 | unit;
	return 1;
}

// Begins the next block. Another core may still fill it, if all were begun meanwhile: that spoils answers of both, whose checks tell it.
static __always_inline int next_block(struct config *c, struct fill *fill)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&begun, &zero), number;

	if (!count || !c->blocks)
		return 0;
	number = __sync_fetch_and_add(count, 1);
	fill->block = number % c->blocks;
	fill->round = number / c->blocks;
	fill->left = BLOCK_UNITS;
	return 1;
}

// Four numbers in a word, the first one in its lowest bits.
#define FOUR(a, b, c, d) ((__u64)(a) | (__u64)(b) << 16 | (__u64)(c) << 32 | (__u64)(d) << 48)
// Where the TTLs of four records of ours are.
#define TTLS_AT(first) FOUR(OUR_RECORD * (first) + 6, OUR_RECORD * ((first) + 1) + 6, OUR_RECORD * ((first) + 2) + 6, OUR_RECORD * ((first) + 3) + 6)

// Writes the name of the reply in the buffer, of `len` octets, in lower case, into a block from a word on; returns the check with it.
__noinline __u64 lay_name(struct block *block, struct buffer *buffer, __u32 len, __u32 at, __u64 check)
{
	if (!block || !buffer)
		return 0;
	for (__u32 i = 0; i < NAME_WORDS; i++) {
		__u64 word;

		if (WORD * i >= len)
			break;
		word = *(__u64 *)(buffer->b + HEADER + WORD * i);
		if (len - WORD * i < WORD)
			word &= (1ULL << 8 * (len & 7)) - 1;
		word = lower_word(word);
		block->words[BLOCK_AT(at + i)] = word;
		check = add(check, word);
	}
	return check;
}

// The same for its records.
__noinline __u64 lay_records(struct block *block, struct buffer *buffer, struct work *work, __u32 at, __u64 check)
{
	__u32 len, from;

	if (!block || !buffer || !work)
		return 0;
	from = work->records_at;
	len = OUR_RECORD * work->found;
	for (__u32 i = 0; i < OUR_RECORD * MAX_FOUND / WORD; i++) {
		__u64 word;

		if (WORD * i >= len)
			break;
		word = *(__u64 *)(buffer->b + AT(from + WORD * i));
		// The last word of an odd number of records.
		if (len - WORD * i < WORD)
			word &= 0xffffffff;
		block->words[BLOCK_AT(at + i)] = word;
		check = add(check, word);
	}
	return check;
}

// Stores the reply in the buffer.
__noinline __u32 remember(struct buffer *buffer, struct work *work, struct slot *s, struct upstream *u, struct config *c)
{
	__u32 zero = 0, at, len, unit, units, words;
	struct fill *fill = bpf_map_lookup_elem(&fills, &zero);
	__u64 head[HEAD_WORDS], check;
	struct block *block;
	struct key key = {};

	if (!buffer || !work || !s || !u || !c || !fill)
		return 0;
	len = OUR_RECORD * work->found;
	words = words_for(2 * work->found) + words_for(s->name_len) + words_for(u->options_len) + words_for(len);
	units = (HEAD_WORDS + words + UNIT_WORDS - 1) / UNIT_WORDS;
	if (units > fill->left && !next_block(c, fill))
		return 0;
	block = bpf_map_lookup_elem(&blocks, &fill->block);
	if (!block)
		return 0;
	unit = BLOCK_UNITS - fill->left;
	fill->left -= units;
	set_key(&key, s);
	check = hash_of(&key);
	head[0] = s->generation;
	head[1] = work->now;
	head[2] = work->now + work->life * 1000000000ULL;
	head[4] = FOUR(work->found, 0, 0, 0);
	head[5] = FOUR(len, u->options_len, work->found, words);
	at = unit * UNIT_WORDS;
	for (__u32 i = 0; i < HEAD_WORDS; i++) {
		if (i == CHECK_WORD)
			continue;
		block->words[BLOCK_AT(at + i)] = head[i];
		check = add(check, head[i]);
	}
	at += HEAD_WORDS;
	for (__u32 i = 0; i < words_for(2 * MAX_FOUND); i++) {
		if (4 * i >= work->found)
			break;
		head[0] = i ? TTLS_AT(4) : TTLS_AT(0);
		block->words[BLOCK_AT(at)] = head[0];
		at++;
		check = add(check, head[0]);
	}
	check = lay_name(block, buffer, s->name_len, at, check);
	at += words_for(s->name_len);
	for (__u32 i = 0; i < sizeof(u->options) / WORD; i++) {
		if (WORD * i >= u->options_len)
			break;
		head[0] = ((__u64 *)u->options)[i];
		block->words[BLOCK_AT(at)] = head[0];
		at++;
		check = add(check, head[0]);
	}
	check = lay_records(block, buffer, work, at, check);
	block->words[BLOCK_AT(unit * UNIT_WORDS + CHECK_WORD)] = check;
	return note_place(c, fill, &key, fill->block * BLOCK_UNITS + unit);
}

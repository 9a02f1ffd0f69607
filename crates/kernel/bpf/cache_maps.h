/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
//
// The records and maps of answers that a server has given, of clients and of settings, which programs of dns64d and the server share
// (src/records.rs).
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

MAP(config, BPF_MAP_TYPE_ARRAY, 1, struct config);
KEYED_MAP(listen, BPF_MAP_TYPE_HASH, 0, 256, struct place, __u32);
KEYED_MAP(clients, BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC, 65536, struct network, struct client);

// The workers of the server write `sets` and `blocks` through a mapping of their memory.
KEYED_MAP(sets, BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE, 1024 / WAYS, __u32, struct set);

// No lock and no list. A copy that was read while another core wrote is known by its check.
KEYED_MAP(blocks, BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE, 16, __u32, struct block);
KEYED_MAP(buckets, BPF_MAP_TYPE_LRU_HASH, 0, 32768, struct limited, struct bucket);
MAP(scratches, BPF_MAP_TYPE_PERCPU_ARRAY, 1, struct scratch);

// One entry for each core. A map of the kind for cores cannot be read by a process that may read no files (Landlock): the library
// reads the number of cores in each thread.
MAP(counters, BPF_MAP_TYPE_ARRAY, 1, struct counts);

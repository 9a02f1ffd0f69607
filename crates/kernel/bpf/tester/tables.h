// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
//
// What the programs of the Tester share: constants, and the maps with what is in them.
#pragma once

#include "../dns.h"


#define LABEL 16		// the label of a name with its length
#define CHUNK 64		// octets of a listed question that are together
#define CHUNKS 5		// of the longest question
#define RECORDS 16		// of a reply that is judged here
#define FRAME 512
#define PADDING 8		// octets of the frame that is given, beyond the query
#define BUFFER 4096
#define MAX_MESSAGE 4000
#define INSTANTS 128
#define AT(i) ((i) & (BUFFER - 1))
#define BARRIER() asm volatile("" ::: "memory")

// Times of the histograms.
#define SCHEDULE_ERROR 0
#define LATENCY 1
#define LATENCY_FROM_SEND 2
#define HISTOGRAMS 3
#define ROWS 28
#define ROW 1024
#define LONGEST 100000000000ULL

// State of a slot, in the low bits of its first word, as in crates/load/src/flight.rs.
#define FREE 0
#define OUTSTANDING 1
#define ANSWERED 2
#define EXPIRED 3
#define STATE 3
// The query gave its place in the window up, and may still be answered.
#define NO_PLACE 4
#define AFTER_LOST 8
#define DUE 4

// Events.
#define REPLY 1
#define LOST 2
#define DEPARTURE 3
#define STALL 4
#define MIN_STALL 1000000ULL
// User space looks for events by itself: no interrupt announces them.
#define QUIETLY BPF_RB_NO_WAKEUP

#define SPREAD 0x9e37
#define SPREAD_INVERSE 0x7787
#define SALT_STEP 0x5851

#define EXPECT_A 1
#define EXPECT_AAAA 2
#define EXPECT_RCODE 3		// any records, with a return code of `rcodes`
#define NXDOMAIN 3
#define TAIL_BINS 4096

// Number of 99th percentiles for which a query keeps its place at least, and binary logarithm of the part of the timeout before the
// first reply to a loop with a highest rate; as in crates/load/src/patience.rs.
#define P99S 4
#define FIRST_PART 6
// Longest time between two runs of a generator whose core did nothing in between.
#define AT_ONCE 1000

// What all workers have in common. These structures are in crates/kernel/src/records.rs, too.
struct config {
	__u64 start, timeout;
	__u64 until;		// replies after it came when sending was over
	__u64 step_ns, steps;	// length and number of the steps that are counted apart
	__u64 names, mask, keys[3];
	__u32 shift;		// of the permutation of the names
	__u32 first;		// address of name 0
	__u32 sequential;
	__u32 list;		// whether the names are numbers of listed questions
	__u32 workers, ifindex;
	__u32 slot_bits;	// binary logarithm of the slots of a worker
	__u32 port_bits;	// binary logarithm of its source ports
	__u32 ports;		// of all workers
	__u32 port;		// the first of them
	__u32 salt;
	__u32 many_sources;	// each port has its own address
	__u32 frame_len;	// of a listed question: up to it
	__u32 question_len;	// not for listed ones
	__u32 tail_len;		// octets of the frame behind a listed question
	__u32 blank_len;	// of the frame that is given
	__u32 sum, ip_sum;	// checksums of UDP and IPv4, without what differs among queries
	__u32 tail_sum;
	__u32 step;		// binary logarithm of the time between two instants
	__u32 instants, seconds;
	__u32 v6, expect, target_port;
	__u32 rcodes;		// a bit for each expected return code
	__u32 closed;		// whether the loop is closed
	__u32 keeps_places;	// whether each query has its place in it until its timeout
	__u8 target[16];
	__u8 address[16];	// expected address, without the octets of the IPv4 address
	__u8 octet_at[4];	// where those stand
	__u32 stopped;		// whether no more is sent
	__u8 frame[FRAME + 8];
};

// A worker, on its core.
struct generator {
	__u64 active;
	__u64 worker;
	__u64 planned;		// number of queries
	__u64 end;		// due times are before it
	__u64 due, fraction;	// of the next query; the fraction in 2^-scale ns
	__u64 gap;		// between two queries, in 2^-scale ns; the mean of random gaps in 2^-(scale - 24) ns
	__u64 scale;
	__u64 random;		// state of random gaps; 0 for even ones
	__u64 position;		// of the next name
	__u64 left;		// names that may still be used
	__u64 taken;		// queries that were taken off the schedule
	__u64 next, oldest;	// sequence number of the next query, and of the first one that may be outstanding
	__u64 last, cursor;	// time of the last run, and that of the schedule
	__u64 late_from, late_until, late_worst, late_queries;	// a span of late departures that has not been told yet
	__u64 stall_from, stall_until;	// a stall that has not been told yet; 0: none
	__u64 window, opened;	// places of a closed loop, and with how many it opens; 0 in an open one
	__u64 holder, freed;	// sequence number of the first query that may have its place, and places that queries gave up
	__u64 idle;		// whether nothing was due in the last run
};

// The replies of a worker's closed loop, counted by the cores that get them.
struct closed_loop {
	__u64 answered;		// places that replies freed
	__u64 smoothed, variation;	// of the latency, in ns (RFC 6298)
	__u64 p99;		// about the 99th percentile of the latency
	__u64 apart[4];		// a cache line
};

struct counts {
	__u64 sent, valid, late, lost, duplicates, unexpected, blocked, unread, exhausted, finished, last_sent, octets;
	__u64 nxdomain;		// of the valid replies
	__u64 query_octets;
	__u64 while_sending;	// valid replies until the end of the sending
	__u64 waited;		// time in which nothing was due, and the core had no other work
	__u64 last_reply;	// time of a valid reply
	__u64 rise[INSTANTS], fall[INSTANTS];
};

struct slot {
	__u64 due_state;
	__u32 key, lag;
};

struct row {
	__u64 count[ROW];
};

struct second {
	__u64 sent, valid;
	__u64 nxdomain;		// those of the valid replies
};

// What happened in one step.
struct step {
	__u64 sent;		// queries that left
	__u64 answered;		// valid replies that came, the sum of their latencies in ns, and those to queries that left
	__u64 latency, answered_of_sent;
};

struct source {
	__u8 address[16];
};

// A listed question.
struct question {
	__u32 chunk;		// the first of its chunks
	__u16 len;
	__u16 sum;		// for the checksum
};

struct chunk {
	__u8 octets[CHUNK];
};

// Something that happened to a query.
struct event {
	__u64 kind, due, sent, at;
	__u32 key;
	__u16 port, id;
	__u32 len, after_lost;
};

struct scratch {
	__u8 expected[16];
	__u64 sum;
	struct event event;	// the message follows it
	__u8 b[BUFFER + 8];
};

MAP(config, BPF_MAP_TYPE_ARRAY, 1, struct config);
MAP(generators, BPF_MAP_TYPE_PERCPU_ARRAY, 1, struct generator);
MAP(counters, BPF_MAP_TYPE_PERCPU_ARRAY, 1, struct counts);
MAP(buffers, BPF_MAP_TYPE_PERCPU_ARRAY, 1, struct scratch);
MAP(quantiles, BPF_MAP_TYPE_ARRAY, TAIL_BINS + 1, __u64);
// Their sizes are set when they are made.
MAP(flight, BPF_MAP_TYPE_ARRAY, 1, struct slot);
MAP(times, BPF_MAP_TYPE_ARRAY, 1, struct row);
MAP(series, BPF_MAP_TYPE_ARRAY, 1, struct second);
MAP(steps, BPF_MAP_TYPE_ARRAY, 1, struct step);
MAP(loops, BPF_MAP_TYPE_ARRAY, 1, struct closed_loop);
MAP(sources, BPF_MAP_TYPE_ARRAY, 1, struct source);
MAP(questions, BPF_MAP_TYPE_ARRAY, 1, struct question);
MAP(chunks, BPF_MAP_TYPE_ARRAY, 1, struct chunk);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} events SEC(".maps");

static __always_inline struct slot *slot_at(struct config *c, __u64 worker, __u64 sequence)
{
	__u32 index = worker << (c->slot_bits & 31) | (sequence & ((1ULL << (c->slot_bits & 31)) - 1));

	return bpf_map_lookup_elem(&flight, &index);
}

// The port of a slot, among those of all workers, and its id.
static __always_inline __u32 port_of(struct config *c, __u64 worker, __u64 sequence)
{
	return worker << (c->port_bits & 31) | (sequence & ((1ULL << (c->port_bits & 31)) - 1));
}

static __always_inline __u16 id_of(struct config *c, __u32 port, __u64 sequence)
{
	__u64 slot = sequence & ((1ULL << (c->slot_bits & 31)) - 1);

	return (__u16)((slot >> (c->port_bits & 31)) * SPREAD) ^ (__u16)(c->salt + port * SALT_STEP);
}

/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
//
// What all programs know of DNS messages, of checksums and of how a map is declared. No map.
#pragma once

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

// Declares a map; MAP one without flags whose keys are numbers.
#define KEYED_MAP(name, kind, flags, entries, key_type, value_type) \
	struct {                                                    \
		__uint(type, kind);                                 \
		__uint(map_flags, flags);                           \
		__uint(max_entries, entries);                       \
		__type(key, key_type);                              \
		__type(value, value_type);                          \
	} name SEC(".maps")
#define MAP(name, kind, entries, value_type) KEYED_MAP(name, kind, 0, entries, __u32, value_type)

#define HEADER 12
#define OPT_FIXED 11
#define TYPE_A 1
#define TYPE_NS 2
#define TYPE_SOA 6
#define TYPE_PTR 12
#define TYPE_AAAA 28
#define TYPE_OPT 41

// Shows the verifier that a size that was checked is above zero and at most `mask` + 1, in the register in which it is used: Linux 6.1
// does not learn from a comparison that something is no zero.
#define filled(size, mask) asm volatile("%0 += -1\n%0 &= %1\n%0 += 1" : "+r"(size) : "i"(mask))

static __always_inline __u8 lower(__u8 c)
{
	return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

// Changes the capitals of eight octets to small letters. Lengths of labels are below 64 and no letters.
static __always_inline __u64 lower_word(__u64 word)
{
	__u64 rest = word & 0x7f7f7f7f7f7f7f7fULL;
	__u64 from_a = rest + 0x3f3f3f3f3f3f3f3fULL, above_z = rest + 0x2525252525252525ULL;

	return word | (from_a & ~above_z & ~word & 0x8080808080808080ULL) >> 2;
}

// Octets that are copied between a frame and a buffer by words. For so few a call of the kernel's helper costs more, most of all on
// processors on which each return from a function is made safe.
#define BY_WORDS 512

// Copies `len` octets, 8 to BY_WORDS, of the frame from `at` on into a buffer; returns whether the frame has them.
static __always_inline int load_words(struct xdp_md *ctx, __u64 at, __u8 *b, __u64 len)
{
	__u8 *from = (void *)(long)ctx->data + at, *end = (void *)(long)ctx->data_end, *last;

	if (len < 8 || len > BY_WORDS)
		return 0;
	for (__u32 i = 0; i < BY_WORDS / 8; i++) {
		if (i >= len >> 3)
			break;
		if (from + 8 * i + 8 > end)
			return 0;
		*(__u64 *)(b + 8 * i) = *(__u64 *)(from + 8 * i);
	}
	// The last eight octets, most of them once more.
	last = from + (len - 8 & BY_WORDS - 1);
	if (last + 8 > end)
		return 0;
	*(__u64 *)(b + (len - 8 & BY_WORDS - 1)) = *(__u64 *)last;
	return 1;
}

// Returns the first octets of a word, 0 to 8 of them, the others as zeros.
static __always_inline __u64 first_octets(__u64 word, __u32 octets)
{
	return octets < 8 ? word & (1ULL << 8 * (octets & 7)) - 1 : word;
}

// Copies `len` octets, 8 to BY_WORDS, of a buffer into the frame from `at` on, and adds them to a sum of words; returns whether it has
// room for them. The buffer has at least eight octets behind them.
static __always_inline int store_words(struct xdp_md *ctx, __u64 at, const __u8 *b, __u64 len, __u64 *sum)
{
	__u8 *to = (void *)(long)ctx->data + at, *end = (void *)(long)ctx->data_end, *last;
	__u64 word, total = 0;

	if (len < 8 || len > BY_WORDS)
		return 0;
	for (__u32 i = 0; i < BY_WORDS / 8; i++) {
		if (i >= len >> 3)
			break;
		if (to + 8 * i + 8 > end)
			return 0;
		word = *(__u64 *)(b + 8 * i);
		*(__u64 *)(to + 8 * i) = word;
		total += (word & 0xffffffff) + (word >> 32);
	}
	word = first_octets(*(__u64 *)(b + (len & BY_WORDS - 8)), len & 7);
	*sum += total + (word & 0xffffffff) + (word >> 32);
	last = to + (len - 8 & BY_WORDS - 1);
	if (last + 8 > end)
		return 0;
	*(__u64 *)last = *(__u64 *)(b + (len - 8 & BY_WORDS - 1));
	return 1;
}

// Returns the checksum of a sum of words of 16 bits.
static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

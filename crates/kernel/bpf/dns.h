/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
//
// What all programs know of DNS messages and of checksums. No map.
#pragma once

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

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

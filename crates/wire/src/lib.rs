//! Bytes of DNS messages: query templates, reply checks, RFC 6052, the dns64perf namespace.

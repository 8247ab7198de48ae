// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

// Span is a range of bytes in a body, from Start to End (exclusive).
type Span struct{ Start, End int32 }

// Empty reports whether the span has no bytes. Absent members have empty spans.
func (s Span) Empty() bool { return s.End <= s.Start }

// Len returns the number of bytes in the span.
func (s Span) Len() int { return int(s.End - s.Start) }

// Of returns the span's bytes of raw, without copying.
func (s Span) Of(raw []byte) []byte { return raw[s.Start:s.End] }

// Shift returns the span moved by this number of bytes. An empty span is not moved.
func (s Span) Shift(by int32) Span {
	if s.Empty() {
		return s
	}
	return Span{s.Start + by, s.End + by}
}

// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"testing/iotest"
	"time"
)

// However a stream is split, each event is read once.
func TestLateness(t *testing.T) {
	var stream bytes.Buffer
	stream.WriteString(crowdStart)
	for range 500 {
		fmt.Fprintf(&stream, "%s%d%s", crowdBefore, time.Now().Add(-time.Hour).UnixNano(), crowdBehind)
	}
	stream.WriteString(crowdEnd)
	for name, r := range map[string]io.Reader{
		"whole":         bytes.NewReader(stream.Bytes()),
		"halves":        iotest.HalfReader(bytes.NewReader(stream.Bytes())),
		"bytes":         iotest.OneByteReader(bytes.NewReader(stream.Bytes())),
		"data with EOF": iotest.DataErrReader(bytes.NewReader(stream.Bytes())),
	} {
		delays, err := lateness(r)
		if err != nil || len(delays) != 500 {
			t.Errorf("%s: %d events, %v", name, len(delays), err)
		}
		for _, d := range delays {
			if d < time.Hour || d > 2*time.Hour {
				t.Errorf("%s: one is %s old", name, d)
				break
			}
		}
	}
	if _, err := lateness(iotest.TimeoutReader(iotest.OneByteReader(bytes.NewReader(stream.Bytes())))); err == nil {
		t.Error("a stream that broke off is taken for whole")
	}
}

func TestNextSent(t *testing.T) {
	mark, at := clockedMark, "1800000000123456789"
	for _, c := range []struct {
		name, in, rest string
		sent           int64
		ok             bool
	}{
		{"nothing", "", "", 0, false},
		{"no mark", "data: {}", "data: {}", 0, false},
		{"half a mark", mark[:5], mark[:5], 0, false},
		{"half a time", mark + at[:7], mark + at[:7], 0, false},
		{"an event", "data: " + mark + at + ` word"}`, ` word"}`, 1800000000123456789, true},
		{"two", mark + at + mark + at, mark + at, 1800000000123456789, true},
	} {
		if sent, rest, ok := nextSent([]byte(c.in)); sent != c.sent || string(rest) != c.rest || ok != c.ok {
			t.Errorf("%s: %d, %q, %t", c.name, sent, rest, ok)
		}
	}
}

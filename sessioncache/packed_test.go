// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"math"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// The reader reads all written values. A cut-off input yields zeros.
func TestRoundTrip(t *testing.T) {
	began, hash := time.Unix(1_790_000_000, 7), wire.AnswerID("msg_1")
	var w PackedWriter
	w.Uint(300)
	w.Int(-300)
	w.Fixed(math.MaxUint64)
	w.Bool(true)
	w.Float(0)
	w.Float(-1.5)
	w.Bytes([]byte("bytes"))
	w.Text("")
	w.Name("again")
	w.Name("once")
	w.Name("again")
	w.Hash(hash)
	w.Hash(wire.Hash{})
	w.Time(began.Add(-time.Minute), began)
	w.Time(time.Time{}, began)
	w.Uint(9)
	read := func(r *PackedReader) bool {
		return r.Small(300) == 300 && r.Int() == -300 && r.Fixed() == math.MaxUint64 && r.Bool() &&
			r.Float() == 0 && r.Float() == -1.5 && string(r.Bytes()) == "bytes" && r.Text() == "" &&
			r.Name() == "again" && r.Name() == "once" && r.Name() == "again" &&
			r.Hash() == hash && r.Hash().IsZero() && r.Time(began).Equal(began.Add(-time.Minute)) && r.Time(began).IsZero() &&
			r.Uint() == 9
	}
	r := PackedReader{In: w.Out}
	if !read(&r) || r.Bad || len(r.In) > 0 {
		t.Errorf("%+v is left", r)
	}
	for n := range w.Out {
		r := PackedReader{In: w.Out[:n]}
		if read(&r) || r.Uint() != 0 || !r.Bad {
			t.Errorf("cut to %d bytes: %+v", n, r)
		}
	}
	if r := (PackedReader{In: w.Out}); r.Small(299) != 0 || !r.Bad {
		t.Error("a number above its bound is read")
	}
}

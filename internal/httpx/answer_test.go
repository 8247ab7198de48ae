// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// flushed is a client's writer that tells of its flushes.
type flushed struct {
	*httptest.ResponseRecorder
	n chan struct{}
}

func (f *flushed) FlushError() error {
	f.n <- struct{}{}
	return nil
}

func newFlushed() *flushed { return &flushed{httptest.NewRecorder(), make(chan struct{}, 10)} }

func TestFlushes(t *testing.T) {
	const flush, write, finish, late = 'f', 'w', 's', 'l'
	for _, test := range []struct {
		name   string
		stream bool
		does   string // events, in order; late: the timer fires
		now    int    // flushes at the time they are asked for
		late   int    // flushes by the timer
	}{
		{"the body comes with the header", true, "fwflf", 1, 0},
		{"the body comes late", true, "flwf", 1, 1},
		{"asked twice, flushed once", true, "fflwf", 1, 1},
		{"nothing new", true, "wfffwf", 2, 0},
		{"no stream", false, "fwf", 2, 0},
		{"over before the timer fires", true, "fsl", 0, 0},
		{"settled, and asked again", true, "fsfl", 0, 1},
	} {
		var (
			f   Flushes
			all = Headers{waiting: []*loneHeader{{}}} // the first sets the timer: there is none
			w   = newFlushed()
			now int
		)
		for _, do := range test.does {
			switch do {
			case flush:
				if f.Due(w, test.stream, &all) {
					now++
				}
			case write:
				f.Wrote()
			case finish:
				f.Finish()
			case late:
				all.flush()
			}
		}
		if now != test.now || len(w.n) != test.late {
			t.Errorf("%s: %d flushes at once and %d late, want %d and %d", test.name, now, len(w.n), test.now, test.late)
		}
	}
}

// TestLoneHeaderIsFlushed: a header without a body in time is sent alone.
func TestLoneHeaderIsFlushed(t *testing.T) {
	var (
		f   [3]Flushes
		all Headers
	)
	for i := range f {
		w := newFlushed()
		if f[i].Due(w, true, &all) {
			t.Error("a header does not wait for its body")
		}
		<-w.n
	}
}

// TestFlushFails: a writer that panics costs the others nothing.
func TestFlushFails(t *testing.T) {
	var (
		f, g Flushes
		all  Headers
	)
	w := newFlushed()
	f.Due(struct{ http.ResponseWriter }{nil}, true, &all)
	g.Due(panicking{}, true, &all)
	var h Flushes
	h.Due(w, true, &all)
	<-w.n
}

type panicking struct{ http.ResponseWriter }

func (panicking) FlushError() error { panic("of a test") }

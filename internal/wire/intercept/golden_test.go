// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package intercept_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/golden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
)

// TestGoldens intercepts the answers of the files in testdata: calls of Now are intercepted, calls of
// Bash watched for the marks in marked. The sections of a file:
//
//   - "stream: format" is a stream of an upstream. The next one answers the request that the
//     interceptor makes after it.
//   - "answer: format" is a JSON answer.
//   - "want" is the client's stream or answer. A line at the end tells that the upstream is to be asked
//     again (the output is that of a handler that does not), that the stream has failed, or that it is
//     cut.
//   - "alike" has a character for each event of the stream: "!" for an event that is read by the
//     pattern of the one before.
//   - "client" is the client's next request, "upstream" the same with the intercepted calls put back.
func TestGoldens(t *testing.T) {
	o := options
	o.Marks = func() *intercept.Marks { return marked }
	golden.Run(t, "testdata", func(t *testing.T, sections []golden.Section) {
		var streams [][]byte
		var format wire.Format
		var iterations []intercept.Iteration
		var request string
		for i := range sections {
			s := &sections[i]
			switch s.Kind {
			case "stream", "answer":
				if i == 0 || sections[i-1].Kind != s.Kind {
					streams = nil
				}
				format, streams = wire.Format(s.Args[0]), append(streams, []byte(golden.Compact(s.Text)))
			case "want":
				if sections[i-1].Kind == "answer" {
					out, done := intercept.NewInterceptor(format, o).Whole(streams[0])
					if s.Text = golden.Indent(out); !done {
						s.Text += "(asks again)\n"
					}
					continue
				}
				s.Text, iterations = goldenStream(t, o, format, streams)
			case "alike":
				s.Text = alike(o, format, string(streams[0]))
			case "client":
				request = golden.Compact(s.Text)
			case "upstream":
				s.Text = putBack(t, format, request, iterations)
			default:
				t.Fatalf("a section of the kind %q", s.Kind)
			}
		}
	})
}

// goldenStream combines streams, in pieces of any size and with and without event patterns.
func goldenStream(t *testing.T, o intercept.Options, f wire.Format, streams [][]byte) (string, []intercept.Iteration) {
	t.Helper()
	text, r := intercepted(o, f, 1<<20, streams...)
	for name, other := range map[string]func() (string, *intercept.Interceptor){
		"byte by byte":   func() (string, *intercept.Interceptor) { return intercepted(o, f, 1, streams...) },
		"event by event": func() (string, *intercept.Interceptor) { return interceptedApart(o, f, streams...) },
	} {
		if got, apart := other(); got != text || apart.Size() != r.Size() ||
			!reflect.DeepEqual(apart.Iterations(), r.Iterations()) {
			t.Errorf("%s: got\n%s\n%+v\nwant\n%s\n%+v", name, got, apart.Iterations(), text, r.Iterations())
		}
	}
	switch {
	case asks(o, f, streams):
		text += "(asks again)\n"
	case r.Failed():
		text += "(failed)\n"
	case !r.Ended():
		text += "(cut)\n"
	}
	return text, r.Iterations()
}

// asks reports whether the upstream is to be asked again after the last stream.
func asks(o intercept.Options, f wire.Format, streams [][]byte) bool {
	r := intercept.NewInterceptor(f, o)
	for i, s := range streams {
		if i > 0 {
			r.Next()
		}
		r.Feed(s)
		r.End()
	}
	return r.Asks()
}

func alike(o intercept.Options, f wire.Format, stream string) string {
	r, got := intercept.NewInterceptor(f, o), ""
	for event := range strings.SplitAfterSeq(stream, "\n\n") {
		if data, ok := strings.CutPrefix(event, "data: "); ok {
			if r.Alike([]byte(strings.TrimSpace(data))) {
				got += "!"
			} else {
				got += "."
			}
		}
		r.Feed([]byte(event))
	}
	return got + "\n"
}

// putBack puts the calls back into the message after the first one, with "text" as their results.
func putBack(t *testing.T, f wire.Format, request string, iterations []intercept.Iteration) string {
	t.Helper()
	for i := range iterations {
		for _, p := range iterations[i].Intercepted() {
			p.Result = "text"
		}
	}
	v, err := wire.Parse(f, []byte(request), nil)
	if err != nil {
		t.Fatal(err)
	}
	edits, ok := intercept.Reinsert(v, 1, iterations)
	if !ok {
		return "(unchanged)\n"
	}
	out, err := v.Splice(edits)
	if err != nil {
		t.Fatal(err)
	}
	return golden.Indent(out) + "\n"
}

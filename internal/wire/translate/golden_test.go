// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/golden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// TestGoldens translates the requests and answers of the files in testdata. The sections of a file:
//
//   - "client: format" is a client's request.
//   - "upstream: format options" is the output of translate.Convert: the body, and lines that name
//     the dropped fields and the stop sequences at which the answer is cut. An error stands in place
//     of all. The options are the fields of translate.Options in lower case: model=gpt-5 official.
//   - "stream: format" and "answer: format" are the bytes of an upstream, server-sent events or JSON,
//     "failure: format status (server)" is the body of an error.
//   - "want: format options" is the output for a client that wants JSON, and with the option stream
//     for one that wants events. The other options are fields of translate.Answering in lower case.
//     "(cut)" at the end: the answer has not ended. A client gets the upstream's answer of its own
//     kind, if there are both.
//
// A file may have several requests and answers, each before its outputs.
//
// JSON is laid out in lines here. The translation reads and writes compact JSON. The requests in
// testdata/features and testdata/clients belong to other tests.
func TestGoldens(t *testing.T) {
	check := func(t *testing.T, sections []golden.Section) {
		in := map[string]*golden.Section{}
		for i := range sections {
			s := &sections[i]
			switch s.Kind {
			case "client", "stream", "answer", "failure":
				if i > 0 && (sections[i-1].Kind == "upstream" || sections[i-1].Kind == "want") {
					clear(in)
				}
				in[s.Kind] = s
			case "upstream":
				s.Text = goldenRequest(t, in["client"], s.Args)
			case "want":
				s.Text = goldenAnswer(t, in, s.Args)
			default:
				t.Fatalf("a section of the kind %q", s.Kind)
			}
		}
	}
	t.Run("requests", func(t *testing.T) { golden.Run(t, "testdata/requests", check) })
	t.Run("answers", func(t *testing.T) { golden.Run(t, "testdata/answers", check) })
}

// goldenRequest translates a request and describes the result.
func goldenRequest(t *testing.T, request *golden.Section, args []string) string {
	t.Helper()
	from, to := wire.Format(request.Args[0]), wire.Format(args[0])
	var o translate.Options
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "model":
			o.Model = func(string) string { return value }
		case "official":
			o.Official = true
		case "cachecontrol":
			o.CacheControl = true
		case "breakpoints":
			o.Breakpoints = true
		case "cachekey":
			o.CacheKey = value
		case "progress":
			o.Progress = true
		default:
			t.Fatalf("no option %s", name)
		}
	}
	path, query := pathOf(from)
	out, err := translate.Convert(from, to,
		translate.Incoming{Body: []byte(golden.Compact(request.Text)), Path: path, Query: query}, o)
	if refused, ok := errors.AsType[*translate.Unsupported](err); ok {
		return fmt.Sprintf("unsupported: %v\n", refused)
	} else if err != nil {
		t.Fatal(err)
	}
	if err := translate.WellFormed(out.Body.Bytes()); err != nil {
		t.Errorf("%v: %s", err, out.Body.Bytes())
	}
	lines := golden.Indent(out.Body.Bytes()) + "\n"
	for _, dropped := range out.Dropped {
		lines += "dropped: " + dropped + "\n"
	}
	for _, stop := range out.Stop {
		lines += fmt.Sprintf("stop: %q\n", stop)
	}
	return lines
}

// goldenAnswer translates an answer, in one piece and byte by byte.
func goldenAnswer(t *testing.T, in map[string]*golden.Section, args []string) string {
	t.Helper()
	to := wire.Format(args[0])
	if f := in["failure"]; f != nil {
		status, err := strconv.Atoi(f.Args[1])
		if err != nil {
			t.Fatal(err)
		}
		return goldenFailure(translate.ReadFailure(wire.Format(f.Args[0]), status, []byte(golden.Compact(f.Text))), to)
	}
	asked := translate.Answering{Seed: seed}
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "stream":
			asked.Stream = true
		case "usage":
			asked.Usage = true
		case "buffercalls":
			asked.BufferCalls = true
		case "inlinethinking":
			asked.InlineThinking = true
		case "array":
			asked.Array = true
		default:
			t.Fatalf("no option %s=%s", name, value)
		}
	}
	from := in["answer"]
	if stream := in["stream"]; asked.Stream && stream != nil || from == nil {
		from = stream
	}
	data := golden.Compact(from.Text)
	out, s := run(wire.Format(from.Args[0]), to, asked, []byte(data))
	cuts := make([]int, len(data))
	for i := range cuts {
		cuts[i] = i
	}
	if bytewise, _ := run(wire.Format(from.Args[0]), to, asked, []byte(data), cuts...); string(bytewise) != string(out) {
		t.Errorf("%v byte by byte:\n%s\nwant\n%s", args, bytewise, out)
	}
	if f := s.Failure(); f != nil {
		return string(out) + goldenFailure(f, to)
	}
	text := string(out)
	if !asked.Stream || asked.Array {
		text = golden.Indent(out)
	} else if err := wellFormedOutput(to, true, out); err != nil {
		t.Errorf("%v: %v in\n%s", args, err, out)
	}
	if !s.Ended() {
		text += "(cut)\n"
	}
	return text
}

func goldenFailure(f *translate.Failure, to wire.Format) string {
	status, body := f.Write(to)
	return fmt.Sprintf("status: %d\n%s\n", status, golden.Indent(body))
}

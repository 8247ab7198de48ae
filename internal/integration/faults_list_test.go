// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// fault is a way in which an answer can be bad. Its script makes that answer of a
// good one.
type fault struct {
	name   string
	of     answersOf
	script func(s sample) script
}

type answersOf uint8

const (
	both answersOf = iota
	streams
	documents
)

func (f fault) has(stream bool) bool {
	return f.of == both || (f.of == streams) == stream
}

func packedAs(coding, s string) string {
	var b bytes.Buffer
	switch coding {
	case "gzip":
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(s))
		_ = z.Close()
	case "zstd":
		z, _ := zstd.NewWriter(&b)
		_, _ = z.Write([]byte(s))
		_ = z.Close()
	case "deflate":
		z, _ := flate.NewWriter(&b, 5)
		_, _ = z.Write([]byte(s))
		_ = z.Close()
	}
	return b.String()
}

// edited is a fault of a stream whose events are made anew.
func edited(name string, f func(s sample, e []string) []string) fault {
	return fault{name, streams, func(s sample) script { return s.good(f(s, append([]string{}, s.events...))...) }}
}

// rewritten is a fault of the bytes of an answer's body.
func rewritten(name string, of answersOf, f func(body string) string) fault {
	return fault{name, of, func(s sample) script { return s.good(f(s.body)) }}
}

// answered is a fault of what an answer is in place of a good one.
func answered(name string, f func(s sample) script) fault { return fault{name, both, f} }

func faults() (all []fault) {
	add := func(f ...fault) { all = append(all, f...) }
	const html = "<!DOCTYPE html>\n<html><body><h1>Bad gateway</h1></body></html>\n"

	add(answered("none", func(s sample) script { return s.good() }), answered("close-delimited", func(s sample) script {
		return script{pieces: []string{head("200 OK", "Content-Type: "+s.kind(), "Connection: close") + s.body}}
	}), answered("with a length", func(s sample) script { return sized("200 OK", s.kind(), s.body) }),
		answered("in chunks", func(s sample) script { return chunked("200 OK", s.kind(), []string{s.body}) }),
		answered("HTTP/1.0", func(s sample) script {
			return script{pieces: []string{"HTTP/1.0 200 OK\r\nContent-Type: " + s.kind() + "\r\n\r\n" + s.body}}
		}))

	// Statuses.
	for _, status := range []string{"100 Continue", "102 Processing", "103 Early Hints"} {
		add(answered(status, func(s sample) script {
			out := s.good()
			out.pieces = append([]string{head(status, "Link: </x>; rel=preload")}, out.pieces...)
			return out
		}))
	}
	for _, status := range []string{"201 Created", "202 Accepted", "206 Partial Content"} {
		add(answered(status, func(s sample) script { return sized(status, s.kind(), s.body) }))
	}
	for _, status := range []string{"204 No Content", "205 Reset Content", "304 Not Modified"} {
		add(answered(status,
			func(s sample) script { return script{pieces: []string{head(status, "Content-Type: "+s.kind())}} }))
	}
	for _, status := range []string{
		"301 Moved Permanently", "302 Found", "307 Temporary Redirect",
		"308 Permanent Redirect",
	} {
		add(answered(status, func(sample) script {
			return sized(status, "text/html", html,
				"Location: http://example.com/x")
		}))
	}
	for _, status := range []string{
		"400 Bad Request", "401 Unauthorized", "402 Payment Required", "403 Forbidden",
		"404 Not Found", "408 Request Timeout", "409 Conflict", "413 Request Entity Too Large", "418 Teapot",
		"422 Unprocessable Entity", "451 Unavailable", "500 Internal Server Error", "501 Not Implemented", "529 Overloaded",
		"599 Odd", "799 Odder",
	} {
		add(answered(status, func(s sample) script { return sized(status, "application/json", s.failed) }))
	}
	add(
		answered("429 with Retry-After", func(s sample) script {
			return sized("429 Too Many Requests", "application/json", s.failed, "Retry-After: 7")
		}),
		answered("429 without a body", func(sample) script { return sized("429 Too Many Requests", "", "") }),
		answered("503 until a date", func(s sample) script {
			return sized("503 Service Unavailable", "application/json", s.failed, "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT")
		}),
		answered("400 html", func(sample) script { return sized("400 Bad Request", "text/html", html) }),
		answered("400 empty", func(sample) script { return sized("400 Bad Request", "application/json", "") }),
		answered("400 cut", func(s sample) script {
			return script{pieces: []string{head("400 Bad Request", "Content-Type: application/json", "Content-Length: 1000") +
				s.failed}}
		}),
		answered("400 packed", func(s sample) script {
			return sized("400 Bad Request", "application/json", packedAs("gzip", s.failed), "Content-Encoding: gzip")
		}),
		answered("400 packed falsely", func(s sample) script {
			return sized("400 Bad Request", "application/json", s.failed, "Content-Encoding: gzip")
		}),
		answered("400 long", func(s sample) script {
			return sized("400 Bad Request", "application/json", strings.Replace(s.failed, "bad", strings.Repeat("bad ", 50000),
				1))
		}),
		answered("400 as events", func(s sample) script {
			return chunked("400 Bad Request", "text/event-stream", []string{"event: error\ndata: " + s.failed + "\n\n"})
		}),
		answered("502 html", func(sample) script { return sized("502 Bad Gateway", "text/html", html) }),
		answered("500 text", func(sample) script {
			return sized("500 Internal Server Error", "text/plain", "upstream connect error or disconnect/reset before headers")
		}),
		answered("500 empty", func(sample) script { return sized("500 Internal Server Error", "", "") }),
		answered("401 of another vendor", func(sample) script {
			return sized("401 Unauthorized", "application/json",
				`{"detail":[{"loc":["header"],"msg":"no key"}],"fault":{"faultstring":"x"}}`)
		}),
		answered("400 of a vendor's list", func(sample) script {
			return sized("400 Bad Request", "application/json",
				`[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]`)
		}),
		answered("400 of a word", func(sample) script {
			return sized("400 Bad Request", "application/json", `{"error":"tool_use is not known"}`)
		}),
		answered("200 of an error", func(s sample) script { return sized("200 OK", "application/json", s.failed) }),
		answered("200 html", func(sample) script { return sized("200 OK", "text/html", html) }),
		answered("200 empty", func(s sample) script { return sized("200 OK", s.kind(), "") }),
		answered("200 without chunks", func(s sample) script { return chunked("200 OK", s.kind(), nil) }),
		answered("200 of nothing", func(sample) script { return sized("200 OK", "", "") }),
	)

	// Types.
	for name, kind := range map[string]string{
		"no type": "", "as text": "text/plain", "as html": "text/html", "as bytes": "application/octet-stream",
		"as lines":    "application/x-ndjson",
		"in capitals": "TEXT/EVENT-STREAM", "with a charset": "application/json; charset=latin1", "of no type": "foo bar",
		"as json": "application/json", "as events": "text/event-stream; charset=UTF-8",
	} {
		add(answered(name, func(s sample) script {
			if s.stream {
				return chunked("200 OK", kind, s.events)
			}
			return sized("200 OK", kind, s.body)
		}))
	}
	add(fault{"a document for a stream", streams, func(s sample) script {
		return sized("200 OK", "application/json", sampleOf(s.format, false).body)
	}}, fault{"a document called a stream", streams, func(s sample) script {
		return sized("200 OK", "text/event-stream", sampleOf(s.format, false).body)
	}}, fault{"a stream for a document", documents, func(s sample) script {
		return sampleOf(s.format, true).good()
	}})

	// Lengths and connections.
	for name, at := range map[string]func(n int) int{
		"cut at once": func(int) int { return 0 }, "cut in the first bytes": func(int) int { return 9 },
		"cut in the middle": func(n int) int { return n / 2 }, "cut before the last byte": func(n int) int { return n - 1 },
	} {
		for _, reset := range []bool{false, true} {
			name := name
			if reset {
				name += ", reset"
			}
			add(answered(name, func(s sample) script {
				if s.stream {
					body := s.body[:at(len(s.body))]
					out := chunked("200 OK", s.kind(), []string{body})
					out.pieces, out.reset = out.pieces[:len(out.pieces)-1], reset
					return out
				}
				out := sized("200 OK", s.kind(), s.body)
				out.pieces[0] = out.pieces[0][:len(out.pieces[0])-len(s.body)+at(len(s.body))]
				out.reset = reset
				if reset {
					out.pieces, out.pause = append(out.pieces, ""), 20*time.Millisecond
				}
				return out
			}))
		}
	}
	add(
		answered("cut in a chunk", func(s sample) script {
			out := chunked("200 OK", s.kind(), []string{s.body})
			out.pieces = []string{out.pieces[0], out.pieces[1][:len(out.pieces[1])/2]}
			return out
		}),
		answered("a chunk of no size", func(s sample) script {
			out := chunked("200 OK", s.kind(), []string{s.body[:40]})
			out.pieces[2] = "zz\r\n" + s.body[40:]
			return out
		}),
		answered("a chunk without an end", func(s sample) script {
			out := chunked("200 OK", s.kind(), []string{s.body[:40]})
			out.pieces[2] = "ffffffffff\r\n" + s.body[40:]
			return out
		}),
		answered("a length below zero", func(s sample) script {
			return script{pieces: []string{head("200 OK", "Content-Type: "+s.kind(), "Content-Length: -5") + s.body}}
		}),
		answered("two lengths", func(s sample) script {
			return script{pieces: []string{head("200 OK", "Content-Type: "+s.kind(), "Content-Length: 5", "Content-Length: "+
				strconv.Itoa(len(s.body))) + s.body}}
		}),
		answered("longer than it says", func(s sample) script {
			return script{pieces: []string{head("200 OK", "Content-Type: "+s.kind(), "Content-Length: "+
				strconv.Itoa(len(s.body)/2)) + s.body}}
		}),
		answered("closed", func(sample) script { return script{} }),
		answered("reset", func(sample) script { return script{reset: true} }),
		answered("closed in the header",
			func(sample) script { return script{pieces: []string{"HTTP/1.1 200 OK\r\nContent-Ty"}} }),
		answered("no HTTP", func(sample) script { return script{pieces: []string{"SSH-2.0-OpenSSH_9.9\r\n"}} }),
		answered("a header that is none", func(s sample) script {
			return script{pieces: []string{head("200 OK", "Content-Type: "+s.kind(), "no colon here") + s.body}}
		}),
		answered("switching", func(sample) script {
			return script{pieces: []string{head("101 Switching Protocols", "Upgrade: x", "Connection: Upgrade")}}
		}),
		answered("an unknown transfer coding", func(s sample) script {
			return script{pieces: []string{head("200 OK", "Content-Type: "+s.kind(), "Transfer-Encoding: gzip, chunked") +
				chunk(s.body) + "0\r\n\r\n"}}
		}),
		answered("many headers", func(s sample) script {
			var headers []string
			for i := range 200 {
				headers = append(headers, "X-Many-"+strconv.Itoa(i)+": v")
			}
			return sized("200 OK", s.kind(), s.body, append(headers, "Set-Cookie: a=1", "Set-Cookie: b=2", "X-Request-Id: r")...)
		}),
		answered("trailers", func(s sample) script {
			out := chunked("200 OK", s.kind(), []string{s.body}, "Trailer: X-Checksum")
			out.pieces[len(out.pieces)-1] = "0\r\nX-Checksum: 42\r\n\r\n"
			return out
		}),
		answered("byte by byte", func(s sample) script { return s.good(strings.Split(s.body, "")...) }),
		answered("dribbling", func(s sample) script {
			out := chunked("200 OK", s.kind(), []string{s.body[:30], s.body[30:60], s.body[60:]})
			out.pause = 5 * time.Millisecond
			return out
		}),
	)

	// Codings.
	for _, coding := range []string{"gzip", "zstd", "deflate", "br", "identity", "foo"} {
		add(answered(coding+", falsely", func(s sample) script {
			return sized("200 OK", s.kind(), s.body,
				"Content-Encoding: "+coding)
		}))
		if packed := packedAs(coding, "x"); packed != "" {
			add(answered(coding, func(s sample) script {
				return sized("200 OK", s.kind(), packedAs(coding, s.body), "Content-Encoding: "+coding)
			}), answered(coding+", cut", func(s sample) script {
				p := packedAs(coding, s.body)
				return sized("200 OK", s.kind(), p[:len(p)/2], "Content-Encoding: "+coding)
			}), answered(coding+", of nothing", func(s sample) script {
				return sized("200 OK", s.kind(), packedAs(coding, ""), "Content-Encoding: "+coding)
			}), answered(coding+", broken", func(s sample) script {
				p := []byte(packedAs(coding, s.body))
				p[len(p)/2] ^= 0x55
				return sized("200 OK", s.kind(), string(p), "Content-Encoding: "+coding)
			}), answered(coding+", with more behind", func(s sample) script {
				return sized("200 OK", s.kind(), packedAs(coding, s.body)+"more", "Content-Encoding: "+coding)
			}))
		}
	}
	add(answered("packed without saying so",
		func(s sample) script { return sized("200 OK", s.kind(), packedAs("gzip", s.body)) }))

	// Framing.
	add(
		rewritten("lines end in CRLF", streams, func(b string) string { return strings.ReplaceAll(b, "\n", "\r\n") }),
		rewritten("lines end in CR", streams, func(b string) string { return strings.ReplaceAll(b, "\n", "\r") }),
		rewritten("lines end in CR, not the last", streams,
			func(b string) string { return strings.TrimRight(strings.ReplaceAll(b, "\n", "\r"), "\r") }),
		rewritten("no blank line behind the last", streams, func(b string) string { return strings.TrimRight(b, "\n") }),
		rewritten("one line end behind the last", streams,
			func(b string) string { return strings.TrimRight(b, "\n") + "\n" }),
		rewritten("a byte order mark", both, func(b string) string { return "\xEF\xBB\xBF" + b }),
		rewritten("blank lines in front", both, func(b string) string { return "\r\n\n\n" + b }),
		rewritten("blank lines behind", both, func(b string) string { return b + "\n\n\n\n" }),
		rewritten("no blank behind the colon", streams,
			func(b string) string { return strings.ReplaceAll(b, "data: ", "data:") }),
		rewritten("NULs", both, func(b string) string { return strings.Replace(b, "Done", "Do\x00ne", 1) }),
		rewritten("no UTF-8", both, func(b string) string { return strings.Replace(b, "Done", "Do\xff\xfene", 1) }),
		rewritten("huge", both, func(b string) string {
			return strings.Replace(b, "Done",
				strings.Repeat("Done and done. ", 100000), 1)
		}),
		rewritten("garbage behind", both, func(b string) string { return b + "garbage" }),
		rewritten("twice", both, func(b string) string { return b + b }),
		edited("comments", func(_ sample, e []string) []string { return append([]string{": hello\n\n", ":\n"}, e...) }),
		edited("only comments", func(sample, []string) []string { return []string{": ping\n\n", ": ping\n\n"} }),
		edited("a long comment", func(_ sample, e []string) []string {
			return append([]string{":" + strings.Repeat("x", 1<<20) + "\n\n"}, e...)
		}),
		edited("fields of no event", func(_ sample,
			e []string,
		) []string {
			return append([]string{"id: 1\nretry: 5\nfoo: bar\n\n"}, e...)
		}),
		edited("ids", func(_ sample, e []string) []string {
			for i := range e {
				e[i] = "id: " + strconv.Itoa(i) + "\n" + e[i]
			}
			return e
		}),
		edited("pings", func(s sample, e []string) []string {
			return append([]string{e[0], "event: ping\ndata: {\"type\":\"ping\"}\n\n"}, e[1:]...)
		}),
		edited("empty data", func(_ sample, e []string) []string {
			return append([]string{e[0], "data:\n\n", "data\n\n"},
				e[1:]...)
		}),
		edited("data in several lines", func(_ sample, e []string) []string {
			e[1] = strings.Replace(e[1], `,"`, ",\ndata: \"", 1)
			return e
		}),
		edited("no names", func(_ sample, e []string) []string {
			for i := range e {
				e[i] = e[i][strings.Index(e[i], "data:"):]
			}
			return e
		}),
		edited("wrong names", func(_ sample, e []string) []string {
			for i := range e {
				e[i] = "event: foo\n" + e[i][strings.Index(e[i], "data:"):]
			}
			return e
		}),
		edited("an unknown event", func(_ sample, e []string) []string {
			return append([]string{e[0], "event: foo\ndata: {\"type\":\"foo\",\"x\":1}\n\n"}, e[1:]...)
		}),
		edited("an event that is no JSON", func(_ sample,
			e []string,
		) []string {
			return append([]string{e[0], "data: {nope\n\n"}, e[1:]...)
		}),
		edited("an event that is a list", func(_ sample, e []string) []string {
			return append([]string{e[0], "data: [1]\n\n"},
				e[1:]...)
		}),
		edited("a deep event", func(_ sample, e []string) []string {
			return append([]string{e[0], "data: {\"x\":" + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}\n\n"},
				e[1:]...)
		}),
		edited("an error first", func(s sample, _ []string) []string {
			return []string{"event: error\ndata: " + s.failed +
				"\n\n"}
		}),
		edited("an error in the middle", func(s sample, e []string) []string {
			return append(e[:2:2], "event: error\ndata: "+s.failed+"\n\n")
		}),
		edited("a bare error", func(s sample, e []string) []string { return append(e[:2:2], s.failed+"\n\n") }),
		edited("an error and more", func(s sample, e []string) []string {
			return append(append(e[:2:2], "event: error\ndata: "+s.failed+"\n\n"), e[2:]...)
		}),
		edited("no end", func(_ sample, e []string) []string { return e[:len(e)-1] }),
		edited("only the beginning", func(_ sample, e []string) []string { return e[:1] }),
		edited("only the end", func(_ sample, e []string) []string { return e[len(e)-1:] }),
		edited("half an event at the end", func(_ sample, e []string) []string {
			last := e[len(e)-1]
			return append(e[:len(e)-1], last[:len(last)/2])
		}),
		edited("the end twice", func(_ sample, e []string) []string { return append(e, e[len(e)-1]) }),
		edited("events behind the end", func(_ sample, e []string) []string { return append(e, e[1]) }),
		edited("in another order", func(_ sample, e []string) []string {
			e[0], e[1] = e[1], e[0]
			return e
		}),
		edited("an event twice", func(_ sample, e []string) []string { return append(e[:2:2], e[1:]...) }),
		edited("done behind", func(s sample, e []string) []string { return append(e, "data: [DONE]\n\n") }),
	)

	// Documents.
	for name, body := range map[string]string{
		"no JSON": `{"id":`, "an empty object": "{}", "an empty list": "[]", "null": "null", "a string": `"x"`,
		"a number": "1", "white space": " \n ", "NaN": `{"id":NaN}`,
		"deep": strings.Repeat("[", 20000) + strings.Repeat("]", 20000), "deep within": `{"id":"x","x":` +
			strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000) + "}",
	} {
		add(fault{name, documents, func(s sample) script { return sized("200 OK", s.kind(), body) }})
	}
	add(rewritten("half a document", documents, func(b string) string { return b[:len(b)/2] }))
	return all
}

// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// geminiConversation is a request to Gemini with that many steps of a call and
// its response in a finished task.
func geminiConversation(turns int) string {
	var b strings.Builder
	b.WriteString(`{"contents":[{"role":"user","parts":[{"text":"Fix the build."}]}`)
	for i := range turns {
		fmt.Fprintf(&b,
			`,{"role":"model","parts":[{"functionCall":{"name":"read_file","args":{"file_path":"/src/file%d.go"}},`+
				`"thoughtSignature":"c2ln"}]}`, i)
		result := strings.Repeat(fmt.Sprintf("line of file %d: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\\n", i), 40)
		fmt.Fprintf(&b, `,{"role":"user","parts":[{"functionResponse":{"name":"read_file","response":{"output":"%s"}}}]}`,
			result)
	}
	b.WriteString(`],"systemInstruction":{"parts":[{"text":"You are an agent."}]},` +
		`"tools":[{"functionDeclarations":[{"name":"read_file"}]}]}`)
	return b.String()
}

const (
	geminiEvents = "/v1beta/models/gemini-3.1-pro:streamGenerateContent?alt=sse"
	geminiArray  = "/v1beta/models/gemini-3.1-pro:streamGenerateContent"
)

var geminiChunks = []string{
	`{"candidates":[{"content":{"parts":[{"text":"Do"}],"role":"model"},"index":0}],` +
		`"usageMetadata":{"promptTokenCount":100,"totalTokenCount":100}}`,
	`{"candidates":[{"content":{"parts":[{"text":"ne."}],"role":"model"},"finishReason":"STOP","index":0}],` +
		`"usageMetadata":{"promptTokenCount":5000,"candidatesTokenCount":2,"totalTokenCount":5002}}`,
	`{"usageMetadata":{"promptTokenCount":5000,"candidatesTokenCount":2,"cachedContentTokenCount":1234,` +
		`"totalTokenCount":5002}}`,
}

// A stream reaches a client of Gemini as it was sent, at once and with nothing
// added; what comes behind the reason for its end still counts.
func TestGeminiStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, kind           string
		before, between, end string
	}{
		"events": {geminiEvents, "text/event-stream", "data: ", "\r\n\r\n", ""},
		"array":  {geminiArray, "application/json; charset=UTF-8", "[", "\r\n", "]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			pieces := make([]string, 0, len(geminiChunks)+1)
			for i, chunk := range geminiChunks {
				before := c.before
				if c.end != "" && i > 0 {
					before = ","
				}
				if c.end == "" { // looked through for stubs and notes, event by event
					pieces = append(pieces, before+chunk+c.between)
					continue
				}
				pieces = append(pieces, before+chunk[:40], chunk[40:]+c.between)
			}
			pieces[len(pieces)-1] += c.end
			seen := make(chan struct{})
			u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ int) {
				w.Header().Set("Content-Type", c.kind)
				for _, piece := range pieces {
					_, _ = io.WriteString(w, piece)
					w.(http.Flusher).Flush()
					select {
					case <-seen:
					case <-r.Context().Done():
						return
					}
				}
			})
			p := start(t, eager(u))
			res := p.post(c.path, geminiConversation(9), "TE", "trailers", "Connection", "TE", "X-Goog-Api-Key", "k")
			for i, piece := range pieces {
				buf := make([]byte, len(piece))
				if _, err := io.ReadFull(res.Body, buf); err != nil || string(buf) != piece {
					t.Fatalf("piece %d is %q, %v; want %q", i, buf, err, piece)
				}
				seen <- struct{}{}
			}
			if rest := read(t, res); rest != "" {
				t.Errorf("more came: %q", rest)
			}
			if got := res.Trailer.Get("X-Llm-Cache-Cached-Tokens"); got != "1234" {
				t.Errorf("trailer is %q, want 1234", got)
			}
			if s := p.sessions(); len(s) != 1 || s[0].requests() != 1 || s[0].Conversations[0].Model != "gemini-3.1-pro" {
				t.Errorf("sessions are %v, want one with one request to the model of the path", s)
			}
			sent := u.last().body
			if sent == geminiConversation(9) || strings.Count(sent, `"thoughtSignature":"c2ln"`) != 9 ||
				strings.Contains(sent, "cache_control") {
				t.Errorf("sent %s", sent)
			}
		})
	}
}

// A stream that is cut stays cut and teaches nothing.
func TestGeminiCutStream(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: "+geminiChunks[0]+"\r\n\r\n")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	p := start(t, plain(u))
	res := p.post(geminiEvents, geminiConversation(3))
	if got, err := io.ReadAll(res.Body); err == nil || string(got) != "data: "+geminiChunks[0]+"\r\n\r\n" {
		t.Errorf("got %q and error %v", got, err)
	}
	if s := p.sessions(); len(s) != 0 {
		t.Errorf("sessions are %v, want none", s)
	}
}

// Models, methods and retries of one client are one session; keys in the query
// part sessions; what is no request for an answer passes unread.
func TestGeminiSessions(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, geminiChunks[1])
	})
	p := start(t, plain(u))
	ask := func(path string) response {
		res := p.post(path, geminiConversation(2))
		read(t, res)
		return res
	}
	first := ask("/v1beta/models/gemini-3.1-pro:generateContent?key=a").Header.Get("X-Llm-Cache-Session")
	for path, same := range map[string]bool{
		"/v1beta/models/gemini-3.8-flash:generateContent?key=a": true,
		"/v1beta/models/gemini-3.1-pro:generateContent?key=b":   false,
		"/team/models/gemini-3.1-pro:generateContent?key=a":     false,
	} {
		if got := ask(path).Header.Get("X-Llm-Cache-Session"); got == "" || (got == first) != same {
			t.Errorf("%s: session %q, the first is %q", path, got, first)
		}
	}
	if got := ask("/v1beta/models/gemini-3.1-pro:countTokens?key=a").Header.Get("X-Llm-Cache-Session"); got != "" {
		t.Errorf("countTokens has session %q", got)
	}
	for _, r := range u.requests() {
		if r.body != geminiConversation(2) {
			t.Errorf("%s: the body has changed", r.path)
		}
	}
}

// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	_ "github.com/caddy-llm-cache/caddy-llm-cache/extend/aws"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/bedrock"
)

// elsewhere is Claude at those who resell it.
var elsewhere = map[string]struct {
	whole, stream string // paths
	model         string
	version       string
	kind          string   // of a stream
	events        []string // of a stream
}{
	"vertex": {
		"/v1/projects/p/locations/global/publishers/anthropic/models/claude-opus-4-6@default:rawPredict",
		"/v1/projects/p/locations/global/publishers/anthropic/models/claude-opus-4-6@default:streamRawPredict",
		"claude-opus-4-6@default", "vertex-2023-10-16", "text/event-stream", events,
	},
	"bedrock": {
		"/model/arn%3Aaws%3Abedrock%3Aeu-central-1%3A1%3Ainference-profile%2Feu.anthropic.claude-opus-4-6-v1/invoke",
		"/model/eu.anthropic.claude-opus-4-6-v1%3A0/invoke-with-response-stream",
		"eu.anthropic.claude-opus-4-6-v1:0", "bedrock-2023-05-31", "application/vnd.amazon.eventstream", chunks(events),
	},
}

// chunks puts events into the chunks of Bedrock.
func chunks(events []string) (out []string) {
	for _, e := range events {
		_, data, _ := strings.Cut(e, "data: ")
		out = append(out, string(bedrock.Chunks{}.Append(nil, "", []byte(strings.TrimSpace(data)))))
	}
	return out
}

// elsewhereConversation is a conversation without the model and the stream, which the
// path tells.
func elsewhereConversation(turns int, version string) string {
	return strings.Replace(conversation(turns, false), `"model":"claude-opus-4-6","max_tokens":1000,"stream":false`,
		`"anthropic_version":"`+version+`","max_tokens":1000`, 1)
}

// Requests are edited, answers pass as they were sent and are accounted for, paths stay
// as the client has escaped them.
func TestClaudeElsewhere(t *testing.T) {
	for name, c := range elsewhere {
		t.Run(name, func(t *testing.T) {
			var paths []string
			u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
				paths = append(paths, r.URL.EscapedPath())
				if r.URL.EscapedPath() != c.stream {
					answerMessage(w, r, n)
					return
				}
				w.Header().Set("Content-Type", c.kind)
				for _, e := range c.events {
					_, _ = io.WriteString(w, e[:7])
					w.(http.Flusher).Flush()
					_, _ = io.WriteString(w, e[7:])
				}
			})
			p := start(t, eager(u))
			body := elsewhereConversation(9, c.version)
			res := p.post(c.whole, body, "Authorization", "Bearer k")
			if got := read(t, res); got != message || res.Header.Get("X-Llm-Cache-Cached-Tokens") != "1234" {
				t.Errorf("got %q with %v", got, res.Header)
			}
			if sent := u.last().body; sent == body || !strings.HasPrefix(sent, `{"anthropic_version":"`+c.version+`"`) ||
				strings.Contains(sent, `"stream"`) {
				t.Errorf("sent %s", sent)
			}
			res = p.post(c.stream, body, "Authorization", "Bearer k", "TE", "trailers", "Connection", "TE")
			if got := read(t, res); got != strings.Join(c.events, "") || res.Trailer.Get("X-Llm-Cache-Cached-Tokens") != "1234" {
				t.Errorf("got %q with %v", got, res.Trailer)
			}
			if len(paths) != 2 || paths[0] != c.whole || paths[1] != c.stream {
				t.Errorf("paths %q", paths)
			}
			s := p.sessions()
			if len(s) != 1 || s[0].requests() != 2 {
				t.Fatalf("sessions are %v, want one of two requests", s)
			}
			if got := s[0].Conversations[len(s[0].Conversations)-1].Model; !strings.Contains(got, "claude-opus-4-6") {
				t.Errorf("model %q", got)
			}
		})
	}
}

// What is cut stays cut, a stream whose bytes have changed passes as it is, and neither
// teaches anything; one that is packed is unpacked.
func TestClaudeElsewhereStreams(t *testing.T) {
	for name, c := range elsewhere {
		for trouble, answer := range map[string]func(w http.ResponseWriter) string{
			"cut": func(w http.ResponseWriter) string {
				_, _ = io.WriteString(w, c.events[0]+c.events[1][:20])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			},
			"changed": func(w http.ResponseWriter) string {
				stream := []byte(strings.Join(c.events, ""))
				stream[len(c.events[0])+len(c.events[1])/2] ^= 0x80
				_, _ = w.Write(stream)
				return string(stream)
			},
			"packed": func(w http.ResponseWriter) string {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				_, _ = io.WriteString(z, strings.Join(c.events, ""))
				_ = z.Close()
				return strings.Join(c.events, "")
			},
		} {
			t.Run(name+"/"+trouble, func(t *testing.T) {
				want := c.events[0] + c.events[1][:20]
				u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
					w.Header().Set("Content-Type", c.kind)
					want = answer(w)
				})
				p := start(t, eager(u))
				res := p.post(c.stream, elsewhereConversation(9, c.version), "Authorization", "Bearer k", "Accept-Encoding",
					"identity")
				got, err := io.ReadAll(res.Body)
				if string(got) != want || (err != nil) != (trouble == "cut") || res.Header.Get("Content-Encoding") != "" {
					t.Errorf("got %q and error %v, want %q", got, err, want)
				}
				learns := 0
				if trouble == "packed" || trouble == "changed" && name == "vertex" { // which has no checksums
					learns = 1
				}
				if s := p.sessions(); len(s) != learns {
					t.Errorf("sessions are %v, want %d", s, learns)
				}
			})
		}
	}
}

// Errors of ours are in the client's format; those of the upstream pass.
func TestClaudeElsewhereErrors(t *testing.T) {
	for name, want := range map[string]string{
		"vertex":  `{"type":"error","error":{"type":"api_error"`,
		"bedrock": `{"message":"`,
	} {
		c := elsewhere[name]
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = io.WriteString(w, `{"message":"Too many requests"}`)
			})
			p := start(t, "llm_cache {\nupstream "+name+"\n}\nreverse_proxy "+u.Listener.Addr().String())
			res := p.post(c.whole, elsewhereConversation(2, c.version))
			if got := read(t, res); res.StatusCode != http.StatusTooManyRequests || got != `{"message":"Too many requests"}` {
				t.Errorf("status %d: %s", res.StatusCode, got)
			}
			u.Close()
			res = p.post(c.whole, elsewhereConversation(2, c.version))
			if got := read(t, res); res.StatusCode != http.StatusBadGateway || !strings.HasPrefix(got, want) {
				t.Errorf("status %d: %s", res.StatusCode, got)
			}
		})
	}
}

const clientSignature = "AWS4-HMAC-SHA256 Credential=AKIDCLIENT/20261122/eu-central-1/bedrock/aws4_request, " +
	"SignedHeaders=host;x-amz-date, Signature="

// A request that its client has signed goes upstream as it came where nobody can sign it
// anew, and that is said.
func TestSealedRequest(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, eager(u))
	c := elsewhere["bedrock"]
	body := elsewhereConversation(9, c.version)
	res := p.post(c.whole, body, "Authorization", clientSignature+"00")
	if read(t, res); res.Header.Get("X-Llm-Cache-Bypass") != "signed" || u.last().body != body ||
		u.last().header.Get("Authorization") != clientSignature+"00" {
		t.Errorf("%v; sent %s with %v", res.Header, u.last().body, u.last().header)
	}
}

// What goes to Bedrock is signed with the operator's key, whatever the client has signed
// with; a token needs no signature. A key that the upstream does not know is refused.
func TestBedrockSignature(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDOPERATOR")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "operator's secret")
	t.Setenv("AWS_SESSION_TOKEN", "")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	keys := map[string]string{"AKIDOPERATOR": "operator's secret"}
	model := &simulator.Handler{Keys: keys, Cache: pricing.NewSimulator(pricing.SimulatorConfig{
		Rules: func(model string, at time.Time) pricing.Rules { return pricing.Lookup("bedrock", model, at) },
	})}
	var sent []string
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Host+" "+r.Header.Get("Authorization"))
		model.ServeHTTP(w, r)
	}))
	t.Cleanup(u.Close)
	p := start(t,
		"llm_cache {\n policy eager\n zones {\n frozen 0\n hot 1\n min_messages 0\n }\n upstream bedrock {\n region "+
			"eu-central-1\n }\n}\nreverse_proxy "+u.Listener.Addr().String())
	c := elsewhere["bedrock"]
	for turns, path := range map[int]string{9: c.whole, 10: c.stream} {
		for _, signature := range []string{"00", "11"} { // each request has its own
			res := p.post(path, elsewhereConversation(turns, c.version), "Authorization", clientSignature+signature,
				"X-Amz-Date", "20260101T000000Z", "Accept", "*/*")
			answer := []byte(read(t, res))
			if res.StatusCode != http.StatusOK || res.Header.Get("X-Llm-Cache-Transforms") == "none" {
				t.Fatalf("status %d: %s; %v", res.StatusCode, answer, res.Header)
			}
			d := wire.NewDecoder(bedrock.Format, path == c.stream)
			if d.Feed(answer); !d.Done() || !strings.Contains(d.Turn().Text, "simulated model") {
				t.Errorf("answer %q", answer)
			}
		}
	}
	if s := p.sessions(); len(s) != 1 || s[0].requests() != 4 {
		t.Errorf("sessions are %v, want one with four requests", s)
	}
	for _, s := range sent {
		if !strings.HasPrefix(s, "bedrock-runtime.eu-central-1.amazonaws.com AWS4-HMAC-SHA256 Credential=AKIDOPERATOR/") {
			t.Errorf("sent %s", s)
		}
	}
	delete(keys, "AKIDOPERATOR")
	if res := p.post(c.whole, elsewhereConversation(3, c.version)); res.StatusCode != http.StatusForbidden {
		t.Errorf("status %d for a key that is not known", res.StatusCode)
	}
	p.post(c.whole, elsewhereConversation(3, c.version), "Authorization", "Bearer token")
	if last := sent[len(sent)-1]; !strings.HasSuffix(last, " Bearer token") {
		t.Errorf("sent %s", last)
	}
}

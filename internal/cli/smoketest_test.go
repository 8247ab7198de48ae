// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// obedient returns a simulated model that answers with the word of its system prompt.
func obedient() *simulator.Handler {
	return &simulator.Handler{Cache: pricing.NewSimulator(pricing.SimulatorConfig{})}
}

// deaf returns a model that answers the same to everything.
func deaf() *simulator.Handler {
	h := obedient()
	h.Hooks.Answer = func(context.Context, *wire.View) *simulator.Answer {
		return &simulator.Answer{Blocks: []simulator.Block{{Type: simulator.Text, Text: "hello"}}}
	}
	return h
}

func run(t *testing.T, h http.Handler, f wire.Format) (faults map[string]string, table string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	o := &cli.SmoketestOptions{URL: s.URL + "/v1", Model: "m-1", Format: f, Key: "k"}
	lines, err := o.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	faults = map[string]string{}
	for _, l := range lines {
		if len(l.Faults) > 0 {
			faults[l.Name] = strings.Join(l.Faults, "; ")
		}
	}
	if cli.SmoketestFaults(lines) != len(faults) {
		t.Errorf("%d faults counted, %d found", cli.SmoketestFaults(lines), len(faults))
	}
	var b strings.Builder
	if err := cli.WriteSmoketest(&b, lines); err != nil {
		t.Fatal(err)
	}
	return faults, b.String()
}

// TestFine: a healthy site has no faults, in every format.
func TestFine(t *testing.T) {
	if len(cli.SmoketestFormats()) != 4 {
		t.Errorf("formats are %v", cli.SmoketestFormats())
	}
	for _, f := range cli.SmoketestFormats() {
		t.Run(f, func(t *testing.T) {
			faults, table := run(t, obedient(), wire.Format(f))
			if len(faults) > 0 {
				t.Errorf("%v", faults)
			}
			if strings.Count(table, "✓") != 5 || !strings.Contains(table, "changed system") {
				t.Errorf("the table is\n%s", table)
			}
		})
	}
}

// TestSmoketestFaults: the faults are found, and no others.
func TestSmoketestFaults(t *testing.T) {
	change := func(f func(w http.ResponseWriter, body string) io.Writer) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			rec := httptest.NewRecorder()
			obedient().ServeHTTP(rec, r)
			for k, v := range rec.Header() {
				if k != "Content-Length" {
					w.Header()[k] = v
				}
			}
			to := f(w, string(body))
			w.WriteHeader(rec.Code)
			_, _ = to.Write(rec.Body.Bytes())
		})
	}
	n := 0
	for _, test := range []struct {
		name, about, what string
		h                 http.Handler
	}{
		{"deaf to the system prompt", "system and user", "not honoured", deaf()},
		{
			"an older system prompt", "changed system", "the other system prompt",
			change(func(w http.ResponseWriter, body string) io.Writer {
				return replacer{w, "WILLOW", "MAPLE"}
			}),
		},
		{"streams cut", "stream", "terminal event", change(func(w http.ResponseWriter, _ string) io.Writer {
			return replacer{w, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", ""}
		})},
		{"streams go on", "stream", "terminal event", change(func(w http.ResponseWriter, _ string) io.Writer {
			return replacer{
				w, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
				"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n",
			}
		})},
		{
			"a session for each request", "the conversation goes on", "session",
			change(func(w http.ResponseWriter, _ string) io.Writer {
				n++
				w.Header().Set("X-Llm-Cache-Session", strings.Repeat("x", n))
				return w
			}),
		},
		{
			"sends all", "the conversation goes on", "was sent all of it",
			change(func(w http.ResponseWriter, _ string) io.Writer {
				w.Header().Set("X-Llm-Cache-Retained", "whole; cause=new; whole=1")
				return w
			}),
		},
		{"refuses", "user only", "no such model", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no such model", http.StatusNotFound)
		})},
	} {
		t.Run(test.name, func(t *testing.T) {
			faults, table := run(t, test.h, wire.Anthropic)
			if !strings.Contains(faults[test.about], test.what) {
				t.Errorf("%s: %q, want %q", test.about, faults[test.about], test.what)
			}
			if test.name != "refuses" && faults["user only"] != "" {
				t.Errorf("user only: %s", faults["user only"])
			}
			if !strings.Contains(table, "✗ "+test.about) {
				t.Errorf("the table is\n%s", table)
			}
		})
	}
	if _, err := (&cli.SmoketestOptions{
		URL: "http://127.0.0.1:1", Model: "m",
		Format: "telegram",
	}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "telegram") {
		t.Errorf("an unknown format: %v", err)
	}
	lines, err := (&cli.SmoketestOptions{URL: "http://127.0.0.1:1", Model: "m", Format: wire.Gemini}).Run(t.Context())
	if err != nil || cli.SmoketestFaults(lines) != len(lines) || len(lines) == 0 {
		t.Errorf("nobody there: %v, %d of %d", err, cli.SmoketestFaults(lines), len(lines))
	}
}

// replacer changes the text written through it.
type replacer struct {
	io.Writer
	old, with string
}

func (r replacer) Write(p []byte) (int, error) {
	_, err := r.Writer.Write(bytes.ReplaceAll(p, []byte(r.old), []byte(r.with)))
	return len(p), err
}

// A server's text does not steer the terminal.
func TestEscapes(t *testing.T) {
	_, table := run(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "\x1b]0;mine\x07no \x9b31msuch host")
	}), wire.OpenAIChat)
	if strings.ContainsAny(table, "\x1b\x07\u009b") || !strings.Contains(table, "such host") {
		t.Errorf("%q", table)
	}
}

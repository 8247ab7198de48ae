// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

const (
	anthropicPing = "event: ping\ndata: {\"type\":\"ping\"}\n\n"
	comment       = ": ping\n"
)

// livelyCall returns the writer of the response to a streamed request to a local server.
func livelyCall(t *testing.T, f wire.Format, l *Heartbeat, agent string) (*Alive, *httptest.ResponseRecorder) {
	t.Helper()
	w := httptest.NewRecorder()
	every, open := l.Intervals(&upstream.Upstream{Preset: "ollama"})
	return Stream{Every: every, Open: open, Events: true, Format: f, Agent: agent, Stamp: func(h http.Header) {
		h.Set("X-Llm-Cache-Session", "s1")
		(&Place{3, 40 * time.Second}).Stamp(h)
	}}.Begin(w), w
}

func begin(a *Alive) {
	a.Header().Set("Content-Type", "text/event-stream")
	a.WriteHeader(http.StatusOK)
}

func TestSilentStreamsGetSigns(t *testing.T) {
	for _, tt := range []struct {
		format wire.Format
		agent  string
		sign   string // once the response has begun
		early  string // before the response
	}{
		{wire.Anthropic, "claude-cli/2", anthropicPing, anthropicPing},
		{wire.OpenAIChat, "", comment, comment},
		{
			wire.OpenAIResponses, "OpenAI/JS",
			"event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"response\":{\"object\":\"response\"," +
				"\"status\":\"in_progress\"}}\n\n", comment,
		},
		{
			wire.OpenAIResponses, "codex_cli_rs/0.1",
			"event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"response\":{\"object\":\"response\"," +
				"\"status\":\"in_progress\"}}\n\n", "",
		},
	} {
		t.Run(fmt.Sprint(tt.format, " ", tt.agent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, w := livelyCall(t, tt.format, nil, tt.agent)
				time.Sleep(defaultOpen + time.Second)
				synctest.Wait()
				early := tt.early
				if early == "" {
					early = tt.sign
				}
				if got := w.Body.String(); got != early || w.Code != http.StatusOK ||
					w.Header().Get("X-Llm-Cache-Session") != "s1" ||
					w.Header().Get("X-Llm-Cache-Queue-Position") != "3" || w.Header().Get("X-Llm-Cache-Queue-Expected-Ms") != "40000" {
					t.Fatalf("before the answer: %d %v %q, want %q", w.Code, w.Header(), got, early)
				}
				begin(a)
				_, _ = io.WriteString(a, "data: {}\n\n")
				time.Sleep(2*defaultEvery + time.Second)
				synctest.Wait()
				if err := a.End(nil); err != nil {
					t.Fatal(err)
				}
				if got, want := w.Body.String(), early+"data: {}\n\n"+tt.sign+tt.sign; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

func TestStreamsAtWorkGetNoSigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, w := livelyCall(t, wire.Anthropic, nil, "")
		begin(a)
		var want strings.Builder
		for range 10 {
			time.Sleep(defaultEvery - time.Second)
			_, _ = io.WriteString(io.MultiWriter(a, &want), "data: {}\n\n")
		}
		_ = a.End(nil)
		if got := w.Body.String(); got != want.String() {
			t.Errorf("got %q, want %q", got, want.String())
		}
	})
}

// Lines may end as those of sse-starlette do, and a response may give its length: heartbeats exceed
// it.
func TestSignsInOtherStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, w := livelyCall(t, wire.OpenAIChat, nil, "")
		a.Header().Set("Content-Length", "30")
		begin(a)
		_, _ = io.WriteString(a, "data: {}\r\n\r")
		time.Sleep(2 * defaultEvery)
		_, _ = io.WriteString(a, "\n")
		time.Sleep(defaultEvery + time.Second)
		synctest.Wait()
		_ = a.End(nil)
		if got, want := w.Body.String(), "data: {}\r\n\r\n"+comment; got != want || w.Header().Get("Content-Length") != "" {
			t.Errorf("got %q, want %q; headers %v", got, want, w.Header())
		}
	})
}

// No heartbeat may stand within an event, however long its second half takes.
func TestNoSignWithinAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, w := livelyCall(t, wire.Anthropic, nil, "")
		begin(a)
		_, _ = io.WriteString(a, "data: {\"te")
		time.Sleep(10 * defaultEvery)
		_, _ = io.WriteString(a, "xt\":1}\n")
		time.Sleep(10 * defaultEvery)
		_, _ = io.WriteString(a, "\n")
		_ = a.End(nil)
		if got, want := w.Body.String(), "data: {\"text\":1}\n\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestErrorAfterTheStreamWasOpened(t *testing.T) {
	for _, tt := range []struct {
		name   string
		format wire.Format
		answer func(a *Alive) error
		want   []string
	}{
		{"an answer of the upstream", wire.Anthropic, func(a *Alive) error {
			a.Header().Set("Content-Type", "application/json")
			a.WriteHeader(http.StatusBadRequest)
			_, err := io.WriteString(a,
				`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 2 tokens > 1 maximum"}}`)
			return err
		}, []string{"event: error\n", `"prompt is too long: 2 tokens > 1 maximum"`}},
		{"an error of a handler", wire.Anthropic, func(*Alive) error {
			return caddyhttp.Error(http.StatusBadGateway, errors.New("connection refused"))
		}, []string{"event: error\n", `"type":"error"`}},
		{"chat", wire.OpenAIChat, func(a *Alive) error {
			a.WriteHeader(http.StatusServiceUnavailable)
			return nil
		}, []string{`data: {"error":`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, w := livelyCall(t, tt.format, nil, "")
				time.Sleep(defaultOpen + time.Second)
				if err := a.End(tt.answer(a)); err != nil {
					t.Errorf("an error is left: %v", err)
				}
				for _, part := range tt.want {
					if !strings.Contains(w.Body.String(), part) {
						t.Errorf("the stream is %q, want %q in it", w.Body, part)
					}
				}
				if w.Code != http.StatusOK {
					t.Errorf("status %d", w.Code)
				}
			})
		})
	}
}

// A timely error is an error like any other.
func TestErrorBeforeTheStreamWasOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, w := livelyCall(t, wire.Anthropic, nil, "")
		time.Sleep(defaultOpen / 2)
		a.Header().Set("Content-Type", "application/json")
		a.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(a, `{}`)
		time.Sleep(time.Hour)
		if err := a.End(nil); err != nil || w.Code != http.StatusTooManyRequests || w.Body.String() != "{}" ||
			w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%v, %d %v %s", err, w.Code, w.Header(), w.Body)
		}
		broken := errors.New("no upstream")
		b, w := livelyCall(t, wire.Anthropic, nil, "")
		b.Header().Set("X-Kept", "1")
		if err := b.End(broken); !errors.Is(err, broken) || w.Body.Len() > 0 || w.Header().Get("X-Kept") != "1" {
			t.Errorf("%v, %v %q", err, w.Header(), w.Body)
		}
	})
}

func TestWhoGetsSigns(t *testing.T) {
	on, off := false, true
	for _, tt := range []struct {
		preset string
		format wire.Format
		stream bool
		off    *bool
		want   bool
	}{
		{"ollama", wire.Anthropic, true, nil, true},
		{"ollama", wire.Anthropic, true, &off, false},
		{"ollama", wire.Anthropic, false, nil, false},
		{"ollama", wire.Gemini, true, &on, false},
		{"anthropic", wire.Anthropic, true, nil, false},
		{"anthropic", wire.Anthropic, true, &on, true},
		{"", wire.Anthropic, true, nil, false},
	} {
		l := &Heartbeat{Off: tt.off, Every: caddy.Duration(time.Hour)}
		every, open := l.Intervals(&upstream.Upstream{Preset: tt.preset})
		a := Stream{Every: every, Open: open, Events: tt.stream, Format: tt.format}.Begin(httptest.NewRecorder())
		if (a != nil) != tt.want {
			t.Errorf("%+v: signs %t", tt, a != nil)
		}
		if a != nil {
			a.Stop()
		}
	}
}

// panicking is a writer that panics.
type panicking struct{ http.ResponseWriter }

func (panicking) Write([]byte) (int, error) { panic("of a test") }

// A panic of a client's writer at a heartbeat ends only the heartbeats.
func TestSignOfLifePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := livelyCall(t, wire.Anthropic, nil, "")
		a.mu.Lock() // the timer runs
		a.ResponseWriter = panicking{a.ResponseWriter}
		a.mu.Unlock()
		panics := httpx.BackgroundPanics
		before := testkit.MetricValue(t, panics)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := testkit.MetricValue(t, panics) - before; got != 1 {
			t.Errorf("%v panics", got)
		}
		a.Stop() // would block for ever if the tick had left its lock locked
	})
}

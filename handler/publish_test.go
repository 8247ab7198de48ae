// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/clock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

// publisher is a client that compares what it has got with what its store has published.
type publisher struct {
	*recorder
	t      *testing.T
	store  *sessioncache.Store
	shelf  *storetest.SharedShelf
	before []string // what it must not have before a further version is published
}

// published returns the number of versions of sessions that were published.
func (p *publisher) published() int {
	p.store.Flush()
	return p.shelf.Saves
}

func (p *publisher) Write(b []byte) (int, error) {
	has, versions := p.Body.String()+string(b), p.published()
	for i, whole := range p.before {
		if versions <= i && strings.HasPrefix(has, whole) {
			p.t.Errorf("the client gets %q after %d versions, want %d", has, versions, i+1)
		}
	}
	return p.recorder.Write(b)
}

// Others are told of a request once where the reason that the model has stopped comes
// with the end of its answer, and twice where the end comes later: always before the
// client has all of what it may answer to.
func TestOthersAreToldOnce(t *testing.T) {
	const (
		begin = "data: {\"type\":\"message_start\",\"message\":{\"id\":\"a\"}}\n\n"
		stop  = "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}," +
			"\"usage\":{\"output_tokens\":1}}\n\n"
		end = "data: {\"type\":\"message_stop\"}\n\n"
		cut = "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"no\"}}\n\n"
	)
	for name, c := range map[string]struct {
		pieces []string
		before []string // what the client must not have before each version
	}{
		"all at once":   {[]string{begin + stop + end}, []string{begin + stop + end}},
		"end with stop": {[]string{begin, stop + end}, []string{begin + stop + end}},
		"end later":     {[]string{begin, stop, end}, []string{begin + stop, begin + stop + end}},
		"failed":        {[]string{begin, stop + cut}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			shelf := new(storetest.SharedShelf)
			store, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{
				Open: func() (sessioncache.Backend, error) { return shelf, nil }, Interval: time.Hour, Budget: time.Minute,
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			h := new(Handler)
			if err := h.Open(state.New(shared.Process, store, nil, clock.Machine), nil, nil, zap.NewNop()); err != nil {
				t.Fatal(err)
			}
			// From its second request on, a session is published by nothing else.
			if _, err := serve(t, h, endpoint); err != nil {
				t.Fatal(err)
			}
			store.Flush()
			shelf.Saves = 0
			w := &publisher{&recorder{ResponseRecorder: httptest.NewRecorder()}, t, store, shelf, c.before}
			err = h.ServeHTTP(w, request([]byte(body), "s"),
				caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
					w.Header().Set("Content-Type", "text/event-stream")
					for _, p := range c.pieces {
						if _, err := w.Write([]byte(p)); err != nil {
							return err
						}
					}
					return nil
				}))
			if err != nil {
				t.Fatal(err)
			}
			if got := w.published(); got != len(c.before) {
				t.Errorf("%d versions were published, want %d", got, len(c.before))
			}
		})
	}
}

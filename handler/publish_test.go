// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// announcer is a store that others share: it notes what the client had each time that
// they were told.
type announcer struct {
	sessioncache.Store
	has  func() string
	told []string
}

func (a *announcer) Publish(*sessioncache.Session)      { a.told = append(a.told, a.has()) }
func (*announcer) Owns(*sessioncache.Session, int) bool { return true }

// Others are told of a request once where the reason that the model has stopped comes
// with the end of its answer, and twice where the end comes later: always before the
// client has all of what it may answer to.
func TestOthersAreToldOnce(t *testing.T) {
	const (
		begin = "data: {\"type\":\"message_start\",\"message\":{\"id\":\"a\"}}\n\n"
		stop  = "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\n"
		end   = "data: {\"type\":\"message_stop\"}\n\n"
		cut   = "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"no\"}}\n\n"
	)
	for name, c := range map[string]struct {
		pieces []string
		before []string // what the client must not have whole
	}{
		"all at once":   {[]string{begin + stop + end}, []string{begin + stop + end}},
		"end with stop": {[]string{begin, stop + end}, []string{begin + stop + end}},
		"end later":     {[]string{begin, stop, end}, []string{begin + stop, begin + stop + end}},
		"failed":        {[]string{begin, stop + cut}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := attached(t, pipeline.Options{})
			w := &recorder{ResponseRecorder: httptest.NewRecorder()}
			a := &announcer{Store: h.site.store.Store, has: func() string { return w.Body.String() }}
			h.site.store.Store = a
			err := h.ServeHTTP(w, request([]byte(body), "s"), caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
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
			if len(a.told) != len(c.before) {
				t.Fatalf("others were told %d times", len(a.told))
			}
			for i, whole := range c.before {
				if had := a.told[i]; len(had) >= len(whole) || !strings.HasPrefix(whole, had) {
					t.Errorf("told when the client had %q", had)
				}
			}
		})
	}
}
